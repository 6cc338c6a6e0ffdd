"""Whole simulations against those of the published Synergy artifact, under its own rules: every job, to the second.

The +opt runs are left out: the artifact's optimum ignores servers (see docs/rules.md and the tests of `optimal`).
"""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import rota

ORACLE = Path(__file__).resolve().parents[2].parent / "shared" / "oracle" / "synergy"
GOLDEN = json.loads((Path(__file__).parent / "golden_synergy.json").read_text())
MECHANISMS = {"fair": "proportional", "greedy": "greedy", "tune": "tune"}
CLUSTERS = {
    "default_cluster.ini": "synergy-128",
    "cluster_4.ini": "synergy-128-cpu4",
    "deployment.ini": "synergy-32",
    "static_trace.ini": "synergy-32",
}
FAST = 4.0
"""CPU seconds of the artifact up to which a run belongs to the fast tests."""

with_oracle = pytest.mark.skipif(not ORACLE.exists(), reason=f"the artifact's results are not here: {ORACLE}")


def recorded():
    """(name, run) of the artifact's runs, and of the independent program's over the whole window."""
    if not ORACLE.exists():
        return []
    facts = json.loads((ORACLE / "runs.json").read_text())
    ours = [(run["name"], run) for run in facts["runs"] if "+opt" not in run["scheduler"]]
    for name, run in facts["full_window"].items():
        if "jobs" in run:
            set_, scheduler = run["trace"].split("_")[0], name.rsplit("_", 1)[1]
            extra = {"m3": ("default_cluster.ini", "synergy"), "m4": ("cluster_4.ini", "synergy-cpu4")}[set_]
            ours.append(
                (f"full:{name}", {**run, "scheduler": scheduler, "config": extra[0], "profiles": extra[1],
                                  "window": [4000, 5000], "windowed_jct_h": run, "sim_cpu_s": 100.0})
            )  # fmt: skip
    return ours


def arguments(run):
    policy, *how = run["scheduler"].split("+")
    mechanism = next((MECHANISMS[h] for h in how if h in MECHANISMS), "greedy")
    known = CLUSTERS.get(run["config"])
    return {
        "trace": ORACLE / "traces" / f"{run['trace']}.gz",
        "trace_format": "synergy",
        "cluster": known or ORACLE / "traces" / run["config"],
        "policy": policy.lower(),
        "mechanism": mechanism,
        "mechanism_settings": {"consolidate": True} if "place" in how else None,
        "profiles": run["profiles"],
        "rules": "synergy-artifact",
        "measure": tuple(run["window"]) if (run["windowed_jct_h"] or {}).get("n") else None,
        "until": run.get("time_limit_s"),
    }


def finish_times(path):
    with gzip.open(path, "rt") as file:
        return {int(row["job_id"]): float(row["finish_s"]) for row in csv.DictReader(file) if row["finish_s"]}


def check(run):
    theirs = finish_times(ORACLE / run["jobs"])
    result = rota.simulate(**arguments(run))
    ours = {
        int(job): at for job, at in zip(result.jobs["job_id"], result.jobs["finish_s"], strict=True) if np.isfinite(at)
    }

    assert len(theirs) > 0
    different = {job: (at, ours.get(job)) for job, at in theirs.items() if ours.get(job) != at}
    assert not different, f"{len(different)} of {len(theirs)} jobs end at another time, e.g. {min(different.items())}"
    return result


@with_oracle
@pytest.mark.parametrize("run", [pytest.param(r, id=n) for n, r in recorded() if r["sim_cpu_s"] <= FAST])
def test_every_job_ends_when_it_did_in_the_artifact(run):
    check(run)


@with_oracle
@pytest.mark.parity
@pytest.mark.parametrize("run", [pytest.param(r, id=n) for n, r in recorded() if r["sim_cpu_s"] > FAST])
def test_every_job_of_a_long_run_ends_when_it_did_in_the_artifact(run):
    result = check(run)

    counted = run["windowed_jct_h"] or {}
    if counted.get("n"):
        assert result.summary["jobs_measured"] == counted["n"]
        assert result.summary["mean_jct_s"] / 3600 == pytest.approx(counted["mean"], rel=1e-12)


def test_the_published_line_comes_out():
    result = rota.simulate(
        workload="philly-derived",
        settings={"jobs_per_hour": 9, "split": "20,70,10"},
        cluster="synergy-128",
        policy="fifo",
        mechanism="tune",
        rules="synergy-artifact",
        measure=(4000, 5000),
    )

    assert result.summary["mean_jct_s"] / 3600 == pytest.approx(21.876600555555555, rel=1e-14)
    assert result.summary["p99_jct_s"] / 3600 == pytest.approx(156.933078, abs=5e-7)
    assert result.summary["p999_jct_s"] / 3600 == pytest.approx(170.6119975, abs=5e-8)


@pytest.mark.parametrize("golden", [pytest.param(g, id=g["name"]) for g in GOLDEN])
def test_golden_figures_come_out_without_the_oracle(golden):
    result = rota.simulate(rules="synergy-artifact", **golden["arguments"])

    assert [round(float(t), 3) for t in result.jobs["finish_s"]] == golden["finish_s"]
