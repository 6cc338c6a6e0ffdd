from collections import Counter

import numpy as np
import pytest

from rota.core.errors import ConfigError, UnknownName
from rota.core.jobs import COLUMNS, Jobs
from rota.workloads import materialise, philly, workload
from rota.workloads.synergy_models import MODELS, TASKS, Mix, step_seconds


def jobs_of(count=None, **settings) -> Jobs:
    return materialise(workload("philly-derived", **settings), count)


def rows_of(jobs: Jobs) -> list[tuple]:
    names = [jobs.profiles[p] for p in jobs.profile]
    return list(zip(names, jobs.submitted.tolist(), jobs.total_steps.tolist(), jobs.gpus.tolist(), strict=True))


def same(one: Jobs, other: Jobs) -> bool:
    return all(np.array_equal(getattr(one, c), getattr(other, c), equal_nan=True) for c in COLUMNS)


def test_the_first_jobs_are_those_of_the_reference():
    assert rows_of(jobs_of(3, jobs_per_hour=9)) == [
        ("alexnet", 409.0, 3447.0, 1),
        ("gnmt", 951.0, 34181.0, 1),
        ("transformer", 1053.0, 29317.0, 1),
    ]


def test_the_seed_is_42_unless_another_is_given():
    published = jobs_of(50, jobs_per_hour=9)

    assert same(published, jobs_of(50, jobs_per_hour=9, seed=42))
    assert not same(published, jobs_of(50, jobs_per_hour=9, seed=0))


def test_settings_may_be_text_and_a_split_may_be_numbers():
    told = jobs_of(jobs_per_hour="6", split="33,33,33", jobs="40", multi_gpu="yes", small="1", seed="7")

    assert same(told, jobs_of(jobs_per_hour=6, split=(33, 33, 33), jobs=40, multi_gpu=True, small=True, seed=7))


def test_the_load_changes_arrivals_only():
    slow, fast = jobs_of(400, jobs_per_hour=3), jobs_of(400, jobs_per_hour=9)

    assert np.array_equal(slow.total_steps, fast.total_steps)
    assert np.array_equal(slow.profile, fast.profile)
    assert 2.9 < slow.submitted[-1] / fast.submitted[-1] < 3.1


@pytest.mark.parametrize("split", [(20, 70, 10), (33, 33, 33), (50, 0, 50), (100, 0, 0)])
def test_tasks_get_their_percentages_and_models_take_turns(split):
    drawn = Counter(MODELS[m] for m in Mix(split).take(3000).tolist())

    for percent, models in zip(split, TASKS.values(), strict=True):
        counts = [drawn[m] for m in models]
        assert sum(counts) == pytest.approx(3000 * percent / sum(split), abs=2)
        assert max(counts) - min(counts) <= 1


def test_the_first_job_is_vision_even_if_no_percent_of_it_is_wanted():
    assert [MODELS[m] for m in Mix((0, 100, 0)).take(3)] == ["alexnet", "gnmt", "transformer"]


def test_a_mix_does_not_depend_on_how_it_is_cut():
    mix = Mix()

    assert np.concatenate([mix.take(7), mix.take(0), mix.take(93)]).tolist() == Mix().take(100).tolist()


def test_multi_gpu_takes_the_counts_of_the_log_and_nothing_else():
    one, many = jobs_of(5000, jobs_per_hour=9), jobs_of(5000, jobs_per_hour=9, multi_gpu=True)

    assert set(one.gpus) == {1}
    assert set(many.gpus) == {1, 2, 4, 8, 16}
    assert all(np.array_equal(getattr(one, c), getattr(many, c)) for c in ("submitted", "total_steps", "profile"))


def test_static_jobs_are_a_millisecond_apart():
    jobs = jobs_of(static=True, jobs=1500)

    assert jobs.submitted[:3].tolist() == [0.0, 0.001, 0.002]
    assert jobs.submitted[-1] == 1.499
    assert jobs.total_steps[:2].tolist() == [3447.0, 34181.0]


def test_small_jobs_are_short():
    assert (
        jobs_of(2000, jobs_per_hour=9, small=True).duration.max()
        < 60 * 10**2.7
        < jobs_of(2000, jobs_per_hour=9).duration.max()
    )


def test_cold_arrivals_differ_and_nothing_else_does():
    warm, cold = jobs_of(300, jobs_per_hour=9), jobs_of(300, jobs_per_hour=9, cold=True)

    assert np.array_equal(warm.total_steps, cold.total_steps)
    assert np.array_equal(warm.profile, cold.profile)
    assert not (np.diff(warm.submitted) == np.diff(cold.submitted)).all()


