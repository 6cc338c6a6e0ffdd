"""Which CPUs a task gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.deploy.worker.cpus import CpuAllocator, shares

TWO_NODES = {0: (0, 1, 2, 3), 1: (4, 5, 6, 7)}


def test_whole_cpus_come_from_one_node():
    book = CpuAllocator(TWO_NODES)

    first, second = book.take("a", 3), book.take("b", 3)

    assert (first.cpus, first.nodes) == ((0, 1, 2), (0,))
    assert (second.cpus, second.nodes) == ((4, 5, 6), (1,))


def test_the_smallest_node_that_is_enough_is_taken():
    book = CpuAllocator(TWO_NODES)
    book.take("a", 2)

    assert book.take("b", 2).cpus == (2, 3)
    assert book.take("c", 4).nodes == (1,)


def test_the_node_of_the_gpu_comes_first():
    assert CpuAllocator(TWO_NODES).take("a", 2, near=[1]).cpus == (4, 5)


def test_a_task_larger_than_a_node_takes_the_fewest_nodes():
    book = CpuAllocator({0: (0, 1), 1: (2, 3, 4, 5), 2: (6, 7)})

    assert book.take("a", 6).nodes == (0, 1)


def test_fractions_share_a_cpu_and_carry_a_quota():
    book = CpuAllocator(TWO_NODES)

    halves = [book.take(name, 0.5) for name in "ab"]
    more = book.take("c", 1.5)

    assert [half.cpus for half in halves] == [(0,), (0,)]
    assert halves[0].quota == 0.5
    assert (more.quota, len(more.cpus), 0 in more.cpus) == (1.5, 2, False)


def test_more_cpus_than_there_are_wrap_and_say_so():
    book = CpuAllocator({0: (0, 1)})

    large, small = book.take("a", 24), book.take("b", 1)

    assert (large.cpus, large.virtual, large.quota) == ((0, 1), True, None)
    assert small.virtual
    assert len(small.cpus) == 1


def test_what_is_released_can_be_taken_again():
    book = CpuAllocator(TWO_NODES)
    book.take("a", 8)

    book.release("a")
    book.release("never seen")

    assert book.free() == 8
    assert not book.take("b", 8).virtual


@pytest.mark.parametrize("wanted", [0.5, 1, 1.5, 3])
def test_a_book_restored_from_what_tasks_hold_is_the_same_book(wanted):
    book, again = CpuAllocator(TWO_NODES), CpuAllocator(TWO_NODES)
    held = book.take("a", wanted)

    again.restore("a", shares(wanted, held.cpus))

    assert again.free() == pytest.approx(book.free())
    assert again.take("b", 2) == book.take("b", 2)


@given(st.lists(st.sampled_from([0.25, 0.5, 1, 1.5, 2, 3, 5]), max_size=12))
def test_no_cpu_is_promised_twice_unless_the_answer_says_virtual(wanted):
    book = CpuAllocator(TWO_NODES)
    used = dict.fromkeys(range(8), 0.0)

    for number, cpus in enumerate(wanted):
        pinning = book.take(str(number), cpus)
        if pinning.virtual:
            return
        for cpu, part in shares(cpus, pinning.cpus).items():
            used[cpu] += part
        assert max(used.values()) <= 1 + 1e-9
        assert sum(used.values()) == pytest.approx(sum(wanted[: number + 1]))
