"""Quotas over any policy and mechanism: what is promised is there in the next round, and no limit is passed."""

import dataclasses

import numpy as np
import pytest

import rota
from rota.core.cluster import cluster_from
from rota.core.events import JobsDropped, JobsFinished, JobsSubmitted, Planned, RunStarted
from rota.core.jobs import requests, table
from rota.deploy.tenants import Tenants, TenantSettings
from rota.engine.log import read_events

POLICIES = [
    "fifo", "las", "srtf", "max-min-fairness-perf", "max-min-fairness", "max-min-fairness-packed", "isolated",
    "finish-time-fairness-perf", "fifo-perf", "drf", "max-sum-throughput-perf", "min-total-duration-perf", "gandiva",
    "allox",
]  # fmt: skip
MECHANISMS = ["proportional", "strided", "tune", "greedy", "optimal"]
MODELS = ("ResNet-18 (batch size 32)", "LM (batch size 20)")
ROUND_S = 360.0
MIXED = "v100=4,p100=4,k80=4"
NAMES = ("a", "b", "c", "d")
TYPED = Tenants(
    named={
        "a": TenantSettings(quota={"v100": 2, "k80": 1}, borrow=2),
        "b": TenantSettings(quota=3, borrow=0),
        "c": TenantSettings(quota=0, borrow=4),
    }
)
"""The fourth tenant has no quota."""


def some_jobs(seed, *, count=24, gpus=(1, 1, 2), static=False, names=NAMES, tenants=None):
    draw = np.random.default_rng(seed)
    of = draw.integers(0, len(names), count)
    return table(
        profile_names=[str(draw.choice(MODELS)) for _ in range(count)],
        gpus=draw.choice(gpus, count),
        total_steps=draw.integers(20_000, 200_000, count).astype(float),
        submitted=np.zeros(count) if static else np.sort(draw.random(count) * 3600),
        tenant_names=[names[n] for n in of],
    )


def sizes_of(policy):
    return (1,) if policy in ("gandiva", "allox") else (1, 1, 2)


def events_of(tmp_path, jobs, tenants, *, cluster=MIXED, **how):
    log = tmp_path / "run.jsonl"
    rota.simulate(jobs=jobs, cluster=cluster, events=log, seed=0, profiles="gavel", tenants=tenants, **how)
    return list(read_events(log))


@dataclasses.dataclass(frozen=True)
class Moment:
    """A plan, who was there, and what tenants hold by type."""

    at: float
    there: frozenset
    held: dict
    idle: int
    types: tuple

    @property
    def starts_round(self):
        return self.at % ROUND_S < 1e-6 or ROUND_S - self.at % ROUND_S < 1e-6


def moments(events, jobs):
    cluster = next(cluster_from(event.config["cluster"]) for event in events if isinstance(event, RunStarted))
    tenant = [jobs.tenants[number] for number in jobs.tenant.tolist()]
    there = set()
    for event in events:
        if isinstance(event, JobsSubmitted):
            there |= set(range(event.first_id, event.first_id + len(event.jobs)))
        elif isinstance(event, JobsFinished | JobsDropped):
            there -= set(event.jobs.tolist())
        elif isinstance(event, Planned):
            placement = event.plan.placement
            held = {}
            for row in range(len(placement)):
                members = {int(placement.first[row]), int(placement.second[row])} - {-1}
                gpu_type = cluster.types[placement.type[row]]
                for owner in {tenant[job] for job in members}:
                    gpus = held.setdefault(owner, {})
                    gpus[gpu_type] = gpus.get(gpu_type, 0) + int(placement.gpus[row])
            idle = cluster.gpus - int(placement.gpus.sum())
            yield Moment(event.at, frozenset(there), held, idle, cluster.types)


def check_limits(events, jobs, tenants):
    seen = 0
    for moment in moments(events, jobs):
        for name, gpus in moment.held.items():
            quota = tenants.of(name).promised()
            assert quota.borrowed(gpus) <= quota.borrow, f"{name} holds {gpus} at {moment.at}"
        seen += bool(moment.held)
    assert seen


def check_promises(events, jobs, tenants):
    """Tenants with jobs of one GPU each hold their quotas, or one GPU for each job."""
    for moment in moments(events, jobs):
        if not moment.starts_round:
            continue
        for number, name in enumerate(jobs.tenants):
            mine = sum(jobs.tenant[job] == number for job in moment.there)
            promised = min(tenants.of(name).promised().total, mine)
            assert sum(moment.held.get(name, {}).values()) >= promised, f"{name} at {moment.at}: {moment.held}"


