"""Serve who is furthest behind its share."""

from dataclasses import replace

import numpy as np
import pytest
from rounds import CALM, ROUND, play, promised, random_shares, turn

from builders import SLOW, Speeds, a_cluster, a_view, owe, shares, some_jobs
from rota import clusters
from rota.core.allocation import Traits, Wishes
from rota.core.events import Allocated
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE
from rota.core.rules import Rules
from rota.mechanisms.registry import build
from rota.mechanisms.select.deficit import Deficit
from rota.policies.registry import policies

K80, V100 = 0, 1
NO_FILL = Traits(fills=False)


def choose(state, now=0.0):
    choice = Deficit(state.rules).choose(state.view(now), state.allocation)
    seconds = choice.second if choice.second is not None else np.full(len(choice), -1)
    return choice, {
        (a, b): t for a, b, t in zip(choice.first.tolist(), seconds.tolist(), choice.type.tolist(), strict=True)
    }


@pytest.mark.parametrize("seed", range(8))
def test_nobody_is_ever_two_rounds_behind_its_share(seed):
    rng = np.random.default_rng(seed)
    cluster = a_cluster(v100=int(rng.integers(1, 5)), k80=int(rng.integers(1, 5)), p100=int(rng.integers(1, 5)))
    rows = random_shares(rng, np.ones(int(rng.integers(3, 13))), cluster.capacity)

    def in_time(turns, rounds):
        assert (turns >= rows * rounds - 2).all()

    play(promised(rows, cluster=cluster, rules=CALM), 200, check=in_time)


@pytest.mark.parametrize("seed", range(3))
def test_loyalty_costs_no_more_than_the_rounds_it_is_worth(seed):
    rng = np.random.default_rng(seed)
    cluster = a_cluster(v100=2, k80=3)
    rows = random_shares(rng, np.ones(9), cluster.capacity)
    rules = Rules(stay_rounds=3.0)

    def in_time(turns, rounds):
        assert (turns >= rows * rounds - 3 - 2).all()

    play(promised(rows, cluster=cluster, rules=rules), 200, check=in_time)


def test_shares_are_met_however_often_they_change():
    rng = np.random.default_rng(7)
    cluster = a_cluster(v100=2, k80=2)
    state = promised(random_shares(rng, np.ones(7), cluster.capacity), cluster=cluster, rules=CALM)
    due = np.zeros((7, 2))
    turns = np.zeros((7, 2))

    for number in range(120):
        view = state.view(number * ROUND)
        if number % 5 == 0:
            rows = random_shares(rng, np.ones(7), cluster.capacity)
            state.apply(Allocated(at=view.now, allocation=shares(view, rows)))
        placement = build("proportional", CALM, 0).place(state.view(view.now), state.allocation)
        turn(state, placement, view.now)
        np.add.at(turns, (placement.first, placement.type), 1)
        due += rows

    assert (turns.sum(axis=1) >= due.sum(axis=1) - 3).all()


def test_gangs_get_turns_too():
    rows = [[0.3077]] * 12 + [[0.0769]]

    turns = play(
        promised(rows, jobs=some_jobs(13, gpus=[1] * 12 + [4], steps=1e12), cluster=a_cluster(v100=4), rules=CALM), 260
    )

    assert turns[12, 0] >= 260 * 0.0769 - 2
    assert (turns[:12, 0] >= 260 * 0.3077 - 2).all()


def test_a_gang_with_a_small_share_gets_turns_although_not_all_promises_can_be_kept():
    """Two of one GPU with 0.9 each leave four GPUs at once for a tenth of the time; 0.5 of it was promised."""
    rows = [[0.45], [0.9], [0.9], [0.05]]
    jobs = some_jobs(4, gpus=[4, 1, 1, 4], steps=1e12)

    turns = play(promised(rows, jobs=jobs, cluster=a_cluster(v100=4)), 400)

    assert turns[3, 0] > 0


def test_whoever_has_no_share_gets_what_is_left_on_its_fastest_type():
    state = promised([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])

    _, chosen = choose(state)

    assert chosen == {(0, -1): V100, (1, -1): V100, (2, -1): K80}


def test_a_policy_that_does_not_fill_leaves_gpus_idle():
    state = promised([[0.0, 1.0], [0.0, 0.0]], traits=NO_FILL)

    _, chosen = choose(state)

    assert chosen == {(0, -1): V100}


def test_a_share_where_a_job_cannot_run_is_not_served():
    speeds = Speeds(rates={"fast": {"k80": 0.0, "v100": 1.0}})

    _, chosen = choose(promised([[1.0, 0.0]], speeds=speeds, traits=NO_FILL))

    assert chosen == {}


def test_a_smaller_job_overtakes_one_that_does_not_fit():
    state = promised(
        [[0.9], [0.8], [0.3]], jobs=some_jobs(3, gpus=[2, 2, 1], steps=1e12), cluster=a_cluster(v100=3, per_server=3)
    )

    _, chosen = choose(state)

    assert chosen == {(0, -1): 0, (2, -1): 0}


