"""Catalogues with holes: what was not measured on a type rules out that type for the job, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from situations import CATALOGUE, MECHANISMS, POLICIES, largest_job

from builders import a_cluster, a_run, assert_fits, some_jobs
from rota import clusters, profiles
from rota.core.events import Planned
from rota.core.jobs import table
from rota.profiles import Catalogue
from rota.profiles.estimator import Estimator

TYPES = ("k80", "p100", "v100")
CLUSTER = a_cluster(v100=4, p100=2, k80=3, per_server=2)
MEASURED_ON = {
    ("A3C", 1): ("k80",),
    ("CycleGAN", 1): ("p100", "v100"),
    ("LM (batch size 20)", 1): ("v100",),
    ("LM (batch size 20)", 2): ("k80", "p100"),
    ("ResNet-18 (batch size 64)", 1): TYPES,
    ("ResNet-18 (batch size 64)", 2): ("v100",),
    ("ResNet-50 (batch size 16)", 1): ("k80", "v100"),
    ("Transformer (batch size 64)", 1): ("p100",),
    ("Transformer (batch size 64)", 4): ("v100",),
}
JOBS = [
    ("A3C", 1, 3000.0, 0.0, np.nan),
    ("A3C", 1, 3000.0, 0.0, 5.0),
    ("CycleGAN", 1, 4000.0, 0.0, np.nan),
    ("LM (batch size 20)", 1, 9000.0, 0.0, 3.0),
    ("LM (batch size 20)", 1, 9000.0, 0.0, np.nan),
    ("LM (batch size 20)", 1, 2000.0, 0.0, np.nan),
    ("LM (batch size 20)", 1, 2000.0, 0.0, np.nan),
    ("LM (batch size 20)", 1, 2000.0, 0.0, np.nan),
    ("LM (batch size 20)", 2, 2000.0, 100.0, np.nan),
    ("ResNet-18 (batch size 64)", 1, 3600.0, 100.0, 1.2),
    ("ResNet-18 (batch size 64)", 2, 3600.0, 100.0, np.nan),
    ("ResNet-50 (batch size 16)", 1, 5000.0, 100.0, np.nan),
    ("Transformer (batch size 64)", 1, 3600.0, 2500.0, np.nan),
    ("Transformer (batch size 64)", 1, 3600.0, 2500.0, np.nan),
    ("Transformer (batch size 64)", 1, 900.0, 2500.0, 2.0),
    ("Transformer (batch size 64)", 4, 900.0, 2500.0, np.nan),
    ("A3C", 1, 500.0, 40000.0, np.nan),
]


EVERYWHERE = {("Recommendation (batch size 512)", 1): TYPES}
"""No job has this one; with it, the catalogue knows every type."""


def catalogue(measured_on):
    """Gavel's catalogue without the rows that are not listed."""
    measured_on = {**measured_on, **EVERYWHERE}
    alone = {key: rate for key, rate in CATALOGUE.alone.items() if key[2] in measured_on.get((key[0], key[1]), ())}
    pairs = {
        key: rate
        for key, rate in CATALOGUE.pairs.items()
        if all(key[2] in measured_on.get((profile, key[1]), ()) for profile in (key[0], key[4]))
    }
    return Catalogue("with holes", alone, lambda: pairs)


def jobs_of(rows, largest):
    chosen = sorted((row for row in rows if row[1] <= largest), key=lambda row: row[3])
    return table(
        profile_names=[row[0] for row in chosen],
        gpus=[row[1] for row in chosen],
        total_steps=[row[2] * CATALOGUE.rate(row[0], row[1], "p100") for row in chosen],
        submitted=[row[3] for row in chosen],
        duration=[row[2] for row in chosen],
        slo=[row[4] for row in chosen],
    )


def run_with(policy, mechanism, rules, rows, measured_on):
    """A run in which every placement is checked; `used` has (profile, GPUs, type) of all that ran."""
    jobs = jobs_of(rows, largest_job(policy))
    used = set()

    def look(event, run):
        if not isinstance(event, Planned):
            return
        placement = event.plan.placement
        assert_fits(placement, run.state.view(event.at))
        for members in (placement.first, placement.second):
            for job, gpu_type in zip(members.tolist(), placement.type.tolist(), strict=True):
                if job >= 0:
                    used.add((jobs.profiles[jobs.profile[job]], int(jobs.gpus[job]), run.cluster.types[gpu_type]))

    run = a_run(
        jobs,
        cluster=CLUSTER,
        policy=policy,
        mechanism=mechanism,
        rules=rules,
        speeds=catalogue(measured_on),
        observe=look,
    )
    return jobs, run, used


