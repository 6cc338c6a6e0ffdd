"""A run that is stopped at any second and gone on with from its checkpoint is the run that was never stopped."""

import numpy as np
import pytest

import rota

RUN = {
    "workload": "gavel-continuous",
    "settings": {"interarrival_s": 1500, "jobs": 20, "multi_gpu": True},
    "cluster": "v100=4/2,p100=4/2,k80=8/4",
    "seed": 5,
}
CASES = {
    "shares": {"policy": "max-min-fairness-perf"},
    "pairs": {"policy": "max-min-fairness-packed"},
    "no rounds": {"policy": "max-min-fairness-perf", "mechanism": "ideal"},
    "a start that costs": {"policy": "srtf", "rule_settings": {"restart_s": 100.0}},
    "arrivals that wait": {"policy": "fifo"},
    "rounds of Gavel's artifact": {"policy": "las", "rules": "gavel-artifact"},
    "rounds of Synergy's artifact": {"policy": "las", "rules": "synergy-artifact"},
}
NOT_OF_THE_RUN = ("cpu_s", "wall_s", "peak_rss_mb", "solves")
"""Time and memory of this process, and how often the policy was asked only to say the same."""


def numbers(result):
    summary = {key: value for key, value in result.summary.items() if isinstance(value, float | int)}
    return {key: value for key, value in summary.items() if key not in NOT_OF_THE_RUN}


@pytest.mark.parametrize("until", [11_111.0, 36_000.0, 50_123.4])
@pytest.mark.parametrize("case", CASES)
def test_a_run_in_two_parts_is_the_run_in_one(tmp_path, case, until):
    run = {**RUN, **CASES[case]}
    whole = rota.simulate(**run)
    half = rota.simulate(**run, until=until, checkpoint=tmp_path / "c")

    resumed = rota.simulate(**run, resume=tmp_path / "c")

    assert half.summary["jobs_finished"] < whole.summary["jobs_finished"]
    assert numbers(resumed) == pytest.approx(numbers(whole), rel=1e-9)
    for column in ("finish_s", "gpu_s", "cost", "ftf"):
        assert resumed.jobs[column] == pytest.approx(whole.jobs[column], rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("policy", ["max-min-fairness-packed", "fifo"])
def test_what_happened_until_then_is_what_happened_until_then_in_the_whole_run(policy):
    until = 33_333.0
    whole = rota.simulate(**RUN, policy=policy)
    half = rota.simulate(**RUN, policy=policy, until=until)

    arrived = whole.jobs["arrival_s"] <= until
    ended = whole.jobs["finish_s"][arrived] <= until
    assert half.summary["makespan_s"] == until - whole.jobs["arrival_s"][0]
    assert len(half.jobs["job_id"]) == np.count_nonzero(arrived)
    assert np.isfinite(half.jobs["finish_s"]).tolist() == ended.tolist()
    assert half.jobs["finish_s"][ended] == pytest.approx(whole.jobs["finish_s"][arrived][ended])
    assert half.jobs["gpu_s"][ended] == pytest.approx(whole.jobs["gpu_s"][arrived][ended])
