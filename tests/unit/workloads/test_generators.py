from random import Random

import numpy as np
import pytest

from rota import profiles
from rota.core.errors import ConfigError, UnknownName
from rota.core.jobs import COLUMNS
from rota.workloads import materialise, workload, workloads


def jobs_of(name="gavel-continuous", count=None, **settings):
    return materialise(workload(name, **settings), count)


def test_the_known_workloads_are_listed():
    assert workloads.names() == [
        "catalogue",
        "gavel-continuous",
        "gavel-static",
        "gavel-trace",
        "philly-derived",
        "philly-log",
    ]


def test_the_first_jobs_are_those_of_the_reference():
    jobs = jobs_of(interarrival_s=3000, seed=0, count=2)

    assert [jobs.profiles[p] for p in jobs.profile] == ["ResNet-18 (batch size 64)", "Transformer (batch size 16)"]
    assert jobs.total_steps.tolist() == [1646636.2758419, 343170.46864225325]
    assert jobs.submitted.tolist() == [0.0, 815.286909701005]
    assert jobs.duration.tolist() == [68344.35010595087, 31016.60914593223]


def test_the_mersenne_twister_draws_what_the_reference_says():
    jobs, gaps = Random(2), Random(3)

    assert [jobs.random() for _ in range(3)] == [0.9560342718892494, 0.9478274870593494, 0.05655136772680869]
    assert gaps.random() == 0.23796462709189137


def test_settings_may_be_text():
    told = jobs_of(interarrival_s="3000", jobs="40", multi_gpu="yes", multi_priority="1", slos="true", seed="7")
    meant = jobs_of(interarrival_s=3000.0, jobs=40, multi_gpu=True, multi_priority=True, slos=True, seed=7)

    assert all(np.array_equal(getattr(told, c), getattr(meant, c), equal_nan=True) for c in COLUMNS)


def test_a_static_workload_arrives_at_once():
    jobs = jobs_of("gavel-static", jobs=100)

    assert len(jobs) == 100
    assert not jobs.submitted.any()


def test_multi_gpu_jobs_are_of_models_that_can_use_them():
    jobs = jobs_of(interarrival_s=100, multi_gpu=True, count=4000)
    able = np.array([t.multi_gpu for t in profiles.templates()])

    shares = [(jobs.gpus == g).mean() for g in (1, 2, 4, 8)]

    assert able[jobs.profile[jobs.gpus > 1]].all()
    assert np.allclose(shares, [0.7, 0.1, 0.15, 0.05], atol=0.02)


def test_steps_are_duration_times_speed_on_a_v100():
    jobs = jobs_of(interarrival_s=100, multi_gpu=True, count=300)
    catalogue = profiles.load("gavel")

    speed = [catalogue.rate(jobs.profiles[p], int(g), "v100") for p, g in zip(jobs.profile, jobs.gpus, strict=True)]

    assert (jobs.total_steps == jobs.duration * np.array(speed)).all()


def test_priorities_change_the_stream_and_one_in_five_weighs_five():
    jobs = jobs_of(interarrival_s=100, multi_priority=True, count=4000)

    assert set(jobs.weight.tolist()) == {1.0, 5.0}
    assert abs((jobs.weight == 5).mean() - 0.2) < 0.02


def test_deadlines_come_from_their_own_generator_and_leave_the_jobs_alone():
    plain = jobs_of(interarrival_s=100, count=50)
    bound = jobs_of(interarrival_s=100, count=50, slos=True)
    draws = Random(6)
    expected = [1.2 if d < 0.33 else 2.0 if d < 0.67 else 10.0 for d in (draws.random() for _ in range(50))]

    assert bound.slo.tolist() == expected
    assert np.array_equal(bound.deadline, bound.submitted + bound.slo * bound.duration)
    assert np.isinf(plain.deadline).all()
    assert np.array_equal(bound.total_steps, plain.total_steps)


def test_a_fixed_duration_is_not_drawn():
    jobs = jobs_of(interarrival_s=100, fixed_duration_s=3600, count=3)
    draws = Random(2)
    expected = []
    for _ in range(3):
        draws.random()
        expected.append(draws.choice(range(26)))

    assert jobs.duration.tolist() == [3600.0] * 3
    assert jobs.profile.tolist() == expected


