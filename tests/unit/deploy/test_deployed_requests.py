"""What jobs ask for beside GPUs, in a scheduler with its real engine."""

import re
from types import SimpleNamespace

import pytest
from engine_harness import EngineHarness

from rota.core.errors import ConfigError
from rota.core.job_spec import spec_from
from rota.core.lifecycle import JobPhase
from rota.core.needs import Needs
from rota.deploy.scheduler.cluster_facts import cluster_as_it_is
from rota.deploy.scheduler.reasons import Reasons
from rota.deploy.server.submission_limits import _check_least_turn, _check_priority
from rota.deploy.tenants import read_tenants

USER = SimpleNamespace(name="user", tenant="vision", admin=False, node=None)
ADMIN = SimpleNamespace(name="operator", tenant="", admin=True, node=None)
MECHANISMS = ["proportional", "tune", "greedy", "strided"]


def a_cluster(mechanism="proportional"):
    """Two servers with 4 GPUs each, one of them with much memory."""
    harness = EngineHarness(policy="las", mechanism=mechanism)
    harness.join("small", cpus=16.0, memory_gb=256.0)
    harness.join("large", cpus=16.0, memory_gb=1024.0)
    return harness


def parts_of(harness, number):
    attempt = harness.job(number).attempt
    return {} if attempt is None else {part.node: part for part in attempt.parts}


def held_memory(harness, node):
    attempts = [job.attempt for job in harness.registry.running.values() if job.attempt is not None]
    return sum(part.memory_gb for attempt in attempts for part in attempt.parts if part.node == node)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_job_gets_the_server_that_has_its_memory_and_holds_it(mechanism):
    harness = a_cluster(mechanism)
    first = harness.submit(profile="res18")
    asking = harness.submit(profile="res18", memory_gb=700.0, cpus=4.0)
    harness.round()

    (part,) = parts_of(harness, asking).values()

    assert part.node == "large"
    assert part.memory_gb >= 700.0
    assert part.cpus >= 4.0
    assert parts_of(harness, first)
    assert held_memory(harness, "large") <= 1024.0 + 1e-6


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_request_survives_a_restart_of_the_scheduler(mechanism):
    harness = a_cluster(mechanism)
    harness.submit(profile="res18")
    asking = harness.submit(profile="res18", memory_gb=700.0)
    harness.round()

    again = harness.restarted()
    again.round()

    view = again.recovered.state.view(again.now())
    needs = [view.classes.needs[group] for group in view.job_class.tolist()]
    assert again.picture() != "null"
    assert needs == [Needs(), Needs(memory_gb=700.0)]
    assert parts_of(again, asking)["large"].memory_gb >= 700.0


def test_a_request_survives_a_snapshot():
    harness = a_cluster()
    asking = harness.submit(profile="res18", memory_gb=700.0)
    harness.round()
    harness.snapshot()

    again = harness.restarted(stored=harness.journal.stored)
    again.round()

    assert again.recovered.state.view(again.now()).classes.needs == (Needs(memory_gb=700.0),)
    assert parts_of(again, asking)["large"].memory_gb >= 700.0


def test_a_job_waits_until_a_server_comes_that_can_hold_it():
    harness = EngineHarness(policy="las", mechanism="proportional")
    harness.join("small", cpus=16.0, memory_gb=256.0)
    asking = harness.submit(profile="res18", memory_gb=700.0)
    harness.round()
    assert harness.job(asking).attempt is None
    assert harness.job(asking).phase is not JobPhase.FAILED

    harness.join("large", cpus=16.0, memory_gb=1024.0)
    harness.round()
    harness.round()

    assert list(parts_of(harness, asking)) == ["large"]


def test_a_job_steps_aside_when_the_only_server_that_can_hold_it_is_gone():
    harness = a_cluster()
    asking = harness.submit(profile="res18", memory_gb=700.0)
    harness.round()
    harness.ask(lambda now: harness.requests.drain("large", "admin", now, undo=False))
    harness.round()
    harness.round()

    assert harness.job(asking).attempt is None
    assert asking in harness.recovered.state.parked


# Types and labels