def assert_only_measured(jobs, run, used, measured_on):
    assert all(gpu_type in measured_on[profile, gpus] for profile, gpus, gpu_type in used)
    assert run.reason == "all jobs are done"
    assert run.given_up == {}
    assert set(run.finished) == set(range(len(jobs)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_run_on_measured_types_only_and_all_end(policy, mechanism):
    jobs, run, used = run_with(policy, mechanism, "default", JOBS, MEASURED_ON)

    assert_only_measured(jobs, run, used, MEASURED_ON)


@pytest.mark.parametrize("rules", ["gavel-artifact", "synergy-artifact"])
@pytest.mark.parametrize("policy", ["allox", "fifo-perf", "max-min-fairness-packed", "srtf"])
def test_so_they_do_under_the_rules_of_the_artifacts(policy, rules):
    single = [row for row in JOBS if row[1] == 1]

    jobs, run, used = run_with(policy, None, rules, single, MEASURED_ON)

    assert_only_measured(jobs, run, used, MEASURED_ON)


any_holes = st.fixed_dictionaries(
    {kind: st.lists(st.sampled_from(TYPES), min_size=1, unique=True).map(tuple) for kind in MEASURED_ON}
)


@settings(max_examples=2)
@pytest.mark.parametrize("policy", POLICIES)
@given(measured_on=any_holes)
def test_wherever_the_holes_are_jobs_that_fit_somewhere_end(policy, measured_on):
    room = dict(zip(CLUSTER.types, CLUSTER.capacity.tolist(), strict=True))
    fitting = [row for row in JOBS[::2] if any(room[t] >= row[1] for t in measured_on[row[0], row[1]])]

    jobs, run, used = run_with(policy, None, "default", fitting, measured_on)

    assert_only_measured(jobs, run, used, measured_on)


PIPELINE = profiles.load("pipeline")
MODELS_ON = {"res18": ("v100",), "res50": ("k80", "p100"), "transformer": ("k80",), "lstm": TYPES}
FLEET = clusters.load("v100=8/4:cpus=24:memory=500,p100=4/4:cpus=12:memory=250,k80=4/4:cpus=12:memory=250")


@pytest.mark.parametrize("mechanism", ["greedy", "optimal", "tune"])
@pytest.mark.parametrize("policy", [*(name for name in POLICIES if "unified" in name), "srtf", "drf", "tetris"])
def test_models_with_holes_get_cpus_and_memory_where_they_were_measured(policy, mechanism):
    models = {key: model for key, model in PIPELINE.models.items() if key[2] in MODELS_ON[key[0]]}
    names = [*MODELS_ON] * 3
    jobs = some_jobs(12, profiles=names, gpus=[1, 2, 4] * 4, steps=np.linspace(200, 2500, 12), arrivals=50.0)
    used = set()

    def look(event, run):
        if isinstance(event, Planned):
            placement = event.plan.placement
            assert_fits(placement, run.state.view(event.at))
            types = [run.cluster.types[t] for t in placement.type.tolist()]
            used.update(zip([names[job] for job in placement.first.tolist()], types, strict=True))

    speeds = Catalogue("with holes", {}, models=models)
    run = a_run(jobs, cluster=FLEET, policy=policy, mechanism=mechanism, speeds=speeds, observe=look)

    assert all(gpu_type in MODELS_ON[name] for name, gpu_type in used)
    assert len(run.finished) == 12


def test_estimated_pair_speeds_cope_with_holes():
    speeds = Estimator(catalogue(MEASURED_ON), profiled_fraction=0.5, reference_models=3, seed=1)
    jobs = jobs_of(JOBS, 8)

    run = a_run(jobs, cluster=CLUSTER, policy="max-min-fairness-packed", rules="default", speeds=speeds)

    assert set(run.finished) == set(range(len(jobs)))
