"""The mechanism `optimal`: as fast together as can be, nobody below its share, and a word about the gap."""

import itertools

import numpy as np
import pytest
from rounds import turn

from builders import Speeds, a_cluster, a_state, assert_fits, ids, some_jobs
from rota import clusters, profiles
from rota.core.cluster import Cluster, Resources, Server
from rota.core.errors import ConfigError
from rota.core.rules import Rules, preset
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.holdings import Holdings
from rota.mechanisms.divide.menus import menu
from rota.mechanisms.registry import mechanisms

SYNERGY = profiles.load("synergy")
VISION = ["alexnet", "res18", "res50", "mobilenet", "shufflenet"]
LANGUAGE = ["gnmt", "transformer", "lstm", "bert"]
SPEECH = ["m5", "deepspeech"]


def servers(*shapes):
    """A cluster of v100 servers of (GPUs, CPUs, GB)."""
    return Cluster(
        name="test",
        servers=tuple(
            Server(id=f"s{n}", type="v100", capacity=Resources(gpus=g, cpus=c, memory_gb=m))
            for n, (g, c, m) in enumerate(shapes)
        ),
    )


def a_round(cluster, names, gpus=1, *, rules=None, mechanism="optimal", speeds=None, **settings):
    """The mechanism, the state and the placement of a round in which everybody was chosen."""
    rules = rules or Rules()
    jobs = some_jobs(len(names), profiles=names, gpus=gpus)
    state = a_state(jobs, cluster=cluster, speeds=speeds or SYNERGY, rules=rules)
    divide = mechanisms.create(mechanism, **settings)
    divide.follow(rules)
    everybody = Choice(first=np.arange(len(names)), type=np.zeros(len(names), dtype=np.int64))
    placement = divide.divide(state.view(0.0), everybody)
    assert_fits(placement, state.view(0.0))
    return divide, state, placement


def speeds_of(placement):
    return placement.speed


def a_mix(rng, gpus, vision=0.2):
    """As many single-GPU jobs as GPUs; Synergy's mix is a fifth vision, a tenth speech, the rest language."""
    kinds = rng.choice(3, size=gpus, p=[vision, 0.9 - vision, 0.1])
    return [str(rng.choice([VISION, LANGUAGE, SPEECH][kind])) for kind in kinds]


def best_by_trying_everything(cluster, state, names, gpus):
    """The most total speed over all ways to cut jobs at GPUs and all their options."""
    rooms = [(s.capacity.gpus, s.capacity.cpus, s.capacity.memory_gb) for s in cluster.servers]
    view = state.view(0.0)
    known, classes = Holdings(view.classes.configurations), view.job_class.tolist()
    menus = [
        menu(known, group, 0, size, rooms, shared=False, between=False)
        for group, size in zip(classes, gpus, strict=True)
    ]

    def search(job, free):
        if job == len(names):
            return 0.0
        best, size = -np.inf, gpus[job]
        for parts in itertools.product(*(range(min(size, room[0]) + 1) for room in free)):
            if sum(parts) != size:
                continue
            for option in menus[job].options:
                left = [
                    (g - p, c - option.cpus * p / size, m - option.memory * p / size)
                    for (g, c, m), p in zip(free, parts, strict=True)
                ]
                if min(map(min, left)) > -1e-9:
                    best = max(best, option.speed + search(job + 1, left))
        return best

    return search(0, rooms)


@pytest.mark.parametrize("seed", range(12))
def test_on_small_clusters_nothing_is_better_than_its_answer(seed):
    rng = np.random.default_rng(seed)
    cluster = servers((2, 6, 125), (2, 8, 250)) if seed % 2 else servers((3, 9, 187.5), (1, 4, 125))
    gpus = [[1, 1, 1, 1], [2, 1, 1], [2, 2], [3, 1]][seed % 4]
    names = [str(name) for name in rng.choice(VISION + LANGUAGE[:1] + SPEECH, size=len(gpus))]

    _, state, placement = a_round(cluster, names, gpus, rules=preset("synergy-artifact"), gap=0.0, time_limit_s=60.0)

    best = best_by_trying_everything(cluster, state, names, gpus)
    assert speeds_of(placement).sum() == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("rules", ["default", "synergy-artifact"])
@pytest.mark.parametrize(("seed", "vision"), [(0, 0.2), (1, 0.2), (2, 0.3)])
def test_with_512_jobs_it_is_within_half_a_percent_of_the_bound(seed, vision, rules):
    names = a_mix(np.random.default_rng(seed), 512, vision)

    divide, _, placement = a_round(clusters.load("philly-512"), names, rules=preset(rules), time_limit_s=60.0)

    assert len(placement) == 512
    assert divide.tally.last < 0.005
    assert divide.tally.fallbacks == divide.tally.late == 0
    _, _, tuned = a_round(clusters.load("philly-512"), names, rules=preset(rules), mechanism="tune")
    assert speeds_of(placement).sum() > len(tuned)


def test_it_is_no_slower_in_total_than_tune_and_never_below_the_share():
    rng = np.random.default_rng(7)
    for _ in range(5):
        names = a_mix(rng, 32)
        _, _, ours = a_round(clusters.load("synergy-32"), names)
        _, _, tuned = a_round(clusters.load("synergy-32"), names, mechanism="tune")

        assert speeds_of(ours).sum() >= 0.998 * speeds_of(tuned).sum()
        assert speeds_of(ours).min() >= 1 - 1e-9


