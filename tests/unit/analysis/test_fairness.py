import numpy as np
import pytest
from event_builders import CLUSTER, K80, V100, finished, observe_all, planned, ran, submitted

from rota.analysis.fairness import fairness, mean_present
from rota.analysis.metrics import Metrics
from rota.core.cluster import Resources, uniform
from rota.core.errors import ProfileMissing
from rota.core.events import CapacityChanged, JobsDropped, JobsRejected
from rota.core.placement import Placement, Plan


class Speeds:
    """1 step/s on a k80, 3 on a v100."""

    name = "by hand"

    def rate(self, profile, gpus, type_, *, spread=False):  # noqa: ARG002 - the signature of the port
        if profile == "unknown":
            raise ProfileMissing("never measured")
        return {"k80": 1.0, "v100": 3.0}[type_]


def test_a_job_alone_gets_every_type_by_turns_and_is_compared_with_that():
    metrics = observe_all(Metrics(CLUSTER, speeds=Speeds()), submitted(0, [0.0], steps=[200.0]), finished([0], [100.0]))

    summary = metrics.summary(100.0)

    # Half of its time on each type: 2 steps/s, so 200 steps take 100 s in isolation.
    assert summary["mean_ftf"] == pytest.approx(1.0)
    assert summary["unfair_fraction"] == 0.0


def test_company_makes_the_isolated_share_smaller():
    metrics = observe_all(
        Metrics(CLUSTER, speeds=Speeds()),
        submitted(0, [0.0] * 8, steps=[300.0] * 8),
        finished(range(8), [300.0] * 7 + [600.0]),
    )

    rho = metrics.jobs()["ftf"]

    # Eight jobs on 2 + 2 GPUs: 1/4 of the time on each type, 1 step/s, 300 s.
    assert rho[:7] == pytest.approx([1.0] * 7)
    # The last one had 8 beside it for 300 s and nobody for 300 s: n = 4.5, 4 GPUs / 4.5 of 2 steps/s.
    assert rho[7] == pytest.approx(600.0 / (300.0 / (2 * 4 / 4.5)))
    assert metrics.summary(600.0)["worst_ftf"] == pytest.approx(rho[7])
    assert metrics.summary(600.0)["unfair_fraction"] == 1 / 8


def test_refused_jobs_were_never_there_and_dropped_ones_until_they_left():
    metrics = observe_all(
        Metrics(CLUSTER, speeds=Speeds()),
        submitted(0, [0.0] * 6, steps=[1.0] * 6, gpus=[2] * 6),
        JobsRejected(at=0.0, jobs=np.arange(2), reason="too large"),
        JobsDropped(at=50.0, jobs=np.arange(2, 4), reason="failed"),
        finished([4, 5], [100.0, 100.0]),
    )

    # n = (4 x 50 + 2 x 50) / 100 = 3; each type for 2 / (3 x 2) of the time.
    assert metrics.jobs()["ftf"][4] == pytest.approx(100.0 * (1 + 3) * 2 / 6)


def test_without_speeds_there_is_no_fairness():
    unknown = observe_all(
        Metrics(CLUSTER, speeds=Speeds()), submitted(0, [0.0], profiles=["unknown"]), finished([0], [9.0])
    )
    nobody_knows = observe_all(Metrics(CLUSTER), submitted(0, [0.0]), finished([0], [9.0]))

    for metrics in (unknown, nobody_knows):
        assert metrics.summary(9.0)["mean_ftf"] is None
        assert np.isnan(metrics.jobs()["ftf"]).all()


def test_the_tolerance_says_who_is_treated_unfairly():
    rho = np.array([0.5, 1.04, 1.06, 2.0, np.nan])

    assert fairness(rho).unfair_fraction == 0.5
    assert fairness(rho, tolerance=0.0).unfair_fraction == 0.75
    assert fairness(rho, tolerance=1.0).unfair_fraction == 0.0


def test_presence_is_averaged_over_the_stay():
    mean = mean_present(
        np.array([0.0, 10.0]), np.array([20.0, np.nan]), start=np.array([0.0, 10.0]), end=np.array([20.0, 15.0])
    )

    assert mean.tolist() == [1.5, 2.0]


SERVERS = uniform("with CPUs", [("v100", 4, 2)], beside={"v100": Resources(cpus=10, memory_gb=100)})