def a_mixed_cluster():
    harness = EngineHarness(policy="max-min-fairness-perf", mechanism="proportional", profiles="gavel")
    for name, kind, labels in (("v", "v100", ("zone=a",)), ("p", "p100", ("zone=b",)), ("k", "k80", ())):
        harness.join(name, kind=kind, labels=labels)
    return harness


LM = "LM (batch size 20)"


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ({"types": ["k80"]}, {"k"}),
        ({"types": ["p100", "k80"]}, {"p", "k"}),
        ({"exclude_types": ["v100"]}, {"p", "k"}),
        ({"exclude_types": ["v100", "p100"]}, {"k"}),
        ({"labels": ["zone=b"]}, {"p"}),
        ({"labels": ["zone=a"], "exclude_types": ["k80"]}, {"v"}),
    ],
)
def test_jobs_run_only_where_they_may(asked, allowed):
    harness = a_mixed_cluster()
    numbers = [harness.submit(profile=LM, **asked) for _ in range(6)]
    harness.round()
    harness.round()

    places = {node for number in numbers for node in parts_of(harness, number)}

    assert places
    assert places <= allowed


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"types": ["a100"]}, "types-not-there: may run on a100; types that are up: k80, p100, v100"),
        (
            {"exclude_types": ["v100", "p100", "k80"]},
            "types-not-there: may run not on k80 or p100 or v100; types that are up: k80, p100, v100",
        ),
        (
            {"labels": ["zone=c"]},
            (
                "label-not-there: asks for 1 GPU on servers with zone=c; no such server is there "
                "(labels of servers that are there: zone=a, zone=b)"
            ),
        ),
        (
            {"labels": ["zone=a"], "memory_gb": 100.0},
            (
                "request-too-large: asks for 1 GPU with 100 GB of memory on servers with zone=a; "
                "the most that one server has is 4 GPUs, 8 CPUs, 64 GB"
            ),
        ),
    ],
)
def test_a_job_that_may_run_nowhere_is_told_why(asked, reason):
    harness = a_mixed_cluster()
    number = harness.submit(profile=LM, **asked)
    harness.round()

    cluster = cluster_as_it_is(harness.registry, harness.clock.now())
    told = Reasons(cluster, harness.catalogue).explain(harness.job(number))

    assert told.reason == reason
    assert harness.job(number).attempt is None


