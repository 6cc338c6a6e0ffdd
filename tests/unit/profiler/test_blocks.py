"""Blocks of steps: when a speed is believed, and when others disturbed it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rota.profiler.blocks import Block, Tick, Usage, after_start, best_pace, blocks_of, estimate, hopeless


def a_block(rate=50.0, denied=0.0, stolen=0.0):
    return Block(seconds=1.0, steps=rate, stolen=stolen, denied=denied, own_s=0.5)


def ticks(seconds=10, rate=50.0, per_s=2, **usage):
    """A run with this use of CPUs per second."""
    found = []
    for number in range(seconds * per_s + 1):
        at = number / per_s
        waits = {1: usage.get("waiting", 0.0) * at}
        used = {name: usage.get(name, 0.0) * at for name in ("own_s", "busy_s", "stolen_s", "throttled_s")}
        found.append(Tick(at, rate * at, Usage(at=at, **used, waiting_s=waits)))
    return found


def test_a_block_has_at_least_a_second_and_ten_steps():
    assert [block.seconds for block in blocks_of(ticks(4), 1.0, 1)] == [1.0] * 4
    assert [block.seconds for block in blocks_of(ticks(20, rate=2.0), 1.0, 1)] == [5.0] * 4


def test_no_block_goes_from_one_epoch_to_the_next():
    first = ticks(4)
    second = [replace(tick, at=tick.at + 9.0, step=tick.step + 200, epoch=1) for tick in first]

    assert [block.rate for block in blocks_of([*first, *second], 1.0, 1)] == [50.0] * 8


def test_eight_even_blocks_settle_a_speed():
    found = estimate([a_block(rate) for rate in (50, 50.2, 49.9, 50.1, 49.8, 50, 50.1, 49.9)])

    assert found.settled
    assert found.rate == pytest.approx(50.0)
    assert found.cpu_s == pytest.approx(0.01)
    assert not estimate([a_block()] * 7).settled
    assert estimate([a_block()]).half_width == math.inf


def test_uneven_blocks_do_not_settle():
    rng = np.random.default_rng(1)

    assert not estimate([a_block(50 + 10 * rng.standard_normal()) for _ in range(8)]).settled


def test_blocks_that_are_like_their_neighbours_are_joined():
    waves = [a_block(50 + 5 * math.sin(number / 4)) for number in range(16)]

    assert estimate(waves).blocks < 8


def test_a_slow_beginning_is_left_out():
    found = estimate([a_block(10), a_block(30), *[a_block(50 + (n % 2) / 10) for n in range(12)]])

    assert found.rate == pytest.approx(50.05, rel=0.001)


def test_disturbed_blocks_are_thrown_away():
    found = estimate([*[a_block(50)] * 8, *[a_block(30, denied=0.2)] * 4, a_block(20, stolen=0.1)])

    assert found.rate == 50.0
    assert found.thrown_away == 5
    assert estimate([a_block(denied=0.2)] * 9) is None
    assert hopeless([a_block(denied=0.2)] * 12)
    assert not hopeless([a_block(denied=0.2)] * 11)


def test_a_job_that_waits_for_its_device_is_not_disturbed_by_a_busy_neighbour():
    found = blocks_of(ticks(own_s=0.1, busy_s=1.0, waiting=0.01), 1.0, 1)

    assert all(block.clean for block in found)


def test_a_job_that_uses_all_it_is_allowed_is_not_disturbed():
    found = blocks_of(ticks(own_s=0.49, busy_s=1.0, waiting=0.9, throttled_s=0.3), 0.5, 1)

    assert all(block.clean for block in found)


def test_threads_that_wait_while_others_use_their_cpu_are_disturbed():
    found = blocks_of(ticks(own_s=0.5, busy_s=1.0, waiting=0.4), 1.0, 1)

    assert not any(block.clean for block in found)
    assert found[0].denied == pytest.approx(0.4)


def test_waiting_for_its_own_threads_is_nobodys_fault():
    found = blocks_of(ticks(own_s=0.9, busy_s=0.91, waiting=1.5), 1.0, 1)

    assert all(block.clean for block in found)


def test_what_the_hypervisor_takes_counts():
    assert not any(block.clean for block in blocks_of(ticks(own_s=0.5, busy_s=0.5, stolen_s=0.05), 1.0, 1))


def test_what_the_data_loader_had_ready_is_left_out():
    assert after_start(ticks(4), workers=24)[0].step >= 49


def at_paces(*paces):
    """A second at each of these paces of the CPU."""
    found = [Tick(0.0, 0.0)]
    probes = 0
    probe_s = 0.0
    for second, pace in enumerate(paces, 1):
        probes += 5
        probe_s += 5 / pace
        usage = Usage(at=float(second), own_s=float(second), probes=probes, probe_s=probe_s)
        found.append(Tick(float(second), 50.0 * second, usage))
    return found


def test_blocks_in_which_the_cpus_were_slow_are_thrown_away():
    found = blocks_of(at_paces(4000, 4000, 4000, 2400, 2400, 2400, 4000, 4000), 1.0, 1)

    assert [block.clean for block in found] == [True, True, True, False, False, False, True, True]
    assert found[4].slowed == pytest.approx(0.4)
    assert best_pace(found) == pytest.approx(4000)


def test_probes_that_differ_by_chance_throw_no_block_away():
    rng = np.random.default_rng(3)

    found = blocks_of(at_paces(*rng.normal(3200, 160, 40)), 1.0, 1)

    assert sum(block.clean for block in found) >= 38


def test_use_is_counted_over_the_time_between_its_readings():
    """On a busy machine a reading comes long after the step."""
    read_at = [at + 0.9 * (at % 2) for at in range(12)]
    late = [Tick(at, 50.0 * at, Usage(at=read, own_s=read, busy_s=read)) for at, read in enumerate(read_at)]

    found = blocks_of(late, 1.0, 1)

    assert all(block.own_s == pytest.approx(1.0) for block in found)
    assert all(block.denied == 0 for block in found)


def test_a_single_cpu_is_compared_with_its_best_in_other_runs_and_several_are_not():
    slow = at_paces(2400, 2400, 2410)

    assert all(block.clean for block in blocks_of(slow, 1.0, 1))
    assert not any(block.clean for block in blocks_of(slow, 1.0, 1, fastest=4000))
    assert all(block.clean for block in blocks_of(slow, 2.0, 2, fastest=4000))


def test_a_pace_that_nobody_knows_is_not_held_against_a_block():
    assert all(block.clean for block in blocks_of(ticks(4), 1.0, 1, fastest=4000))
