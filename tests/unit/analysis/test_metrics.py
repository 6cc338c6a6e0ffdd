import copy
import pickle

import numpy as np
import pytest
from event_builders import CLUSTER, K80, V100, allocated, finished, observe_all, planned, ran, submitted

from rota.analysis.metrics import Metrics
from rota.core.cluster import AcceleratorType, uniform
from rota.core.events import CapacityChanged, JobsDropped, JobsRejected, SolveFailed


def test_completion_time_is_finish_minus_arrival_with_linear_percentiles():
    metrics = observe_all(Metrics(CLUSTER), submitted(0, [0.0, 10.0, 20.0]), finished([0, 1, 2], [100.0, 210.0, 320.0]))

    summary = metrics.summary(400.0)

    assert summary["mean_jct_s"] == pytest.approx(200.0)
    assert summary["p50_jct_s"] == pytest.approx(200.0)
    assert summary["p90_jct_s"] == pytest.approx(np.percentile([100, 200, 300], 90))
    assert summary["p999_jct_s"] == pytest.approx(np.percentile([100, 200, 300], 99.9))
    assert summary["makespan_s"] == 320.0


def test_the_makespan_goes_from_the_first_arrival_to_the_last_completion_or_to_the_end_while_jobs_are_left():
    metrics = observe_all(
        Metrics(CLUSTER), submitted(0, [50.0, 60.0]), planned([(0, -1, V100, 2, 0)]), ran(360, 720, [100])
    )
    half = observe_all(copy.deepcopy(metrics), finished([0], [460.0]))
    whole = observe_all(copy.deepcopy(half), finished([1], [300.0]))

    assert half.summary(720.0)["makespan_s"] == 670.0
    assert half.summary(720.0)["utilization"] == pytest.approx(200 / (4 * 670))
    assert whole.summary(720.0)["makespan_s"] == 410.0
    assert whole.summary(720.0)["utilization"] == pytest.approx(200 / (4 * 410))


def test_after_one_of_a_pair_has_ended_the_other_pays_for_the_gpus_alone():
    event = ran(0, 360, [300.0, 360.0])
    event.alone = np.array([-200.0, 0.0])
    metrics = observe_all(
        Metrics(CLUSTER),
        submitted(0, [0.0] * 3, tenant_names=["a", "b", "b"], gpus=[2, 2, 1]),
        planned([(0, 1, V100, 2, 0), (2, -1, K80, 1, 0)]),
        event,
    )

    assert metrics.jobs()["gpu_s"].tolist() == [100.0, 500.0, 360.0]
    assert metrics.jobs()["cost"] == pytest.approx([0.1, 0.5, 0.036])
    assert metrics.summary(360.0)["cost"] == pytest.approx(0.636)


def test_only_jobs_in_the_half_open_range_are_measured():
    metrics = Metrics(CLUSTER, (1, 3))
    observe_all(metrics, submitted(0, [0.0] * 4), finished([0, 1, 2, 3], [1.0, 10.0, 20.0, 1000.0]))

    summary = metrics.summary(1000.0)

    assert summary["mean_jct_s"] == 15.0
    assert (summary["jobs_measured"], summary["jobs_finished"]) == (2, 4)
    assert metrics.jobs()["measured"].tolist() == [False, True, True, False]


def test_utilisation_counts_the_gpus_of_a_pair_once():
    metrics = observe_all(
        Metrics(CLUSTER),
        submitted(0, [0.0] * 3),
        planned([(0, 1, V100, 2, 0), (2, -1, K80, 1, 0)]),
        ran(0, 360, [360, 180]),
    )

    summary = metrics.summary(360.0)

    assert summary["utilization"] == pytest.approx((2 * 360 + 180) / (4 * 360))


def test_cost_is_price_per_hour_by_type_times_gpu_hours():
    metrics = observe_all(
        Metrics(CLUSTER), planned([(0, -1, V100, 2, 0), (1, -1, K80, 1, 0)]), ran(0, 3600, [3600, 1800])
    )

    assert metrics.summary(3600.0)["cost"] == pytest.approx(3.6 * 2 + 0.36 * 0.5)


def test_the_cost_is_unknown_where_a_type_that_was_used_has_no_price():
    cluster = uniform("c", [("v100", 2, 2), ("k80", 2, 2)], (AcceleratorType(name="v100", hourly_price=3.6),))
    events = (submitted(0, [0.0, 0.0]), planned([(0, -1, V100, 2, 0), (1, -1, K80, 1, 0)]), ran(0, 3600, [3600, 1800]))

    metrics = observe_all(Metrics(cluster), *events)
    summary = metrics.summary(3600.0)

    assert summary["cost"] is None
    assert summary["by_tenant"]["default"]["cost"] is None
    assert metrics.jobs()["cost"][0] == pytest.approx(7.2)
    assert np.isnan(metrics.jobs()["cost"][1])
    (remark,) = metrics.ledger.remarks()
    assert "the price of a GPU hour of k80;" in remark


def test_a_type_without_a_price_that_nobody_used_does_no_harm():
    cluster = uniform("c", [("v100", 2, 2), ("k80", 2, 2)], (AcceleratorType(name="v100", hourly_price=3.6),))

    metrics = observe_all(Metrics(cluster), planned([(0, -1, V100, 2, 0)]), ran(0, 3600, [3600]))

    assert metrics.summary(3600.0)["cost"] == pytest.approx(7.2)
    assert metrics.ledger.remarks() == []


