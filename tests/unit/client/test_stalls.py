"""Where the time of a loop goes: computing, preparation, storage; and what that costs."""

import sys
from pathlib import Path

import pytest

import rota.client
from rota.client import stalls
from rota.client.stalls import StallMeter, StallTimes, mean_times
from rota.data import Batches, CachedDataset, Sampler
from rota.deploy.worker.ranks import AttemptId, Rank, after_message


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Reader:
    """Says what it has read and decoded."""

    fetch_s = 0.0
    decode_s = 0.0

    def times(self):
        return self.fetch_s, self.decode_s


@pytest.fixture
def clock():
    return Clock()


def loop(clock, reader=None, steps=10, body=None):
    """Steps of 0.5 s computing and 0.3 s of waiting, of which 0.1 s are reading."""
    meter = StallMeter(clock)

    def items():
        for step in range(steps):
            clock.now += 0.3
            if reader is not None:
                reader.fetch_s += 0.1
                reader.decode_s += 0.2
            yield step

    for _ in meter.opened(items):
        clock.now += 0.5
        if body is not None:
            body(meter)
    return meter.times()


def test_a_loop_is_divided_into_computing_preparation_and_storage(clock):
    reader = Reader()
    stalls.add_source(reader, Reader.times)

    spent = loop(clock, reader)

    assert spent == pytest.approx(StallTimes(5.0, 2.0, 1.0))


def test_without_a_reader_that_says_more_all_waiting_is_for_preparation(clock):
    assert loop(clock) == pytest.approx(StallTimes(5.0, 3.0, 0.0))


def test_checkpoints_count_as_neither(clock):
    def save(meter):
        clock.now += 7.0
        meter.leave_out(7.0)

    assert loop(clock, body=save) == pytest.approx(StallTimes(5.0, 3.0, 0.0))


def test_readers_that_are_gone_are_not_asked(clock):
    reader = Reader()
    stalls.add_source(reader, Reader.times)
    del reader

    assert loop(clock).storage_s == 0.0


def test_what_was_read_before_the_loop_does_not_count(clock):
    reader = Reader()
    reader.fetch_s = 1000.0
    stalls.add_source(reader, Reader.times)

    assert loop(clock, reader).storage_s == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        ({"ROTA_JOB": "1"}, True),
        ({"ROTA_JOB": "1", "ROTA_STALLS": "off"}, False),
        ({"ROTA_STALLS": "on"}, True),
    ],
)
def test_loops_are_timed_in_rota_and_elsewhere_if_asked_for(environ, on):
    assert stalls.is_on(environ) is on


def test_when_it_is_off_the_items_of_the_loader_are_asked_for_directly(monkeypatch):
    monkeypatch.delenv("ROTA_STALLS", raising=False)
    callers = []

    class Loader:
        def __iter__(self):
            return self

        def __next__(self):
            callers.append(Path(sys._getframe(1).f_code.co_filename).name)
            if len(callers) > 3:
                raise StopIteration
            return len(callers)

    it = rota.client.Iterator(Loader())
    assert list(it) == [1, 2, 3]
    assert it.stall_times is None
    assert set(callers) == {"iterator.py"}


def test_slow_storage_shows_as_waiting_for_storage(monkeypatch):
    monkeypatch.setenv("ROTA_STALLS", "on")
    data = CachedDataset([bytes(2000)] * 40, sizes=2000, bytes_per_s=400_000)
    it = rota.client.Iterator(Batches(data, Sampler(data), 4), steps=10)

    assert sum(1 for _ in it) == 10

    assert it.stall_times.storage_s == pytest.approx(0.2, abs=0.1)
    assert it.stall_times.compute_s + it.stall_times.prepare_s < 0.1


def test_an_agent_takes_over_what_a_rank_says_and_nothing_that_makes_no_sense():
    rank = Rank(AttemptId("1", 1), 0)
    said = {"op": "progress", "step": 3, "compute_s": 4.5, "prepare_s": 1.0, "storage_s": 0.25}

    rank = after_message(rank, said)
    assert rank.spent == StallTimes(4.5, 1.0, 0.25)

    for bad in (float("nan"), float("inf"), -1.0, "much", True, None, 1e300):
        rank = after_message(rank, {**said, "step": 4, "compute_s": bad})
    assert rank.spent == StallTimes(4.5, 1.0, 0.25)
    assert after_message(rank, {"op": "progress", "step": 5}).spent == rank.spent


def test_ranks_that_say_nothing_are_left_out_of_the_mean():
    assert mean_times([StallTimes(2.0, 1.0, 0.0), StallTimes(), StallTimes(4.0, 0.0, 2.0)]) == StallTimes(3.0, 0.5, 1.0)
    assert mean_times([]) == StallTimes()
