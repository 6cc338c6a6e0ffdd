"""Small simulations over policies, mechanisms and rules, each with its event log read back.

    python tests/small_simulations.py --runs 50

Part of `make sanitize`: every kernel runs on data as it comes in a run. The combinations are drawn with a fixed seed;
each policy, mechanism and preset of rules comes before one comes twice.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import rota
from rota.core.errors import RotaError
from rota.core.rules import PRESETS
from rota.mechanisms.registry import mechanisms
from rota.policies.registry import policies

WORKLOADS = (
    {
        "workload": "gavel-continuous",
        "settings": {"interarrival_s": 700, "jobs": 25, "multi_gpu": True},
        "cluster": "v100=6/4,p100=4/2,k80=5/1",
    },
    {"workload": "gavel-continuous", "settings": {"interarrival_s": 900, "jobs": 25}, "cluster": "v100=3/1,k80=3/1"},
    {
        "workload": "philly-derived",
        "settings": {"jobs_per_hour": 12, "jobs": 25, "multi_gpu": True},
        "cluster": "v100=16/8:cpus=24:memory=500",
        "profiles": "synergy",
    },
)


def combinations() -> list[tuple[str, str, str]]:
    """Policy, mechanism and rules, in an order that covers all of each soon."""
    rng = random.Random(4)
    names = [sorted(policies.names()), sorted(mechanisms.names()), sorted(PRESETS)]
    for part in names:
        rng.shuffle(part)
    longest = max(map(len, names))
    first = [tuple(part[at % len(part)] for part in names) for at in range(longest)]
    rest = list(itertools.product(*names))
    rng.shuffle(rest)
    return [*first, *(one for one in rest if one not in first)]


def run(number: int, policy: str, mechanism: str, rules: str, log: Path) -> bool:
    """One run and its replay; whether that combination can be run at all."""
    given = WORKLOADS[number % len(WORKLOADS)]
    try:
        result = rota.simulate(
            **given, policy=policy, mechanism=mechanism, rules=rules, seed=number, until=400_000, events=log
        )
    except RotaError as error:
        sys.stdout.write(f"  cannot be run: {policy} {mechanism} {rules}: {error}\n")
        return False
    again = rota.replay(log)
    if again.summary["jobs_finished"] != result.summary["jobs_finished"]:
        raise AssertionError(f"{policy} {mechanism} {rules}: the log tells another story than the run")
    return True


def main() -> int:
    """The command line; 1 if fewer runs than asked for were possible."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    asked = parser.parse_args()
    log = Path(tempfile.mkdtemp(prefix="rota-simulations-")) / "run.jsonl"
    made: list[tuple[str, str, str]] = []
    for number, combination in enumerate(combinations()):
        if len(made) == asked.runs:
            break
        if run(number, *combination, log):
            made.append(combination)
    counts = [len(Counter(column)) for column in zip(*made, strict=True)]
    policies_run, mechanisms_run, rules_run = counts
    sys.stdout.write(
        f"{len(made)} simulations: {policies_run} policies, {mechanisms_run} mechanisms, {rules_run} sets of rules\n"
    )
    return 0 if len(made) == asked.runs else 1


if __name__ == "__main__":
    sys.exit(main())
