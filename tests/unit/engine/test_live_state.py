"""Jobs that step aside and servers that come and go: nobody's progress is lost or mixed up."""

import numpy as np
import pytest

from builders import FAST, SLOW, Speeds, a_cluster, a_placement, accounts_of, ids, shares, some_jobs
from rota.core.events import (
    Allocated,
    ClusterChanged,
    JobsFinished,
    JobsParked,
    JobsReturned,
    JobsSubmitted,
    Planned,
    ProgressMade,
    RoundsRan,
)
from rota.core.placement import Plan
from rota.core.rules import Rules
from rota.engine.live_state import LiveState


def a_live_state(count=4, **cluster):
    state = LiveState(a_cluster(**(cluster or {"v100": 2, "k80": 2})), Speeds(), Rules())
    jobs = some_jobs(count, profiles=[FAST if i % 2 else SLOW for i in range(count)])
    state.apply(JobsSubmitted(at=0.0, first_id=0, jobs=jobs))
    return state


def test_a_parked_job_is_out_of_sight_and_comes_back_with_all_it_had():
    state = a_live_state()
    state.apply(ProgressMade(at=1.0, jobs=ids(0, 1, 2, 3), steps=np.array([10.0, 11.0, 12.0, 13.0])))

    state.apply(JobsParked(at=2.0, jobs=ids(1, 2), reason="test"))
    assert state.view(2.0).jobs.tolist() == [0, 3]
    assert state.parked == {1, 2}
    state.apply(ProgressMade(at=3.0, jobs=ids(1), steps=np.array([100.0])))
    state.apply(JobsReturned(at=4.0, jobs=ids(1)))

    view = state.view(4.0)
    assert view.jobs.tolist() == [0, 1, 3]
    assert view.steps_done.tolist() == [10.0, 111.0, 13.0]
    assert state.parked == {2}


def test_a_job_may_arrive_after_jobs_with_higher_numbers():
    state = a_live_state(2)

    state.apply(JobsSubmitted(at=1.0, first_id=5, jobs=some_jobs(1)))
    state.apply(JobsSubmitted(at=2.0, first_id=3, jobs=some_jobs(1, profiles=SLOW)))

    view = state.view(2.0)
    assert view.jobs.tolist() == [0, 1, 3, 5]
    assert [view.classes.profile[c] for c in view.job_class] == [SLOW, FAST, SLOW, FAST]
    state.apply(JobsFinished(at=3.0, jobs=ids(3), finished_at=np.array([3.0])))
    assert state.view(3.0).jobs.tolist() == [0, 1, 5]


def placed(state, *tasks, servers):
    placement = a_placement(*tasks, servers=servers)
    state.apply(Planned(at=0.0, plan=Plan(round=0, start=0.0, placement=placement)))


def test_a_parked_job_leaves_the_placement_and_its_partner_goes_on_alone():
    state = a_live_state()
    placed(state, (0, 1, 0, 1), (2, -1, 0, 1), (3, -1, 1, 1), servers=[[(0, 1)], [(1, 1)], [(2, 1)]])

    state.apply(JobsParked(at=1.0, jobs=ids(0, 3), reason="test"))

    assert state.placement.first.tolist() == [1, 2]
    assert state.placement.second.tolist() == [-1, -1]
    assert state.placement.slot_server.tolist() == [0, 1]
    seconds = np.array([5.0, 6.0])
    state.apply(
        RoundsRan(
            at=6.0, start=0.0, rounds=1, steps=np.zeros(2), partner_steps=np.zeros(2), seconds=seconds, lost=ids()
        )
    )
    assert state.view(6.0).attained.tolist() == [5.0, 6.0]


def test_accounts_follow_their_type_and_tasks_their_server():
    state = a_live_state(3, k80=2, v100=2)  # types are k80, v100; servers k80-0, k80-1, v100-0, v100-1
    view = state.view(0.0)
    state.apply(Allocated(at=0.0, allocation=shares(view, [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])))
    placed(state, (0, -1, 0, 1), (1, -1, 1, 1), (2, -1, 1, 1), servers=[[(1, 1)], [(2, 1)], [(3, 1)]])
    bigger = a_cluster(k80=2, p100=1, v100=2)
    fewer = type(bigger)(name="test", servers=tuple(s for s in bigger.servers if s.id not in {"k80-0", "v100-1"}))

    state.apply(ClusterChanged(at=1.0, cluster=fewer))

    assert state.allocation is None
    assert accounts_of(state).share.tolist() == [[0.1, 0.3, 0.5], [0, 0, 0], [0.2, 0.4, 0.6]]
    assert state.placement.first.tolist() == [0, 1]  # the server of job 2 is gone
    assert [fewer.ordered[s].id for s in state.placement.slot_server] == ["k80-1", "v100-0"]
    assert [fewer.types[t] for t in state.placement.type] == ["k80", "v100"]
    after = state.view(1.0)
    assert after.throughput.tolist() == [[0.2, 0.3, 0.4], [1.0, 2.0, 4.0], [0.2, 0.3, 0.4]]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_columns_stay_with_their_job(seed):
    """Random parking, returning, arriving, finishing and changing of the cluster against plain dictionaries."""
    random = np.random.default_rng(seed)
    state = LiveState(a_cluster(v100=2, k80=2), Speeds(), Rules())
    done, aside, live, first = {}, set(), set(), 0
    kinds = [a_cluster(v100=2, k80=2), a_cluster(v100=1), a_cluster(p100=3, k80=1), a_cluster(k80=4, v100=1, p100=2)]
    for at in range(60):
        choice = random.integers(6)
        if choice == 0:
            count = int(random.integers(1, 4))
            state.apply(JobsSubmitted(at=at, first_id=first, jobs=some_jobs(count)))
            live |= set(range(first, first + count))
            done |= dict.fromkeys(range(first, first + count), 0.0)
            first += count
        elif choice == 1 and live:
            gone = sorted(random.choice(sorted(live), size=min(2, len(live)), replace=False).tolist())
            state.apply(JobsParked(at=at, jobs=ids(*gone), reason="test"))
            live -= set(gone)
            aside |= set(gone)
        elif choice == 2 and aside:
            back = sorted(random.choice(sorted(aside), size=1).tolist())
            state.apply(JobsReturned(at=at, jobs=ids(*back)))
            aside -= set(back)
            live |= set(back)
        elif choice == 3 and live:
            gone = [int(random.choice(sorted(live)))]
            state.apply(JobsFinished(at=at, jobs=ids(*gone), finished_at=np.array([float(at)])))
            live -= set(gone)
        elif choice == 4 and done:
            some = sorted(live | aside)[:3]
            state.apply(ProgressMade(at=at, jobs=ids(*some), steps=np.full(len(some), float(at))))
            for job in some:
                done[job] += at
        else:
            state.apply(ClusterChanged(at=at, cluster=kinds[int(random.integers(4))]))
        view = state.view(at)
        assert view.jobs.tolist() == sorted(live)
        assert state.parked == aside
        assert view.steps_done.tolist() == [done[job] for job in sorted(live)]
