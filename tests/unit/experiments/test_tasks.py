"""The key of a run changes with everything that decides its result, and with nothing else."""

import shutil

import pytest

from rota.core.errors import ConfigError
from rota.experiments import tasks
from rota.experiments.tasks import make_task

RUN = {
    "workload": "gavel-continuous",
    "cluster": "v100=4",
    "policy": "fifo",
    "measure": "10:20",
    "set.interarrival_s": 900,
}
LINE = "A3C\tcmd\tdir\t--n\t0\t{steps}\t1\t1\t-1\t0\n"


def key(overload="auto", **changes):
    return make_task({**RUN, **changes}, overload).key


def test_the_spelling_of_a_value_does_not_matter():
    same = {"measure": (10, 20), "set.interarrival_s": "900", "policy": "fifo", "seed": "0"}

    assert key(**same) == key(**{"set.interarrival_s": 900.0}) == key()


@pytest.mark.parametrize(
    "change",
    [
        {"policy": "las"}, {"cluster": "v100=8"}, {"cluster": "v100=4/2"}, {"seed": 1}, {"measure": "10:21"},
        {"set.multi_gpu": True}, {"rules": "gavel-artifact"}, {"rules.restart_s": 1}, {"round_s": 60}, {"until": 1e9},
        {"mechanism": "greedy"}, {"profiles": "gavel-physical"},
    ],
)  # fmt: skip
def test_whatever_decides_a_run_changes_its_key(change):
    assert key(**change) != key()


def test_another_code_is_another_key(monkeypatch):
    before = key()
    monkeypatch.setattr(tasks, "code_digest", lambda: "0" * 16)

    assert key() != before


def test_a_load_is_what_the_workload_understands_by_it():
    load = {k: v for k, v in RUN.items() if k != "set.interarrival_s"}
    philly = {"workload": "philly-derived", "cluster": "synergy-32", "policy": "fifo", "measure": "1:2", "load": 4}

    assert make_task({**load, "load": 4}).key == key()
    assert make_task(philly).parameters["settings"] == {"jobs_per_hour": 4.0}


def test_a_trace_counts_by_its_contents_not_by_its_name(tmp_path):
    first, second = tmp_path / "a.trace", tmp_path / "b.trace"
    first.write_text(LINE.format(steps=10))
    shutil.copy(first, second)
    run = {"cluster": "v100=4", "policy": "fifo"}
    before = make_task({**run, "trace": str(first)}).key

    assert make_task({**run, "trace": second}).key == before
    second.write_text(LINE.format(steps=1000))
    assert make_task({**run, "trace": second}).key != before


def test_a_catalogue_counts_by_its_contents(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("profile,gpus,type,rate\nA3C,1,v100,1.0\n")
    before = key(profiles=str(path))
    path.write_text("profile,gpus,type,rate\nA3C,1,v100,2.0\n")

    assert key(profiles=str(path)) != before


def test_a_trace_that_cannot_be_read_is_the_problem_of_that_run(tmp_path):
    task = make_task({"cluster": "v100=4", "policy": "fifo", "trace": str(tmp_path / "none.trace")})

    assert "none.trace" in task.problem


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({**RUN, "policy": "fifoo"}, "did you mean 'fifo'"),
        ({**RUN, "policy": "allox", "policy.alhpa": 1}, "did you mean 'alpha'"),
        ({**RUN, "set.job": 1}, "did you mean 'jobs'"),
        ({**RUN, "mechanism": "gredy"}, "did you mean 'greedy'"),
        ({**RUN, "rules": "gavel"}, "gavel-artifact"),
        ({**RUN, "rules.restart": 1}, "restart_s"),
        ({**RUN, "cluster": "v100"}, "cluster"),
        ({**RUN, "measure": "10"}, "A:B"),
        ({**RUN, "measure": "20:10"}, "empty"),
        ({**RUN, "seed": "x"}, "whole number"),
        ({**RUN, "load": 0}, "> 0"),
        ({**RUN, "policy": object()}, "other processes"),
        ({**RUN, "trace": "x"}, "either workload or trace"),
        ({"workload": "gavel-static", "cluster": "v100=4"}, "which policy"),
        ({"trace": "x", "cluster": "v100=4", "policy": "fifo", "load": 1}, "own arrivals"),
    ],
)
def test_what_cannot_be_run_is_refused_before_the_first_run(values, says):
    with pytest.raises(ConfigError) as refused:
        make_task(values)

    assert says in str(refused.value)
