"""Every number of `--json`, worked out again from `--jobs-csv` and `--events`: many policies with every mechanism.

tests/recomputation.py does the working out, in plain Python; tests/integration/test_recomputed.py has cases of other
kinds (early stops, measured ranges, the artifacts' rounds).
"""

import csv
import json
import math
import random
from itertools import product

import pytest
from instances import catalogue

from recomputation import isolation, recomputed
from rota import profiles
from rota.cli.main import main

SYNERGY = ["res18", "res50", "transformer", "lstm"]
GAVEL = [
    "ResNet-18 (batch size 64)",
    "ResNet-50 (batch size 64)",
    "LM (batch size 20)",
    "A3C",
    "Recommendation (batch size 512)",
]
CLUSTER = "v100=4/2:cpus=8:memory=150,k80=4/4:cpus=10:memory=200,p100=2/2:cpus=4:memory=125"
POLICIES = [
    "fifo",
    "fifo-perf",
    "srtf-perf",
    "las",
    "drf-perf",
    "max-min-fairness-perf",
    "finish-time-fairness-perf",
    "min-mean-jct",
    "max-sum-throughput-normalized-by-cost-perf-slos",
]
UNIFIED = ["max-min-fairness-unified", "min-mean-jct-unified"]
MECHANISMS = ["proportional", "strided", "greedy", "tune", "optimal", "ideal"]
PACKED = ["max-min-fairness-packed", "finish-time-fairness-packed", "fifo-packed", "gandiva"]

OPTIONS = {
    "whole": [],
    "until": ["--until", "7000"],
    "measure": ["--measure", "3:9"],
    "rounds only": ["--set-rules", "at_once=no"],
}


def trace(path, models, seed, count=12):
    """A trace with gangs, tenants, weights and deadlines, in Rota's CSV."""
    draw = random.Random(seed)
    lines = ["arrival_s,gpus,profile,duration_s,weight,slo,tenant"]
    for arrival_s in sorted(draw.uniform(0, 12_000) for _ in range(count)):
        cells = [arrival_s, draw.choice([1, 1, 2, 4]), draw.choice(models), draw.uniform(300, 9000)]
        cells += [draw.choice([1, 5]), draw.choice(["", 1.2, 4]), draw.choice(["ann", "bob", "cid"])]
        lines.append(",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def differences(said, again, where=""):
    """Where the two differ, and keys that one of them lacks; keys that follow from no file are left out."""
    if isinstance(again, dict):
        return [d for key, value in again.items() for d in differences(said[key], value, f"{where} {key}")]
    if again is None or said is None:
        return [] if again is said else [(where, said, again)]
    return [] if math.isclose(said, again, rel_tol=1e-9, abs_tol=1e-6) else [(where, said, again)]


def assert_agrees(tmp_path, capsys, jobs, catalogue, cluster, *options, rate=None):
    """Run it on the command line and compare everything."""
    files = ["--jobs-csv", str(tmp_path / "jobs.csv"), "--events", str(tmp_path / "run.jsonl")]
    arguments = ["simulate", "--trace", str(jobs), "--profiles", catalogue, "--cluster", cluster, *options, *files]
    assert main([*arguments, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)

    again = recomputed(tmp_path / "jobs.csv", tmp_path / "run.jsonl")
    single = {
        "gpu_s": again.pop("gpu_s"),
        "cost": again.pop("price"),
        "ftf": isolation(tmp_path / "jobs.csv", tmp_path / "run.jsonl", rate or profiles.load(catalogue).rate),
    }

    assert differences(said, again) == []
    assert set(said["by_tenant"]) == set(again["by_tenant"])
    assert set(said["by_weight"]) == set(again["by_weight"])
    assert_jobs_agree(tmp_path / "jobs.csv", single)
    return said


def assert_jobs_agree(path, single):
    """Columns of single jobs; an empty cell stands for nothing that is known."""
    with path.open(encoding="utf-8") as file:
        for job in csv.DictReader(file):
            for column, values in single.items():
                again = values.get(int(job["job_id"]))
                assert float(job[column] or "nan") == pytest.approx(
                    math.nan if again is None else again, rel=1e-9, nan_ok=True
                ), (job["job_id"], column)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("policy", POLICIES + UNIFIED)
def test_cpus_and_memory(tmp_path, capsys, policy, mechanism):
    jobs = trace(tmp_path / "jobs.trace.csv", SYNERGY, seed=1)

    assert_agrees(tmp_path, capsys, jobs, "pipeline", CLUSTER, "--policy", policy, "--mechanism", mechanism)


@pytest.mark.parametrize("mechanism", ["proportional", "strided", "ideal"])
@pytest.mark.parametrize("policy", PACKED)
def test_pairs(tmp_path, capsys, policy, mechanism):
    jobs = trace(tmp_path / "jobs.trace.csv", GAVEL, seed=2)

    said = assert_agrees(
        tmp_path, capsys, jobs, "gavel", "v100=2,p100=2,k80=4/2", "--policy", policy, "--mechanism", mechanism
    )

    assert said["cpu_utilization"] is None


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("policy", ["srtf-perf", "fifo", "max-min-fairness-perf", "proportional"])
def test_types_by_any_name_with_holes_and_without_prices(tmp_path, capsys, policy, options):
    """The fast type comes first in the alphabet, `b` has no price, and one model cannot run there."""
    speeds = {"alpha": {"a": 4.0, "b": 1.5, "c": 1.0}, "beta": {"a": 2.0, "b": 0.0, "c": 1.9}}
    kinds = product(speeds, (1, 2, 4), ("a", "b", "c"))
    rates = {(model, gpus, name): gpus * speeds[model][name] for model, gpus, name in kinds}
    path = catalogue(tmp_path / "rates.csv", rates, reference="c")
    jobs = trace(tmp_path / "jobs.trace.csv", list(speeds), seed=3)

    said = assert_agrees(
        tmp_path,
        capsys,
        jobs,
        path,
        "a=2/2:price=3,b=4/4,c=4/2:price=0.5",
        "--policy",
        policy,
        *options,
        rate=lambda *kind: rates[kind],
    )

    assert said["cost"] is None
