"""The published rule: largest share over fraction of time received."""

from dataclasses import replace

import numpy as np
import pytest
from rounds import play, promised

from builders import FAST, SLOW, Speeds, a_cluster, a_view, owe, some_jobs
from rota.core.allocation import Traits
from rota.core.events import JobsSubmitted
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE
from rota.core.rules import preset
from rota.mechanisms.select.fraction import Fraction
from rota.policies.registry import policies

K80, V100 = 0, 1
ARTIFACT = preset("gavel-artifact")


def choose(state, now=0.0, rules=None):
    choice = Fraction(rules or state.rules).choose(state.view(now), state.allocation)
    seconds = choice.second if choice.second is not None else np.full(len(choice), -1)
    chosen = list(zip(choice.first.tolist(), seconds.tolist(), choice.type.tolist(), strict=True))
    return choice, chosen


def at_v100(rows, **parts):
    parts.setdefault("cluster", a_cluster(v100=1))
    return promised(rows, rules=parts.pop("rules", ARTIFACT), **parts)


def test_the_largest_share_goes_first_while_nobody_has_run():
    _, chosen = choose(at_v100([[0.2], [0.5], [0.3]]))

    assert chosen == [(1, -1, 0)]


def test_turns_follow_shares():
    rows = [[0.1], [0.6], [0.3]]

    turns = play(at_v100(rows), 200, mechanism="strided")

    assert turns[:, 0] / 200 == pytest.approx([0.1, 0.6, 0.3], abs=0.02)


def test_equal_priorities_are_settled_by_debt_then_share_then_age():
    state = at_v100([[0.5], [0.5], [0.5]])
    owe(state, 0, [0.0, 5.0, 5.0])

    _, chosen = choose(state)

    assert chosen == [(1, -1, 0)]


def test_types_are_served_in_the_order_of_the_rules():
    state = promised([[1.0, 1.0]], rules=ARTIFACT)

    _, chosen = choose(state)

    assert chosen == [(0, -1, V100)]


def test_left_over_gpus_go_to_jobs_without_a_share_most_owed_first():
    state = at_v100([[0.0], [0.0], [1.0]], cluster=a_cluster(v100=2))
    owe(state, 0, [1.0, 2.0, 0.0])

    _, chosen = choose(state)

    assert chosen == [(2, -1, 0), (1, -1, 0)]


def test_left_over_gpus_go_first_to_jobs_they_are_good_for_if_the_policy_knows_speeds():
    speeds = Speeds(rates={FAST: {"k80": 1.0, "v100": 9.0}, SLOW: {"k80": 1.0, "v100": 1.5}})
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=1e12)
    state = promised(
        [[0, 0]] * 2,
        jobs=jobs,
        speeds=speeds,
        rules=ARTIFACT,
        cluster=a_cluster(k80=1),
        traits=Traits(fills_by_speed=True),
    )

    _, chosen = choose(state)

    assert chosen == [(0, -1, 0)]


def test_a_policy_that_does_not_fill_leaves_gpus_idle():
    _, chosen = choose(at_v100([[0.0], [1.0]], cluster=a_cluster(v100=2), traits=Traits(fills=False)))

    assert chosen == [(1, -1, 0)]


def test_a_smaller_job_overtakes_one_that_does_not_fit():
    jobs = some_jobs(3, gpus=[2, 2, 1], steps=1e12)

    _, chosen = choose(at_v100([[0.9], [0.8], [0.3]], jobs=jobs, cluster=a_cluster(v100=3)))

    assert [job for job, *_ in chosen] == [0, 2]


def test_a_newcomer_takes_a_slot_and_wastes_it_under_the_rules_of_the_artifact():
    state = at_v100([[1.0]], cluster=a_cluster(v100=2))
    state.apply(JobsSubmitted(at=1.0, first_id=1, jobs=some_jobs(1)))

    artifact, _ = choose(state, 1.0)
    sane, _ = choose(state, 1.0, replace(ARTIFACT, newcomers_waste_slots=False))

    assert artifact.wasted.tolist() == [False, True]
    assert sane.wasted is None


def test_every_pair_may_fill_under_the_rules_of_the_artifact_only():
    rows, parts = [[0.0], [0.0]], {"traits": Traits(packs=True, pairs_fill=True)}

    _, artifact = choose(at_v100(rows, **parts))
    _, sane = choose(at_v100(rows, **parts, rules=replace(ARTIFACT, all_pairs_fill=False)))

    assert artifact == [(0, 1, 0)]
    assert sane == [(0, -1, 0)]


def test_pairs_with_a_share_stand_in_the_queue_of_their_type():
    state = at_v100([[0.0], [0.0], [0.4]], pairs=[(0, 1, [0.6])])

    _, chosen = choose(state)

    assert chosen == [(0, 1, 0)]


def test_a_pair_that_does_not_fit_has_no_priority():
    speeds = Speeds(pairs={(FAST, FAST, "k80"): 1.0})
    state = promised(
        [[0, 0], [0, 0]],
        pairs=[(0, 1, [0.2, 0.8])],
        speeds=speeds,
        rules=ARTIFACT,
        traits=Traits(packs=True, fills=False),
    )

    _, chosen = choose(state)

    assert chosen == [(0, 1, K80)]


def test_with_one_queue_the_priority_leads_and_types_break_ties():
    rules = replace(ARTIFACT, global_queue=True)
    state = promised([[0.2, 0.1], [0.1, 0.9]], rules=rules, cluster=a_cluster(v100=1, k80=1))

    _, chosen = choose(state)

    assert chosen == [(1, -1, V100), (0, -1, K80)]


def test_a_policy_that_sees_no_types_meets_them_in_random_order():
    rows, parts = (
        [[0.5, 0.5]] * 2,
        {"rules": ARTIFACT, "traits": Traits(aware=False), "cluster": a_cluster(v100=1, k80=1)},
    )
    state = promised(rows, **parts)

    orders = set()
    for number in range(20):
        state.round = number
        _, chosen = choose(state)
        orders.add(tuple(kind for *_, kind in chosen))

    assert orders == {(K80, V100), (V100, K80)}


def test_the_choice_is_steady_when_nobody_was_refused_and_types_are_known():
    easy, _ = choose(at_v100([[1.0]]))
    crowded, _ = choose(at_v100([[0.5], [0.5]]))
    blind, _ = choose(at_v100([[1.0]], traits=Traits(aware=False)))

    assert easy.horizon is UNTIL_JOBS_CHANGE
    assert crowded.horizon is EVERY_ROUND
    assert blind.horizon is EVERY_ROUND


def test_jobs_of_any_speed_are_served_by_share_alone():
    state = at_v100([[0.3], [0.7]], jobs=some_jobs(2, profiles=[FAST, SLOW], steps=1e12))

    _, chosen = choose(state)

    assert chosen == [(1, -1, 0)]


def test_it_needs_accounts():
    view = a_view(2).part(np.arange(2), np.array([1, 1]))

    with pytest.raises(ValueError, match="accounts"):
        Fraction(ARTIFACT).choose(view, policies.create("isolated").allocate(view))


def test_a_job_that_was_refused_for_want_of_speed_leaves_no_trace_in_the_ranking():
    speeds = Speeds(rates={FAST: {"v100": 4.0}, SLOW: {"v100": 0.0}})
    state = at_v100(
        [[0.0], [0.0], [0.0]],
        jobs=some_jobs(3, profiles=[FAST, SLOW, FAST], steps=1e12),
        speeds=speeds,
        traits=Traits(fills_by_speed=True),
    )

    _, chosen = choose(state)

    assert chosen == [(0, -1, 0)]
