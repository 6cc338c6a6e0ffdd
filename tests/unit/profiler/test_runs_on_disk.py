"""Runs on disk: to go on from, and refused where they cannot be runs."""

import json

import pytest

from rota.core.errors import ConfigError
from rota.profiler.cell import MEASURED, Cell, JobToProfile, RunRecord
from rota.profiler.journal import Journal

JOB = JobToProfile(name="j", argv=("x",), cpus=1.0, memory_gb=1.0)
RUN = RunRecord(cell=Cell(1.0, 1.0), outcome=MEASURED, rate=10.0, half_width=0.01).to_json()


def reopened(path, *lines, job=JOB):
    """The journal after these lines were added to it."""
    Journal.open(path, JOB, again=True)
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return Journal.open(path, job, again=False)


def test_what_was_run_is_there_again_and_a_line_that_was_cut_off_is_not(tmp_path):
    journal = reopened(tmp_path / "j", json.dumps(RUN), json.dumps(RUN)[:40], "[" * 100_000)

    assert [record.rate for record in journal.records] == [10.0]


@pytest.mark.parametrize(
    "change",
    [
        {"rate": "fast"},
        {"rate": float("nan")},
        {"half_width": float("inf")},
        {"outcome": "great"},
        {"cell": {"cpus": -1.0, "memory_gb": 1.0}},
        {"cell": {"cpus": "1", "memory_gb": 1.0}},
        {"blocks": [3]},
    ],
)
def test_what_no_run_can_be_is_refused_with_its_place(tmp_path, change):
    with pytest.raises(ConfigError, match=r"j:2 is no run of a profiler .*; remove the file, or give --again"):
        reopened(tmp_path / "j", json.dumps({**RUN, **change}))


def test_a_journal_without_a_run_holds_no_other_options_up(tmp_path):
    other = JobToProfile(name="j", argv=("x",), cpus=2.0, memory_gb=1.0)

    assert reopened(tmp_path / "j", job=other).job["cpus"] == 2.0
    with pytest.raises(ConfigError, match="another cpus"):
        reopened(tmp_path / "j", json.dumps(RUN), job=other)


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path):
    (tmp_path / "j").write_text('{"mine": 1}\n')

    with pytest.raises(ConfigError, match="is not a file of runs"):
        Journal.open(tmp_path / "j", JOB, again=False)
