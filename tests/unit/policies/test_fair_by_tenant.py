"""Tenants have equal parts, however many jobs they have."""

import numpy as np
import pytest

import rota
from builders import FAST, SLOW, a_cluster, a_view
from rota.core.errors import ConfigError
from rota.core.jobs import table
from rota.deploy.tenants import Tenants, TenantSettings, read_tenants
from rota.policies.fair_by_tenant import FairByTenant, TenantWeighted, divides_by_weight, entitlements, parse_weights
from rota.policies.registry import policies

BY_WEIGHT = [name for name in policies.names() if divides_by_weight(name)]


def view_of(*jobs, **gpus):
    """Jobs are (tenant, GPUs, weight)."""
    tenants, sizes, weights = zip(*jobs, strict=True)
    asked = table(
        profile_names=[FAST] * len(jobs), gpus=list(sizes), total_steps=[1e6] * len(jobs), submitted=[0.0] * len(jobs),
        weight=list(weights), tenant_names=list(tenants),
    )  # fmt: skip
    return a_view(asked, cluster=a_cluster(per_server=4, **(gpus or {"v100": 4})))


def gpus_of(view, allocation):
    """GPUs that each tenant gets in the long run."""
    alone = allocation.share[: len(view)].sum(axis=1) * view.gpus
    return {name: float(alone[view.tenant == at].sum()) for at, name in enumerate(view.tenants)}


MANY = [("many", 1, 1.0)] * 20


@pytest.mark.parametrize("name", [n for n in BY_WEIGHT if "strategy-proof" not in n and "packed" not in n])
@pytest.mark.parametrize("gpus", [2, 4])
def test_one_job_has_as_much_as_twenty_of_another_tenant(name, gpus):
    view = view_of(("one", gpus, 1.0), *MANY)

    fair = gpus_of(view, FairByTenant(inner=name).allocate(view))

    assert fair == pytest.approx({"one": 2.0, "many": 2.0}, rel=1e-6)


def test_a_hundred_jobs_have_half_and_what_nobody_else_can_use():
    half = view_of(("one", 8, 1.0), *[("many", 1, 1.0)] * 100, v100=16)
    rest = view_of(("one", 1, 1.0), *[("many", 1, 1.0)] * 100, v100=16)

    assert gpus_of(half, FairByTenant().allocate(half)) == pytest.approx({"one": 8.0, "many": 8.0}, rel=1e-6)
    assert gpus_of(rest, FairByTenant().allocate(rest)) == pytest.approx({"one": 1.0, "many": 15.0}, rel=1e-6)


def test_what_a_job_cannot_use_goes_to_the_other_jobs_of_its_tenant_first():
    view = view_of(("a", 1, 1.0), ("a", 4, 1.0), *[("b", 1, 1.0)] * 20, v100=8)

    assert entitlements(view, {})[:2] == pytest.approx([1.0, 3.0])
    assert gpus_of(view, FairByTenant().allocate(view)) == pytest.approx({"a": 4.0, "b": 4.0}, rel=1e-6)


def test_weights_of_tenants_and_of_jobs_count_each_at_its_level():
    view = view_of(("a", 1, 3.0), ("a", 1, 1.0), *[("b", 1, 5.0)] * 20, v100=2)

    entitled = entitlements(view, {"a": 3.0})

    assert entitled[:2] == pytest.approx([1.0, 0.5])
    assert entitled[2:].sum() == pytest.approx(0.5)
    assert gpus_of(view, FairByTenant(weights="a=3").allocate(view)) == pytest.approx({"a": 1.5, "b": 0.5}, rel=1e-6)


def test_a_job_with_a_million_times_the_weight_takes_nothing_from_other_tenants():
    view = view_of(("bad", 1, 1e6), ("bad", 1, 1.0), ("good", 1, 1.0), v100=2)

    assert entitlements(view, {}) == pytest.approx([1.0, 0.0, 1.0], abs=1e-5)


def test_with_one_tenant_the_inner_policy_answers_as_it_is():
    view = view_of(("a", 1, 1.0), ("a", 2, 3.0), ("a", 4, 1.0))

    assert FairByTenant().allocate(view) == policies.create("max-min-fairness-perf").allocate(view)


