"""Answers that make no sense: recorded, never acted on, and in a service never the end."""

import dataclasses

import numpy as np
import pytest

from builders import FAST, a_cluster, a_placement, a_state, ids, shares, some_jobs
from rota.core.allocation import Allocation, Options, Traits
from rota.core.errors import AnswerError, SolveError
from rota.core.events import JobsFinished, PlacementFailed, Planned, SolveFailed
from rota.core.horizon import EVERY_ROUND
from rota.core.jobs import TableSource
from rota.core.placement import nobody
from rota.core.ports import EveryEvent
from rota.core.rules import Rules
from rota.engine.loop import Engine
from rota.engine.placement_sense import check_placement
from rota.engine.sense import check_allocation
from rota.engine.state import State
from rota.mechanisms.registry import build
from rota.policies.registry import policies
from rota.sim.world import World

VIEW = a_state(3, cluster=a_cluster(v100=2, k80=2)).view(0.0)


def ranking(order, jobs=None):
    return Allocation(
        jobs=VIEW.jobs if jobs is None else jobs, types=VIEW.types, share=np.zeros((3, 2)), order=np.asarray(order)
    )


def one_share(value, row=1, gpu_type=0):
    share = np.full((3, 2), 0.1)
    share[row, gpu_type] = value
    return shares(VIEW, share)


def a_pair(share):
    extras = Options(first=ids(0), second=ids(1), gpus=ids(1))
    return Allocation(
        jobs=VIEW.jobs, types=VIEW.types, share=np.vstack([np.zeros((3, 2)), share]), extras=extras,
        traits=Traits(packs=True),
    )  # fmt: skip


ALLOCATIONS = {
    "nothing": (None, "NoneType"),
    "a dict": ({}, "dict"),
    "not a number": (one_share(np.nan), "job 1 a share of nan on k80"),
    "infinite": (one_share(np.inf), "job 1 a share of inf on k80"),
    "negative": (one_share(-0.5, row=2, gpu_type=1), "job 2 a share of -0.5 on v100"),
    "more than all the time": (one_share(1.5), "job 1 a share of 1.5"),
    "more GPUs than there are": (shares(VIEW, np.array([[1.0, 0]] * 3)), "3 GPUs of k80; there are 2 .*job 0"),
    "a pair beyond": (a_pair([[7.0, 0.0]]), "pair 0, 1 a share of 7.0"),
    "a row too few": (shares(VIEW, np.zeros((2, 2))), r"shape \(2, 2\)"),
    "other types": (
        Allocation(jobs=VIEW.jobs, types=("a100",), share=np.zeros((3, 1))),
        "answered for type 'a100'",
    ),
    "other jobs": (ranking([0, 1, 2], jobs=ids(0, 1, 9)), "job 9, which is not there"),
    "a job twice": (ranking([0, 1, 1]), "order"),
    "a position that is not there": (ranking([0, 1, 3]), "order"),
    "a negative position": (ranking([0, 1, -1]), "order"),
    "a huge position": (ranking([0, 1, 1 << 62]), "order"),
    "an order too short": (ranking([0, 1]), "order"),
    "an order of floats": (ranking([0.0, 1.0, 2.0]), "order"),
}


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_an_allocation_that_makes_no_sense_is_refused_with_the_reason(name):
    allocation, reason = ALLOCATIONS[name]

    with pytest.raises(AnswerError, match=reason):
        check_allocation(allocation, VIEW)


@pytest.mark.parametrize("name", policies.names())
def test_the_answers_of_our_own_policies_make_sense(name):
    largest = 1 if name == "allox" else 2
    view = a_state(some_jobs(6, gpus=[1, largest, 1, 1, largest, 1])).view(0.0)

    check_allocation(policies.create(name).allocate(view), view)


def with_columns(**columns):
    return dataclasses.replace(a_placement((0, -1, 0, 1)), **columns)


