"""What `rota pilots start` is asked for, before Slurm hears of it."""

import pytest

from rota.cli.pilots import _least_and_most, _replace_s
from rota.core.errors import ConfigError


@pytest.mark.parametrize(
    ("nodes", "least", "most", "numbers"),
    [(None, None, None, (1, 1)), (4, None, None, (4, 4)), (4, 2, 8, (2, 8)), (None, 0, None, (0, 1))],
)
def test_numbers_of_pilots_follow_from_each_other(nodes, least, most, numbers):
    assert _least_and_most({"least": least, "most": most}, nodes) == numbers


@pytest.mark.parametrize(("nodes", "least", "most"), [(16, 2, 8), (1, 2, 8), (16, None, 8), (None, 9, 8)])
def test_numbers_that_contradict_each_other_are_refused(nodes, least, most):
    with pytest.raises(ConfigError, match="--max 8"):
        _least_and_most({"least": least, "most": most}, nodes)


@pytest.mark.parametrize(
    ("time_s", "notice_s", "seconds"),
    [(14_400.0, 120.0, 780.0), (0.0, 120.0, 180.0), (240.0, 120.0, 180.0), (300.0, 120.0, 225.0)],
)
def test_a_successor_is_asked_for_before_the_notice_and_not_for_all_of_a_short_time(time_s, notice_s, seconds):
    assert _replace_s(time_s, notice_s, None) == seconds


def test_a_pilot_is_not_replaced_as_soon_as_it_is_there():
    assert _replace_s(600.0, 120.0, 599.0) == 599.0
    with pytest.raises(ConfigError, match="not below --time"):
        _replace_s(600.0, 120.0, 600.0)
