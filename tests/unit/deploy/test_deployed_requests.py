"""What jobs ask for beside GPUs, in a scheduler with its real engine."""

import pytest
from engine_harness import EngineHarness

from rota.core.lifecycle import JobPhase
from rota.core.needs import Needs

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
