"""A clock that jumps, and an executor that computes."""

import math

from builders import FAST, SLOW, a_cluster, a_placement, a_run, a_state, some_jobs
from rota.core.events import JobsFinished, JobsSubmitted, Planned, RoundsRan
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.jobs import TableSource
from rota.core.placement import Plan, nobody
from rota.core.rules import Rules, preset
from rota.sim.world import World


def a_world(jobs, rules=None):
    rules = rules or Rules(at_once=False)
    state = a_state(some_jobs(0), rules=rules, cluster=a_cluster(v100=4))
    return World(TableSource(jobs), rules), state


def take_over(state, events):
    for event in events:
        state.apply(event)


def start(world, state, placement):
    plan = Plan(round=0, start=world.now(), placement=placement)
    state.apply(Planned(at=world.now(), plan=plan))
    world.apply(plan, state.view(world.now()))


def test_an_idle_world_goes_to_the_round_after_the_next_arrival():
    world, _ = a_world(some_jobs(2, arrivals=[400.0, 700.0]))

    (arrived,) = world.advance(UNTIL_JOBS_CHANGE, math.inf)

    assert isinstance(arrived, JobsSubmitted)
    assert (world.now(), arrived.first_id, len(arrived.jobs)) == (720.0, 0, 2)


def test_who_arrives_a_rounding_error_after_a_round_began_is_there_in_it():
    world, _ = a_world(some_jobs(1, arrivals=[360.0 + 1e-8]))

    (arrived,) = world.advance(UNTIL_JOBS_CHANGE, math.inf)

    assert (world.now(), len(arrived.jobs)) == (360.0, 1)


def test_an_idle_world_of_the_artifact_goes_to_the_arrival_itself():
    world, _ = a_world(some_jobs(2, arrivals=[400.0, 700.0]), preset("gavel-artifact"))

    (arrived,) = world.advance(UNTIL_JOBS_CHANGE, math.inf)

    assert (world.now(), len(arrived.jobs)) == (400.0, 1)


def test_time_does_not_go_back():
    world, _ = a_world(some_jobs(1, arrivals=[720.0]))
    world.advance(UNTIL_JOBS_CHANGE, math.inf)

    assert world.advance(UNTIL_JOBS_CHANGE, 10.0) == []
    assert world.now() == 720.0


def test_what_happened_comes_in_order_rounds_then_ends_then_arrivals():
    world, state = a_world(some_jobs(3, steps=400.0, arrivals=[0.0, 0.0, 50.0]))
    take_over(state, world.advance(UNTIL_JOBS_CHANGE, math.inf))
    start(world, state, a_placement((1, -1, 0, 1), (0, -1, 0, 1)))

    events = world.advance(UNTIL_JOBS_CHANGE, math.inf)

    assert [type(e) for e in events] == [RoundsRan, JobsFinished, JobsSubmitted]
    assert events[1].jobs.tolist() == [0, 1]
    assert events[2].first_id == 2


def test_nobody_runs_after_an_empty_plan():
    world, state = a_world(some_jobs(2, steps=400.0, arrivals=[0.0, 5000.0]))
    take_over(state, world.advance(UNTIL_JOBS_CHANGE, math.inf))
    start(world, state, nobody())

    (event,) = world.advance(UNTIL_JOBS_CHANGE, math.inf)

    assert isinstance(event, JobsSubmitted)


def test_a_world_is_exhausted_after_the_last_arrival():
    world, _ = a_world(some_jobs(1, arrivals=[5.0]))

    before = world.exhausted
    world.advance(UNTIL_JOBS_CHANGE, math.inf)

    assert (before, world.exhausted) == (False, True)


def test_a_world_goes_on_from_its_snapshot():
    jobs = some_jobs(3, arrivals=[0.0, 400.0, 5000.0])
    world, _ = a_world(jobs)
    world.advance(UNTIL_JOBS_CHANGE, math.inf)
    world.advance(UNTIL_JOBS_CHANGE, math.inf)
    other, _ = a_world(jobs.rows(2, 3))

    other.restore(world.snapshot())
    (event,) = other.advance(UNTIL_JOBS_CHANGE, math.inf)

    assert other.now() == 5040.0
    assert event.first_id == 2


def test_cost_grows_with_events_not_with_seconds():
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=[1e7, 1e6])

    run = a_run(jobs, policy="fifo-perf")

    assert run.events[-1].at > 1e6
    assert len(run.of(RoundsRan)) <= 4
    assert sum(e.rounds for e in run.of(RoundsRan)) > 5000
