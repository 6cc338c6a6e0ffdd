"""Policies that answer with what cannot be: each is named, and no result is made of any."""

import copy
from collections import namedtuple

import numpy as np
import pytest

import rota
from builders import ids
from rota.core.allocation import Allocation, Options, Traits, Wishes
from rota.core.errors import AnswerError
from rota.core.horizon import Horizon
from rota.core.jobs import table
from rota.policies.ranking import ranked

MODEL = "ResNet-18 (batch size 32)"
JOBS = table(
    profile_names=[MODEL] * 4, gpus=[1, 2, 1, 1], total_steps=[4000.0, 8000.0, 6000.0, 5000.0], submitted=[0.0] * 4
)
RUN = {"jobs": JOBS, "cluster": "v100=2/2:cpus=8:memory=64,k80=2/2:cpus=8:memory=64"}


def simulate(allocate, **more):
    policy = type("Mine", (), {"allocate": lambda _self, view: allocate(view)})
    return rota.simulate(**{**RUN, **more}, policy=policy())


def answer(view, share=None, **more):
    """Shares that are right, but for what is said."""
    fair = np.full((len(view), len(view.types)), 0.2)
    return Allocation(**{"jobs": view.jobs, "types": view.types, "share": fair if share is None else share, **more})


def with_share(value, row=1, column=0):
    def allocate(view):
        share = np.full((len(view), len(view.types)), 0.2)
        share[row, column] = value
        return answer(view, share)

    return allocate


def with_order(*order):
    return lambda view: answer(view, np.zeros((len(view), 2)), order=np.array(order))


PACKS = Traits(packs=True)


def with_pairs(share, first=0, second=2, gpus=1, traits=PACKS):
    def allocate(view):
        rows = np.vstack([np.full((len(view), 2), 0.1), share])
        return answer(view, rows, extras=Options(first=ids(first), second=ids(second), gpus=ids(gpus)), traits=traits)

    return allocate


def with_wish(which=0, **menu):
    def allocate(view):
        columns = {"cpus": np.array([1.0]), "memory_gb": np.array([1.0]), "speed": np.array([1.0]), **menu}
        return answer(view, wish=Wishes(**columns, which=np.full((len(view), 2), which)))

    return allocate


def late(view):
    yield answer(view)


def changing(name, value):
    def allocate(view):
        setattr(view, name, value)
        return answer(view)

    return allocate


def writing(name):
    def allocate(view):
        column = getattr(view, name)
        column.flags.writeable = True
        column[0] = 7
        return answer(view)

    return allocate


def key_for(key):
    return lambda view: ranked(view, view.gpus.astype(float), linear_key=key)


Lookalike = namedtuple("Lookalike", "jobs types share extras order")  # noqa: PYI024 - as a careless user would

