"""Percentiles are what docs/command-line.md says: written out here, over the lines of --jobs-csv."""

import csv
import io
import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota.analysis.jobs_csv import write_jobs_csv
from rota.cli.main import main
from rota.core.jobs import table


def percentile(values, p):
    """Between neighbours in the sorted list, by a straight line."""
    x = sorted(values)
    h = (len(x) - 1) * p / 100
    low = math.floor(h)
    high = math.ceil(h)
    return x[low] + (h - low) * (x[high] - x[low])


def test_the_formula_by_hand():
    assert percentile([4, 1, 3, 2], 50) == 2.5
    assert percentile(range(1, 11), 99) == pytest.approx(9.91)
    assert percentile([7], 99) == 7


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=60))
def test_the_formula_is_the_inclusive_one_of_the_standard_library(values):
    thousandths = statistics.quantiles(values, n=1000, method="inclusive")

    assert percentile(values, 99) == pytest.approx(thousandths[989], rel=1e-9, abs=1e-6)
    assert percentile(values, 99.9) == pytest.approx(thousandths[998], rel=1e-9, abs=1e-6)


RUN = [
    *("simulate", "--workload", "gavel-continuous", "--set", "interarrival_s=3000", "--cluster", "v100=24"),
    *("--policy", "fifo"),
]
CASES = {
    "all jobs": ["--set", "jobs=40"],
    "a range": ["--measure", "10:37"],
    "cut off, so that some jobs have not finished": ["--set", "jobs=40", "--until", "100000"],
}


@pytest.mark.parametrize("more", CASES.values(), ids=CASES)
def test_percentiles_of_a_run_are_those_of_its_measured_jobs(tmp_path, capsys, more):
    assert main([*RUN, *more, "--jobs-csv", str(tmp_path / "jobs.csv"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    lines = list(csv.DictReader(io.StringIO((tmp_path / "jobs.csv").read_text())))

    counted = [line for line in lines if "--measure" not in more or 10 <= int(line["job_id"]) < 37]
    finished = [float(line["jct_s"]) for line in counted if line["status"] == "finished"]
    assert finished == [float(line["jct_s"]) for line in lines if line["measured"] == "1"]
    assert shown["jobs_measured"] == len(finished) > 20
    assert shown["mean_jct_s"] == pytest.approx(statistics.fmean(finished))
    for key, p in (("p50_jct_s", 50), ("p90_jct_s", 90), ("p99_jct_s", 99), ("p999_jct_s", 99.9)):
        assert shown[key] == pytest.approx(percentile(finished, p))
    rho = [float(line["ftf"]) for line in lines if line["measured"] == "1"]
    assert shown["p50_ftf"] == pytest.approx(percentile(rho, 50))
    assert shown["p99_ftf"] == pytest.approx(percentile(rho, 99))


def test_percentiles_of_tenants_and_of_comparisons_are_the_same(tmp_path, capsys):
    files = []
    for policy in ("fifo", "srtf"):
        result = rota.simulate(
            jobs=table(
                profile_names=["A3C"] * 30,
                gpus=[1] * 30,
                total_steps=[1000.0 * (i + 1) for i in range(30)],
                submitted=[100.0 * i for i in range(30)],
                tenant_names=["a", "b"] * 15,
            ),
            cluster="v100=4",
            policy=policy,
        )
        files.append(tmp_path / f"{policy}.csv")
        write_jobs_csv(files[-1], result.jobs)
        for name, group in result.summary["by_tenant"].items():
            own = result.jobs["jct_s"][result.jobs["tenant"] == name].tolist()
            assert group["p50_jct_s"] == pytest.approx(percentile(own, 50))
            assert group["p99_jct_s"] == pytest.approx(percentile(own, 99))
    assert main(["compare", *map(str, files), "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    for side, file in zip("ab", files, strict=True):
        own = [float(line["jct_s"]) for line in csv.DictReader(io.StringIO(file.read_text()))]
        assert shown[side]["median_s"] == pytest.approx(percentile(own, 50))
        assert shown[side]["p99_s"] == pytest.approx(percentile(own, 99))
