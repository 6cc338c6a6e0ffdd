"""Counting options: against trying everything."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.opt.placement import Menu, most_speed, most_speed_on_servers

option = st.tuples(st.integers(1, 6), st.integers(10, 60), st.sampled_from([1.0, 1.1, 1.5, 2.0]))


@st.composite
def menus(draw):
    made = []
    for _ in range(draw(st.integers(1, 3))):
        options = [(1, 10, 1.0), *draw(st.lists(option, max_size=3))]
        cpus, memory, speed = (np.array(column, dtype=float) for column in zip(*options, strict=True))
        count = draw(st.integers(1, 2))
        made.append(Menu(count=count, gpus=1, cpus=cpus, memory_gb=memory, speed=speed))
    return made


def everything(some, fits):
    """The most speed over all choices of an option for every job that fit."""
    jobs = [m for m in some for _ in range(m.count)]
    return max(
        sum(m.speed[o] for m, o in zip(jobs, chosen, strict=True))
        for chosen in itertools.product(*(range(len(m.speed)) for m in jobs))
        if fits(sorted((m.cpus[o], m.memory_gb[o]) for m, o in zip(jobs, chosen, strict=True)))
    )


@given(some=menus(), cpus=st.integers(6, 20), memory=st.integers(60, 200))
def test_the_choice_of_options_is_the_best_and_within_its_bound(some, cpus, memory):
    found = most_speed(some, cpus, memory, time_limit_s=60.0, gap=0.0)

    best = everything(some, lambda held: all(sum(h[r] for h in held) <= (cpus, memory)[r] for r in (0, 1)))
    assert found.total == pytest.approx(best)
    assert found.bound >= found.total - 1e-6
    assert [int(c.sum()) for c in found.chosen] == [m.count for m in some]


@given(some=menus())
def test_server_by_server_it_is_the_best_as_well(some):
    rooms = [(3, 8.0, 90.0), (3, 6.0, 60.0)]

    found = most_speed_on_servers(some, rooms, split_cost=0.0, time_limit_s=60.0)

    def fits(held):
        return any(
            all(
                sum(h[r] for h, s in zip(held, where, strict=True) if s == server) <= rooms[server][r + 1]
                for server in (0, 1) for r in (0, 1)
            ) and max(where.count(0), where.count(1)) <= 3
            for where in itertools.product((0, 1), repeat=len(held))
        )  # fmt: skip

    total = sum(n * some[m].speed[o] for n, (m, o, _) in zip(found.whole.tolist(), found.place.tolist(), strict=True))
    assert total == pytest.approx(everything(some, fits))


def test_without_time_or_room_there_is_no_answer():
    one = [Menu(count=2, gpus=1, cpus=np.array([2.0]), memory_gb=np.array([10.0]), speed=np.array([1.0]))]

    assert most_speed(one, 4.0, 20.0, time_limit_s=0.0, gap=0.0) is None
    assert most_speed(one, 3.0, 20.0, time_limit_s=1.0, gap=0.0) is None
    assert most_speed_on_servers(one, [(1, 4.0, 20.0)], split_cost=0.0, time_limit_s=1.0) is None


def test_a_job_that_fits_on_no_server_is_cut_at_gpus():
    one = [Menu(count=1, gpus=3, cpus=np.array([3.0]), memory_gb=np.array([30.0]), speed=np.array([1.5]))]

    found = most_speed_on_servers(one, [(2, 2.0, 20.0), (2, 2.0, 20.0)], split_cost=0.1, time_limit_s=10.0)

    assert found.whole.sum() == 0
    assert sorted(found.parts.tolist()) == [1, 2]
