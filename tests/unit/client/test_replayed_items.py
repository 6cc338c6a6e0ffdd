"""The first batches again and again: how fast a loop is without its data."""

import itertools

from rota.client.environment import read
from rota.client.iterator import _again_and_again


def test_the_first_items_come_again_and_nothing_else_is_drawn():
    drawn = []

    def loader():
        for number in range(100):
            drawn.append(number)
            yield number

    items = list(itertools.islice(_again_and_again(loader(), 3), 8))

    assert items == [0, 1, 2, 0, 1, 2, 0, 1]
    assert drawn == [0, 1, 2]


def test_a_loader_with_fewer_items_is_repeated_whole():
    assert list(itertools.islice(_again_and_again(iter("ab"), 5), 5)) == list("ababa")


def test_an_empty_loader_stays_empty():
    assert list(_again_and_again(iter(()), 5)) == []


def test_it_is_off_unless_a_profiler_asks():
    assert read({"ROTA_JOB": "1"}).replay is None
    assert read({"ROTA_JOB": "1", "ROTA_REPLAY_ITEMS": "4"}).replay == 4
