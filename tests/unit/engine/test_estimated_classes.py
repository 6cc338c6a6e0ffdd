# ruff: noqa: ARG002 - stand-ins keep the signatures of what they stand for
"""What policies see of pairs against what is true, and how the one becomes the other."""

import pickle

import numpy as np
import pytest

from rota.core import jobs
from rota.core.allocation import Allocation, Options, Traits
from rota.core.cluster import uniform
from rota.core.events import RoundsRan
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.needs import NOTHING
from rota.core.ports import EveryEvent
from rota.core.rules import preset
from rota.engine.classes import ClassTable
from rota.engine.loop import Engine
from rota.engine.state import State
from rota.mechanisms.registry import build
from rota.sim.world import World

TYPES = ("k80", "v100")


class Plain:
    """Speed 2 alone and 1 in pairs; `c` fits with nobody."""

    name = "plain"

    def known(self, profile):
        return True

    def rate(self, profile, gpus, type_, *, spread=False):
        return 2.0

    def pair_rate(self, profile, partner, gpus, type_):
        return 0.0 if "c" in (profile, partner) else 1.0


class Guesses(Plain):
    """Takes every pair to run at 1.5, and gives job number n the reference n % `references`."""

    def __init__(self, references=1):
        self.references = references

    def reference(self, profile, gpus, draw):
        return f"r{draw % self.references}"

    def estimated_pair_rate(self, profile, reference, partner, partner_reference, gpus, type_):
        return 1.5


def a_table(speeds, *profiles):
    table = ClassTable(speeds, TYPES)
    numbers = [table.number(p, 1, 1.0) for p in profiles]
    return table, numbers


def ints(*values):
    return np.array(values, dtype=np.int64)


def test_without_estimates_policies_see_the_truth_itself():
    table, _ = a_table(Plain(), "a", "b")
    before = table.value.pair

    table.learn(ints(0), ints(1), ints(0))

    assert not table.estimating
    assert table.value.true_pair is table.value.pair is before
    assert table.keys() == [("a", 1, 1.0, None, (), NOTHING, 0), ("b", 1, 1.0, None, (), NOTHING, 0)]


def test_jobs_of_one_model_with_different_references_are_different_classes():
    table, numbers = a_table(Guesses(references=2), "a", "a", "a")

    assert numbers == [0, 1, 0]
    assert table.keys() == [("a", 1, 1.0, "r0", (), NOTHING, 0), ("a", 1, 1.0, "r1", (), NOTHING, 0)]


def test_a_pair_that_ran_is_known_on_that_type_only_and_in_both_directions():
    table, _ = a_table(Guesses(), "a", "b")

    table.learn(ints(0), ints(1), ints(1))

    assert table.value.pair[0, 1].tolist() == table.value.pair[1, 0].tolist() == [1.5, 1.0]
    assert table.value.pair[0, 0].tolist() == [1.5, 1.5]
    assert (table.value.true_pair == 1.0).all()


def test_a_pair_that_does_not_fit_is_known_not_to():
    table, _ = a_table(Guesses(), "a", "c")

    table.learn(ints(0), ints(1), ints(0))

    assert table.value.pair[0, 1].tolist() == table.value.pair[1, 0].tolist() == [0.0, 1.5]


def test_what_was_learned_survives_new_classes_and_checkpoints():
    table, _ = a_table(Guesses(references=3), "a", "b")
    table.learn(ints(0), ints(1), ints(0))

    table = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own bytes
    table.attach(Guesses(references=3))
    table.number("a", 1, 1.0)

    assert table.keys()[-1] == ("a", 1, 1.0, "r2", (), NOTHING, 0)
    assert table.value.pair[0, 1].tolist() == [1.0, 1.5]
    assert table.value.pair[2, 1].tolist() == [1.5, 1.5]


class Together:
    """Gives the first two jobs all the time of all types together as long as they seem to fit, else alone."""

    def __init__(self):
        self.asked = 0

    def allocate(self, view):
        self.asked += 1
        count = len(view)
        fits = count >= 2 and bool((view.classes.pair[view.job_class[0], view.job_class[1]] > 0).any())
        extras = Options(first=view.jobs[:1], second=view.jobs[1:2], gpus=view.gpus[:1]) if fits else None
        share = np.full((count + fits, len(view.types)), 0.0 if fits else 1.0 / count)
        share[count:] = 1.0 / len(view.types)
        more = {} if extras is None else {"extras": extras}
        return Allocation(
            jobs=view.jobs, types=view.types, share=share, traits=Traits(packs=True), horizon=UNTIL_JOBS_CHANGE, **more
        )


def run(names, rules, mechanism, steps=4000.0, types=TYPES):
    cluster = uniform("c", [(t, 1, 1) for t in types])
    state = State(cluster, Guesses(), preset(rules))
    table = jobs.table(
        profile_names=names, gpus=[1] * len(names), total_steps=[steps] * len(names), submitted=[0.0] * len(names)
    )
    events = []
    world = World(jobs.TableSource(table), state.rules)
    placer = build(mechanism, state.rules, 0)
    listener = EveryEvent(events.append)
    engine = Engine(state=state, policy=Together(), mechanism=placer, clock=world, executor=world, observers=[listener])
    reason = engine.run(lambda: len(events) > 500)
    return reason, state, world, events


WAYS = [("default", "proportional"), ("gavel-artifact", "strided"), ("default", "ideal")]


@pytest.mark.parametrize(("rules", "mechanism"), WAYS)
def test_a_pair_that_does_not_fit_stands_still_once_and_is_not_chosen_again(rules, mechanism):
    reason, state, _, events = run(["a", "c"], rules, mechanism)

    tries = [
        (ran.steps[row], ran.partner_steps[row], int(placed.type[row]))
        for placed, ran in rounds(events)
        for row in np.flatnonzero(placed.second >= 0)
    ]
    assert reason == "all jobs are done"
    assert tries
    assert all(mine == theirs == 0 for mine, theirs, _ in tries)
    assert len({kind for *_, kind in tries}) == len(tries)
    assert all(state.classes.value.pair[0, 1, kind] == 0 for *_, kind in tries)


def test_a_placement_that_would_stay_the_same_is_looked_at_again_after_one_round_in_which_a_pair_did_not_fit():
    reason, _, world, events = run(["a", "c"], "default", "proportional", types=("v100",))

    placed, ran = next(rounds(events))
    assert placed.horizon is UNTIL_JOBS_CHANGE
    assert placed.second.max() >= 0
    assert ran.rounds == 1
    assert reason == "all jobs are done"
    assert world.now() < 20_000


@pytest.mark.parametrize(("rules", "mechanism"), WAYS)
def test_a_pair_that_fits_runs_at_its_true_speed_and_is_known_afterwards(rules, mechanism):
    reason, state, _, events = run(["a", "b"], rules, mechanism)

    first, ran = next(rounds(events))
    assert reason == "all jobs are done"
    assert first.second.max() >= 0
    fraction = 1.0 if first.fraction is None else first.fraction
    assert ran.steps == pytest.approx(fraction * (ran.at - ran.start) * 1.0, rel=1e-2)
    assert (state.classes.value.pair[0, 1, first.type] == 1.0).all()


def rounds(events):
    """Placement and outcome of every round."""
    placement = None
    for event in events:
        if isinstance(event, RoundsRan):
            yield placement, event
        elif hasattr(event, "plan"):
            placement = event.plan.placement
