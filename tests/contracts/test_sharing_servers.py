"""Laws of mechanisms that divide CPUs and memory, with every policy, on jobs whose speed depends on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from situations import POLICIES, largest_job

import rota
from builders import a_run, a_state, assert_fits, some_jobs
from rota import clusters, profiles
from rota.core.cluster import Cluster, Resources, Server
from rota.core.events import Planned
from rota.core.placement import Plan
from rota.core.rules import PRESETS, Rules, preset
from rota.mechanisms.choice import Choice
from rota.mechanisms.registry import build, mechanisms
from rota.policies.registry import policies

SYNERGY, PIPELINE = profiles.load("synergy"), profiles.load("pipeline")
MODELS = sorted({profile for profile, _, _ in SYNERGY.models})
DIVIDERS = ["greedy", "optimal", "proportional", "tune"]
FLOORED = ["optimal", "tune"]
ROUND = 360.0


def a_server(number, gpus, cpus, memory):
    return Server(id=f"s{number}", type="v100", capacity=Resources(gpus=gpus, cpus=cpus, memory_gb=memory))


PRICED = clusters.known_accelerators()
TWO_SHAPES = Cluster(
    name="two shapes",
    servers=(a_server(0, 4, 16.0, 400.0), a_server(1, 4, 14.0, 250.0), a_server(2, 8, 24.0, 500.0)),
    accelerators=PRICED,
)
RICH_IN_CPUS = Cluster(
    name="rich in CPUs",
    servers=(a_server(0, 8, 48.0, 400.0), a_server(1, 8, 48.0, 400.0)),
    accelerators=PRICED,
)
"""Some models want fewer CPUs than their share here, and more memory."""
FLEETS = {"synergy-32": clusters.load("synergy-32"), "two shapes": TWO_SHAPES, "rich in CPUs": RICH_IN_CPUS}

every_divider = pytest.mark.parametrize("mechanism", DIVIDERS)
every_fleet = pytest.mark.parametrize("fleet", sorted(FLEETS))
by_need = pytest.mark.parametrize("mechanism", ["greedy", *FLOORED])
with_floor = pytest.mark.parametrize("mechanism", FLOORED)
both_rules = pytest.mark.parametrize("rules", ["default", "synergy-artifact"])


def a_crowd(fleet, seed=0, *, load=1.5, steps=3000.0, largest=16, **columns):
    """Jobs of all models that ask for more GPUs than there are."""
    rng, asked, sizes = np.random.default_rng(seed), 0, []
    while asked < load * fleet.gpus:
        sizes.append(min(int(rng.choice([1, 1, 1, 2, 4, 8, 16])), largest, fleet.gpus))
        asked += sizes[-1]
    names = [str(name) for name in rng.choice(MODELS, size=len(sizes))]
    lengths = steps * rng.choice([0.5, 1.0, 3.0], size=len(sizes))
    return some_jobs(len(sizes), profiles=names, gpus=sizes, steps=lengths, **columns)


def check(event, run):
    if isinstance(event, Planned):
        assert_fits(event.plan.placement, run.state.view(event.at))


@pytest.mark.parametrize(
    ("policy", "fleet"),
    [
        *((policy, "two shapes") for policy in POLICIES),
        *((p, fleet) for p in ("drf", "las", "max-min-fairness") for fleet in ("synergy-32", "rich in CPUs")),
    ],
)
@every_divider
def test_a_saturated_run_keeps_within_every_server_and_finishes_everybody(policy, mechanism, fleet):
    cluster = FLEETS[fleet]
    jobs = a_crowd(cluster, largest=largest_job(policy))
    floor = set()

    def observe(event, run):
        check(event, run)
        if isinstance(event, Planned) and mechanism in FLOORED:
            alone = event.plan.placement.second < 0
            speed = event.plan.placement.speed
            floor.add(float(speed[alone].min(initial=1.0)))

    run = a_run(jobs, cluster=cluster, policy=policy, mechanism=mechanism, speeds=SYNERGY, observe=observe)

    assert run.reason == "all jobs are done"
    assert set(run.finished) == set(range(len(jobs)))
    assert run.steps() == pytest.approx(jobs.total_steps, rel=1e-9)
    assert min(floor, default=1.0) >= 1 - 1e-9, "somebody is below its proportional share"


@st.composite
def rounds(draw):
    """A cluster, and jobs that all have their GPUs in one round."""
    fleet = FLEETS[draw(st.sampled_from(sorted(FLEETS)))]
    names, sizes, free = [], [], fleet.gpus
    for name, size in draw(
        st.lists(st.tuples(st.sampled_from(MODELS), st.sampled_from([1, 1, 2, 3, 4, 8, 16])), min_size=1, max_size=32)
    ):
        if size <= free:
            names.append(name)
            sizes.append(size)
            free -= size
    return fleet, names, sizes


def a_round(given_round, mechanism, rules, order=None, **settings):
    """The state and what a fresh mechanism makes of all jobs in this order."""
    fleet, names, sizes = given_round
    state = a_state(some_jobs(len(names), profiles=names, gpus=sizes), cluster=fleet, speeds=SYNERGY, rules=rules)
    divide = mechanisms.create(mechanism, **settings)
    divide.follow(rules)
    return state, divide, divided(state, divide, order)


def divided(state, divide, order=None):
    view = state.view(0.0)
    rows = np.arange(len(view)) if order is None else order
    placement = divide.divide(view, Choice(first=rows, type=np.zeros(len(rows), dtype=np.int64)))
    assert_fits(placement, view)
    return placement


def speeds(state, placement):
    del state
    return placement.speed


def test_who_gives_back_memory_does_not_take_cpus_for_it():
    names, sizes = ["res50", "res18", "gnmt", "mobilenet", "m5"], [4, 3, 3, 2, 4]

    state, _, placement = a_round((RICH_IN_CPUS, names, sizes), "tune", Rules())

    known = state.classes.value.configurations
    cut, fair = known.cut[:, 0], known.fair[:, 0]
    assert (known.cpus[cut] < known.cpus[fair]).any(), "nobody here wants fewer CPUs than its share"
    assert (speeds(state, placement) >= 1 - 1e-9).all()


@settings(max_examples=25)
@both_rules
@pytest.mark.parametrize("consolidate", [False, True])
@by_need
@given(situation=rounds())
def test_any_round_fits_and_gangs_are_whole(mechanism, consolidate, rules, situation):
    fleet, names, sizes = situation
    assume(not (fleet is RICH_IN_CPUS and preset(rules).reset_to_share))
    state, _, placement = a_round(situation, mechanism, preset(rules), consolidate=consolidate)

    assert placement.gpus.tolist() == [sizes[job] for job in placement.first.tolist()]
    if mechanism in FLOORED:
        assert len(placement) == len(names), "somebody who was chosen does not run"
        assert speeds(state, placement).min() >= 1 - 1e-9


@settings(max_examples=25)
@both_rules
@by_need
@given(situation=rounds())
def test_laying_out_again_changes_nothing(mechanism, rules, situation):
    """Under `tune` newcomers are served otherwise than those who stay: amounts settle when nobody is new."""
    state, divide, before = a_round(situation, mechanism, preset(rules))

    for turn in range(3):
        state.apply(Planned(at=0.0, plan=Plan(round=0, start=0.0, placement=before)))
        after = divided(state, divide)
        assert after.kept.all(), "somebody moved"
        assert after == before or (mechanism == "tune" and rules == "default" and turn == 0)
        before = after


@settings(max_examples=25)
@both_rules
@given(situation=rounds(), seed=st.integers(0, 100))
def test_the_order_of_jobs_changes_who_but_not_how_much(rules, situation, seed):
    order = np.random.default_rng(seed).permutation(len(situation[1]))

    state, _, one = a_round(situation, "optimal", preset(rules))
    _, _, other = a_round(situation, "optimal", preset(rules), order)

    def by_class(placement):
        group = state.view(0.0).job_class[placement.first]
        return sorted(zip(group.tolist(), speeds(state, placement).tolist(), strict=True))

    assert by_class(one) == by_class(other)


@settings(max_examples=10)
@with_floor
@given(situation=rounds())
def test_of_equal_jobs_it_does_not_matter_which_is_which(mechanism, situation):
    """Renumbering jobs and keeping the queue renumbers the answer."""
    fleet, names, sizes = situation
    turned = np.arange(len(names))[::-1].copy()
    backwards = (fleet, [names[n] for n in turned], [sizes[n] for n in turned])

    _, _, one = a_round(situation, mechanism, Rules())
    _, _, other = a_round(backwards, mechanism, Rules(), turned)

    held = [
        (len(names) - 1 - j, c, m) for j, c, m in zip(other.first.tolist(), other.cpus, other.memory_gb, strict=True)
    ]
    assert sorted(held) == sorted(zip(one.first.tolist(), one.cpus, one.memory_gb, strict=True))


THREE_TYPES = Cluster(
    name="three types, two shapes",
    servers=(
        a_server(0, 4, 16.0, 300.0),
        a_server(1, 2, 20.0, 125.0),
        Server(id="p0", type="p100", capacity=Resources(gpus=4, cpus=12.0, memory_gb=250.0)),
        Server(id="k0", type="k80", capacity=Resources(gpus=2, cpus=4.0, memory_gb=100.0)),
    ),
    accelerators=PRICED,
)


@pytest.mark.parametrize("mechanism", mechanisms.names())
@pytest.mark.parametrize("policy", POLICIES)
def test_with_several_types_and_shapes_everybody_comes_to_its_end_no_slower_than_with_its_share(policy, mechanism):
    """On speeds that depend on type, CPUs and memory at once, without pair speeds."""
    models = ["res18", "lstm", "res50", "transformer"] * 3
    sizes = np.minimum([1, 1, 2, 1, 4, 1, 1, 2, 1, 1, 3, 1], largest_job(policy))
    jobs = some_jobs(12, profiles=models, gpus=sizes, steps=np.linspace(200, 2500, 12), arrivals=100.0 * np.arange(12))
    slowest = set()

    def observe(event, run):
        check(event, run)
        if isinstance(event, Planned) and event.plan.placement.speed is not None and mechanism != "greedy":
            alone = event.plan.placement.second < 0
            speed = event.plan.placement.speed
            slowest.add(float(speed[alone].min(initial=1.0)))

    run = a_run(jobs, cluster=THREE_TYPES, policy=policy, mechanism=mechanism, speeds=PIPELINE, observe=observe)

    assert set(run.finished) == set(range(12)), run.given_up
    assert min(slowest, default=1.0) >= 1 - 1e-9


def longest_wait(run, count, end):
    """Rounds without a GPU at a stretch, by job."""
    last, worst = np.zeros(count), np.zeros(count)
    for placement, ran in run.rounds:
        jobs = np.concatenate([placement.first, placement.second[placement.second >= 0]])
        worst[jobs] = np.maximum(worst[jobs], ran.start - last[jobs])
        last[jobs] = ran.at
    return np.maximum(worst, end - last) / ROUND


SHARING = [
    "finish-time-fairness", "finish-time-fairness-perf", "ftf", "isolated", "las", "max-min-fairness",
    "finish-time-fairness-unified", "max-min-fairness-packed", "max-min-fairness-perf",
    "max-min-fairness-strategy-proof", "max-min-fairness-unified", "max-min-fairness-water-filling",
    "max-min-fairness-water-filling-perf", "pop", "proportional",
]  # fmt: skip
"""Policies that promise everybody a part of the time, however long jobs are."""


@pytest.mark.parametrize("mechanism", ["optimal", "proportional", "tune"])
@pytest.mark.parametrize("policy", SHARING)
def test_nobody_waits_long_under_a_policy_that_shares_time(policy, mechanism):
    jobs = some_jobs(
        16, profiles=["alexnet", "gnmt", "res18", "m5", "lstm", "res50", "transformer", "deepspeech"] * 2,
        gpus=[1, 1, 2, 1, 4, 1, 1, 2] * 2, steps=1e9,
    )  # fmt: skip

    run = a_run(jobs, cluster=TWO_SHAPES, policy=policy, mechanism=mechanism, speeds=SYNERGY, until=40 * ROUND)

    assert longest_wait(run, 16, 40 * ROUND).max() <= 20


@pytest.mark.parametrize("mechanism", ["optimal", "proportional", "tune"])
@pytest.mark.parametrize("policy", ["drf", "fifo", "las", "max-min-fairness", "ftf"])
def test_the_wait_is_bounded_by_the_work_that_is_there(policy, mechanism):
    """A GPU that could be used is used, so nobody waits longer than all work takes at half of the GPUs."""
    jobs = a_crowd(TWO_SHAPES, 5, load=4.0, largest=8)
    work = sum(
        steps * size / SYNERGY.rate(jobs.profiles[p], int(size), "v100")
        for steps, size, p in zip(jobs.total_steps, jobs.gpus, jobs.profile, strict=True)
    )

    run = a_run(jobs, cluster=TWO_SHAPES, policy=policy, mechanism=mechanism, speeds=SYNERGY)

    assert max(run.finished.values()) <= 2 * work / TWO_SHAPES.gpus + 10 * ROUND


@every_fleet
@pytest.mark.parametrize("rules", sorted(PRESETS))
def test_every_preset_can_be_run_with_optimal(rules, fleet):
    jobs = a_crowd(FLEETS[fleet], 2)

    run = a_run(
        jobs, cluster=FLEETS[fleet], policy="srtf", mechanism="optimal", rules=rules, speeds=SYNERGY, observe=check
    )

    assert len(run.finished) + len(run.given_up) == len(jobs)


def test_a_policy_and_a_mechanism_that_were_built_as_for_a_run_agree_on_who_runs():
    """Under `tune` and `optimal` just those run that run under plain placement: they divide, they do not choose."""
    jobs = a_crowd(TWO_SHAPES, 3)
    chosen = []
    for name in ("proportional", *FLOORED):
        state = a_state(jobs, cluster=TWO_SHAPES, speeds=SYNERGY)
        view = state.view(0.0)
        placement = build(name, state.rules, 0).place(view, policies.create("fifo").allocate(view))
        chosen.append(placement.first.tolist() if name != "proportional" else sorted(placement.first.tolist()))
    assert chosen[0] == chosen[1] == chosen[2]


UNEVEN = Cluster(name="uneven", servers=(a_server(0, 1, 7.0, 98.0), a_server(1, 1, 4.0, 127.0)), accelerators=PRICED)
"""The one has the most CPUs, the other the most memory."""


@pytest.mark.parametrize("policy", ["fifo", "las-perf", "max-min-fairness-perf", "isolated", "max-sum-throughput-perf"])
def test_greedy_drops_nobody_whom_a_server_could_hold(policy):
    """AlexNet gains by CPUs and by memory, and no server has the most of both."""
    jobs = some_jobs(4, profiles=["alexnet"] * 2 + ["transformer"] * 2, steps=[500.0] * 2 + [400.0] * 2)

    run = rota.simulate(jobs=jobs, policy=policy, cluster=UNEVEN, mechanism="greedy", profiles="synergy")

    assert run.summary["jobs_finished"] == 4


def test_greedy_comes_to_the_end_of_random_jobs_on_uneven_servers():
    for seed in range(6):
        draw = np.random.default_rng(seed)
        gpus = draw.choice([1, 1, 2], 2).tolist()
        servers = (a_server(n, g, g * draw.uniform(3, 9), g * draw.uniform(64, 128)) for n, g in enumerate(gpus))
        fleet = Cluster(name="uneven", servers=tuple(servers), accelerators=PRICED)
        sizes = np.minimum(draw.choice([1, 1, 2, 3], 8), fleet.gpus)
        jobs = some_jobs(8, profiles=draw.choice(MODELS, 8).tolist(), gpus=sizes, steps=draw.integers(200, 3000, 8))
        for policy in ("fifo", "max-min-fairness-perf"):
            run = rota.simulate(jobs=jobs, policy=policy, cluster=fleet, mechanism="greedy", profiles="synergy")

            assert run.summary["jobs_finished"] == 8, (seed, policy)