WRONG = {
    "nothing": (lambda _: None, "NoneType.*without a return"),
    "a generator": (late, "generator"),
    "a dict": (lambda view: {"share": view.gpus}, "dict; an Allocation was asked for"),
    "something that looks like one": (lambda view: Lookalike(view.jobs, view.types, 0, (), None), "Lookalike"),
    "not a number": (with_share(np.nan), "job 1 a share of nan on k80"),
    "infinite": (with_share(np.inf, 3, 1), "job 3 a share of inf on v100"),
    "minus infinity": (with_share(-np.inf), "job 1 a share of -inf"),
    "negative": (with_share(-0.01), "job 1 a share of -0.01 on k80"),
    "beyond all the time on a type": (with_share(1.01), "job 1 a share of 1.01"),
    "beyond all the time together": (lambda v: answer(v, np.full((4, 2), 0.6)), "job 0 1.2 of the time"),
    "over capacity": (
        lambda v: answer(v, np.tile([0.0, 0.8], (4, 1))),
        "hands out 4 GPUs of v100; there are 2 .*job 1, which asks for 2: a share of 0.8",
    ),
    "a row too few": (lambda v: answer(v, np.zeros((3, 2))), r"shape \(3, 2\); \(4, 2\).*4 jobs, 2 types"),
    "turned round": (lambda v: answer(v, np.zeros((2, 4))), r"shape \(2, 4\)"),
    "one axis": (lambda v: answer(v, np.zeros(8)), r"share .* shape \(8,\)"),
    "a list of rows": (lambda v: answer(v, [[0.2, 0.2]] * 4), "share of the policy's answer is a list"),
    "whole numbers": (lambda v: answer(v, np.zeros((4, 2), dtype=int)), "share .* int64; float64"),
    "half precision": (lambda v: answer(v, np.zeros((4, 2), dtype=np.float32)), "float32"),
    "complex numbers": (lambda v: answer(v, np.zeros((4, 2), dtype=complex)), "complex128"),
    "objects": (lambda v: answer(v, np.full((4, 2), None)), "object"),
    "a masked array": (lambda v: answer(v, np.ma.zeros((4, 2))), "MaskedArray"),
    "an unknown type": (lambda v: answer(v, types=("a100", "v100")), "type 'a100'; the cluster has k80, v100"),
    "types in another order": (lambda v: answer(v, types=("v100", "k80")), "in this order"),
    "a list of types": (lambda v: answer(v, types=["k80", "v100"]), "are a list; give view.types"),
    "a job twice": (lambda v: answer(v, jobs=ids(0, 1, 1, 3)), "job 1 2 times"),
    "a job that is not there": (lambda v: answer(v, jobs=ids(0, 1, 2, 9)), "job 9, which is not there"),
    "a job too few": (lambda v: answer(v, jobs=v.jobs[:3], share=np.zeros((3, 2))), "no answer for job 3"),
    "jobs in another order": (lambda v: answer(v, jobs=v.jobs[::-1].copy()), "another order than view.jobs"),
    "jobs as a list": (lambda v: answer(v, jobs=[0, 1, 2, 3]), "jobs of the policy's answer is a list"),
    "jobs as floats": (lambda v: answer(v, jobs=v.jobs.astype(float)), "jobs .* float64; int64"),
    "a sort key that is no number": (
        lambda v: ranked(v, np.where(v.jobs == 2, np.nan, 1.0)),
        r"sort key of job 2 is nan \(1 of 4 jobs\)",
    ),
    "a sort key of some jobs": (lambda v: ranked(v, v.gpus[:2]), r"sort key has the shape \(2,\); .* of 4 jobs"),
    "an order with a job twice": (with_order(0, 1, 1, 2), "job 1 is in it 2 times"),
    "an order with a job missing": (with_order(0, 1, 3), "job 2 is missing"),
    "an order of job numbers that are no positions": (with_order(0, 1, 2, 4), "4 is no position"),
    "an order of floats": (with_order(0.0, 1.0, 2.0, 3.0), "order .* float64; int64"),
    "an order and shares": (lambda v: answer(v, order=np.arange(4)), "both an order and shares"),
    "a generator as order": (lambda v: answer(v, np.zeros((4, 2)), order=(i for i in range(4))), "order .* generator"),
    "a key of another length": (key_for(lambda _: np.zeros(3)), "linear_key of the policy gives 3 numbers for 4"),
    "a key that is no number": (key_for(lambda view: view.gpus * np.nan), "linear_key of the policy is nan for job 0"),
    "a key for another order": (key_for(lambda view: -view.gpus * 1.0), "puts job 3 .* before job 1"),
    "a key that is no function": (key_for(3.0), "linear_key of the policy's answer is a float"),
    "a horizon that is no number": (lambda v: answer(v, horizon=Horizon(float("nan"))), "holds until nan"),
    "a horizon in seconds": (lambda v: answer(v, horizon=3600.0), "horizon .* float, not Horizon"),
    "traits as a dict": (lambda v: answer(v, traits={"packs": True}), "traits .* dict, not Traits"),
    "extras as a list": (lambda v: answer(v, extras=[(0, 2)]), "extras .* list, not Options"),
    "a pair with a stranger": (with_pairs([[0.1, 0.1]], second=9), "option .* job 9, which is not there"),
    "a pair of one": (with_pairs([[0.1, 0.1]], second=0), "pairs job 0 with itself"),
    "a pair of other sizes": (with_pairs([[0.1, 0.1]], second=1), r"job 0 \(1 GPUs\) with job 1 \(2 GPUs\)"),
    "a pair not a number": (with_pairs([[np.nan, 0.1]]), "pair 0, 2 a share of nan on k80"),
    "a pair beyond the time": (with_pairs([[0.6, 0.4]]), "job 0 1.2 of the time .* pairs beside"),
    "a pair without saying so": (with_pairs([[0.1, 0.1]], traits=Traits()), r"give traits=Traits\(packs=True\)"),
    "no GPUs": (with_pairs([[0.1, 0.1]], second=-1, gpus=0), "gives job 0 0 GPUs"),
    "a wish for CPUs that are not a number": (with_wish(cpus=np.array([np.nan])), "cpus = nan for job 0 on k80"),
    "a wish for less than nothing": (with_wish(memory_gb=np.array([-1.0])), "memory_gb = -1.0 for job 0"),
    "a wish for all CPUs and more": (with_wish(cpus=np.array([1e6])), "cpus = 1000000.0 for job 0"),
    "a wish without speed": (with_wish(speed=np.array([0.0])), "speed = 0.0 for job 0 on k80"),
    "a wish beyond the menu": (with_wish(which=3), "row 3 for job 0 on k80; its menu has 1"),
    "another capacity in the view": (changing("capacity", np.array([9, 9])), "changed capacity of its view"),
    "another time in the view": (changing("now", 5.0), "changed now of its view"),
    "a column of the view written to": (writing("capacity"), "changed capacity of its view"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_ends_the_run_with_its_name(name):
    allocate, reason = WRONG[name]

    with pytest.raises(AnswerError, match=reason):
        simulate(allocate)


def test_what_is_right_passes():
    assert simulate(answer).summary["jobs_finished"] == 4
    assert simulate(lambda view: answer(view, np.asfortranarray(answer(view).share))).summary["jobs_finished"] == 4


@pytest.mark.parametrize("name", ["nothing", "not a number", "a row too few", "a dict"])
@pytest.mark.parametrize("rules", ["gavel-artifact", "synergy-artifact"])
def test_no_rules_stand_between_an_answer_and_the_checks(name, rules):
    allocate, reason = WRONG[name]

    with pytest.raises(AnswerError, match=reason):
        simulate(allocate, rules=rules)


def test_a_policy_that_is_wrong_only_once_gives_no_result_either():
    asked = []

    def allocate(view):
        asked.append(view.now)
        return None if len(asked) == 3 else answer(view)

    with pytest.raises(AnswerError, match="NoneType"):
        simulate(allocate)


@pytest.mark.parametrize("name", ["share", "order"])
def test_an_answer_in_force_cannot_be_changed_any_more(name):
    kept = []

    def allocate(view):
        if kept:
            getattr(kept[0], name)[:] = 0
        kept.append(ranked(view, view.gpus.astype(float)) if name == "order" else answer(view))
        return kept[-1]

    with pytest.raises(ValueError, match="read-only"):
        simulate(allocate)


def test_the_last_placement_cannot_be_written_to():
    def allocate(view):
        if view.placement is not None:
            view.placement.gpus[:] = 1
        return answer(view)

    with pytest.raises(ValueError, match="read-only"):
        simulate(allocate)


def test_a_policy_may_do_what_it_likes_with_a_copy():
    def allocate(view):
        mine = copy.copy(view)
        mine.capacity = view.capacity * 2
        mine.weight = view.weight.copy()
        mine.weight[:] = 3
        return answer(view)

    assert simulate(allocate).summary["jobs_finished"] == 4


def test_allocate_with_other_parameters_is_the_users_mistake():
    class Forgetful:
        def allocate(self):
            return None

    with pytest.raises(AnswerError, match="allocate of Forgetful cannot be called"):
        rota.simulate(**RUN, policy=Forgetful())