def test_a_steady_state_begins_with_jobs_that_fill_the_cluster():
    settings = {"interarrival_s": 100, "multi_gpu": True, "seed": 3}
    plain = jobs_of(count=200, **settings)

    full = jobs_of(count=200, steady_state=True, capacity={"v100": 9, "k80": 5}, **settings)

    opening = 0
    for capacity in (5, 9):
        held = 0
        while held < capacity:
            held += plain.gpus[opening]
            opening += 1
    assert np.array_equal(full.total_steps, plain.total_steps)
    assert not full.submitted[: opening + 1].any()
    assert np.array_equal(full.submitted[opening:], plain.submitted[: 200 - opening])


def test_capacity_may_be_text():
    settings = {"interarrival_s": 10, "steady_state": True, "count": 30}

    told = jobs_of(capacity="v100=4, k80=2", **settings)

    assert np.array_equal(told.submitted, jobs_of(capacity={"k80": 2, "v100": 4}, **settings).submitted)
    assert (told.submitted == 0).sum() == 7


def test_another_seed_gives_other_jobs():
    assert not np.array_equal(jobs_of("gavel-static", jobs=9).profile, jobs_of("gavel-static", jobs=9, seed=1).profile)


def test_the_file_generator_follows_its_own_recipe():
    jobs = jobs_of("gavel-trace", jobs=200, interarrival_s=600, multi_gpu=True, multi_priority=True, seed=5)
    models, gaps, durations, sizes = (Random(5 + k) for k in range(4))
    catalogue, at = profiles.load("gavel"), 0.0

    for i in range(200):
        template = models.choice(profiles.templates())
        gpus = 1
        if template.multi_gpu:
            size = sizes.uniform(0, 1)
            gpus = 1 if size < 0.7 else 2 if size <= 0.8 else 4
        duration = 3600 * durations.choice([1.0, 2.0, 3.0, 4.0])
        weight = 5.0 if models.uniform(0, 1) <= 0.2 else 1.0
        at += gaps.expovariate(1 / 600) if i else 0
        assert jobs.profiles[jobs.profile[i]] == template.profile
        assert (jobs.gpus[i], jobs.duration[i], jobs.weight[i]) == (gpus, duration, weight)
        assert jobs.total_steps[i] == int(duration * catalogue.rate(template.profile, gpus, "v100"))
        assert jobs.submitted[i] == int(at)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("gavel-continuous", {}, "interarrival_s is not given"),
        ("gavel-continuous", {"interarrival_s": "-1"}, "interarrival_s = -1.0; give a number >= 0"),
        ("gavel-continuous", {"interarrival_s": "nan"}, "interarrival_s = nan"),
        ("gavel-continuous", {"interarrival_s": "soon"}, "interarrival_s='soon' is not a valid float"),
        ("gavel-continuous", {"interarrival_s": "0"}, "jobs is not given, and without gaps"),
        ("gavel-continuous", {"interarrival_s": "1", "jobs": "0"}, "jobs = 0; give a whole number >= 1"),
        ("gavel-continuous", {"interarrival_s": "1", "jobs": "1.5"}, "jobs='1.5' is not a valid int"),
        ("gavel-continuous", {"interarrival_s": "1", "fixed_duration_s": "0"}, "fixed_duration_s = 0.0; give"),
        ("gavel-continuous", {"interarrival_s": "1", "seed": "-1"}, "seed = -1"),
        ("gavel-continuous", {"interarrival_s": "1", "steady_state": "1"}, "steady_state needs the cluster"),
        ("gavel-continuous", {"interarrival_s": "1", "steady_state": "1", "capacity": "many"}, "not type=count"),
        ("gavel-continuous", {"interarrival_s": "1", "steady_state": "1", "capacity": "a=-1"}, "negative count"),
        ("gavel-static", {}, "jobs is not given"),
        ("gavel-trace", {}, "jobs is not given"),
        ("gavel-trace", {"jobs": "1", "min_hours": "0"}, "min_hours = 0.0"),
        ("gavel-trace", {"jobs": "1", "min_hours": "5"}, "max_hours = 4.0 is less than min_hours = 5.0"),
        ("gavel-trace", {"jobs": "1", "num_durations": "0"}, "num_durations = 0"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        workload(name, **settings)


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'gavel-static'"):
        workload("gavel-statik")
    with pytest.raises(UnknownName, match="did you mean 'interarrival_s'"):
        workload("gavel-continuous", interarival_s=3)
    with pytest.raises(UnknownName, match="'interarrival_s'"):
        workload("gavel-static", interarrival_s=3, jobs=1)
    with pytest.raises(UnknownName, match="did you mean 'gavel'"):
        jobs_of("gavel-static", jobs=1, profiles="gavell")
