"""In which order types are served."""

import random

from builders import a_cluster, a_view
from rota.mechanisms.select.types import TypeOrder

VIEW = a_view(2, cluster=a_cluster(k80=1, p100=1, v100=1))
K80, P100, V100 = 0, 1, 2


def names(order):
    return [VIEW.types[t] for t in order]


def test_named_types_come_first_then_from_fast_to_slow():
    assert names(TypeOrder((), 0).preferred(VIEW)) == ["v100", "p100", "k80"]
    assert names(TypeOrder(("k80",), 0).preferred(VIEW)) == ["k80", "v100", "p100"]
    assert names(TypeOrder(("a100", "p100"), 0).preferred(VIEW)) == ["p100", "v100", "k80"]


def test_without_any_job_types_are_in_alphabetical_order():
    view = a_view(0, cluster=a_cluster(k80=1, p100=1))

    assert TypeOrder((), 0).preferred(view) == [0, 1]


def test_shuffles_are_those_of_the_artifact():
    order = TypeOrder(("v100", "p100", "k80"), seed=0)

    shuffles = [names(order.shuffled(VIEW, turn)) for turn in range(3)]

    assert shuffles == [["v100", "p100", "k80"], ["v100", "p100", "k80"], ["p100", "v100", "k80"]]


def test_a_shuffle_depends_on_seed_and_turn_only():
    one, other = TypeOrder((), 3), TypeOrder((), 3)
    turns = list(range(50))
    random.Random(1).shuffle(turns)

    straight = {turn: list(one.shuffled(VIEW, turn)) for turn in range(50)}

    assert {turn: list(other.shuffled(VIEW, turn)) for turn in turns} == straight
    assert [TypeOrder((), 4).shuffled(VIEW, t) for t in range(9)] != [straight[t] for t in range(9)]


def test_the_same_turn_asked_twice_is_the_same():
    order = TypeOrder((), 0)
    order.shuffled(VIEW, 7)

    assert order.shuffled(VIEW, 7) == TypeOrder((), 0).shuffled(VIEW, 7)
