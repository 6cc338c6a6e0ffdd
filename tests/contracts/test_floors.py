"""CPUs, memory and labels that jobs ask for, under every mechanism, on random clusters with random jobs."""

import numpy as np
import pytest

import rota
from rota.core.cluster import Cluster, Resources, Server, cluster_from
from rota.core.events import JobsFinished, JobsRejected, JobsSubmitted, Planned, RunStarted
from rota.core.jobs import requests, table
from rota.core.needs import types_that_hold
from rota.engine.log import read_events
from rota.mechanisms.registry import mechanisms

PLACING = sorted(set(mechanisms.names()) - {"ideal"})
POLICIES = {
    "synergy": ("fifo", "las", "srtf"),
    "gavel": ("fair-by-tenant", "max-min-fairness-perf", "max-min-fairness-packed"),
}
MODELS = {
    "synergy": ("res18", "lstm", "gnmt", "alexnet"),
    "gavel": ("ResNet-18 (batch size 32)", "LM (batch size 20)", "ResNet-50 (batch size 16)"),
}
HOUR = 3600.0


def a_random_cluster(draw, catalogue):
    """Servers of one or three types, each with its own GPUs, CPUs and memory; some have the label zone=a."""
    types = ("v100",) if catalogue == "synergy" else ("v100", "p100", "k80")
    servers = []
    for gpu_type in types:
        for number in range(int(draw.integers(1, 4))):
            gpus = int(draw.choice([1, 2, 4, 8]))
            capacity = Resources(gpus, gpus * float(draw.integers(3, 7)), gpus * float(draw.integers(64, 128)))
            labels = ("zone=a",) if draw.random() < 0.5 else ()
            servers.append(Server(id=f"{gpu_type}-{number}", type=gpu_type, capacity=capacity, labels=labels))
    return Cluster(name="random", servers=tuple(servers))


def random_jobs(draw, catalogue, count=24):
    models = [str(draw.choice(MODELS[catalogue])) for _ in range(count)]
    gpus = draw.choice([1, 1, 1, 2, 4], count)
    cpus = np.where(draw.random(count) < 0.4, draw.choice([1.0, 4.0, 9.0, 20.0], count), np.nan)
    memory = np.where(draw.random(count) < 0.4, draw.choice([10.0, 80.0, 200.0, 700.0], count), np.nan)
    return table(
        profile_names=models,
        gpus=gpus,
        total_steps=draw.integers(2_000, 60_000, count).astype(float),
        submitted=np.sort(draw.random(count) * 2 * HOUR),
        tenant_names=[f"t{n % 3}" for n in range(count)],
        requests=requests(count, cpus=cpus, memory_gb=memory),
        labels=[("zone=a",) if draw.random() < 0.2 else () for _ in range(count)],
    )


def events_of(tmp_path, jobs, cluster, **how):
    how = {"mechanism": "proportional", "policy": "las", "seed": 0, **how}
    rota.simulate(jobs=jobs, cluster=cluster, events=tmp_path / "run.jsonl", **how)
    return list(read_events(tmp_path / "run.jsonl"))


def assert_floors(placement, cluster, needs, asked_gpus):
    """Every task holds what it needs on each of its servers, and no server gives more than it has."""
    task = placement.task_of_slot
    server = placement.slot_server
    part = placement.slot_gpus / placement.gpus[task]
    for held, there, name in (
        (placement.cpus, cluster.server_cpus, "cpus"),
        (placement.memory_gb, cluster.server_memory_gb, "memory_gb"),
    ):
        on_slot = (
            there[server] * placement.slot_gpus / cluster.server_gpus[server] if held is None else held[task] * part
        )
        given = np.bincount(server, weights=on_slot, minlength=len(there))
        assert (given <= there * (1 + 1e-9) + 1e-6).all(), f"a server gives more {name} than it has"
        for member in (placement.first, placement.second):
            floor = np.array([getattr(needs[job], name) if job >= 0 else 0.0 for job in member.tolist()])
            assert (on_slot >= floor[task] * part - 1e-6).all(), f"a job below its floor of {name}"
    for at, row in zip(server.tolist(), task.tolist(), strict=True):
        assert set(needs[placement.first[row]].labels) <= set(cluster.ordered[at].labels)
    assert (placement.gpus == asked_gpus[placement.first]).all()
    used = np.bincount(server, weights=placement.slot_gpus, minlength=len(cluster.ordered))
    assert (used <= cluster.server_gpus).all()


