"""Event logs that were damaged or made up: seeded mutations of real ones.

    python tests/damaged_logs.py --mutations 5000 --seed 1

reads each of them as `rota replay` and the report do, and says which were not refused in one line. Part of
`make sanitize`, and in small of the ordinary tests.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

import rota
from rota.core.errors import RotaError
from rota.report.logs import read_log

RUNS = (
    {"policy": "max-min-fairness-perf", "cluster": "v100=3/2,k80=3/2"},
    {"policy": "gandiva", "cluster": "v100=2,k80=2"},
    {"policy": "las", "cluster": "v100=4/2:cpus=6:memory=125", "mechanism": "tune", "profiles": "synergy"},
    {"policy": "max-min-fairness-perf", "cluster": "v100=2,p100=1", "mechanism": "ideal"},
)
"""Between them: pairs, gangs over servers, slots with CPUs and memory, fractions of time, shares and rankings."""

NUMBERS = (
    -1, 0, 1, 7, 256, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, 10**400,
    1.5, -0.5, 1e18, 1e19, 1e308, -1e308,
)  # fmt: skip
VALUES = (*NUMBERS, None, True, False, "", "3", "x\x1b[2Jy", [], {}, [[]], [None], ["a"], {"a": 1}, [0] * 5, [10**9])
TEXTS = (
    "", "{", "[]", "null", "5", '"x"', "not json", "NaN", '{"event":"Planned"}', '{"event":[],"at":0}',
    '{"event":"RunEnded","at":NaN,"reason":"x"}', '{"event":"RunEnded","at":-Infinity,"reason":"x"}',
    '{"event":"RunEnded","at":1e999,"reason":"x"}', '{"event":"RunEnded","at":' + "9" * 5000 + ',"reason":"x"}',
    "[" * 100_000, '{"event":"RunEnded","at":0,"reason":' + "[" * 900 + "]" * 900 + "}", '{"a":' * 50_000,
    '{"event":"JobsDropped","at":0,"jobs":[999999999999],"reason":"x"}',
)  # fmt: skip
"""Whole lines."""


def real_logs(folder: Path) -> list[list[str]]:
    """The lines of some small runs."""
    logs = []
    for number, run in enumerate(RUNS):
        path = folder / f"real-{number}.jsonl"
        synergy = run.get("profiles") == "synergy"
        workload = "philly-derived" if synergy else "gavel-continuous"
        settings = {"jobs": 8, "multi_gpu": True, **({"jobs_per_hour": 20} if synergy else {"interarrival_s": 500})}
        rota.simulate(workload=workload, settings=settings, seed=number, until=40_000, events=path, **run)
        logs.append(path.read_text(encoding="utf-8").splitlines())
    return logs


def damaged(lines: list[str], rng: random.Random) -> bytes:
    """The log with one to three changes, perhaps compressed, perhaps cut off or with other bytes in it."""
    lines = list(lines)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice((_value, _value, _value, _value, _value, _line, _order, _field))(lines, rng)
    data = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = gzip.compress(data, mtime=0)
    if rng.random() < 0.1:
        data = data[: rng.randrange(1, len(data))]
    if rng.random() < 0.1:
        changed = bytearray(data)
        for _ in range(3):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        data = bytes(changed)
    return data


def _event(lines: list[str], rng: random.Random) -> tuple[int, dict]:
    """A line of a kind drawn first, so that rare kinds are changed as often as rounds; the first line counts twice."""
    by_kind: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        kind = line[10 : line.find('"', 10)] if line.startswith('{"event":"') else ""
        by_kind.setdefault(kind, []).append(at)
    by_kind.pop("", None)
    at = rng.choice(by_kind[rng.choice(sorted(by_kind))])
    try:
        fields = json.loads(lines[at])
    except ValueError:
        fields = {"event": "RunEnded", "at": 0.0, "reason": "x"}
    return at, fields


def _value(lines: list[str], rng: random.Random) -> None:
    """Another value somewhere within an event."""
    at, fields = _event(lines, rng)
    holder, key = fields, rng.choice(sorted(fields))
    while isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.85:
        holder = holder[key]
        key = rng.choice(sorted(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    holder[key] = rng.choice(VALUES)
    if isinstance(holder, list) and rng.random() < 0.2:
        holder.pop()
    elif isinstance(holder, list) and rng.random() < 0.2:
        holder.append(rng.choice(NUMBERS))
    lines[at] = json.dumps(fields)


def _field(lines: list[str], rng: random.Random) -> None:
    """A field that is missing, or stands under another name."""
    at, fields = _event(lines, rng)
    value = fields.pop(rng.choice(sorted(fields)))
    if rng.random() < 0.3:
        fields[rng.choice(sorted(fields) or ["event"])] = value
    lines[at] = json.dumps(fields)


def _line(lines: list[str], rng: random.Random) -> None:
    lines[rng.randrange(len(lines))] = rng.choice(TEXTS)


def _order(lines: list[str], rng: random.Random) -> None:
    """A line that is missing, comes twice, or in another place."""
    at = rng.randrange(len(lines))
    line = lines[at] if rng.random() < 0.3 else lines.pop(at)
    if rng.random() < 0.7:
        lines.insert(rng.randrange(len(lines) + 1), line)


def outcome(path: Path) -> str:
    """What becomes of a log: "read", or the message of its refusal. Any other exception gets through."""
    try:
        rota.replay(path)
        read_log(path)
    except RotaError as error:
        return str(error)
    return "read"


def faults(
    logs: list[list[str]], mutations: int, seed: int, folder: Path, *, seconds: float = float("inf")
) -> tuple[int, int, list[str]]:
    """How many mutations of these logs were read and how many refused, and what else happened."""
    rng = random.Random(seed)
    counts = {"read": 0, "refused": 0}
    found = []
    end = time.monotonic() + seconds
    for number in range(mutations):
        if time.monotonic() > end:
            break
        path = folder / "log.jsonl"
        path.write_bytes(damaged(rng.choice(logs), rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                said = outcome(path)
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            kept = folder / f"fault-{seed}-{number}.jsonl"
            path.rename(kept)
            found.append(f"{kept}: {type(error).__name__}: {error}")
            continue
        counts["read" if said == "read" else "refused"] += 1
        if said != "read" and (str(path) not in said or "\n" in said or len(said) > 600):
            found.append(f"mutation {number} of seed {seed}: not one message with the file: {said[:200]!r}")
    return counts["read"], counts["refused"], found


def main() -> int:
    """The command line; 1 if a log was neither read nor refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rota-damaged-logs-"))
    read, refused, found = faults(real_logs(folder), asked.mutations, asked.seed, folder, seconds=asked.seconds)
    sys.stdout.write("\n".join([f"{read} damaged logs read, {refused} refused, {len(found)} faults", *found, ""]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
