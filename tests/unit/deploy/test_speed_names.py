"""Under which name the speed of a job is learned."""

import pytest

from rota.core.job_spec import JobSpec
from rota.deploy.scheduler.speed_names import belief_of, engine_profile, fingerprint, speed_name

TRAIN = ("python", "train.py", "--batch", "64")


@pytest.mark.parametrize(
    "same",
    [
        ("/usr/bin/python", "/home/ann/exp1/train.py", "--batch", "64"),
        ("python", "train.py", "--seed", "7", "--batch", "64"),
        ("python", "train.py", "--batch", "64", "--seed=8", "--output-dir=/out/2026-01-02"),
        ("python", "train.py", "--run_name", "tuesday", "--batch", "64", "--max_steps", "100"),
        ("python", "train.py", "--lr", "0.1", "--batch", "64"),
    ],
)
def test_where_it_writes_how_long_it_trains_and_its_seed_make_no_other_job_of_a_command(same):
    assert fingerprint(same) == fingerprint(TRAIN)


@pytest.mark.parametrize(
    "other",
    [
        ("python", "train.py", "--batch", "128"),
        ("python", "other.py", "--batch", "64"),
        ("python", "train.py", "--batch", "64", "--amp"),
        ("python3.12", "train.py", "--batch", "64"),
    ],
)
def test_what_is_trained_makes_another_job(other):
    assert fingerprint(other) != fingerprint(TRAIN)


def test_an_option_without_its_value_takes_no_other_option_with_it():
    assert fingerprint(("python", "train.py", "--resume", "--batch", "64")) == fingerprint(TRAIN)


def test_dates_hashes_and_uuids_within_words_are_left_out_and_numbers_are_not():
    assert fingerprint(("train", "--data", "run-2026-01-02T10:11:12")) == fingerprint(
        ("train", "--data", "run-2025-03-04")
    )
    assert fingerprint(("train", "--data", "c0ffee1234")) == fingerprint(("train", "--data", "1234deadbeef"))
    uuids = ("0b7ea1b0-1111-4222-8333-123456789abc", "0b7ea1b0-1111-4222-8333-cba987654321")
    assert fingerprint(("train", "--data", uuids[0])) == fingerprint(("train", "--data", uuids[1]))
    assert fingerprint(("train", "--width", "12345678")) != fingerprint(("train", "--width", "12345679"))


def test_the_image_is_part_of_the_command():
    assert fingerprint(TRAIN, "torch:2.1") != fingerprint(TRAIN, "torch:2.2")


@pytest.mark.parametrize(
    ("argv", "called"),
    [
        (TRAIN, "train.py"),
        (("python", "-m", "lib.train", "--fast"), "lib.train"),
        (("./run",), "run"),
        (("bash", "scripts/go.sh"), "go.sh"),
        (("\x1b[2Jevil~",), "?[2Jevil?"),
        (("python", "-m"), "python"),
        ((("x" * 300),), "x" * 40),
    ],
)
def test_people_can_tell_by_its_name_which_command_it_is(argv, called):
    assert fingerprint(argv).rpartition("~")[0] == called
    assert len(fingerprint(argv)) <= 49


def test_jobs_that_run_as_fast_as_the_scheduler_says_teach_nothing():
    emulated = JobSpec(emulated=True, profile="A3C", steps=10)

    assert speed_name(emulated) == ""
    assert belief_of(emulated) == ""
    assert engine_profile(emulated) == "A3C"


def test_a_profile_that_was_named_is_the_name_and_a_model_is_its_model_and_batch():
    assert speed_name(JobSpec(argv=TRAIN, profile="mine", steps=10)) == "mine"
    assert speed_name(JobSpec(emulated=True, model="resnet50", batch=64, steps=10)) == "resnet50 (batch size 64)"
    assert speed_name(JobSpec(argv=TRAIN)) == fingerprint(TRAIN)


def test_a_command_that_does_not_say_its_steps_is_scheduled_as_an_hour_whatever_its_speed():
    assert engine_profile(JobSpec(argv=TRAIN)) == "unprofiled"
    assert belief_of(JobSpec(argv=TRAIN, tenant="ann")) == ""
    assert engine_profile(JobSpec(argv=TRAIN, steps=5)) == fingerprint(TRAIN)
    assert belief_of(JobSpec(argv=TRAIN, steps=5, tenant="ann")) == "ann"
    assert belief_of(JobSpec(argv=TRAIN, steps=5)) == "default"