def check_run(events, jobs):
    cluster = next(cluster_from(event.config["cluster"]) for event in events if isinstance(event, RunStarted))
    needs = jobs.needs()
    able = [any(types_that_hold(cluster, int(g), n)) for g, n in zip(jobs.gpus, needs, strict=True)]
    logged = [event.jobs.needs() for event in events if isinstance(event, JobsSubmitted)]
    assert [n for part in logged for n in part] == needs, "the log does not say what jobs need"
    for event in events:
        if isinstance(event, Planned):
            assert_floors(event.plan.placement, cluster, needs, jobs.gpus)
    refused = {int(job) for event in events if isinstance(event, JobsRejected) for job in event.jobs}
    done = {int(job) for event in events if isinstance(event, JobsFinished) for job in event.jobs}
    assert all(not able[job] for job in refused), "a job was refused that an empty server could hold"
    assert done | refused == set(range(len(jobs))), "a job that could run never did"


@pytest.mark.parametrize("mechanism", PLACING)
@pytest.mark.parametrize("catalogue", ["synergy", "gavel"])
def test_no_placement_goes_below_what_a_job_asked_for(tmp_path, mechanism, catalogue):
    for seed in range(2 if mechanism == "optimal" else 4):
        draw = np.random.default_rng(seed)
        cluster = a_random_cluster(draw, catalogue)
        jobs = random_jobs(draw, catalogue)
        policy = POLICIES[catalogue][seed % 3]

        made = events_of(tmp_path, jobs, cluster, mechanism=mechanism, policy=policy, profiles=catalogue)

        check_run(made, jobs)


def jobs_with(memory_gb, *, gpus=1, arrivals=None, steps=5_000.0, **columns):
    count = len(memory_gb)
    return table(
        profile_names=["res18"] * count,
        gpus=np.broadcast_to(gpus, count),
        total_steps=np.full(count, steps),
        submitted=np.arange(count, dtype=float) if arrivals is None else arrivals,
        requests=requests(count, memory_gb=np.array(memory_gb, dtype=float)),
        **columns,
    )


def two_servers(small_gb=128.0, large_gb=512.0):
    sizes = {"small": small_gb, "large": large_gb}
    servers = [Server(id=name, type="v100", capacity=Resources(4, 16.0, gb)) for name, gb in sizes.items()]
    return Cluster(name="two", servers=tuple(servers))


def first_places(events, cluster_of):
    """Server by job, in the first placement that has it."""
    places = {}
    for event in events:
        if isinstance(event, Planned):
            placement = event.plan.placement
            for row, job in enumerate(placement.first.tolist()):
                server = int(placement.slot_server[placement.slot_start[row]])
                places.setdefault(job, cluster_of(events).ordered[server].id)
    return places


def cluster_of(events):
    return next(cluster_from(event.config["cluster"]) for event in events if isinstance(event, RunStarted))


@pytest.mark.parametrize("mechanism", PLACING)
def test_a_job_that_needs_200_gb_beside_one_gpu_gets_the_server_that_has_them(tmp_path, mechanism):
    jobs = jobs_with([np.nan, 200.0, np.nan])

    made = events_of(tmp_path, jobs, two_servers(), mechanism=mechanism, profiles="synergy")

    assert first_places(made, cluster_of)[1] == "large"
    check_run(made, jobs)


def test_a_job_that_no_server_can_hold_is_told_what_servers_have(tmp_path):
    made = events_of(tmp_path, jobs_with([np.nan, 600.0]), two_servers(), profiles="synergy")

    (refusal,) = [event for event in made if isinstance(event, JobsRejected)]
    assert refusal.jobs.tolist() == [1]
    assert (
        "asks for 1 GPU with 600 GB of memory; the most that one server has is 4 GPUs, 16 CPUs, 512 GB"
        in refusal.reason
    )


def test_a_job_that_needs_much_does_not_overtake_those_before_it(tmp_path):
    """Eight jobs fill the GPUs; the ninth would strand some of them, so it waits until enough are free."""
    jobs = jobs_with([np.nan] * 8 + [450.0])

    made = events_of(tmp_path, jobs, two_servers(), policy="fifo", profiles="synergy")

    planned = [event for event in made if isinstance(event, Planned)]
    started = {job: event.at for event in reversed(planned) for job in event.plan.placement.first.tolist()}
    ended = {int(j): t for e in made if isinstance(e, JobsFinished) for j, t in zip(e.jobs, e.finished_at, strict=True)}
    assert max(started[job] for job in range(8)) < 400
    assert started[8] >= min(ended[job] for job in range(8))
    check_run(made, jobs)


