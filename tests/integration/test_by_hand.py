"""A small run worked out by a few lines that know nothing of the engine."""

import math

import numpy as np
import pytest

import rota
from rota import profiles
from rota.core.jobs import table

MODEL = "ResNet-50 (batch size 64)"
ROUND_S = 360.0


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "rounds only"])
def test_first_in_first_out_on_two_gpus_ends_when_a_queue_on_paper_does(at_once):
    def can_start(second):
        """The first moment from `second` on at which GPUs are given out."""
        return second if at_once else math.ceil(second / ROUND_S - 1e-9) * ROUND_S

    arrivals = [0.0, 0.0, 0.0, 400.0, 1500.0]
    steps = [2000.0, 5000.0, 800.0, 3000.0, 1000.0]
    jobs = table(profile_names=[MODEL] * 5, gpus=[1] * 5, total_steps=steps, submitted=arrivals)

    result = rota.simulate(
        jobs=jobs, cluster="v100=2", policy="fifo", profiles="gavel", rule_settings={"at_once": at_once}
    )

    rate = profiles.load("gavel").rate(MODEL, 1, "v100")
    free = [0.0, 0.0]
    ends = []
    for arrival, work in zip(arrivals, steps, strict=True):
        gpu = min((0, 1), key=lambda g: free[g])
        ends.append(max(free[gpu], can_start(arrival)) + work / rate)
        free[gpu] = can_start(ends[-1])
    assert result.jobs["finish_s"].tolist() == pytest.approx(ends, rel=1e-12)
    assert result.summary["mean_jct_s"] == pytest.approx(np.mean(np.array(ends) - arrivals), rel=1e-12)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "rounds only"])
def test_two_jobs_on_two_types_and_a_move_up(at_once):
    """The V100 goes to who loses most without it; the other takes it with the round after the first has ended."""
    rate = profiles.load("gavel").rate
    cautious, eager = "A3C", "ResNet-50 (batch size 64)"  # a K80 costs them 52 % and 86 % of their speed
    jobs = table(profile_names=[eager, cautious], gpus=[1, 1], total_steps=[5000.0, 20000.0], submitted=[0.0, 0.0])

    result = rota.simulate(jobs=jobs, cluster="v100=1,k80=1", policy="srtf-perf", rule_settings={"at_once": at_once})

    first = 5000.0 / rate(eager, 1, "v100")  # 1137.7 s, in the fourth round of 360 s
    second = 1440.0 + (20000.0 - 1440.0 * rate(cautious, 1, "k80")) / rate(cautious, 1, "v100")
    assert result.jobs["finish_s"].tolist() == pytest.approx([first, second], rel=1e-12)
    assert result.summary["makespan_s"] == pytest.approx(second, rel=1e-12)
    assert result.summary["utilization"] == pytest.approx((first + second) / (2 * second), rel=1e-12)
