"""The same seed and configuration: the same bytes."""

import os

import pytest

from builders import command

POLICIES = ["gandiva", "isolated", "max-min-fairness-packed", "finish-time-fairness-perf"]
WORKLOAD = [
    *("--workload", "gavel-continuous", "--set", "interarrival_s=1500", "--set", "jobs=25", "--set", "multi_gpu=true"),
    *("--cluster", "v100=4/2,p100=4/2,k80=8/4"),
]


def log_of(folder, name, *arguments, **environment):
    done = command("simulate", *WORKLOAD, *arguments, "--events", name, cwd=folder, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return (folder / name).read_bytes()


@pytest.mark.parametrize("rules", ["default", "gavel-artifact"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_log_byte_for_byte(tmp_path, policy, rules):
    given = ("--policy", policy, "--rules", rules, "--seed", 3)

    one = log_of(tmp_path, "one.jsonl", *given)
    other = log_of(tmp_path, "other.jsonl", *given, PYTHONHASHSEED="12345", OMP_NUM_THREADS="1")

    assert one == other
    assert one.count(b"\n") > 100


def test_another_seed_gives_another_log(tmp_path):
    one, other = (log_of(tmp_path, f"{seed}.jsonl", "--policy", "gandiva", "--seed", seed) for seed in (1, 2))

    assert one != other


def test_a_compressed_log_is_the_same_bytes_too(tmp_path):
    one, other = (
        log_of(tmp_path, name, "--policy", "fifo", "--seed", 1) for name in ("one.jsonl.gz", "other.jsonl.gz")
    )

    assert one == other
    assert one[:2] == b"\x1f\x8b"