def of_two(cpus, memory_gb):
    columns = {name: np.array(v) for name, v in (("first", [0, 1]), ("second", [-1, -1]), ("type", [0, 0]))}
    placement = Placement(
        **columns,
        gpus=np.array([1, 2]),
        kept=np.zeros(2, dtype=bool),
        slot_start=np.arange(3),
        slot_server=np.array([0, 1]),
        slot_gpus=np.array([1, 2]),
        cpus=cpus,
        memory_gb=memory_gb,
    )
    event = planned([(0, -1, 0, 1, 0)])
    event.plan = Plan(round=0, start=0.0, placement=placement)
    return event


def test_cpus_and_memory_that_tasks_hold_are_counted():
    metrics = observe_all(
        Metrics(SERVERS), of_two(np.array([8.0, 4.0]), np.array([20.0, 60.0])), ran(0, 100, [100, 50])
    )

    summary = metrics.summary(100.0)

    assert summary["cpu_utilization"] == pytest.approx((8 * 100 + 4 * 50) / (20 * 100))
    assert summary["memory_utilization"] == pytest.approx((20 * 100 + 60 * 50) / (200 * 100))


def test_without_a_word_about_cpus_tasks_hold_as_much_as_of_the_gpus():
    metrics = observe_all(Metrics(SERVERS), of_two(None, None), ran(0, 100, [100, 50]))

    summary = metrics.summary(100.0)

    assert summary["cpu_utilization"] == pytest.approx(summary["utilization"]) == pytest.approx(0.5)
    assert summary["memory_utilization"] == pytest.approx(0.5)


def test_servers_that_are_down_have_no_cpus():
    metrics = observe_all(
        Metrics(SERVERS),
        of_two(None, None),
        ran(0, 100, [100, 100]),
        CapacityChanged(at=100.0, capacity=np.array([2])),
        ran(100, 200, [0, 100]),
    )

    assert metrics.summary(200.0)["cpu_utilization"] == pytest.approx((15 * 100 + 10 * 100) / (20 * 100 + 10 * 100))


def test_a_cluster_that_does_not_know_its_cpus_has_no_utilisation_of_them():
    summary = observe_all(Metrics(CLUSTER), planned([(0, -1, V100, 2, 0)]), ran(0, 9, [9])).summary(9.0)

    assert summary["cpu_utilization"] is None
    assert summary["memory_utilization"] is None


def test_tenants_are_charged_for_what_their_jobs_held_and_pairs_half_each():
    metrics = observe_all(
        Metrics(CLUSTER, (1, 3), Speeds()),
        submitted(
            0, [0.0] * 3, tenant_names=["a", "b", "b"], weight=[1.0, 1.0, 4.0], duration=[1.0] * 3, slo=[1.0] * 3
        ),
        planned([(0, 1, V100, 2, 0), (2, -1, K80, 1, 0)]),
        ran(0, 3600, [3600, 1800]),
        finished([0, 1, 2], [3600.0, 3600.0, 1800.0]),
    )

    summary = metrics.summary(3600.0)

    a, b = summary["by_tenant"]["a"], summary["by_tenant"]["b"]
    assert (a["gpu_hours"], b["gpu_hours"]) == pytest.approx((1.0, 1.5))
    assert (a["cost"], b["cost"]) == pytest.approx((3.6, 3.6 + 0.18))
    assert a["cost"] + b["cost"] == pytest.approx(summary["cost"])
    assert (a["jobs_measured"], a["mean_jct_s"], a["mean_ftf"]) == (0, None, None)
    assert (b["jobs_measured"], b["mean_jct_s"], b["p50_jct_s"]) == (2, 2700.0, 2700.0)
    assert (b["slo_jobs"], b["slo_violations"]) == (2, 2)
    assert summary["by_weight"]["4"]["mean_jct_s"] == 1800.0
    assert metrics.jobs()["gpu_s"].tolist() == [3600.0, 3600.0, 1800.0]


def test_many_rounds_are_summed_up_as_few_are():
    metrics = observe_all(Metrics(CLUSTER), planned([(700, -1, V100, 2, 0)]))
    for i in range(1300):
        metrics.observe(ran(i, i + 1, [1.0]))

    assert metrics.ledger.gpu_s(701)[700] == 2600.0
    assert metrics.ledger.gpu_s(5).tolist() == [0.0] * 5
