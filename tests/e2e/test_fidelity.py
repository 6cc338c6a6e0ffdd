"""Simulation and emulation of the same trace agree; the long form is benchmarks/fidelity.py."""

import json

import pytest

from builders import command

TRACE = """\
job_id,arrival_s,profile,gpus,steps
0,0,ResNet-18 (batch size 32),1,20000
1,10,ResNet-18 (batch size 32),2,30000
2,400,A3C,1,4000
3,500,ResNet-18 (batch size 64),1,9000
4,900,ResNet-18 (batch size 32),4,12000
5,1000,Transformer (batch size 16),1,2000
"""


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "trace.csv").write_text(TRACE)
    return tmp_path / "trace.csv"


def fidelity(trace, *more):
    done = command(
        "fidelity", trace, "--cluster", "v100=4/2,k80=4/2", "--policy", "max-min-fairness-perf", "--round", "120",
        "--time-scale", "120", *more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_trace_takes_as_long_emulated_as_simulated(trace, tmp_path):
    """Three tries: a busy machine may be late, but not every time."""
    for _ in range(3):
        found = json.loads(fidelity(trace, "--json", "--jobs-csv", tmp_path / "both.csv"))
        mean = found["metrics"]["mean JCT"]
        if abs(mean["difference"]) < 0.1:
            break
    assert abs(mean["difference"]) < 0.1
    assert found["jobs"] == 6
    assert len((tmp_path / "both.csv").read_text().splitlines()) == 7


def test_a_trace_that_is_not_there_is_one_message(tmp_path):
    done = command("fidelity", tmp_path / "none.csv", "--cluster", "v100=4", "--policy", "fifo", "--time-scale", "60")

    assert done.returncode == 2
    assert "none.csv" in done.stderr
    assert "Traceback" not in done.stderr
