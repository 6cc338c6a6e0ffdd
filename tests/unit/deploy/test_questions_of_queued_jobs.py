"""`rota why`, `eta`, `what-if` and `submit --dry-run` about jobs that are held, limited or come after others."""

import pytest
from harness import ROUND_S
from questions_harness import PROFILE, AskedHarness

from rota.core.errors import ConfigError
from rota.core.job_spec import spec_from
from rota.deploy.questions.changes import Change
from rota.deploy.questions.eta import estimates
from rota.deploy.questions.futures import history_of
from rota.deploy.questions.what_if import what_if
from rota.deploy.questions.why import STARTS_NEXT, why
from rota.deploy.scheduler.requests import Refused

FIVE_S = 5 * ROUND_S


def a_cluster(*jobs, gpus=4):
    """Jobs of five rounds each."""
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=gpus)
    steps = int(harness.catalogue.rate(PROFILE, 1, "v100") * FIVE_S)
    for fields in jobs:
        harness.submit(profile=PROFILE, **{"steps": steps, **fields})
    harness.round()
    return harness


def a_spec(harness, **fields):
    steps = int(harness.catalogue.rate(PROFILE, 1, "v100") * FIVE_S)
    return spec_from({"profile": PROFILE, "steps": steps, "emulated": True, "tenant": "default", **fields})


def eta(harness, *numbers):
    found = estimates(harness.fork(), history_of([]), list(numbers), futures=0)
    return {estimate.job: estimate for estimate in found}


def after(harness, seconds):
    return pytest.approx(harness.clock.now() + seconds, abs=1.5)


def test_a_job_starts_when_the_one_before_it_ends_though_gpus_are_free():
    harness = a_cluster({}, {"after": [0]}, {"after_any": [1]})

    found = eta(harness, 1, 2)

    assert found[1].start == after(harness, FIVE_S)
    assert found[2].start == after(harness, 2 * FIVE_S)
    assert found[2].end == after(harness, 3 * FIVE_S)


def test_jobs_of_an_array_start_as_its_limit_lets_them_and_those_after_it_later():
    harness = a_cluster({"array": "0-3%2"}, {"after": [0]})

    found = eta(harness, 2, 3, 4)

    assert found[2].start == after(harness, FIVE_S)
    assert found[3].start == after(harness, FIVE_S)
    assert found[4].start == after(harness, 2 * FIVE_S)


def test_a_time_limit_ends_a_job_and_with_it_the_hopes_of_those_after_it():
    harness = a_cluster({"time_limit_s": 2 * ROUND_S}, {"after": [0]}, {"after_any": [0]})

    found = eta(harness, 0, 1, 2)

    assert found[0].end == after(harness, 2 * ROUND_S)
    assert found[1].start is None
    assert found[2].start == after(harness, 2 * ROUND_S)


def test_a_held_job_has_no_start_and_says_how_it_could_have_one():
    harness = a_cluster({"hold": True}, {"after": [0]})

    found = eta(harness, 0, 1)

    assert "rota release 0" in found[0].unknown
    assert "a job that it comes after does not end as things are" in found[1].unknown


def test_a_job_that_no_server_could_hold_says_so_though_others_have_no_known_end():
    harness = a_cluster({"steps": 0, "emulated": False, "argv": ("train",)}, {"gpus": 8})

    found = eta(harness, 1)

    assert found[1].start is None
    assert "no server that is up could hold it" in found[1].unknown


def test_why_names_the_release_and_it_places_the_job():
    harness = a_cluster({"hold": True})

    answer = why(harness.fork(), 0, tenant=None)

    assert answer["code"] == "held"
    assert [change["kind"] for change in answer["changes"]] == ["release"]
    harness.ask(lambda now: harness.requests.release([0], [], "me", None, now))
    harness.round()
    assert harness.placed() == {0}


@pytest.mark.parametrize(
    ("jobs", "number", "code"),
    [
        (({}, {"after": [0]}), 1, "dependency"),
        (({"array": "0-3%1"},), 2, "array-limit"),
        (({}, {"hold": True, "after": [0]}), 1, "held"),
    ],
)
def test_why_knows_the_reason(jobs, number, code):
    assert why(a_cluster(*jobs).fork(), number, tenant=None)["code"] == code


def test_a_dependent_whose_predecessor_has_just_ended_starts_next():
    harness = a_cluster({}, {"after": [0]})
    harness.cancel(0)
    harness.obey("n0")
    harness.obey("n0")

    assert harness.job(1).ending or why(harness.fork(), 1, tenant=None)["code"] == STARTS_NEXT


