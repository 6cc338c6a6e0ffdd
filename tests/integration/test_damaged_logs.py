"""Event logs that were made up or damaged are refused in one line, with the file and the line."""

import json
import re

import pytest

from builders import command
from damaged_logs import faults, outcome, real_logs


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return real_logs(tmp_path_factory.mktemp("real"))


def line_of(lines, kind, **having):
    """The number, from 0, of the first line of a kind with these fields."""
    fields = [json.loads(line) for line in lines]
    return next(
        at for at, event in enumerate(fields) if event["event"] == kind and all(event.get(name) for name in having)
    )


def changed(lines, kind, **fields):
    """The log with other fields in the first event of a kind; and its line."""
    at = line_of(lines, kind, **fields)
    event = {**json.loads(lines[at]), **fields}
    return [*lines[:at], json.dumps(event), *lines[at + 1 :]], at + 1


CRAFTED = {
    "a job that never was": ("Planned", {"first": [10**6]}, "first"),
    "a job below 0": ("Planned", {"first": [-1]}, "first"),
    "a partner that never was": ("Planned", {"second": [2**40]}, "second"),
    "a type that is not there": ("Planned", {"type": [77]}, "type has 77; allowed is 0 to 1"),
    "a server that is not there": ("Planned", {"slot_server": [-5]}, "slot_server has -5"),
    "no GPUs": ("Planned", {"gpus": [0]}, "gpus has 0"),
    "slots that go back": ("Planned", {"slot_start": [0, -1]}, "slot_start"),
    "columns of different lengths": ("Planned", {"gpus": [1, 1, 1, 1, 1, 1, 1, 1]}, "gpus has 8 entries"),
    "seconds for more tasks than were planned": ("RoundsRan", {"seconds": [1.0] * 50}, "seconds has 50 entries"),
    "seconds that are huge": ("RoundsRan", {"start": 1e300}, "start is 1e+300"),
    "a fraction of a round": ("RoundsRan", {"rounds": 1.5}, "rounds is 1.5"),
    "a number of 5,000 digits": ("RoundsRan", {"rounds": "DIGITS"}, "thousands of digits"),
    "a number beyond 64 bits": ("JobsFinished", {"jobs": [2**64]}, "not a number of 64 bits"),
    "ids far away": ("JobsSubmitted", {"first_id": 10**12}, "first_id is 1000000000000 after"),
    "a profile that is not there": ("JobsSubmitted", {"profile": [99]}, "profile has 99"),
    "weights that are texts": ("JobsSubmitted", {"weight": ["1"]}, "not a number"),
    "a cluster without GPUs": (
        "RunStarted",
        {"config": {"cluster": {"name": "x", "servers": [], "accelerators": []}}},
        "no GPU",
    ),
    "a server with fewer than no GPUs": (
        "RunStarted",
        {"config": {"cluster": {"name": "x", "servers": [["a", "v100", -4, 0, 0, "r"]], "accelerators": []}}},
        "no number of GPUs",
    ),
    "a tenant with escape codes": ("JobsSubmitted", {"tenants": ["\x1b[2Jx"]}, "no terminal should see"),
    "half a character": ("RunEnded", {"reason": "\ud800"}, "half of a character"),
    "no cluster": ("RunStarted", {"config": {"cluster": None}}, "does not say on which cluster"),
    "not a range of jobs": ("RunStarted", {"config": {"measure": [1]}}, "measure is neither"),
    "nesting": ("RunEnded", {"reason": "NESTED"}, "nested more than 64 levels"),
}  # fmt: skip


@pytest.mark.parametrize("what", CRAFTED)
def test_a_crafted_log_is_refused_with_its_line(tmp_path, logs, what):
    kind, fields, says = CRAFTED[what]
    if fields.get("config", {}).get("measure"):
        fields = {"config": {**json.loads(logs[0][0])["config"], **fields["config"]}}
    lines, at = changed(logs[0], kind, **fields)
    text = "\n".join(lines).replace('"DIGITS"', "9" * 5000).replace('"NESTED"', "[" * 100_000)
    log = tmp_path / "run.jsonl"
    log.write_text(text)

    said = outcome(log)

    assert said.startswith(f"{log}:{at}: "), said
    assert says in said
    assert "\n" not in said


def test_lines_in_another_order_are_refused(tmp_path, logs):
    lines = list(logs[0])
    lines.insert(1, lines.pop(line_of(lines, "RoundsRan")))
    log = tmp_path / "run.jsonl"
    log.write_text("\n".join(lines))

    assert re.search(r"run.jsonl:2: .*steps has \d+ entries instead of 0", outcome(log))


def test_a_job_that_finishes_twice_is_refused(tmp_path, logs):
    at = line_of(logs[0], "JobsFinished")
    log = tmp_path / "run.jsonl"
    log.write_text("\n".join([*logs[0][: at + 1], *logs[0][at:]]))

    assert f"run.jsonl:{at + 2}: " in outcome(log)


@pytest.mark.parametrize("what", ["a job below 0", "a number of 5,000 digits", "nesting"])
def test_the_command_says_it_in_one_line_and_ends_with_2(tmp_path, logs, what):
    kind, fields, _ = CRAFTED[what]
    lines, at = changed(logs[0], kind, **fields)
    text = "\n".join(lines).replace('"DIGITS"', "9" * 5000).replace('"NESTED"', "[" * 100_000)
    (tmp_path / "run.jsonl").write_text(text)

    done = command("replay", "run.jsonl", cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"rota: error: run.jsonl:{at}: ")


def test_mutations_of_real_logs_are_read_or_refused(tmp_path, logs):
    read, refused, found = faults(logs, 300, seed=2026, folder=tmp_path)

    assert found == []
    assert min(read, refused) > 20