PLACEMENTS = {
    "nothing": (None, "NoneType"),
    "a job that is not there": (a_placement((7, -1, 0, 1)), "job 7"),
    "a partner that is not there": (a_placement((0, 8, 0, 1)), "job 8"),
    "a job twice": (a_placement((0, -1, 0, 1), (0, -1, 1, 1), servers=[[(0, 1)], [(2, 1)]]), "twice"),
    "a type that is not there": (a_placement((0, -1, 5, 1)), "type"),
    "a server that is not there": (a_placement((0, -1, 0, 1), servers=[[(99, 1)]]), "server"),
    "a server below all": (a_placement((0, -1, 0, 1), servers=[[(-1, 1)]]), "server"),
    "a server twice over": (
        a_placement((0, -1, 0, 1), (1, -1, 0, 1), servers=[[(0, 1)], [(0, 1)]]),
        "takes 2 GPUs of server",
    ),
    "fewer slots than GPUs": (a_placement((0, -1, 0, 2), servers=[[(0, 1)]]), "slots of job 0 .* add up.* 1, not 2"),
    "slots below nothing": (a_placement((0, -1, 0, 1), servers=[[(0, 2), (1, -1)]]), "job 0 -1 GPUs of a server"),
    "no GPUs": (a_placement((1, -1, 0, 0), servers=[[]]), "job 1 0 GPUs"),
    "a server of another type": (a_placement((0, -1, 0, 1), servers=[[(2, 1)]]), "has v100, and says that .* k80"),
    "more GPUs than there are": (a_placement((0, -1, 0, 3), servers=[[]]), "takes 3 GPUs of k80; there are 2"),
    "CPUs not a number": (with_columns(cpus=np.array([np.nan])), "job 0 cpus = nan"),
    "memory below nothing": (with_columns(memory_gb=np.array([-4.0])), "job 0 memory_gb = -4.0"),
    "more than all the time": (with_columns(fraction=np.array([1.5])), "job 0 fraction = 1.5"),
    "a list": (with_columns(gpus=[1]), "gpus of the placement is a list"),
    "types as floats": (with_columns(type=np.array([0.0])), "type of the placement has the type float64"),
    "a column too long": (with_columns(kept=np.array([True, True])), "kept of the placement has 2 numbers; 1"),
    "slots from elsewhere": (with_columns(slot_start=ids(1, 1)), "slot_start"),
    "a horizon in seconds": (with_columns(horizon=360.0), "horizon of the placement is a float"),
}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_a_placement_that_makes_no_sense_is_refused_with_the_reason(name):
    placement, reason = PLACEMENTS[name]

    with pytest.raises(AnswerError, match=reason):
        check_placement(placement, VIEW)


@pytest.mark.parametrize("speed", [np.nan, np.inf, 0.0, -1.0])
def test_a_speed_that_is_none_is_refused(speed):
    placement = a_placement((0, -1, 0, 1))
    placement.speed = np.array([speed])

    with pytest.raises(AnswerError, match="speed"):
        check_placement(placement, VIEW)


def run_with(policy=None, mechanism=None, jobs=4):
    """A service in small: no error ends it."""
    cluster, rules, events = a_cluster(v100=2), Rules(), []
    from builders import Speeds

    state = State(cluster, Speeds(), rules)
    world = World(TableSource(some_jobs(jobs, profiles=FAST, steps=3000.0, arrivals=300.0 * np.arange(jobs))), rules)
    engine = Engine(
        state=state,
        policy=policy or policies.create("las"),
        mechanism=mechanism or build("proportional", rules, 0),
        clock=world,
        executor=world,
        observers=[EveryEvent(events.append)],
        tolerant=True,
    )
    engine.run(lambda: len(events) > 400)
    return events


class Moody:
    """A policy or mechanism that answers well, but for its second and third answer."""

    def __init__(self, inner, bad):
        self._inner = inner
        self._bad = bad
        self.asked = 0

    def _answer(self, good):
        self.asked += 1
        if self.asked not in (2, 3):
            return good()
        if isinstance(self._bad, BaseException):
            raise self._bad
        return self._bad

    def allocate(self, view):
        return self._answer(lambda: self._inner.allocate(view))

    def place(self, view, allocation):
        return self._answer(lambda: self._inner.place(view, allocation))


def finished(events):
    return sorted(int(job) for event in events if isinstance(event, JobsFinished) for job in event.jobs)


BAD = [ZeroDivisionError("division by zero"), MemoryError(), KeyError("x"), SolveError("no"), None, "text", nobody]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: type(bad).__name__)
def test_no_policy_can_end_a_service(bad):
    events = run_with(policy=Moody(policies.create("las"), bad))

    failures = [event for event in events if isinstance(event, SolveFailed)]
    assert 1 <= len(failures) <= 2
    assert all(event.reason for event in failures)
    assert finished(events) == [0, 1, 2, 3]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: type(bad).__name__)
def test_no_mechanism_can_end_a_service(bad):
    events = run_with(mechanism=Moody(build("proportional", Rules(), 0), bad))

    failures = [event for event in events if isinstance(event, PlacementFailed)]
    assert 1 <= len(failures) <= 2
    assert finished(events) == [0, 1, 2, 3]


def test_while_a_policy_fails_the_last_good_decision_stays():
    events = run_with(policy=Moody(policies.create("las"), ValueError("x")))

    at = next(n for n, event in enumerate(events) if isinstance(event, SolveFailed))
    assert any(isinstance(event, Planned) for event in events[:at])
    assert not isinstance(events[at + 1], SolveFailed)


def test_a_policy_that_says_nothing_about_its_horizon_is_asked_in_every_round():
    class Quiet:
        asked = 0

        def allocate(self, view):
            Quiet.asked += 1
            share = np.full((len(view), 1), 2 / max(len(view), 2))
            return Allocation(jobs=view.jobs, types=view.types, share=np.minimum(share, 1.0))

    events = run_with(policy=Quiet())

    rounds = sum(getattr(event, "rounds", 0) for event in events)
    assert EVERY_ROUND.until == -np.inf
    assert Quiet.asked >= rounds > 4