def test_a_dry_run_says_where_and_when_and_changes_nothing():
    harness = a_cluster({"gpus": 4}, gpus=4)
    rows = len(harness.journal.rows)
    spec = a_spec(harness, gpus=2)
    assert harness.ask(lambda _: harness.requests.dry_run([spec])) == [1]

    answer = what_if(harness.fork(), Change(submit=(spec,)), tenant=None)

    (job,) = answer["submitted"]
    assert job["job"] == 1
    assert job["start_in_s"] > 0
    assert job["where"] == {"n0": 2}
    assert len(harness.journal.rows) == rows
    assert harness.submit(profile=PROFILE) == 1


def test_a_dry_run_of_an_array_and_of_jobs_after_it():
    harness = a_cluster(gpus=2)
    specs = (a_spec(harness, array="0-3%1"), a_spec(harness, after=[-1]))

    answer = what_if(harness.fork(), Change(submit=specs), tenant=None)

    starts = [job["start_in_s"] for job in answer["submitted"]]
    assert len(starts) == 5
    assert starts == sorted(starts)
    assert starts[4] == pytest.approx(starts[0] + 4 * FIVE_S, abs=3.0)
    assert "the job, 4 times" in answer["what"]


def test_a_dry_run_of_a_job_that_does_not_start_says_why():
    harness = a_cluster({"hold": True})

    answer = what_if(harness.fork(), Change(submit=(a_spec(harness, after=[0]), a_spec(harness, gpus=8))), tenant=None)

    assert answer["submitted"][0]["reason"].startswith("dependency: comes after job 0")
    assert answer["submitted"][1]["reason"].startswith("no-server-fits:")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"profile": "no such model"}, "no such model"),
        ({"after": [99]}, "there is no job 99"),
        ({"after": [-1]}, "can only wait for those before it"),
        ({"tenant": "other", "after": [0]}, "there is no job 0"),
    ],
)
def test_a_dry_run_refuses_what_a_submission_would(fields, message):
    harness = a_cluster({})
    spec = a_spec(harness, **fields)

    for work in (lambda _: harness.requests.dry_run([spec]), lambda now: harness.requests.submit([spec], "", "", now)):
        with pytest.raises(Refused, match=message):
            harness.ask(work)
    assert len(harness.registry.jobs) == 1


def test_cancelling_a_job_in_a_what_if_cancels_those_after_it():
    harness = a_cluster({}, {"after": [0]}, {"after": [1]})

    answer = what_if(harness.fork(), Change(cancel=(0,)), tenant=None)

    assert {job["job"]: job["start_in_s"][1] for job in answer["jobs"]} == {1: None, 2: None}


def test_a_released_job_is_what_if_too():
    harness = a_cluster({"hold": True})

    answer = what_if(harness.fork(), Change(release=(0,)), tenant=None)

    (job,) = answer["jobs"]
    assert job["start_in_s"][0] is None
    assert job["start_in_s"][1] is not None
    assert answer["what"] == "release job 0"


def test_estimates_of_queued_jobs_come_true():
    """The fork against the scheduler itself: agents end jobs when the model says that they are done."""
    harness = a_cluster({}, {"after": [0], "array": "0-2%2"}, {"after": [1]}, {}, {"gpus": 2, "after_any": [5]}, gpus=2)
    found = eta(harness, *harness.waiting())
    starts = {}
    for quarter in range(1, 160):
        harness.wait(ROUND_S / 4)
        harness.obey("n0")
        now = harness.clock.now()
        over = [job for job in harness.registry.running.values() if now - job.attempt.started >= FIVE_S]
        harness.report("n0", {job.id: done(job) for job in over})
        if quarter % 4 == 0:
            harness.loop.round_start = now
        harness.look(between=quarter % 4 != 0)
        starts |= {job.id: job.started for job in harness.registry.jobs.values() if job.started >= 0}

    for number, estimate in found.items():
        assert starts[number] == pytest.approx(estimate.start, abs=ROUND_S), number
    predicted = sorted(found, key=lambda number: (round(found[number].start), number))
    assert predicted == sorted(found, key=lambda number: (starts[number], number))


def done(job):
    from harness import ends

    return ends("completed", step=job.spec.steps, saved_step=job.spec.steps)


def test_a_what_if_of_nonsense_is_refused():
    harness = a_cluster({})

    with pytest.raises(ConfigError, match="can only wait for those before it"):
        what_if(harness.fork(), Change(submit=(a_spec(harness, after=[-5]),)), tenant=None)
