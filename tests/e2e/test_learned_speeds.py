"""A real scheduler and real agents with emulated devices: speeds that nobody knew, or knew wrongly, are learned."""

import pytest

from learning import MODELS, TraceJob, a_trace, emulated, true_rate


def test_a_cluster_learns_the_speeds_of_jobs_without_a_profile_and_says_which_profiles_are_wrong(tmp_path):
    """The short form of the next test: what is learned is right."""
    kinds = ("none", "fast", "slow", "right", "none")
    trace = [
        TraceJob(0.0, model, kind, round(5000 * true_rate(model, "v100")))
        for model, kind in zip(MODELS, kinds, strict=False)
    ]

    found = emulated(
        tmp_path / "mistaken", trace, mistaken=True, gpus_per_type=4, scale=600, round_s=240, policy="srtf-perf",
        heartbeat_s=0.1,
    )  # fmt: skip

    believed = [speed for speed in found.learned if speed.believed]
    assert {speed.profile.partition(" ")[2] for speed in believed} >= {"none"}
    for speed in believed:
        model = speed.profile.partition(" ")[0]
        assert speed.rate == pytest.approx(true_rate(model, speed.type), rel=0.1)
    for profile, remark in found.remarks.items():
        kind = profile.partition(" ")[2]
        if any(speed.profile == profile for speed in believed):
            words = {"none": "learned as", "right": "measured while", "fast": "slower than", "slow": "faster than"}
            assert words[kind] in remark


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("policy", ["srtf-perf", "max-min-fairness-perf"])
def test_learning_costs_at_most_a_tenth_of_the_mean_jct_of_the_true_table(tmp_path, policy, record_property):
    trace = a_trace(48, seed=5, interarrival_s=450.0, mean_s=5400.0)
    settings = {"gpus_per_type": 4, "scale": 300, "round_s": 360, "policy": policy}

    true = emulated(tmp_path / "true", trace, mistaken=False, **settings)
    mistaken = emulated(tmp_path / "mistaken", trace, mistaken=True, **settings)

    record_property("ratio of mean JCT", round(mistaken.mean_jct_s / true.mean_jct_s, 3))
    assert mistaken.mean_jct_s <= 1.10 * true.mean_jct_s