@pytest.mark.parametrize("policy", POLICIES)
def test_no_tenant_holds_more_than_quota_and_borrow_limit(tmp_path, policy):
    for seed in range(2):
        jobs = some_jobs(seed, gpus=sizes_of(policy))

        check_limits(events_of(tmp_path, jobs, TYPED, policy=policy), jobs, TYPED)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_tenant_holds_its_quota_in_the_next_round(tmp_path, policy):
    tenants = Tenants(
        named={
            "a": TenantSettings(quota={"v100": 2, "k80": 1}),
            "b": TenantSettings(quota=3),
            "c": TenantSettings(quota=4, borrow=1),
        }
    )
    for seed in range(2):
        jobs = some_jobs(seed, count=40, gpus=(1,))
        events = events_of(tmp_path, jobs, tenants, policy=policy)

        check_limits(events, jobs, tenants)
        if policy not in ("max-min-fairness-packed", "gandiva"):  # there two jobs on one GPU hold it together
            check_promises(events, jobs, tenants)


@pytest.mark.parametrize("policy", POLICIES)
def test_who_comes_within_a_quota_takes_it_from_who_was_alone(policy):
    jobs = table(
        profile_names=["recorded"] * 2,
        gpus=[1, 1],
        total_steps=[10_000.0, 500.0],
        submitted=[0.0, 100.0],
        tenant_names=["other", "a"],
    )
    tenants = Tenants(named={"a": TenantSettings(quota=1)})

    ends = rota.simulate(jobs=jobs, cluster="v100=1", policy=policy, seed=0, tenants=tenants).jobs["finish_s"]

    assert ends.tolist() == pytest.approx([10_500.0, ROUND_S + 500.0])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_mechanisms_keep_to_quotas(tmp_path, mechanism):
    jobs = some_jobs(7, count=24, gpus=(1,))
    promises = dataclasses.replace(TYPED, default=TenantSettings())
    for policy in ("las", "max-min-fairness-perf"):
        for rules in ("default", "gavel-artifact"):
            events = events_of(tmp_path, jobs, promises, policy=policy, mechanism=mechanism, rules=rules)

            check_limits(events, jobs, promises)
            if rules == "default":
                check_promises(events, jobs, promises)


@pytest.mark.parametrize("policy", POLICIES)
def test_with_borrowing_quotas_leave_no_gpu_idle(tmp_path, policy):
    tenants = Tenants(named={"a": TenantSettings(quota={"v100": 3}), "b": TenantSettings(quota=5)})
    for seed in range(3):
        jobs = some_jobs(seed, count=16, gpus=(1,), static=True)
        without = next(moments(events_of(tmp_path, jobs, Tenants(), policy=policy, until=ROUND_S), jobs))

        with_quotas = next(moments(events_of(tmp_path, jobs, tenants, policy=policy, until=ROUND_S), jobs))

        assert with_quotas.idle <= without.idle


def plans(events):
    """What runs where, at which second."""
    return [
        (event.at, event.plan.placement.first.tolist(), event.plan.placement.type.tolist())
        for event in events
        if isinstance(event, Planned)
    ]


@pytest.mark.parametrize("rows", [(0, 1, 2), (2, 1, 0)])
def test_of_two_within_their_quotas_the_older_one_is_put_on_servers_first(rows):
    """Beside four of six CPUs there is no proportional share for the other one."""
    cpus = np.array([np.nan, np.nan, 4.0])
    jobs = table(
        profile_names=["recorded"] * 3,
        gpus=[2 if row == 0 else 1 for row in rows],
        total_steps=[100.0 if row == 0 else 200.0 for row in rows],
        submitted=[10.0 * row for row in rows],
        tenant_names=[NAMES[row] for row in rows],
        requests=requests(3, cpus=cpus[list(rows)]),
    )
    tenants = Tenants(named={"b": TenantSettings(quota=1), "c": TenantSettings(quota=1)})

    ends = rota.simulate(jobs=jobs, cluster="v100=2/2:cpus=6", policy="fifo", tenants=tenants).jobs["finish_s"]

    assert ends[list(rows)].tolist() == pytest.approx([100.0, 300.0, 500.0])


@pytest.mark.parametrize("policy", ["las", "fifo", "max-min-fairness-perf", "max-sum-throughput-perf"])
def test_names_and_order_of_tenants_make_no_difference(tmp_path, policy):
    tight = {
        "a": TenantSettings(quota={"v100": 3}),
        "b": TenantSettings(quota={"v100": 3}, borrow=1),
        "c": TenantSettings(quota=7),
        "d": TenantSettings(quota=7),
    }
    new_names = dict(zip(NAMES, ("z", "y", "b", "a"), strict=True))
    renamed = {new_names[name]: settings for name, settings in reversed(tight.items())}
    jobs = some_jobs(5)
    again = some_jobs(5, names=tuple(new_names.values()))

    before = plans(events_of(tmp_path, jobs, Tenants(named=tight), policy=policy))

    assert plans(events_of(tmp_path, again, Tenants(named=renamed), policy=policy)) == before


