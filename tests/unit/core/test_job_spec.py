"""What a job may ask for, and that every field of it arrives wherever a job goes."""

import dataclasses
import json
import math
from enum import Enum

import pytest

from rota.core.errors import ConfigError
from rota.core.job_spec import (
    DEFAULT_MAX_RESTARTS,
    FIELDS,
    JobSpec,
    Preemptible,
    RankLayout,
    default_of,
    spec_from,
    spec_values,
)
from rota.deploy.events import JobAccepted, from_fields, to_fields
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_message, spec_of

EMULATED = {"name": "a", "emulated": True, "steps": 10}


def another(name):
    """A value of a field that is not its default."""
    value = default_of(name)
    known = {
        "array": "0-3%2",
        "after": (3, 4),
        "after_any": (5,),
        "labels": ("zone=a",),
        "types": ("a",),
        "exclude_types": ("b",),
    }
    if name in known:
        return known[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, RankLayout):
        return RankLayout.GPU
    if isinstance(value, Preemptible):
        return Preemptible.NO
    if isinstance(value, (int, float)):
        return value + 1 if value else 7
    return {str: "other", tuple: ("a", "b c"), dict: {"A": "1"}}[type(value)]


def a_full_spec():
    return JobSpec(**{name: another(name) for name in FIELDS})


def test_every_field_survives_the_message():
    spec = a_full_spec()

    assert all(getattr(spec, name) != default_of(name) for name in FIELDS)
    assert spec_of(pb.JobSpec.FromString(spec_message(spec).SerializeToString())) == spec


def test_every_field_survives_the_journal():
    accepted = JobAccepted(at=1.0, job=2, spec=a_full_spec(), by="me", request="r")

    assert from_fields(json.loads(json.dumps(to_fields(accepted)))) == accepted


def test_the_message_has_the_same_fields_and_no_other():
    assert {field.name for field in pb.JobSpec.DESCRIPTOR.fields} == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_a_zero_on_the_wire_is_the_default_or_impossible_or_said(name):
    """What cannot be told apart in a message from nothing must not be a value of its own."""
    if isinstance(default_of(name), Enum):
        assert getattr(spec_from({**EMULATED, name: ""}), name) == default_of(name)
        return
    zero = type(default_of(name))()
    if zero == default_of(name) or pb.JobSpec.DESCRIPTOR.fields_by_name[name].has_presence:
        return
    with pytest.raises(ConfigError, match=f"{name} is {zero!r}"):
        spec_from({**EMULATED, name: zero})


def test_what_is_not_said_has_its_default():
    spec = spec_of(pb.JobSpec(emulated=True, steps=10, name="a"))

    assert spec == JobSpec(**EMULATED)
    assert spec.max_restarts == DEFAULT_MAX_RESTARTS
    assert spec_of(spec_message(dataclasses.replace(spec, max_restarts=0))).max_restarts == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
@pytest.mark.parametrize(
    "name",
    ["weight", "deadline_s", "checkpoint_every_s", "hung_after_s", "cpus", "memory_gb", "least_turn_s", "save_grace_s"],
)
def test_numbers_that_are_none_are_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=f"job 'a': {name} is {value!r}; give a number"):
        spec_from({**EMULATED, name: value})
    with pytest.raises(ConfigError, match=f"{name} is"):
        spec_of(pb.JobSpec(name="a", emulated=True, steps=10, **{name: value}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus": 0}, "gpus is 0; give a number from 1 to 65536"),
        ({"gpus": 10**6}, "gpus is 1000000"),
        ({"gpus": 1.5}, "gpus is 1.5; give a whole number"),
        ({"gpus": True}, "gpus is True; give a whole number"),
        ({"steps": -1}, "steps is -1"),
        ({"steps": 0}, "steps is 0; an emulated job needs"),
        ({"max_restarts": -1}, "max_restarts is -1"),
        ({"weight": "much"}, "weight is 'much'; give a number"),
        ({"argv": "ls -l"}, "argv is 'ls -l'; give a list of texts"),
        ({"env": {"A": 1}}, "env is .*; give texts by name"),
        ({"emulated": 1}, "emulated is 1; give true or false"),
        ({"ranks": "many"}, "ranks is 'many'; give server or gpu"),
        ({"preemptible": "maybe"}, "preemptible is 'maybe'; give yes, no or auto"),
        ({"preemptible": True}, "preemptible is True; give yes, no or auto"),
        ({"emulated": False}, "has nothing to run"),
        ({"stepz": 1}, "there is no field 'stepz'; did you mean 'steps'"),
        ({"batch": 4}, "says nothing without a model"),
        ({"model": "resnet50", "batch": 1, "gpus": 2}, "needs a batch of at least 2, not 1"),
    ],
)
def test_a_job_that_cannot_be_is_refused_with_what_to_do(values, message):
    with pytest.raises(ConfigError, match=f"job 'a'.*{message}"):
        spec_from({**EMULATED, **values})


def test_a_job_without_steps_is_scheduled_by_a_guess_that_it_does_not_carry():
    spec = JobSpec(argv=("train",))

    assert spec.expected_steps == 3600
    assert spec_message(spec).steps == 0
    assert "steps" not in spec_values(spec)