def test_several_reports_may_follow_one_plan():
    metrics = observe_all(
        Metrics(CLUSTER), planned([(0, -1, V100, 1, 0)]), ran(0, 360, [360]), ran(360, 1440, [1080], rounds=3)
    )

    summary = metrics.summary(1440.0)

    assert summary["rounds"] == 4
    assert summary["utilization"] == pytest.approx(0.25)
    assert summary["lease_extension_fraction"] == 1.0


def test_leases_are_extended_for_the_part_of_surviving_tasks_that_kept_their_slots():
    metrics = observe_all(
        Metrics(CLUSTER),
        submitted(0, [0.0] * 4),
        planned([(0, -1, V100, 1, 0), (1, -1, V100, 1, 0), (2, 3, K80, 1, 0)]),
        ran(0, 360, [360, 360, 360]),
        finished([3], [360.0]),
        planned([(0, -1, V100, 1, 1), (1, -1, K80, 1, 0), (2, -1, K80, 1, 0)], at=360.0),
    )

    assert metrics.summary(360.0)["lease_extension_fraction"] == 0.5


def test_deadlines_compare_absolute_times_and_count_what_is_late_or_given_up():
    metrics = observe_all(
        Metrics(CLUSTER),
        submitted(0, [1000.0] * 6, duration=[100.0] * 6, slo=[2.0, 2.0, 2.0, 2.0, 100.0, np.nan]),
        finished([0, 1, 5], [1199.0, 1201.0, 9000.0]),
        JobsDropped(at=1100.0, jobs=np.array([2]), reason="test"),
    )

    summary = metrics.summary(1500.0)

    assert summary["slo_jobs"] == 5
    assert summary["slo_violations"] == 3  # one late, one dropped, one still running past its deadline


def test_dropped_and_rejected_jobs_have_no_completion():
    metrics = observe_all(
        Metrics(CLUSTER),
        submitted(0, [0.0] * 3),
        JobsRejected(at=0.0, jobs=np.array([0]), reason="too large"),
        JobsDropped(at=5.0, jobs=np.array([1]), reason="failed"),
        finished([2], [50.0]),
    )

    summary, jobs = metrics.summary(50.0), metrics.jobs()

    assert (summary["jobs_rejected"], summary["jobs_dropped"], summary["jobs_submitted"]) == (1, 1, 3)
    assert np.isnan(jobs["jct_s"][:2]).all()
    assert jobs["status"].tolist() == ["rejected", "dropped", "finished"]


def test_means_are_given_by_weight_and_by_tenant():
    metrics = observe_all(
        Metrics(CLUSTER),
        submitted(0, [0.0] * 3, weight=[1.0, 5.0, 1.0], tenant_names=["a", "b", "b"]),
        finished([0, 1, 2], [10.0, 20.0, 30.0]),
    )

    summary = metrics.summary(30.0)

    assert summary["mean_jct_s_by_weight"] == {"1": 20.0, "5": 20.0}
    assert summary["mean_jct_s_by_tenant"] == {"a": 10.0, "b": 25.0}


def test_pieces_that_number_names_differently_are_put_together():
    metrics = observe_all(
        Metrics(CLUSTER),
        submitted(0, [0.0, 0.0], profiles=["LM", "A3C"]),
        submitted(2, [1.0, 1.0], profiles=["A3C", "CycleGAN"]),
        submitted(4, [2.0], profiles=["LM"]),
    )

    assert metrics.jobs()["profile"].tolist() == ["LM", "A3C", "A3C", "CycleGAN", "LM"]


def test_the_table_grows_without_losing_anything():
    metrics = Metrics(CLUSTER)
    for i in range(1000):
        metrics.observe(submitted(i, [float(i)]))
        metrics.observe(finished([i], [i + 7.0]))

    assert metrics.summary(2000.0)["mean_jct_s"] == pytest.approx(7.0)
    assert metrics.summary(2000.0)["jobs_finished"] == 1000


def test_capacity_that_changes_changes_what_could_have_been_used():
    metrics = observe_all(
        Metrics(CLUSTER),
        planned([(0, -1, V100, 2, 0)]),
        ran(0, 100, [100]),
        CapacityChanged(at=100.0, capacity=np.array([0, 2])),
        ran(100, 200, [100]),
    )

    assert metrics.summary(200.0)["utilization"] == pytest.approx(400 / (4 * 100 + 2 * 100))


def test_solves_and_failures_are_counted():
    metrics = observe_all(Metrics(CLUSTER), allocated(), allocated(), SolveFailed(at=0.0, reason="gave up"))

    summary = metrics.summary(1.0)

    assert (summary["solves"], summary["solve_failures"]) == (2, 1)


def test_a_run_in_which_nothing_happened_has_no_means_and_no_warning():
    summary = Metrics(CLUSTER).summary(0.0)

    assert summary["mean_jct_s"] is None
    assert summary["p50_jct_s"] is None
    assert summary["lease_extension_fraction"] is None
    assert summary["utilization"] == 0.0


def test_metrics_can_be_saved_in_a_checkpoint():
    metrics = observe_all(Metrics(CLUSTER), submitted(0, [0.0]), planned([(0, -1, V100, 1, 0)]), ran(0, 360, [360]))

    for again in (copy.deepcopy(metrics), pickle.loads(pickle.dumps(metrics))):  # noqa: S301 - our own bytes
        again.observe(finished([0], [360.0]))
        assert again.summary(360.0)["mean_jct_s"] == 360.0
    assert metrics.summary(360.0)["jobs_finished"] == 0