def test_where_nobody_cares_about_cpus_it_is_plain_placement():
    state = a_state(some_jobs(4, gpus=[2, 1, 4, 1]), cluster=a_cluster(v100=12, per_server=4), speeds=Speeds())
    choice = Choice(first=ids(0, 1, 2, 3), type=ids(0, 0, 0, 0))

    ours, plain = (mechanisms.create(name).divide(state.view(0.0), choice) for name in ("optimal", "proportional"))

    assert ours == plain
    assert ours.speed is None


def test_without_time_the_round_is_laid_out_by_tune_and_it_says_so():
    names = a_mix(np.random.default_rng(0), 32)

    divide, _, ours = a_round(clusters.load("synergy-32"), names, time_limit_s=0.0)
    _, _, tuned = a_round(clusters.load("synergy-32"), names, mechanism="tune")

    assert ours == tuned
    assert divide.remarks() == ["optimal: 1 of 1 decisions left to tune"]


def test_it_reports_the_gap_to_the_bound():
    divide, _, _ = a_round(servers((2, 6, 125), (2, 6, 125)), ["gnmt", "res18", "res18"], [2, 1, 1], consolidate=True)

    assert divide.tally.last > 0.01
    assert divide.remarks()[0].startswith("optimal: mean gap ")


def test_consolidation_keeps_jobs_whole_at_the_price_of_speed():
    cluster, names = servers((4, 12, 250), (4, 12, 250)), ["gnmt", "gnmt", "alexnet", "alexnet", "alexnet", "alexnet"]
    gpus = [2, 2, 1, 1, 1, 1]
    for name in ("gnmt", "res18"):
        names[:2] = [name, name]
        _, _, free = a_round(cluster, names, gpus)
        _, _, whole = a_round(cluster, names, gpus, consolidate=True)

        assert not whole.spans.any()
        assert speeds_of(free).sum() >= speeds_of(whole).sum() - 1e-9


def test_a_light_gang_is_cut_only_if_that_makes_others_faster():
    cluster, names = servers((4, 12, 500), (4, 12, 500)), ["gnmt", "res18", "res18", "res18", "res18"]

    _, _, free = a_round(cluster, names, [4, 1, 1, 1, 1])
    _, _, whole = a_round(cluster, names, [4, 1, 1, 1, 1], consolidate=True)

    assert free.spans.tolist() == [True, False, False, False, False]
    assert not whole.spans.any()
    assert speeds_of(free).sum() > speeds_of(whole).sum() + 0.5


def test_jobs_larger_than_any_server_run_over_several():
    _, _, placement = a_round(servers((2, 6, 125), (2, 6, 125)), ["alexnet"], [4])

    assert placement.slot_gpus.tolist() == [2, 2]
    assert speeds_of(placement).tolist() == [1.0]


@pytest.mark.parametrize("consolidate", [False, True])
def test_on_a_cluster_that_is_nearly_idle_there_may_be_nothing_to_lay_out_again(consolidate):
    """The bound takes all servers as one and promises a gang more memory than its server has."""
    names, cluster = ["alexnet", "gnmt", "transformer", "m5"], servers(*[(8, 40, 500)] * 16)

    _, _, placement = a_round(cluster, names, [1, 1, 1, 4], consolidate=consolidate)

    assert len(placement) == 4
    assert speeds_of(placement).min() >= 1


def test_a_job_that_gives_back_memory_and_takes_cpus_for_it_does_so_on_all_its_servers():
    """Where a share has more CPUs and less memory than jobs want, going back to the share takes CPUs."""
    large, small = (8, 96.0, 800.0), (8, 96.0, 320.0)
    names = ["m5", "bert", "res18", "mobilenet", "shufflenet", "deepspeech", "lstm", "shufflenet", "res50", "res50"]
    names, gpus = [*names, "vae", "res50"], [1, 3, 2, 8, 16, 4, 1, 4, 1, 1, 3, 2]
    cluster, rules = servers(large, small, large, small, small, small), preset("synergy-artifact")

    _, _, placement = a_round(cluster, names, gpus, rules=rules, speeds=profiles.load("synergy-cpu6"))

    assert len(placement) == len(names)
    assert speeds_of(placement).min() >= 1


@pytest.mark.parametrize("rules", ["default", "synergy-artifact"])
def test_the_same_choice_again_changes_nothing(rules):
    names = a_mix(np.random.default_rng(3), 28)
    divide, state, before = a_round(clusters.load("synergy-32"), names, rules=preset(rules))
    everybody = Choice(first=np.arange(28), type=np.zeros(28, dtype=np.int64))

    for _ in range(2):
        turn(state, before, 0.0)
        after = divide.divide(state.view(0.0), everybody)
        assert after == before
        assert after.kept.all()
        before = after


def test_who_goes_on_stays_on_its_gpus_when_others_come_and_go():
    names = ["gnmt", "alexnet", "gnmt", "alexnet", "res18", "gnmt"]
    divide, state, before = a_round(clusters.load("synergy-32"), names)
    turn(state, before, 0.0)

    after = divide.divide(state.view(0.0), Choice(first=ids(0, 1, 3, 4, 5), type=ids(0, 0, 0, 0, 0)))

    stayed = dict(zip(before.first.tolist(), before.slot_server.tolist(), strict=True))
    moved = [job for job, server in zip(after.first.tolist(), after.slot_server.tolist(), strict=True)
             if stayed[job] != server]  # fmt: skip
    assert len(moved) <= 1


@pytest.mark.parametrize("settings", [{"time_limit_s": -1.0}, {"gap": 1.0}, {"gap": -0.1}])
def test_impossible_parameters_are_refused(settings):
    with pytest.raises(ConfigError, match="mechanism 'optimal'"):
        mechanisms.create("optimal", **settings)
