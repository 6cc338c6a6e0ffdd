"""Of jobs with equal shares, who needs the fewest rounds goes first."""

from __future__ import annotations

import numpy as np
import pytest

from builders import FAST, SLOW, Speeds, a_cluster, a_view, shares, some_jobs
from rota.assembly import make_policy
from rota.core.allocation import Traits
from rota.core.rules import preset
from rota.policies.registry import policies
from rota.policies.ties import TILT, FewestRoundsFirst

ROUND_S = 100.0
BLIND = ("finish-time-fairness", "max-min-fairness", "max-min-fairness-water-filling", "min-total-duration")


class Promised:
    """A policy that answers with the same rows, whatever it sees."""

    def __init__(self, rows, *, scatters=True):
        self.rows, self.traits = rows, Traits(aware=False, scatters_ties=scatters)

    def allocate(self, view):
        return shares(view, self.rows, traits=self.traits)


def line(view, rows):
    """Jobs by share, the largest first, one list per type."""
    share = FewestRoundsFirst(Promised(rows), ROUND_S).allocate(view).share
    assert (np.diff(np.sort(share, axis=0), axis=0) > 0).all(), "equals are still equal"
    return [np.argsort(-column).tolist() for column in share.T]


def test_the_fewest_rounds_go_first_and_of_those_the_longest_job():
    view = a_view(some_jobs(4, steps=np.array([1300.0, 350.0, 420.0, 390.0])), cluster=a_cluster(v100=2))

    # 4 steps/s in rounds of 100 s: 4, 1, 2 and 1 rounds
    assert line(view, [[0.5]] * 4) == [[3, 1, 2, 0]]


def test_rounds_are_counted_on_the_type_in_question():
    rates = {FAST: {"k80": 1.0, "v100": 4.0}, SLOW: {"k80": 2.0, "v100": 2.0}}
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=np.array([400.0, 400.0]))
    view = a_view(jobs, cluster=a_cluster(v100=1, k80=1), speeds=Speeds(rates))

    assert view.types == ("k80", "v100")
    assert line(view, [[0.5, 0.5]] * 2) == [[1, 0], [0, 1]]


def test_a_whole_number_of_rounds_is_not_one_more_by_rounding():
    rates = {FAST: {"v100": 0.1}, SLOW: {"v100": 0.3}}
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=np.array([20.0, 90.0 + 1e-12]))
    view = a_view(jobs, cluster=a_cluster(v100=1), speeds=Speeds(rates))

    assert line(view, [[0.5]] * 2) == [[0, 1]]  # 2 and 3 rounds
    assert FewestRoundsFirst(Promised([[0.5]] * 2), 300.0).allocate(view).share.argmax() == 1  # one round each


def test_jobs_that_differ_keep_their_order_and_lose_next_to_nothing():
    view = a_view(some_jobs(3, steps=np.array([1e7, 1e3, 1e5])), cluster=a_cluster(v100=2))
    rows = np.array([[0.5001], [0.5], [0.4]])

    share = FewestRoundsFirst(Promised(rows), ROUND_S).allocate(view).share

    assert np.argsort(-share[:, 0]).tolist() == [0, 1, 2]
    assert (share <= rows).all()
    assert (share >= rows * (1 - TILT)).all()


def test_the_answer_is_left_alone_where_equals_are_not_scattered():
    view = a_view(3)
    answer = shares(view, [[0.5, 0.5]] * 3)

    class Fixed:
        def allocate(self, _view):
            return answer

    assert FewestRoundsFirst(Fixed(), ROUND_S).allocate(view) is answer
    assert len(FewestRoundsFirst(Promised([]), ROUND_S).allocate(a_view(0)).share) == 0


@pytest.mark.parametrize("name", BLIND)
def test_policies_without_types_are_tilted_under_the_rules_of_the_artifact_only(name):
    view = a_view(some_jobs(5, steps=np.array([5e3, 1e3, 3e3, 2e3, 4e3])), cluster=a_cluster(v100=2, k80=1))
    plain = policies.create(name).allocate(view)

    tilted = make_policy(name, None, 0, preset("gavel-artifact")).allocate(view)
    default = make_policy(name, None, 0, preset("default")).allocate(view)

    assert default == plain
    assert tilted != plain
    assert tilted.share == pytest.approx(plain.share, rel=2 * TILT)
    assert tilted.report.objective == plain.report.objective


def test_rankings_stay_what_they_are():
    view = a_view(4)

    assert make_policy("srtf", None, 0, preset("gavel-artifact")).allocate(view) == policies.create("srtf").allocate(
        view
    )
