"""Lists of jobs: the same as if every job were looked at, without looking at every job."""

import itertools
import random

import pytest
from engine_harness import EngineHarness

from rota.core.job_spec import spec_from
from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.archive import JobFilter
from rota.deploy.scheduler.cluster_facts import cluster_as_it_is
from rota.deploy.scheduler.reasons import Reasons
from rota.deploy.scheduler.requests import Refused
from rota.deploy.server.listing import newest

MODEL = "ResNet-18 (batch size 32)"
PHASE_SETS = [
    frozenset(),
    *(frozenset({phase}) for phase in JobPhase),
    frozenset({JobPhase.RUNNING, JobPhase.FINISHED}),
]


@pytest.fixture(scope="module")
def harness():
    """Jobs of two tenants in all phases."""
    made = EngineHarness(policy="las", mechanism="proportional", profiles="gavel")
    made.join("a", 4)
    numbers = random.Random(0)
    common = {"steps": 1000, "profile": MODEL, "emulated": True}
    for tenant, hold in itertools.product(("vision", "evil"), (False, True)):
        specs = [spec_from({**common, "tenant": tenant, "hold": hold, "array": "0-3"}) for _ in range(3)]
        made.ask(lambda now, specs=specs: made.requests.submit(specs, "tester", "", now))
    made.round()
    for number in numbers.sample(sorted(made.registry.jobs), 8):
        made.cancel(number)
    made.round()
    return made


def reasons(harness):
    return Reasons(
        cluster_as_it_is(harness.registry, harness.clock.now()), harness.catalogue, registry=harness.registry
    )


@pytest.mark.parametrize("phases", PHASE_SETS)
def test_a_list_has_the_newest_jobs_and_counts_all_whatever_is_asked_for(harness, phases):
    every = reasons(harness)
    for tenant, below, jobs, limit in itertools.product(
        ("", "vision", "nobody"), (0, 17), (frozenset(), frozenset({1, 5, 20, 999})), (None, 1, 3)
    ):
        wanted = JobFilter(tenant=tenant, phases=phases, jobs=jobs, below=below)
        all_of_them = [job.id for job in harness.registry.jobs.values() if wanted.takes(job, every.phase)]

        found, count = newest(harness.registry, wanted, limit, lambda: every)

        assert [job.id for job in found] == sorted(all_of_them, reverse=True)[:limit], (wanted, limit)
        assert count == len(all_of_them), (wanted, limit)


@pytest.mark.parametrize("phases", [(), ("running",), ("stopping",), ("finished", "cancelled")])
def test_nobody_looks_for_reasons_that_make_no_difference_to_a_list(harness, phases):
    def never():
        raise AssertionError("reasons look at all jobs")

    newest(harness.registry, JobFilter(phases=frozenset(map(JobPhase, phases))), 1, never)


def test_an_array_that_is_named_often_is_looked_at_once(harness, monkeypatch):
    looks = []
    members = harness.registry.queue.members
    monkeypatch.setattr(harness.registry.queue, "members", lambda array: looks.append(array) or members(array))

    jobs = harness.requests.jobs_named([0, 0], [0, 1, 4, 0] * 20, None)
    with pytest.raises(Refused, match="there is no job 999"):
        harness.requests.jobs_named([], [0, 4, 999], None)

    assert [job.id for job in jobs] == list(range(8))
    assert looks == [0, 4], "and none of them if one is not there"


def test_a_submission_beyond_a_limit_is_refused_before_its_arrays_become_jobs(harness, monkeypatch):
    def never(*_):
        raise AssertionError("ten thousand jobs are made")

    monkeypatch.setattr("rota.deploy.scheduler.requests.numbered_jobs", never)
    specs = [spec_from({"steps": 1, "profile": MODEL, "emulated": True, "tenant": "many", "array": "0-9999"})]
    harness.registry.live_by_tenant["many"] = 15_000

    with pytest.raises(Refused, match=r"15,000 jobs of tenant 'many' wait, and 10,000 more would be above its 20,000"):
        harness.requests.dry_run(specs)
    del harness.registry.live_by_tenant["many"]
