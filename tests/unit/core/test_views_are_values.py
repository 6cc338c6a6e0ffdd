"""Whoever keeps a view finds it later as it was made."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import FAST, SLOW, Speeds, a_cluster, a_run, a_state, some_jobs
from rota import profiles
from rota.core.events import Allocated, JobsFinished, JobsSubmitted, RoundsRan
from rota.core.view import View
from rota.policies.registry import policies

SYNERGY = profiles.load("synergy")


def reachable(value, seen=None):
    """All values of ours and all arrays that can be reached from a value, by identity."""
    seen = {} if seen is None else seen
    if id(value) in seen or value is None or isinstance(value, (str, int, float, bool, np.generic)):
        return seen
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        return seen
    for part in parts_of(value):
        reachable(part, seen)
    return seen


def parts_of(value):
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (tuple, list, frozenset, set)):
        return list(value)
    if callable(value) or not type(value).__module__.startswith("rota.core"):
        return []
    names = getattr(type(value), "__slots__", None) or vars(value)
    return [getattr(value, name) for name in names if hasattr(value, name)]


def arrays_of(view):
    return [part for part in reachable(view).values() if isinstance(part, np.ndarray)]


class Keeper:
    """Keeps every view that its policy was shown, and what stood in it then."""

    def __init__(self, policy):
        self._policy = policy
        self.kept = []

    def allocate(self, view):
        self.kept.append((view, [(array, array.copy()) for array in arrays_of(view)], scalars(view)))
        return self._policy.allocate(view)

    def assert_unchanged(self):
        assert len(self.kept) > 3
        for view, arrays, before in self.kept:
            assert scalars(view) == before
            for array, then in arrays:
                np.testing.assert_array_equal(array, then)


def scalars(view):
    classes = view.classes
    return (view.now, view.round, len(view), len(classes), classes.profile, view.tenants, view.solved_at)


@pytest.mark.parametrize(
    ("policy", "mechanism"),
    [
        ("max-min-fairness-perf", "proportional"),
        ("max-min-fairness-packed", "proportional"),
        ("finish-time-fairness-perf", "proportional"),
        ("las", "tune"),
        ("srtf", "greedy"),
        ("fifo", "tune"),
        ("max-min-fairness-unified", "tune"),
    ],
)
def test_every_view_of_a_run_is_at_the_end_what_it_was(policy, mechanism):
    by_need = mechanism != "proportional"
    names = ["res18", "lstm", "res50"] * 8 if by_need else [FAST, SLOW] * 12
    jobs = some_jobs(24, profiles=names, gpus=[1, 1, 2] * 8, steps=4000.0, arrivals=200.0 * np.arange(24))
    keeper = Keeper(policies.create(policy))
    cluster = None
    if by_need:
        from rota import clusters

        cluster = clusters.load("v100=8/4:cpus=12:memory=250")

    run = a_run(
        jobs, policy=keeper, mechanism=mechanism, speeds=SYNERGY if by_need else None,
        cluster=cluster or a_cluster(v100=2, k80=2, per_server=2),
    )  # fmt: skip

    assert run.finished
    keeper.assert_unchanged()


def test_nothing_that_can_be_reached_from_a_view_can_be_written_to():
    state = a_state(3)
    policy = policies.create("max-min-fairness-perf")
    state.apply(Allocated(at=0.0, allocation=policy.allocate(state.view(0.0))))

    view = state.view(0.0)

    own = [array for array in arrays_of(view) if array.size and not _made_by_the_policy(array, view)]
    assert len(own) > 20
    assert [array for array in own if array.flags.writeable] == []


def _made_by_the_policy(array, view):
    """What a policy answered is its own; the engine never writes to it either."""
    return any(array is part for part in arrays_of(view.previous))


events = st.lists(st.sampled_from(["arrive", "another class", "finish", "ran"]), min_size=1, max_size=8)


@given(happened=events, policy=st.sampled_from(["max-min-fairness-perf", "max-min-fairness-packed", "las", "srtf"]))
@settings(max_examples=40, deadline=None)
def test_a_solve_that_is_late_answers_as_if_nothing_had_happened_meanwhile(happened, policy):
    """A policy in another thread sees one instant, however many jobs arrive, end or make progress before it answers."""
    state = a_state(some_jobs(4, profiles=[FAST, SLOW, FAST, FAST]), cluster=a_cluster(v100=2, k80=2), speeds=Speeds())
    view = state.view(10.0)
    expected = policies.create(policy).allocate(view)
    go, answers = threading.Event(), []

    def solve():
        go.wait(10.0)
        answers.append(policies.create(policy).allocate(view))

    late = threading.Thread(target=solve)
    late.start()
    for number, what in enumerate(happened):
        _happen(state, what, number)
        if number == 0:
            go.set()
    go.set()
    late.join(30.0)

    assert answers == [expected]
    assert len(view) == 4


def _happen(state, what, number):
    at = 20.0 + number
    jobs = state.view(at).jobs
    following = int(jobs[-1]) + 1 if len(jobs) else 100
    if what == "arrive":
        state.apply(JobsSubmitted(at=at, first_id=following, jobs=some_jobs(2, arrivals=at)))
    elif what == "another class":
        new = some_jobs(1, profiles=SLOW, arrivals=at, weight=[float(number + 2)])
        state.apply(JobsSubmitted(at=at, first_id=following, jobs=new))
    elif what == "finish" and len(jobs):
        state.apply(JobsFinished(at=at, jobs=jobs[:1], finished_at=np.array([at])))
    elif what == "ran" and state.placement is not None:
        nothing = np.zeros(len(state.placement))
        state.apply(
            RoundsRan(
                at=at, start=at - 1, rounds=1, steps=nothing + 5, partner_steps=nothing, seconds=nothing + 1,
                lost=np.zeros(0, dtype=np.int64),
            )
        )  # fmt: skip


def test_a_view_says_so_if_somebody_writes_to_it():
    view = a_state(2).view(0.0)

    with pytest.raises(ValueError, match="read-only"):
        view.steps_done[0] = 1.0
    assert isinstance(view, View)
