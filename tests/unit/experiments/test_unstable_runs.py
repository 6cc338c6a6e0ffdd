"""A run that was stopped because its queue grew has no mean, wherever one looks."""

import csv
import json
import re
import sqlite3
from pathlib import Path

import pytest

from rota.experiments.execution import RunOutcome, execute, without_means
from rota.experiments.plotting import jct_cdf
from rota.experiments.results import Sweep, columns, row, write_csv
from rota.experiments.store import ResultStore

DOCS = Path(__file__).parents[3] / "docs"
RAW = {"mean_jct_s": 10.0, "p99_jct_s": 20.0, "makespan_s": 50.0, "cost": 1.0, "utilization": 0.97, "rounds": 7}
ENDS = {(1, 0): "ok", (1, 1): "ok", (2, 0): "ok", (2, 1): "unstable", (3, 0): "unstable", (3, 1): "unstable"}


@pytest.fixture
def found(tmp_path):
    """A sweep over load and seed in which the load becomes too much; written as an older version did."""
    path = tmp_path / "r.db"
    with ResultStore(path) as store:
        store.record_sweep("sweep", {})
        for i, ((load, seed), status) in enumerate(ENDS.items()):
            point = {"policy": "srtf", "load": load, "seed": seed}
            store.add_members("sweep", [(point, f"{i:04d}")])
            store.write(f"{i:04d}", {"policy": "srtf"}, RunOutcome(status=status, metrics=RAW, started=1.0))
        runs = list(store.runs(sweep="sweep"))
    return Sweep(name="sweep", store=path, runs=runs)


def test_completion_times_of_an_unstable_run_have_another_name():
    split = without_means({**RAW, "jobs_finished": 3, "notes": ["x"], "mean_ftf": 2.0})

    assert split == {
        "utilization": 0.97,
        "rounds": 7,
        "jobs_finished": 3,
        "notes": ["x"],
        "until_stopped": {"mean_jct_s": 10.0, "p99_jct_s": 20.0, "makespan_s": 50.0, "cost": 1.0, "mean_ftf": 2.0},
    }
    assert without_means(split) == split


def test_a_run_that_is_stopped_is_stored_without_a_mean():
    asked = {"workload": "gavel-continuous", "settings": {"interarrival_s": 60.0}, "cluster": "v100=1"}

    outcome = execute({**asked, "policy": "fifo", "measure": (2000, 2001)}, "on")

    assert outcome.status == "unstable"
    assert "mean_jct_s" not in outcome.metrics
    assert "mean_jct_s" in outcome.metrics["until_stopped"]
    assert outcome.metrics["overload"]


def test_a_row_says_that_a_run_is_unstable_and_has_no_mean(found):
    stable, unstable = row(found.runs[0]), row(found.runs[3])

    assert (stable["unstable"], stable["mean_jct_s"]) == (False, 10.0)
    assert (unstable["unstable"], unstable["mean_jct_s"], unstable["makespan_s"]) == (True, None, None)
    assert (unstable["utilization"], unstable["until_stopped.mean_jct_s"]) == (0.97, 10.0)
    assert "until_stopped.mean_jct_s" not in columns(found.runs[:2])


def test_an_exported_file_has_empty_fields_there(found, tmp_path):
    write_csv(tmp_path / "r.csv", found.runs)

    with (tmp_path / "r.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["mean_jct_s"] for line in lines] == ["10.0", "10.0", "10.0", "", "", ""]
    assert [line["unstable"] for line in lines] == ["False"] * 3 + ["True"] * 3


def test_a_frame_has_no_number_there_even_where_no_run_is_stable(found):
    pytest.importorskip("pandas")

    mean = found.frame().groupby("load").mean_jct_s.agg(lambda times: times.mean(skipna=False))
    alone = Sweep(name="s", store=found.store, runs=found.runs[4:]).frame()

    assert mean[1] == 10.0
    assert mean[[2, 3]].isna().all()
    assert alone["mean_jct_s"].isna().all()
    assert alone["until_stopped.mean_jct_s"].tolist() == [10.0, 10.0]


def test_a_distribution_leaves_out_what_is_not_stable_in_every_seed(found, caplog):
    from rota.core.errors import ConfigError

    with pytest.raises(ConfigError, match="no run that was asked for is ok"):
        jct_cdf([str(found.store)])
    assert "load=2 is left out: it has unstable runs" in caplog.text


def test_the_recipe_of_the_docs_takes_the_mean_of_stable_points_only(found, tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results.db").write_bytes(found.store.read_bytes())
    (recipe,) = re.findall(r"```text\n(import json, sqlite3\n.*?)```", (DOCS / "experiments.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}

    exec(recipe, names)  # noqa: S102 - our own page

    means = names["means"]
    assert isinstance(means, pd.Series)
    assert means["srtf", 1] == 10.0
    assert [load for _, load in means.index] == [1]


def test_new_results_are_split_in_the_file_itself(tmp_path):
    with ResultStore(tmp_path / "r.db") as store:
        store.write("k", {}, RunOutcome(status="unstable", metrics=without_means(RAW), started=1.0))

    (text,) = sqlite3.connect(tmp_path / "r.db").execute("SELECT metrics FROM runs").fetchone()
    assert "mean_jct_s" not in json.loads(text)
