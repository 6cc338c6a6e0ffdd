"""Unified policies from outside: equal to the plain ones without CPUs, different where CPUs and types interact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import rota
from builders import a_cluster, a_placement, a_run, a_view, assert_fits, assert_same_allocation, some_jobs
from rota import clusters, profiles
from rota.core.allocation import Allocation, Wishes
from rota.core.cluster import Cluster, Resources, Server
from rota.core.events import Allocated, Planned
from rota.core.rules import Rules
from rota.engine.log import read_events
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.tune import Tune
from rota.mechanisms.dividing import Select
from rota.mechanisms.registry import ComposedMechanism, _wishes
from rota.mechanisms.select.order import Order
from rota.opt.configured import total_worth
from rota.policies.registry import policies

UNIFIED = [n for n in policies.names() if n.endswith("-unified")]
PIPELINE, GAVEL = profiles.load("pipeline"), profiles.load("gavel")
TWO_TYPES = clusters.load("v100=8/8:cpus=24:memory=500,p100=8/8:cpus=24:memory=500")
UNEVEN = Cluster(
    name="three types, two shapes each",
    servers=tuple(
        Server(id=f"s{n}", type=kind, capacity=Resources(gpus=gpus, cpus=cpus, memory_gb=memory))
        for n, (kind, gpus, cpus, memory) in enumerate(
            [("v100", 8, 24.0, 500.0), ("v100", 4, 40.0, 250.0), ("p100", 4, 12.0, 250.0), ("p100", 2, 10.0, 200.0),
             ("k80", 4, 12.0, 250.0)]
        )
    ),
)  # fmt: skip


def plain_of(name):
    """The same policy without CPUs and memory."""
    plain = name.removesuffix("-unified")
    return plain if plain == "min-mean-jct" else f"{plain}-perf"


def test_there_are_five_of_them():
    assert UNIFIED == [
        "finish-time-fairness-unified",
        "max-min-fairness-unified",
        "max-sum-throughput-unified",
        "min-mean-jct-unified",
        "min-total-duration-unified",
    ]


@pytest.mark.parametrize("name", UNIFIED)
@pytest.mark.parametrize(
    ("speeds", "cluster", "models"),
    [
        (GAVEL, TWO_TYPES, ["A3C", "LM (batch size 20)", "CycleGAN", "A3C"]),
        (PIPELINE, a_cluster(v100=2, p100=1), ["res18", "lstm", "res50", "res18"]),
    ],
    ids=["profiles without CPUs", "servers without CPUs"],
)
def test_where_nothing_is_known_about_cpus_it_is_the_plain_policy(name, speeds, cluster, models):
    view = a_view(some_jobs(4, profiles=models), speeds=speeds, cluster=cluster)

    mine, plain = (policies.create(n).allocate(view) for n in (name, plain_of(name)))

    assert_same_allocation(mine, plain)
    assert mine.wish is None


@pytest.mark.parametrize("name", UNIFIED)
def test_where_cpus_and_memory_never_limit_the_program_finds_what_the_plain_one_finds(name):
    """Language models hold one CPU and are as fast as they get: the extra rows and columns must change nothing."""
    view = a_view(some_jobs(6, profiles=["lstm", "transformer"] * 3), speeds=PIPELINE, cluster=TWO_TYPES)
    assert view.classes.configurations.sensitive

    mine, plain = (policies.create(n).allocate(view) for n in (name, plain_of(name)))

    assert mine.report.objective == pytest.approx(plain.report.objective, rel=1e-7)
    assert mine.wish is not None


def test_only_the_unified_policy_sees_that_a_v100_is_worth_its_cpus():
    """With 3 CPUs a res18 is as fast on a p100 as on a v100, so the plain policy sends it away from v100 for ever."""
    view = a_view(some_jobs(16, profiles=["res18"] * 4 + ["transformer"] * 12), speeds=PIPELINE, cluster=TWO_TYPES)
    p100, v100 = range(2)

    plain = policies.create("max-min-fairness-perf").allocate(view)
    mine = policies.create("max-min-fairness-unified").allocate(view)

    assert plain.share[:4, v100].max() < 1e-6
    assert mine.report.objective > plain.report.objective * 1.001
    speed = mine.wish.speed[mine.wish.which[:4]] * mine.share[:4]
    assert speed.sum() > plain.share[:4].sum() * 1.3
    assert mine.wish.cpus[mine.wish.which[:4, p100]].max() > 3


@pytest.mark.parametrize("name", UNIFIED)
def test_a_run_with_tune_finishes_and_nobody_is_slower_than_with_its_share(name):
    models = ["res18", "res50", "transformer", "lstm"] * 6
    jobs = some_jobs(24, profiles=models, gpus=[1, 1, 2, 1] * 6, steps=3000.0, arrivals=np.arange(24) * 100.0)
    fits = []

    def look(event, run):
        if isinstance(event, Planned) and len(event.plan.placement):
            placed = event.plan.placement
            assert (placed.speed >= 1 - 1e-9).all()
            fits.append(held_within(placed, run.cluster))

    run = a_run(jobs, cluster=TWO_TYPES, policy=name, mechanism="tune", speeds=PIPELINE, observe=look)

    assert run.reason == "all jobs are done"
    assert len(run.finished) == 24
    assert fits
    assert all(fits)


@pytest.mark.parametrize("name", UNIFIED)
def test_with_cpus_too_it_answers_the_same_to_the_same_view_and_does_not_care_about_job_numbers(name):
    models, steps = ["res18", "res50", "lstm", "res18"] * 5, np.geomspace(1e3, 1e5, 20)
    view = a_view(some_jobs(20, profiles=models, steps=steps), speeds=PIPELINE, cluster=TWO_TYPES)
    policy = policies.create(name)
    first = policy.allocate(view)
    later = replace(view, previous=first, now=view.now + 360)
    other = policy.allocate(replace(view, jobs=view.jobs + 1000))

    assert_same_allocation(policy.allocate(view), first)
    assert_same_allocation(policies.create(name).allocate(later), policy.allocate(later))
    assert np.array_equal(first.share, other.share)
    assert first.wish == other.wish


@pytest.mark.parametrize("mechanism", ["greedy", "ideal", "proportional", "strided"])
def test_a_run_with_any_other_mechanism_finishes_too(mechanism):
    jobs = some_jobs(20, profiles=["res18", "res50", "transformer", "lstm"] * 5, steps=3000.0)

    run = a_run(jobs, cluster=TWO_TYPES, policy="max-min-fairness-unified", mechanism=mechanism, speeds=PIPELINE)

    assert len(run.finished) == 20


def held_within(placed, cluster):
    """Whether no server hands out more CPUs or memory than it has."""
    task = np.repeat(np.arange(len(placed)), np.diff(placed.slot_start))
    part = placed.slot_gpus / placed.gpus[task]
    good = True
    for held, size in ((placed.cpus, cluster.server_cpus), (placed.memory_gb, cluster.server_memory_gb)):
        used = np.bincount(placed.slot_server, weights=held[task] * part, minlength=len(size))
        good &= bool((used <= size + 1e-6).all())
    return good


def test_tune_refuses_wishes_that_cost_speed():
    """Five wishes of 2 CPUs would make room for one of 8, but nobody is to be slower than with the share."""
    cluster = clusters.load("v100=8/8:cpus=24:memory=500")
    view = a_view(some_jobs(8, profiles=["res18"] * 8), speeds=PIPELINE, cluster=cluster)
    wish = wishes_of(view, 8, 3, 3, 2, 2, 2, 2, 2)

    placed = placed_with(view, wish)

    assert wish.cpus.sum() == 24
    assert placed.cpus[0] == 3, "a wish that costs speed is refused, so that everybody else holds the share"
    assert placed.cpus.sum() == 24
    assert (placed.speed >= 1).all()


def test_a_wish_below_the_full_configuration_leaves_cpus_to_others():
    cluster = clusters.load("v100=4/4:cpus=16:memory=500")
    view = a_view(some_jobs(3, profiles=["res18"] * 3), speeds=PIPELINE, cluster=cluster)
    wish = wishes_of(view, 5, 6, 5)

    assert placed_with(view, wish).cpus.tolist() == [5, 6, 5]
    assert sorted(placed_with(view, None).cpus.tolist()) == [4, 4, 8]


def test_spare_cpus_go_beyond_the_wish_up_to_what_makes_a_job_fastest():
    cluster = clusters.load("v100=4/4:cpus=16:memory=500")
    view = a_view(some_jobs(1, profiles=["res18"]), speeds=PIPELINE, cluster=cluster)
    wish = wishes_of(view, 5)

    assert placed_with(view, wish).cpus.tolist() == [8]


def wishes_of(view, *cpus):
    """So many CPUs for each job, on the only type."""
    known = view.classes.configurations
    speed = np.array([known.speed_of(0, 0, float(c), 62.5) for c in cpus])
    return Wishes(np.array(cpus, dtype=float), np.full(len(cpus), 62.5), speed, np.arange(len(cpus))[:, None])


def full_wishes(view):
    """All that makes each job as fast as it can get."""
    known = view.classes.configurations
    return Wishes(known.cpus, known.memory_gb, known.speed, known.full[view.job_class])


def placed_with(view, wish, rules=None):
    """The round in which tune places all jobs of a cluster of one type."""
    tune = Tune()
    tune.follow(rules or Rules())
    share = np.ones((len(view), 1))
    return ComposedMechanism(Everybody(), Order(), tune).place(
        view, Allocation(jobs=view.jobs, types=view.types, share=share, wish=wish)
    )


class Everybody(Select):
    def choose(self, view, _allocation):
        return Choice(first=np.arange(len(view)), type=np.zeros(len(view), dtype=np.int64))


def test_jobs_that_came_after_the_policy_was_asked_have_no_wish():
    cluster = clusters.load("v100=4/4:cpus=16:memory=500")
    view = a_view(some_jobs(2, profiles=["res18"] * 2), speeds=PIPELINE, cluster=cluster)
    earlier = policies.create("max-min-fairness-unified").allocate(view.part(np.array([0]), view.capacity))

    found = _wishes(view, earlier.jobs, earlier.wish.which, Choice(first=np.array([0, 1]), type=np.array([0, 0])))

    assert found[0] == earlier.wish.which[0, 0]
    assert found[1] == -1


def test_pop_passes_the_wishes_of_its_parts_on():
    view = a_view(some_jobs(8, profiles=["res18", "lstm"] * 4), speeds=PIPELINE, cluster=TWO_TYPES)

    found = policies.create("pop", inner="max-min-fairness-unified", parts=2).allocate(view)

    assert found.wish.which.shape == (8, 2)
    assert (found.wish.which >= 0).all()


def test_wishes_are_part_of_the_log_and_of_equality(tmp_path):
    log = tmp_path / "run.jsonl"
    rota.simulate(
        jobs=some_jobs(4, profiles=["res18"] * 4, steps=2000.0), cluster="v100=2/2:cpus=8:memory=200",
        policy="max-min-fairness-unified", mechanism="tune", profiles="pipeline", events=log,
    )  # fmt: skip
    read = [e.allocation for e in read_events(log) if isinstance(e, Allocated)]

    assert read
    assert all(a.wish.which.shape == (len(a.jobs), 1) for a in read)
    assert read[0] == replace(read[0])
    assert read[0] != replace(read[0], wish=replace(read[0].wish, cpus=read[0].wish.cpus + 1))
    assert read[0] != replace(read[0], wish=None)


def test_with_wishes_cpus_and_gpus_of_a_server_run_out_together():
    """First fit would put three wishes of 8 CPUs on the first of two servers, and leave none to five of its GPUs."""
    cluster = clusters.load("v100=16/8:cpus=24:memory=500")
    models = ["res18"] * 4 + ["lstm"] * 8
    view = a_view(some_jobs(12, profiles=models), speeds=PIPELINE, cluster=cluster)
    placed = placed_with(view, full_wishes(view))

    assert placed.cpus.tolist() == [8.0] * 4 + [1.0] * 8
    assert np.bincount(placed.slot_server[:4]).tolist() == [2, 2]
    first_fit = placed_with(view, None)
    assert np.bincount(first_fit.slot_server[:4]).tolist() == [3, 1]


def staying(view, servers, cpus):
    """A view in which every job ran on a server in the last round."""
    count = len(view)
    last = a_placement(*[(job, -1, 0, 1) for job in range(count)], servers=[[(server, 1)] for server in servers])
    last = replace(last, cpus=np.array(cpus, dtype=float), memory_gb=np.full(count, 62.5), speed=np.ones(count))
    return replace(view, placement=last, last_task=np.arange(count))


def test_a_job_below_its_wish_changes_places_with_one_that_needs_little():
    """Three jobs that want 8 CPUs and five that want 1 run on one server of 24; eight that want 1 on the other."""
    cluster = clusters.load("v100=16/8:cpus=24:memory=500")
    models = ["res18"] * 3 + ["lstm"] * 13
    view = a_view(some_jobs(16, profiles=models), speeds=PIPELINE, cluster=cluster)
    view = staying(view, [0] * 8 + [1] * 8, [3.0] * 3 + [1.0] * 13)

    placed = placed_with(view, full_wishes(view))

    assert placed.cpus.tolist() == [8.0] * 3 + [1.0] * 13
    assert np.count_nonzero(~placed.kept) == 2, "one job and the one it changes places with; all others stay"
    assert_fits(placed, view)


def test_a_job_below_its_wish_moves_to_a_free_gpu_rather_than_moving_two():
    cluster = clusters.load("v100=16/8:cpus=24:memory=500")
    view = a_view(some_jobs(12, profiles=["res18"] * 3 + ["lstm"] * 9), speeds=PIPELINE, cluster=cluster)
    view = staying(view, [0] * 8 + [1] * 4, [3.0] * 3 + [1.0] * 9)

    placed = placed_with(view, full_wishes(view))

    assert placed.cpus.tolist() == [8.0] * 3 + [1.0] * 9
    assert np.count_nonzero(~placed.kept) == 1


@pytest.mark.parametrize(("restart_s", "moved"), [(100.0, 2), (300.0, 0)])
def test_jobs_change_places_only_if_a_round_makes_up_for_the_restarts(restart_s, moved):
    """One job gains 1.45 times its speed, 523 s of work in a round of 360 s; both have to start again."""
    cluster = clusters.load("v100=16/8:cpus=24:memory=500")
    view = a_view(some_jobs(16, profiles=["res18"] * 3 + ["lstm"] * 13), speeds=PIPELINE, cluster=cluster)
    view = staying(view, [0] * 8 + [1] * 8, [3.0] * 3 + [1.0] * 13)

    placed = placed_with(view, full_wishes(view), Rules(restart_s=restart_s))

    assert np.count_nonzero(~placed.kept) == moved


def test_without_wishes_everybody_stays():
    cluster = clusters.load("v100=16/8:cpus=24:memory=500")
    view = a_view(some_jobs(16, profiles=["res18"] * 3 + ["lstm"] * 13), speeds=PIPELINE, cluster=cluster)
    view = staying(view, [0] * 8 + [1] * 8, [3.0] * 3 + [1.0] * 13)

    assert placed_with(view, None).kept.all()


def test_a_gang_that_no_server_holds_is_spread_as_ever():
    cluster = clusters.load("v100=16/8:cpus=24:memory=500")
    view = a_view(some_jobs(2, profiles=["lstm"] * 2, gpus=[6, 10]), speeds=PIPELINE, cluster=cluster)

    placed = placed_with(view, full_wishes(view))

    assert placed.slot_start.tolist() == [0, 1, 3]
    assert placed.slot_gpus.sum() == 16


def test_classes_count_in_the_total_by_their_full_speed():
    """By the share, a v100 is worth nothing to res18; at full speed it is worth less than to transformer."""
    view = a_view(some_jobs(2, profiles=["res18", "transformer"]), speeds=PIPELINE, cluster=TWO_TYPES)
    known, worth = view.classes.configurations, total_worth(view)
    full = view.classes.throughput * known.speed[known.full]

    p100, v100 = range(2)
    edge = (full[:, v100] - full[:, p100]) * worth
    assert full @ [0.5, 0.5] * worth == pytest.approx(view.classes.gpus)
    assert 0 < edge[0] < edge[1]


@pytest.mark.parametrize("left", [2e-5, 3e-8, 0.0])
@pytest.mark.parametrize(
    "name",
    [
        "finish-time-fairness-packed",
        "finish-time-fairness-unified",
        "min-total-duration-packed",
        "min-total-duration-unified",
    ],
)
def test_jobs_that_end_together_get_gpus_for_what_rounding_left_of_them(name, left):
    """The target of the solve before is no guess for these: in its units the coefficients vanish."""
    view = a_view(some_jobs(2, profiles="lstm", gpus=8), speeds=PIPELINE, cluster=TWO_TYPES, now=1000.0)
    before = policies.create(name).allocate(view)
    view = replace(view, steps_done=view.total_steps - [left / 2, left])

    found = policies.create(name).allocate(replace(view, previous=before))

    assert found.share[1].sum() > 0.1


@pytest.mark.parametrize("seed", [12, 14])
def test_without_rounds_a_makespan_comes_to_its_end(seed):
    rng = np.random.default_rng(seed)
    models = [str(name) for name in rng.choice(["res18", "res50", "transformer", "lstm"], 30)]
    sizes = rng.choice([1, 1, 1, 2, 4, 8], 30)
    steps, arrivals = 4000 * rng.random(30) + 200, np.sort(rng.integers(0, 5000, 30)).astype(float)
    jobs = some_jobs(30, profiles=models, gpus=sizes, steps=steps, arrivals=arrivals)

    run = a_run(jobs, cluster=UNEVEN, policy="min-total-duration-unified", mechanism="ideal", speeds=PIPELINE)

    assert set(run.finished) == set(range(30)), run.given_up
