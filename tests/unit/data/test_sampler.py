"""Orders of items: complete, repeatable, and the same after a resume."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import ConfigError
from rota.data import Batches, Sampler
from rota.data.order import shuffled


def test_an_order_never_changes_between_versions():
    assert list(shuffled(8, "order", 1, 0)) == [3, 6, 1, 4, 7, 5, 2, 0]


@given(st.integers(1, 60), st.integers(0, 5), st.integers(1, 7), st.booleans())
def test_ranks_together_see_every_item_once_and_make_equally_many_steps(items, seed, ranks, drop_last):
    parts = [list(Sampler(items, seed=seed, rank=rank, world_size=ranks, drop_last=drop_last)) for rank in range(ranks)]

    seen = [item for part in parts for item in part]
    assert len({len(part) for part in parts}) == 1
    assert len(parts[0]) == len(Sampler(items, world_size=ranks, drop_last=drop_last))
    if drop_last:
        assert len(set(seen)) == len(seen) == items // ranks * ranks
    else:
        assert set(seen) == set(range(items))
        assert len(seen) < items + ranks


@given(st.integers(1, 40), st.integers(1, 4), st.data())
def test_what_is_left_after_a_resume_is_exactly_what_was_left(items, ranks, data):
    whole = [list(_at(Sampler(items, seed=3, rank=rank, world_size=ranks), epoch=2)) for rank in range(ranks)]
    used = data.draw(st.integers(0, len(whole[0])))

    for rank in range(ranks):
        resumed = _at(Sampler(items, seed=3, rank=rank, world_size=ranks), epoch=2, position=used)
        assert len(resumed) == len(whole[rank]) - used
        assert list(resumed) == whole[rank][used:]


def test_epochs_differ_and_seeds_differ():
    orders = {tuple(_at(Sampler(50, seed=seed), epoch=epoch)) for seed in range(3) for epoch in range(3)}

    assert len(orders) == 9


def test_a_gang_of_another_size_goes_on_where_the_first_one_stopped():
    first = [iter(_at(Sampler(60, seed=1, rank=rank, world_size=3), epoch=4)) for rank in range(3)]
    used = {next(part) for part in first for _ in range(10)}
    left_sampler = _at(Sampler(60, seed=1, rank=0, world_size=3), epoch=4)
    state = left_sampler.state(10)

    left = []
    for rank in range(2):
        sampler = Sampler(60, seed=1, rank=rank, world_size=2)
        sampler.load_state(state)
        left += list(sampler)

    assert used | set(left) == set(range(60))
    assert len(left) == 30


def test_a_state_noted_in_the_middle_of_a_resumed_pass_counts_from_the_beginning_of_the_epoch():
    sampler = _at(Sampler(20, seed=1), epoch=1, position=5)
    drawn = iter(sampler)
    for _ in range(4):
        next(drawn)

    other = Sampler(20, seed=1)
    other.load_state(sampler.state(4))

    assert list(other) == list(drawn)


def test_a_place_in_other_data_is_refused():
    state = Sampler(20, seed=1).state()

    with pytest.raises(ConfigError, match=r"items=20, this sampler 21"):
        Sampler(21, seed=1).load_state(state)
    with pytest.raises(ConfigError, match="position 21"):
        Sampler(20).set_position(21)


def test_batches_resume_in_the_middle_of_an_epoch():
    data = [item * 10 for item in range(23)]
    batches = Batches(data, Sampler(23, seed=5), 4)
    whole = list(batches)

    batches.set_position(3)

    assert [len(batch) for batch in whole] == [4, 4, 4, 4, 4, 3]
    assert len(batches) == 3
    assert list(batches) == whole[3:]


def _at(sampler, epoch, position=0):
    sampler.set_epoch(epoch)
    sampler.set_position(position)
    return sampler