def test_others_beside_a_job_that_needs_much_keep_their_proportional_share(tmp_path):
    jobs = jobs_with([400.0] + [np.nan] * 6, arrivals=np.zeros(7))

    made = events_of(tmp_path, jobs, two_servers(), policy="fifo", profiles="synergy")

    cluster = cluster_of(made)
    placement = next(event.plan.placement for event in made if isinstance(event, Planned))
    fair = float(cluster.fair_memory_gb[0])
    assert (placement.memory_gb >= fair - 1e-6).all()
    assert placement.first.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert placement.memory_gb[0] == 400.0


def test_without_the_rule_requests_are_only_recorded(tmp_path):
    how = {"profiles": "synergy", "rule_settings": {"enforce_requests": "no"}}

    made = events_of(tmp_path, jobs_with([np.nan, 600.0]), two_servers(), **how)

    assert not [event for event in made if isinstance(event, JobsRejected)]


def test_requests_within_the_proportional_share_change_no_result(tmp_path):
    """CPUs and memory that every GPU has anyway are no reason to place a job otherwise."""
    draw = np.random.default_rng(5)
    asked = jobs_with([10.0, np.nan] * 12, gpus=draw.choice([1, 2], 24), arrivals=np.sort(draw.random(24) * HOUR))
    plain = jobs_with([np.nan] * 24, gpus=asked.gpus, arrivals=asked.submitted)

    one = rota.simulate(jobs=asked, cluster=two_servers(), policy="las", profiles="synergy", seed=0)
    two = rota.simulate(jobs=plain, cluster=two_servers(), policy="las", profiles="synergy", seed=0)

    assert one.summary["mean_jct_s"] == two.summary["mean_jct_s"]
    assert one.summary["makespan_s"] == two.summary["makespan_s"]


def test_a_run_without_a_log_is_the_same_run(tmp_path):
    draw = np.random.default_rng(3)
    cluster = a_random_cluster(draw, "synergy")
    jobs = random_jobs(draw, "synergy")
    how = {"jobs": jobs, "cluster": cluster, "policy": "las", "mechanism": "tune", "profiles": "synergy", "seed": 0}

    with_log = rota.simulate(**how, events=tmp_path / "run.jsonl")
    without = rota.simulate(**how)

    assert with_log.summary["mean_jct_s"] == without.summary["mean_jct_s"]


def test_servers_whose_memory_nobody_knows_are_taken_to_have_enough(tmp_path):
    made = events_of(tmp_path, jobs_with([np.nan, 600.0]), "v100=4", profiles="synergy")

    assert not [event for event in made if isinstance(event, JobsRejected)]


@pytest.mark.parametrize("mechanism", ["proportional", "tune"])
def test_names_of_servers_do_not_matter(tmp_path, mechanism):
    """The same servers under other names, in another order, finish the same jobs at the same times."""
    draw = np.random.default_rng(11)
    cluster = a_random_cluster(draw, "synergy")
    jobs = random_jobs(draw, "synergy")
    renamed = [
        Server(id=f"n{n}", type=s.type, capacity=s.capacity, labels=s.labels) for n, s in enumerate(cluster.servers)
    ]
    other = Cluster(name="random", servers=tuple(renamed))
    how = {"jobs": jobs, "policy": "las", "mechanism": mechanism, "profiles": "synergy", "seed": 0}

    one = rota.simulate(cluster=cluster, **how)
    two = rota.simulate(cluster=other, **how)

    assert one.summary["mean_jct_s"] == two.summary["mean_jct_s"]


def asking(cpus, hours, memory_gb=None):
    """Jobs of one GPU that are there from the start; NaN: asks for nothing."""
    count = len(cpus)
    return table(
        profile_names=["res18"] * count,
        gpus=[1] * count,
        total_steps=np.array(hours, dtype=float) * 1e4,
        submitted=np.zeros(count),
        requests=requests(
            count,
            cpus=np.array(cpus, dtype=float),
            memory_gb=np.full(count, np.nan) if memory_gb is None else memory_gb,
        ),
    )


def running_first(events):
    """Jobs of the last plan within the first ten seconds."""
    plans = [event.plan.placement for event in events if isinstance(event, Planned) and event.at < 10]
    return set(plans[-1].first.tolist())