def test_a_running_job_stays_until_another_is_further_behind_than_loyalty_is_worth():
    calm = play(promised([[0.5], [0.5]], cluster=a_cluster(v100=1), rules=CALM), 2)
    loyal = play(promised([[0.5], [0.5]], cluster=a_cluster(v100=1), rules=Rules(stay_rounds=3.0)), 3)

    assert calm[:, 0].tolist() == [1.0, 1.0]
    assert sorted(loyal[:, 0].tolist()) == [0.0, 3.0]


def test_when_nobody_competes_the_choice_is_steady():
    easy, _ = choose(promised([[0.0, 1.0], [1.0, 0.0]]))
    hard, _ = choose(promised([[0.0, 1.0]] * 3))

    assert easy.horizon is UNTIL_JOBS_CHANGE
    assert hard.horizon is EVERY_ROUND


def test_pairs_and_singles_stand_in_one_queue():
    state = promised([[0, 0], [0, 0], [0, 0.25]], pairs=[(0, 1, [0, 0.75])], cluster=a_cluster(v100=1, k80=1))

    _, chosen = choose(state)

    assert chosen == {(0, 1): V100, (2, -1): K80}


def test_a_pair_that_does_not_fit_on_a_type_does_not_run_there():
    pairs = {("fast", "fast", "k80"): 1.0}
    state = promised(
        [[0, 0], [0, 0]], pairs=[(0, 1, [0.1, 0.9])], speeds=Speeds(pairs=pairs), traits=Traits(packs=True, fills=False)
    )

    _, chosen = choose(state)

    assert chosen == {(0, 1): K80}


def test_over_time_pairs_get_their_shares():
    state = promised(
        [[0.0], [0.0], [0.5]], pairs=[(0, 1, [0.5])], cluster=a_cluster(v100=1), traits=Traits(packs=True, fills=False)
    )

    turns = play(state, 100)

    assert turns[:, 0].tolist() == pytest.approx([50, 50, 50], abs=2)


def test_policies_that_see_no_types_spread_jobs_over_them():
    state = promised([[0.5, 0.5]] * 4, traits=Traits(aware=False), jobs=some_jobs(4, profiles=SLOW, steps=1e12))

    choice, _ = choose(state)

    assert np.bincount(choice.type).tolist() == [2, 2]


def test_it_needs_accounts():
    view = a_view(2).part(np.arange(2), np.array([1, 1]))

    with pytest.raises(ValueError, match="accounts"):
        Deficit(Rules()).choose(view, policies.create("isolated").allocate(view))


def test_nobody_to_serve_is_no_choice():
    state = promised([])

    choice, _ = choose(state)

    assert len(choice) == 0


def hungry(count, cpus):
    """Single-GPU jobs on one server with 8 GPUs and 24 CPUs, with equal shares, and what each is to hold."""
    cluster = clusters.load("v100=8/8:cpus=24:memory=500")
    state = promised(np.full((count, 1), 8 / count), cluster=cluster, rules=CALM)
    wish = Wishes(np.array(cpus, dtype=float), np.full(count, 10.0), np.ones(count), np.arange(count)[:, None])
    state.apply(Allocated(at=0.0, allocation=replace(state.allocation, wish=wish)))
    return state


def test_turns_are_chosen_so_that_the_cpus_of_a_round_are_there():
    """Of six jobs that want 8 of the 24 CPUs and ten that want 1, two of the former take part in every round."""
    wishes = [8.0] * 6 + [1.0] * 10
    state = hungry(16, wishes)
    select = Deficit(CALM, by_need=True)

    chosen = select.choose(state.view(0.0), state.allocation).first

    assert len(chosen) == 8
    assert sum(wishes[job] for job in chosen.tolist()) <= 24
    assert np.count_nonzero(chosen < 6) == 2
    blind = Deficit(CALM).choose(state.view(0.0), state.allocation).first
    assert np.count_nonzero(blind < 6) == 6


def test_no_gpu_is_idle_for_want_of_cpus():
    state = hungry(10, [8.0] * 10)

    assert len(Deficit(CALM, by_need=True).choose(state.view(0.0), state.allocation)) == 8


def test_a_wish_that_suits_no_round_waits_but_not_for_ever():
    """One wants 8 CPUs and eight want 3: there is no round in which the former leaves enough to the others."""
    state = hungry(9, [8.0] + [3.0] * 8)
    select = Deficit(CALM, by_need=True)
    owe(state, 0, np.where(np.arange(9) == 0, 3 * ROUND, 0.0))
    assert 0 not in select.choose(state.view(0.0), state.allocation).first

    owe(state, 0, np.where(np.arange(9) == 0, 30 * ROUND, 0.0))
    assert 0 in select.choose(state.view(0.0), state.allocation).first