def test_types_and_labels_survive_a_restart():
    harness = a_mixed_cluster()
    number = harness.submit(profile=LM, exclude_types=["v100"], labels=["zone=b"])
    harness.round()

    again = harness.restarted()
    again.round()

    assert list(parts_of(again, number)) == ["p"]
    assert again.registry.nodes["v"].joined.labels == ("zone=a",)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"labels": ["zone"]}, "label 'zone' is not NAME=VALUE"),
        ({"labels": ["zone=a b"]}, "is not NAME=VALUE"),
        ({"labels": ["=a"]}, "is not NAME=VALUE"),
        ({"labels": ["a=" + "x" * 64]}, "is not NAME=VALUE"),
        ({"labels": [f"a{n}=b" for n in range(65)]}, "labels has 65 entries; give at most 64"),
        ({"types": ["v100", ""]}, "types has '', which is no type of GPU"),
        ({"types": ["!v100"]}, "types has '!v100'"),
        ({"exclude_types": ["a|b"]}, "exclude_types has 'a|b'"),
        ({"types": ["v100"], "exclude_types": ["v100"]}, "v100 is in types and in exclude_types"),
        ({"types": "v100"}, "types is 'v100'; give a list of texts"),
    ],
)
def test_names_that_cannot_be_are_refused(asked, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        spec_from({"emulated": True, "steps": 10, "profile": LM, **asked})


def test_a_server_with_labels_that_cannot_be_is_refused():
    harness = EngineHarness()

    with pytest.raises(ConfigError, match=r"node 'a': label 'zone' is not NAME=VALUE"):
        harness.join("a", labels=("zone",))


# Priorities


def test_a_job_of_higher_priority_preempts_at_the_next_round():
    harness = EngineHarness(policy="las", mechanism="proportional")
    harness.join("a", gpus=2)
    low = [harness.submit(profile="res18", preemptible="yes") for _ in range(2)]
    harness.round()
    assert all(parts_of(harness, number) for number in low)
    high = harness.submit(profile="res18", gpus=2, priority=5)
    for _ in range(3):
        harness.round()

    assert parts_of(harness, high)
    assert not any(parts_of(harness, number) for number in low)


def test_a_job_that_may_not_be_preempted_is_not():
    harness = EngineHarness(policy="las", mechanism="proportional")
    harness.join("a", gpus=1)
    low = harness.submit(profile="res18", preemptible="no")
    harness.round()
    high = harness.submit(profile="res18", priority=1000)
    for _ in range(3):
        harness.round()

    assert parts_of(harness, low)
    assert not parts_of(harness, high)


@pytest.mark.parametrize("policy", ["las", "max-min-fairness-perf"])
def test_priorities_survive_a_restart(policy):
    harness = EngineHarness(policy=policy, mechanism="proportional", profiles="gavel")
    harness.join("a", gpus=1)
    low = harness.submit(profile=LM, preemptible="yes", priority=-1)
    high = harness.submit(profile=LM, preemptible="yes", priority=3)
    harness.round()

    again = harness.restarted()
    again.round()

    view = again.recovered.state.view(again.now())
    assert view.priority.tolist() == [-1, 3]
    assert parts_of(again, high)
    assert not parts_of(again, low)


@pytest.mark.parametrize("priority", [1001, -1001, 2**40, 1.5, True, "high"])
def test_priorities_that_cannot_be_are_refused(priority):
    with pytest.raises(ConfigError, match="priority is"):
        spec_from({"emulated": True, "steps": 10, "profile": LM, "priority": priority})


def test_the_operator_bounds_priorities_by_tenant(tmp_path):
    path = tmp_path / "tenants.toml"
    path.write_text("[default]\nmax_priority = 0\n[tenants.vision]\nmax_priority = 5\n", encoding="utf-8")
    tenants = read_tenants(path)
    job = {"emulated": True, "steps": 10, "profile": LM}

    for tenant, priority in (("vision", 5), ("other", 0), ("other", -7)):
        _check_priority(spec_from({**job, "tenant": tenant, "priority": priority}), USER, tenants)
    _check_priority(spec_from({**job, "tenant": "other", "priority": 900}), ADMIN, tenants)

    for tenant, priority, most in (("vision", 6, 5), ("other", 1, 0)):
        with pytest.raises(ConfigError, match=f"priority {priority} is above {most}, the highest for jobs of tenant"):
            _check_priority(spec_from({**job, "tenant": tenant, "priority": priority}), USER, tenants)


def test_the_operator_bounds_least_turns_by_tenant(tmp_path):
    path = tmp_path / "tenants.toml"
    path.write_text("[tenants.vision]\nmax_least_turn_s = 3600\n", encoding="utf-8")
    tenants = read_tenants(path)
    job = {"emulated": True, "steps": 10, "profile": LM}

    for tenant, seconds in (("vision", 3600.0), ("other", 7 * 86400.0)):
        _check_least_turn(spec_from({**job, "tenant": tenant, "least_turn_s": seconds}), USER, tenants)
    _check_least_turn(spec_from({**job, "tenant": "vision", "least_turn_s": 1e12}), ADMIN, tenants)

    for tenant, seconds in (("vision", 3601.0), ("other", 1e12)):
        with pytest.raises(ConfigError, match=r"a least turn of .* s is above .* s, the most for jobs of tenant"):
            _check_least_turn(spec_from({**job, "tenant": tenant, "least_turn_s": seconds}), USER, tenants)


@pytest.mark.parametrize("value", ["-1", "1.5", "true", '"high"', "nan"])
def test_a_bound_of_priorities_that_cannot_be_is_refused(tmp_path, value):
    path = tmp_path / "tenants.toml"
    path.write_text(f"[default]\nmax_priority = {value}\n", encoding="utf-8")

    with pytest.raises(ConfigError, match="default: max_priority is"):
        read_tenants(path)