@pytest.mark.parametrize("policy", ["fifo", "las", "srtf-perf", "las-perf", "max-min-fairness-perf", "isolated"])
def test_a_job_that_would_leave_too_little_on_one_type_takes_another(tmp_path, policy):
    """Two servers of two GPUs and 8 CPUs: beside 6 CPUs no GPU keeps its share, so each server has one job."""
    jobs = asking([np.nan, 6.0], [1.0, 3.0])
    cluster = "v100=2/2:cpus=8:memory=128,p100=2/2:cpus=8:memory=128"

    made = events_of(tmp_path, jobs, cluster, policy=policy, profiles="pipeline")

    assert running_first(made) == {0, 1}
    check_run(made, jobs)


@pytest.mark.parametrize("mechanism", [name for name in PLACING if name != "greedy"])  # there jobs wait for CPUs
def test_who_finds_room_behind_a_job_that_finds_none_runs(tmp_path, mechanism):
    """The third job needs the memory of both GPUs of the large server; the fourth leaves the first two a GPU each."""
    small = Server(id="small", type="v100", capacity=Resources(1, 4.0, 64.0))
    large = Server(id="large", type="v100", capacity=Resources(2, 16.0, 128.0))
    memory = np.array([np.nan, np.nan, 100.0, np.nan])
    jobs = asking([np.nan, np.nan, np.nan, 6.0], [1.0, 1.0, 1.1, 1.5], memory)

    made = events_of(
        tmp_path,
        jobs,
        Cluster(name="two", servers=(large, small)),
        policy="fifo",
        mechanism=mechanism,
        profiles="synergy",
    )

    assert running_first(made) == {0, 1, 3}
    check_run(made, jobs)


def fits_beside(cluster, placement, job, needs):
    """Whether a job of one GPU finds GPU, CPUs and memory, if the others hold their floors or their share."""
    for at, server in enumerate(cluster.ordered):
        gpu_type = int(cluster.server_type[at])
        free = np.array([server.capacity.gpus, server.capacity.cpus, server.capacity.memory_gb], dtype=float)
        share = np.array([1.0, cluster.fair_cpus[gpu_type], cluster.fair_memory_gb[gpu_type]])
        for task, here in zip(placement.task_of_slot.tolist(), placement.slot_server.tolist(), strict=True):
            if here == at:
                need = needs[placement.first[task]]
                free -= np.maximum(share, [1.0, need.cpus, need.memory_gb])
        need = needs[job]
        if (free >= np.maximum(share, [1.0, need.cpus, need.memory_gb]) - 1e-6).all():
            return True
    return False


@pytest.mark.parametrize("policy", ["fifo", "las-perf", "max-min-fairness-perf"])
@pytest.mark.parametrize("mechanism", ["proportional", "strided"])
def test_few_jobs_of_one_gpu_wait_beside_a_gpu_where_they_would_fit(tmp_path, policy, mechanism):
    """What is said in docs/requests.md: it may happen where jobs without requests could have been put elsewhere."""
    waits = 0
    moments = 0
    for seed in range(4):
        draw = np.random.default_rng(seed)
        servers = [
            Server(
                id=f"{gpu_type}-{n}", type=gpu_type, capacity=Resources(g, g * float(draw.choice([2, 4, 8])), g * 64.0)
            )
            for gpu_type in ("v100", "p100")
            for n, g in enumerate(draw.choice([1, 2, 4], 2).tolist())
        ]
        cluster = Cluster(name="random", servers=tuple(servers))
        cpus = np.where(draw.random(12) < 0.5, draw.choice([3.0, 6.0, 12.0], 12), np.nan)
        jobs = asking(cpus, draw.uniform(0.2, 2.0, 12))
        made = events_of(tmp_path, jobs, cluster, policy=policy, mechanism=mechanism, profiles="pipeline")
        needs = jobs.needs()
        ordered = cluster_of(made)
        gone = {int(job) for event in made if isinstance(event, JobsRejected) for job in event.jobs}
        for event in made:
            if isinstance(event, JobsFinished):
                gone |= set(event.jobs.tolist())
            elif isinstance(event, Planned):
                placement = event.plan.placement
                waiting = set(range(12)) - gone - set(placement.first.tolist())
                waits += any(fits_beside(ordered, placement, job, needs) for job in waiting)
                moments += 1

    assert waits <= moments * 0.05, (waits, moments)