@pytest.mark.parametrize("name", BY_WEIGHT)
def test_any_policy_by_weight_answers_on_several_types(name):
    rows = [("a", FAST, 1), ("b", SLOW, 2), ("b", FAST, 1), ("c", SLOW, 1)] * 5
    jobs = table(
        profile_names=[r[1] for r in rows], gpus=[r[2] for r in rows], total_steps=[1e6] * len(rows),
        submitted=[0.0] * len(rows), tenant_names=[r[0] for r in rows],
    )  # fmt: skip
    view = a_view(jobs, cluster=a_cluster(v100=4, k80=4, per_server=4))

    allocation = TenantWeighted(policies.create(name), {}).allocate(view)

    assert (allocation.jobs == view.jobs).all()
    assert np.isfinite(allocation.share).all()
    assert (allocation.share[: len(view)] >= -1e-9).all()


@pytest.mark.parametrize("inner", ["fifo", "srtf", "las", "fair-by-tenant"])
def test_a_policy_that_takes_no_notice_of_weights_is_refused(inner):
    with pytest.raises(ConfigError, match="takes no notice of weights"):
        FairByTenant(inner=inner)


@pytest.mark.parametrize("text", ["a", "a=", "a=0", "a=-1", "a=inf", "=2", "a=x"])
def test_weights_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match="is not TENANT=WEIGHT"):
        parse_weights(text)


# The operator's file


def test_a_file_of_tenants_has_defaults(tmp_path):
    path = tmp_path / "tenants.toml"
    path.write_text("[default]\nmax_job_weight = 2\nweight = 2\n[tenants.vision]\nweight = 4\n", encoding="utf-8")

    tenants = read_tenants(path)

    assert tenants.of("vision") == TenantSettings(weight=4.0, max_job_weight=2.0)
    assert tenants.of("unknown") == TenantSettings(weight=2.0, max_job_weight=2.0)
    assert tenants.weights() == {"vision": 2.0}
    assert Tenants().of("anybody").max_job_weight == 1.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tenants.a]\nwieght = 2", "tenants.a: there is no 'wieght'; did you mean 'weight'"),
        ("[tenants.a]\nweight = 0", "tenants.a: weight is 0; give a number above 0"),
        ("[tenants.a]\nweight = inf", "weight is inf"),
        ("[tenants.a]\nweight = true", "weight is True"),
        ("[tenants]\na = 2", "tenants.a is 2; give a table"),
        ("tenants = 2", "tenants is no table"),
        ("[tenant.a]\nweight = 2", "there is no 'tenant'; did you mean 'tenants'"),
        ("weight =", "is not a TOML file"),
    ],
)
def test_mistakes_in_a_file_of_tenants_are_told(tmp_path, text, problem):
    path = tmp_path / "tenants.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as refused:
        read_tenants(path)

    assert problem in str(refused.value)
    assert str(path) in str(refused.value)


def parts(rows, cluster, until):
    """The parts of GPU time that tenants a and b (weights 2 and 1) have; a row is (arrival, GPUs, seconds, tenant)."""
    nan = float("nan")
    jobs = table(
        profile_names=["recorded"] * len(rows), gpus=[row[1] for row in rows], total_steps=[nan] * len(rows),
        duration=[row[2] for row in rows], submitted=[row[0] for row in rows], tenant_names=[row[3] for row in rows],
    )  # fmt: skip
    settings = {"inner": "max-min-fairness", "weights": "a=2,b=1"}
    run = rota.simulate(jobs=jobs, cluster=cluster, policy="fair-by-tenant", policy_settings=settings, until=until)
    hours = {name: tenant["gpu_hours"] for name, tenant in run.summary["by_tenant"].items()}
    return hours["a"] / sum(hours.values())


@pytest.mark.parametrize(("seconds", "jobs"), [(100.0, 60), (720.0, 60), (7200.0, 20)])
def test_tenants_have_their_parts_however_short_their_jobs_are(seconds, jobs):
    """Debts that left with their jobs once gave a tenant all of the GPU time until its work was through."""
    rows = [(0.0, 1, seconds, tenant) for tenant in "ab" for _ in range(jobs)]

    assert parts(rows, "v100=1/1", 1.4 * seconds * jobs) == pytest.approx(2 / 3, abs=0.03)


def test_a_stream_of_short_jobs_has_its_part_beside_one_of_long_jobs():
    short = [(i * 16.0, 1, 100.0, "a") for i in range(3000)]
    long = [(i * 160.0, 1, 1000.0, "b") for i in range(300)]

    assert parts(sorted(short + long), "v100=4/4", 48_000.0) == pytest.approx(2 / 3, abs=0.04)
