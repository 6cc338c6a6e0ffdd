"""What a scheduler writes down when it is started again, and how its numbers tell its lives apart."""

from types import SimpleNamespace

from harness import Harness

from deployed import a_scheduler
from rota.deploy.numbering import first_number, same_generation
from rota.deploy.scheduler.clock import ClockReading, WallClock
from rota.deploy.scheduler.starting import events_of_start


def a_clock(*, unsure_s=0.0, set_by_s=0.0):
    reading = ClockReading(at=1000.0, wall=5000.0, boot="b", machine_s=7.0)
    return SimpleNamespace(
        begun=4000.0, reading=lambda: reading, unsure_s=unsure_s, set_by_s=set_by_s, wall_seconds=lambda s: s
    )


def test_leases_count_from_now_where_only_the_wall_clock_says_that_time_passed():
    harness = Harness()
    number = harness.running()
    lease_until = harness.job(number).attempt.lease_until

    started, longer = events_of_start(harness.registry, a_clock(unsure_s=86400.0), {})
    harness.recorder.apply([started, longer])

    assert harness.job(number).attempt.lease_until == lease_until + 86400.0
    assert harness.registry.clock == ClockReading(at=1000.0, wall=5000.0, boot="b", machine_s=7.0)


def test_leases_are_left_alone_where_time_is_sure():
    harness = Harness()
    harness.running()

    (started,) = events_of_start(harness.registry, a_clock(), {})

    assert (started.generation, started.boot, started.machine_s) == (1, "b", 7.0)


def test_each_start_has_a_generation_of_its_own_and_the_journal_knows_it(tmp_path):
    generations = []
    for _ in range(3):
        scheduler = a_scheduler(tmp_path / "state.db")
        scheduler.start()
        generations.append(scheduler.registry.generation)
        scheduler.stop()

    assert generations == [1, 2, 3]


def test_a_journal_from_before_generations_were_counted_goes_on(tmp_path):
    """Its starts have no generation and no boot: each counts, and time goes on with the wall."""
    harness = Harness()
    old = {"event": "ServiceStarted", "at": 0.0, "begun": 1e9, "config": {"time_scale": 2.0}}
    harness.journal.rows += [old, {**old, "at": 100.0}]

    registry = harness.restarted().registry

    assert registry.generation == 2
    assert registry.clock == ClockReading(at=100.0, wall=1e9 + 50.0)
    assert WallClock(scale=2.0, before=registry.clock, at_least=100.0).now() > 100.0


def test_numbers_grow_over_lives_and_are_above_those_of_wall_clocks():
    year_2100_us = 4_102_444_800_000_000

    assert year_2100_us < first_number(1) < first_number(2) < first_number(2**20) < 2**63
    assert same_generation(first_number(2), first_number(2) + 10**9)
    assert not same_generation(first_number(1), first_number(2))


def test_an_acknowledgement_of_another_life_does_not_make_a_task_lost():
    """The journal was restored from an older copy: agents have seen lists with higher numbers than it gives."""
    harness = Harness()
    harness.join("a")
    number = harness.submit()
    harness.round()
    harness.want(**{f"j{number}": {"a": 1}})

    harness.report("a", acknowledged=first_number(99))

    assert harness.of("AttemptEnded") == []
    harness.report("a", acknowledged=harness.board.published["a"].version)
    assert [event["outcome"] for event in harness.of("AttemptEnded")] == ["lost"]
