"""Presets by name, and when two allocations are the same."""

import dataclasses

import numpy as np
import pytest

from builders import a_view, ids, shares
from rota.core.allocation import NO_OPTIONS, Allocation, Options, Traits, alone
from rota.core.errors import UnknownName
from rota.core.rules import PRESETS, preset


def test_a_preset_knows_its_name():
    assert {name: rules.name for name, rules in PRESETS.items()} == {name: name for name in PRESETS}


def test_an_unknown_preset_offers_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'gavel-artifact'"):
        preset("gavel")


def test_the_default_has_none_of_the_accidents_of_the_artifact():
    rules = preset("default")

    sane = {"at_once", "blocked_shares", "spread_costs", "catalogue_prices", "spare_is_shared", "enforce_requests"}
    accidents = [f.name for f in dataclasses.fields(rules) if f.type == "bool" and f.name not in sane]
    assert len(accidents) >= 8
    assert not any(getattr(rules, name) for name in accidents)
    assert rules.spread_costs


def test_allocations_are_equal_by_their_numbers():
    view = a_view(2)
    rows = [[0.5, 0.5], [1.0, 0.0]]

    assert shares(view, rows) == shares(view, rows)
    assert shares(view, rows) != shares(view, rows[::-1])
    assert shares(view, rows) != shares(view, rows, traits=Traits(aware=False))
    assert shares(view, rows) != 1


def test_a_ranking_differs_from_shares():
    view = a_view(2)
    zero = np.zeros((2, 2))
    ranking = Allocation(jobs=view.jobs, types=view.types, share=zero, order=ids(1, 0))

    assert ranking != Allocation(jobs=view.jobs, types=view.types, share=zero)
    assert ranking == Allocation(jobs=view.jobs, types=view.types, share=zero, order=ids(1, 0))


def test_options_can_be_cut_and_compared():
    pairs = Options(first=ids(0, 1), second=ids(2, 3), gpus=ids(1, 2))

    part = pairs.rows(np.array([False, True]))

    assert part == Options(first=ids(1), second=ids(3), gpus=ids(2))
    assert part != pairs
    assert len(NO_OPTIONS) == 0


def test_the_plain_option_of_a_job_has_no_partner():
    assert alone(ids(4, 5), ids(1, 2)) == Options(first=ids(4, 5), second=ids(-1, -1), gpus=ids(1, 2))
