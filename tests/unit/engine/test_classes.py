"""Rates by class, looked up when they are needed."""

import pickle

import pytest

from builders import FAST, SLOW, Speeds, ids
from rota.core.errors import ProfileMissing, UnknownName
from rota.core.jobs import table as table_of_jobs
from rota.engine import classes, configurations
from rota.engine.classes import ClassTable
from rota.profiles import Catalogue

TYPES = ("k80", "v100")


def a_table(**options):
    return ClassTable(Speeds(**options), TYPES)


def test_a_class_keeps_its_number():
    table = a_table()

    numbers = [table.number(*key) for key in ((FAST, 1, 1.0), (SLOW, 1, 1.0), (FAST, 1, 2.0), (FAST, 1, 1.0))]

    assert numbers == [0, 1, 2, 0]
    assert table.value.profile == (FAST, SLOW, FAST)
    assert table.value.weight.tolist() == [1.0, 1.0, 2.0]


def test_thousands_of_kinds_that_arrive_at_once_copy_what_is_there_once(monkeypatch):
    """One after the other, 10,000 kinds of one submission kept the thread that decides busy for eight seconds."""
    made = []
    for module, name in ((classes, "Classes"), (configurations, "Configurations")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda real=real, name=name, **columns: made.append(name) or real(**columns))
    weights = [1.0 + number / 1000 for number in range(200)] * 2
    count = len(weights)
    jobs = table_of_jobs(
        profile_names=[FAST, SLOW] * (count // 2), gpus=[1] * count, total_steps=[1.0] * count, submitted=[0.0] * count,
        weight=weights,
    )  # fmt: skip
    together, apart = a_table(), a_table()
    together.number(FAST, 4, 1.0)
    apart.number(FAST, 4, 1.0)
    made.clear()

    numbers = together.numbers(jobs)
    assert sorted(made) == ["Classes", "Configurations"]

    one_by_one = [apart.number((FAST, SLOW)[at % 2], 1, weight) for at, weight in enumerate(weights)]
    assert numbers.tolist() == one_by_one == [*range(1, 201)] * 2
    assert together.keys() == apart.keys()
    for column in ("profile", "allowed", "needs", "beliefs", "spreading_costs"):
        assert getattr(together.value, column) == getattr(apart.value, column)
    for column in ("gpus", "weight", "throughput", "spread", "step_s", "best_step_s", "runs_on"):
        assert getattr(together.value, column).tolist() == getattr(apart.value, column).tolist()
    for column in ("cpus", "memory_gb", "speed", "fair", "full", "cut", "best"):
        known = (getattr(one.value.configurations, column).tolist() for one in (together, apart))
        assert next(known) == next(known)


def test_only_gangs_are_slower_when_they_are_spread():
    table = a_table(spread=0.5)
    table.number(FAST, 1, 1.0)
    table.number(FAST, 4, 1.0)

    assert table.value.throughput.tolist() == [[1.0, 4.0]] * 2
    assert table.value.spread.tolist() == [[1.0, 4.0], [0.5, 2.0]]


def test_pairs_grow_with_the_classes():
    table = a_table()
    table.number(FAST, 1, 1.0)
    before = table.value.pair.copy()
    table.number(SLOW, 1, 1.0)

    assert before.shape == (1, 1, 2)
    assert table.value.pair.shape == (2, 2, 2)
    assert table.value.pair[0, 0].tolist() == before[0, 0].tolist()
    assert table.value.pair[1, 0] == pytest.approx([0.15, 0.3])


def test_jobs_with_unequal_gpus_do_not_share():
    table = a_table()
    table.number(FAST, 1, 1.0)
    table.number(FAST, 2, 1.0)

    assert table.value.pair[0, 1].tolist() == [0.0, 0.0]
    assert (table.value.pair[1, 1] > 0).all()


def test_a_pair_of_which_one_would_stand_still_does_not_share():
    table = a_table(pairs={(FAST, SLOW, "v100"): 1.0, (SLOW, FAST, "v100"): 0.0})
    table.number(FAST, 1, 1.0)
    table.number(SLOW, 1, 1.0)

    assert not table.value.pair.any()


def test_a_class_is_able_where_it_has_both_speed_and_room():
    table = a_table(rates={FAST: {"k80": 0.0, "v100": 1.0}, SLOW: {"k80": 1.0, "v100": 1.0}})
    for key in ((FAST, 1, 1.0), (FAST, 4, 1.0), (SLOW, 4, 1.0), (SLOW, 16, 1.0)):
        table.number(*key)

    assert table.able(ids(8, 2)).tolist() == [True, False, True, False]


def test_a_saved_table_goes_on_with_new_rates():
    table = a_table()
    table.number(FAST, 1, 1.0)

    back = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own bytes
    back.attach(Speeds())

    assert back.number(SLOW, 1, 1.0) == 1
    assert back.number(FAST, 1, 1.0) == 0


def with_a_hole():
    """A job that was measured with two GPUs on a v100 only, and one that was measured everywhere."""
    alone = {("m", 1, t, False): 2.0 for t in TYPES} | {("m", 2, "v100", False): 3.0}
    return Catalogue("c", alone, lambda: {("m", 2, "v100", False, "m"): 2.0})


def test_a_missing_rate_rules_out_its_type_alone():
    table = ClassTable(with_a_hole(), TYPES)
    table.number("m", 2, 1.0)
    table.number("m", 1, 1.0)

    assert table.value.throughput.tolist() == [[0.0, 3.0], [2.0, 2.0]]
    assert table.value.spread.tolist() == [[0.0, 3.0], [2.0, 2.0]]
    assert table.value.runs_on.tolist() == [[False, True], [True, True]]
    assert table.value.best_step_s.tolist() == [pytest.approx(1 / 3), 0.5]
    assert table.value.pair[0, 0].tolist() == [0.0, 2.0]


def test_a_profile_that_nobody_knows_is_still_refused():
    with pytest.raises(ProfileMissing, match="no profile 'x'"):
        ClassTable(with_a_hole(), TYPES).number("x", 1, 1.0)


def test_a_type_that_the_catalogue_does_not_have_is_still_refused():
    with pytest.raises(UnknownName, match="'v200'"):
        ClassTable(with_a_hole(), ("k80", "v200")).number("m", 1, 1.0)
