"""Mechanisms by name, and which selecting half belongs to them."""

import pytest

from builders import a_cluster, a_run, some_jobs
from rota.core.errors import ConfigError, UnknownName
from rota.core.rules import Rules
from rota.mechanisms.registry import build, mechanisms


def test_every_mechanism_has_a_line_of_explanation():
    assert {"ideal", "proportional", "strided"} <= set(mechanisms.names())
    assert all(mechanisms.entry(name).summary for name in mechanisms.names())


def test_an_unknown_mechanism_offers_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'strided'"):
        build("stridet", Rules(), 0)


def test_an_unknown_selecting_rule_is_refused():
    with pytest.raises(UnknownName, match="select: 'fractions'; did you mean 'fraction'"):
        Rules(select="fractions")


def test_a_parameter_that_a_mechanism_does_not_have_is_refused():
    with pytest.raises(ConfigError, match="unknown parameter of mechanism"):
        build("proportional", Rules(), 0, {"stride": "2"})


def test_rankings_are_walked_in_order_whatever_the_rules_select():
    jobs = some_jobs(3, steps=4000.0, arrivals=[0.0, 0.0, 0.0])

    fraction, deficit = (
        a_run(jobs, policy="fifo", cluster=a_cluster(v100=1), rules=Rules(select=s)) for s in ("fraction", "deficit")
    )

    assert fraction.finished == deficit.finished
    assert list(fraction.finished) == [0, 1, 2]