def lines_after_the_first(tmp_path, jobs, tenants, policy):
    events_of(tmp_path, jobs, tenants, policy=policy)
    return (tmp_path / "run.jsonl").read_bytes().split(b"\n", 1)[1]


@pytest.mark.parametrize("policy", ["las", "fifo-perf", "max-sum-throughput-perf", "allox"])
def test_without_quotas_the_log_is_the_same_byte_by_byte(tmp_path, policy):
    jobs = some_jobs(2, gpus=sizes_of(policy))

    before = lines_after_the_first(tmp_path, jobs, None, policy)

    assert lines_after_the_first(tmp_path, jobs, Tenants(), policy) == before


@pytest.mark.parametrize("policy", ["las", "max-min-fairness-perf"])
def test_the_quota_of_an_idle_tenant_changes_nothing(tmp_path, policy):
    jobs = some_jobs(2)
    named = {"a": TenantSettings(quota=4), "b": TenantSettings(quota={"k80": 2}, borrow=1)}
    idle = {"idle": TenantSettings(quota={"v100": 4, "p100": 4, "k80": 4}, borrow=0)}
    for others in ({}, named):
        before = lines_after_the_first(tmp_path, jobs, Tenants(named=others), policy)

        assert lines_after_the_first(tmp_path, jobs, Tenants(named={**others, **idle}), policy) == before


def test_quotas_above_capacity_are_cut_in_proportion(tmp_path):
    tenants = Tenants(named={"a": TenantSettings(quota=6), "b": TenantSettings(quota=18)})
    jobs = some_jobs(1, count=40, gpus=(1,), static=True, names=("a", "b"))

    moment = next(moments(events_of(tmp_path, jobs, tenants, policy="fifo", until=ROUND_S), jobs))

    held = {name: sum(gpus.values()) for name, gpus in moment.held.items()}
    assert held == {"a": 3, "b": 9}


def test_within_a_quota_jobs_take_turns_as_the_policy_says(tmp_path):
    tenants = Tenants(named={"a": TenantSettings(quota=2, borrow=0)})
    jobs = table(
        profile_names=[MODELS[0]] * 6,
        gpus=[1] * 6,
        total_steps=np.full(6, 5e5),
        submitted=np.zeros(6),
        tenant_names=["a"] * 4 + ["b"] * 2,
    )
    for policy in ("las", "max-min-fairness-perf"):
        events = events_of(tmp_path, jobs, tenants, cluster="v100=8", policy=policy, until=8 * ROUND_S)

        ran = {job for _, first, _ in plans(events) for job in first}
        assert ran == set(range(6)), policy
        check_limits(events, jobs, tenants)


def finished(jobs, tenants, **how):
    return rota.simulate(jobs=jobs, seed=0, profiles="gavel", tenants=tenants, **how).summary["jobs_finished"]


@pytest.mark.parametrize("policy", [*(p for p in POLICIES if p not in ("gandiva", "allox")), "las-perf", "srtf-perf"])
def test_a_gang_within_quota_and_borrow_limit_runs_on_the_type_of_the_quota(policy):
    """Four GPUs of the one type are three of the quota and a borrowed one, four of the other four borrowed ones."""
    gang = table(profile_names=[MODELS[0]], gpus=[4], total_steps=[2e4], submitted=[0.0], tenant_names=["c"])
    for quota, borrow in (({"v100": 3}, 1), ({"v100": 2}, 2), ({"p100": 3}, 1), ({"v100": 2, "p100": 2}, 2)):
        tenants = Tenants(named={"c": TenantSettings(quota=quota, borrow=borrow)})

        assert finished(gang, tenants, cluster="v100=8,p100=8", policy=policy) == 1, (quota, borrow)


@pytest.mark.parametrize("policy", ["fifo", "las-perf", "max-min-fairness-perf", "max-sum-throughput-perf"])
def test_nobody_within_quota_and_borrow_limit_is_dropped(policy):
    for seed in range(3):
        draw = np.random.default_rng(seed)
        named = {}
        largest = {}
        for name in NAMES:
            quota = {gpu_type: int(draw.integers(0, 4)) for gpu_type in ("v100", "p100")}
            borrow = int(draw.integers(0, 3))
            named[name] = TenantSettings(quota=quota, borrow=borrow)
            largest[name] = min(4, max(quota.values()) + borrow)
        owners = [str(name) for name in draw.choice(NAMES, 16) if largest[name]]
        jobs = table(
            profile_names=[str(draw.choice(MODELS)) for _ in owners],
            gpus=[max(size for size in (1, 2, 4) if size <= largest[name]) for name in owners],
            total_steps=draw.integers(20_000, 100_000, len(owners)).astype(float),
            submitted=np.sort(draw.random(len(owners)) * 1800),
            tenant_names=owners,
        )

        assert finished(jobs, Tenants(named=named), cluster="v100=8,p100=8", policy=policy) == len(owners), seed