def test_synthetic_jobs_draw_their_gpus():
    gpus = jobs_of(4000, jobs_per_hour=9, synthetic=True).gpus

    assert np.allclose([(gpus == g).mean() for g in (1, 2, 4, 8)], [0.7, 0.1, 0.15, 0.05], atol=0.02)


def test_after_the_list_lengths_begin_again_and_arrivals_go_on():
    jobs = jobs_of(philly.SINGLE_GPU_JOBS + 10, jobs_per_hour=9)

    assert jobs.duration[-10:].tolist() == jobs.duration[:10].tolist()
    assert (np.diff(jobs.submitted) >= 0).all()


@pytest.mark.parametrize("settings", [{}, {"synthetic": True}, {"multi_gpu": True}, {"cold": True}])
def test_a_stream_goes_on_where_a_snapshot_was_taken(settings):
    whole = jobs_of(900, jobs_per_hour=9, **settings)
    first, second = (workload("philly-derived", jobs_per_hour=9, **settings) for _ in range(2))

    first.next(400)
    second.restore(first.snapshot())

    assert same(second.next(500), whole.rows(400, 900))


def test_the_shipped_log_is_whole_and_has_the_number_of_jobs_that_the_code_states():
    log = philly.shipped()

    assert len(log.gpus) == 82_247
    assert len(log.tenants) == 15
    assert log.submitted.min() == 0
    assert len(log.of_usual_length().gpus) == philly.SINGLE_GPU_JOBS
    assert philly.DATA.stat().st_size < 700_000


def test_the_original_log_comes_by_time_with_its_durations_and_tenants():
    jobs = jobs_of(original=True, multi_gpu=True)

    assert len(jobs) == 31_675
    assert jobs.submitted[0] == 0
    assert (np.diff(jobs.submitted) >= 0).all()
    assert philly.SHORTEST_S < jobs.duration.min() < jobs.duration.max() < philly.LONGEST_S
    assert set(jobs.gpus) == {1, 2, 4, 8, 16}
    assert len(set(jobs.tenant.tolist())) > 10
    step_s = np.array([step_seconds("synergy", m) for m in MODELS])
    assert np.array_equal(jobs.total_steps, np.floor(jobs.duration / step_s[jobs.profile]))


def test_a_part_of_the_original_log_begins_at_0_and_jobs_bounds_it():
    part = jobs_of(original=True, from_hour=2400, to_hour=3000)

    assert len(part) == 276
    assert part.submitted[0] == 0
    assert set(part.gpus) == {1}
    assert len(jobs_of(original=True, jobs=100)) == 100


def test_another_catalogue_changes_steps_of_the_models_it_changes():
    three, four = jobs_of(500, jobs_per_hour=9), jobs_of(500, jobs_per_hour=9, profiles="synergy-cpu4")
    changed = {three.profiles[p] for p in three.profile[three.total_steps != four.total_steps]}

    assert changed == {"alexnet", "res18", "res50", "mobilenet", "shufflenet", "m5"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "jobs_per_hour is not given"),
        ({"jobs_per_hour": 0}, "jobs_per_hour = 0"),
        ({"jobs_per_hour": 9, "split": "20,70"}, "split = '20,70'"),
        ({"jobs_per_hour": 9, "split": "a,b,c"}, "give e.g. split=20,70,10"),
        ({"jobs_per_hour": 9, "split": "0,0,0"}, "split"),
        ({"jobs_per_hour": 9, "split": (-1, 50, 51)}, "split"),
        ({"jobs_per_hour": 9, "split": "nan,50,50"}, "split"),
        ({"static": True}, "jobs is not given"),
        ({"jobs_per_hour": 9, "jobs": 0}, "jobs = 0"),
        ({"jobs_per_hour": 9, "seed": -1}, "seed = -1"),
        ({"original": True, "static": True, "jobs": 3}, "original and static"),
        ({"original": True, "synthetic": True}, "original and synthetic"),
        ({"synthetic": True, "multi_gpu": True, "jobs_per_hour": 9}, "synthetic and multi_gpu"),
        ({"jobs_per_hour": 9, "from_hour": 3}, "original=true"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        workload("philly-derived", **settings)


def test_hours_without_jobs_and_unknown_catalogues_are_named():
    with pytest.raises(ConfigError, match="between 0 and 2614"):
        jobs_of(original=True, from_hour=9000)
    with pytest.raises(UnknownName, match="synergy-cpu4"):
        workload("philly-derived", jobs_per_hour=9, profiles="synergy-cpu44")


def test_the_short_list_of_gpu_counts_follows_from_the_log():
    gpus = philly.shipped().of_usual_length().gpus
    kept = gpus[gpus <= max(philly.GPU_COUNTS)]

    assert philly.synergy_gpus() == np.where(np.isin(kept, philly.GPU_COUNTS), kept, 1).tolist()
