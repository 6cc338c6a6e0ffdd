"""What is kept of measured speeds, and what the engine and people are told."""

import json
import math
import random
import statistics

import pytest
from engine_harness import EngineHarness
from harness import Harness, runs
from scipy import stats

from rota.deploy.events import SpeedMeasured, from_fields, to_fields
from rota.deploy.scheduler import learned_speeds
from rota.deploy.scheduler.learned_speeds import CellSpeed, LearnedSpeeds, SeenSpeed, SpeedCell
from rota.deploy.scheduler.plain_values import from_plain, to_plain
from rota.engine import live_state

WRONG = "ResNet-18 (batch size 32)"
COMMAND = {"emulated": False, "argv": ["python", "train.py"], "profile": "", "steps": 100_000}


def measured(rates, **fields):
    defaults = {
        "at": 1.0, "job": 0, "epoch": 1, "name": "train.py~1", "type": "v100", "cpus": 2.0, "memory_gb": 8.0,
        "servers": 1, "share": 1.0,
    }  # fmt: skip
    return SpeedMeasured(rates=tuple(rates), **{**defaults, **fields})


def test_mean_and_interval_are_those_of_the_blocks():
    draw = random.Random(1)
    rates = [draw.gauss(10.0, 1.0) for _ in range(12)]
    speed = CellSpeed()
    for rate in rates:
        speed.add(rate)

    assert speed.mean == pytest.approx(statistics.mean(rates))
    half = 2.20 * statistics.stdev(rates) / math.sqrt(12)
    assert speed.error == pytest.approx(half / statistics.mean(rates), rel=1e-6)
    assert math.isinf(CellSpeed(blocks=1, mean=3.0).error)


def test_the_interval_is_a_95_percent_one_for_any_number_of_blocks():
    for count in range(2, learned_speeds.REMEMBERED + 1):
        half = stats.t.ppf(0.975, count - 1) * math.sqrt(7.0 / (count - 1) / count) / 3.0
        assert learned_speeds.interval(count, 3.0, 7.0) == pytest.approx(half, rel=0.005)


def test_a_job_that_changes_is_noticed_because_old_blocks_fade():
    speed = CellSpeed()
    for rate in [10.0] * 1000 + [20.0] * 200:
        speed.add(rate)

    assert speed.mean == pytest.approx(20.0, rel=0.05)


def test_a_speed_is_believed_after_eight_blocks_that_agree_or_thirty_two_that_do_not():
    assert not SeenSpeed(rate=1.0, error=0.01, blocks=7).believed
    assert SeenSpeed(rate=1.0, error=0.10, blocks=8).believed
    assert not SeenSpeed(rate=1.0, error=0.11, blocks=31).believed
    assert SeenSpeed(rate=1.0, error=0.5, blocks=32).believed


def test_tenants_learn_apart_and_see_their_own_alone():
    speeds = LearnedSpeeds()
    speeds.take(measured([5.0] * 8), "ann", 1)
    speeds.take(measured([500.0] * 8), "bob", 1)

    assert speeds.of_kind(("ann", "train.py~1", 1))["v100"].rate == 5.0
    assert speeds.of_kind(("bob", "train.py~1", 1))["v100"].rate == 500.0
    assert [cell.tenant for cell, _ in speeds.visible("ann")] == ["ann"]
    assert len(list(speeds.visible(None))) == 2
    assert speeds.kinds("bob") == [("bob", "train.py~1", 1)]


def test_a_tenant_with_very_many_commands_forgets_its_oldest_ones_and_nobody_elses(monkeypatch):
    monkeypatch.setattr(learned_speeds, "MOST_CELLS", 10)
    speeds = LearnedSpeeds()
    speeds.take(measured([1.0], name="bobs"), "bob", 1)
    for number in range(50):
        speeds.take(measured([1.0], name=f"n{number}"), "ann", 1)
        speeds.take(measured([1.0], name="n0"), "ann", 1)

    names = {cell.name for cell in speeds.cells}
    assert len(names) == 11
    assert names >= {"bobs", "n0", "n49"}
    assert speeds.of_kind(("ann", "n1", 1)) == {}


def test_cells_survive_a_snapshot_as_they_are():
    speeds = LearnedSpeeds()
    speeds.take(measured([5.0, 5.5, 4.5]), "ann", 2)
    speeds.take(measured([7.0], cpus=3.0), "ann", 2)

    again = from_plain(LearnedSpeeds, json.loads(json.dumps(to_plain(LearnedSpeeds, speeds))))

    assert again == speeds
    assert again.of_kind(("ann", "train.py~1", 2)) == speeds.of_kind(("ann", "train.py~1", 2))
    again.take(measured([7.0], cpus=3.0), "ann", 2)
    assert (
        again.cells[SpeedCell(tenant="ann", name="train.py~1", gpus=2, type="v100", cpus=3.0, memory_gb=8.0)].blocks
        == 2
    )


def test_an_event_is_read_as_it_was_written():
    event = measured([1.5, 2.25])

    assert from_fields(json.loads(json.dumps(to_fields(event)))) == event


# With the engine


class TrainingCluster(EngineHarness):
    """Agents whose jobs train, each at its own speed on a V100, and at a sixth of it on a K80."""

    def __init__(self, rates=()):
        self.rates = dict(rates)
        self.begun = {}
        super().__init__(policy="srtf-perf", mechanism="proportional", profiles="gavel")

    def obey(self, node, saved=0):
        agent = self.agents[node]
        for job, attempt in self.registry.attempts_on(node):
            key = (job.id, attempt.epoch)
            begun = self.begun.setdefault(key, self.clock.now())
            rate = self.rates.get(job.id, 1.0) / (1 if node == "v100" else 6)
            agent.tasks[key] = runs(1 + attempt.resume_step + round((self.clock.now() - begun) * rate))
            self.meter.shares = {**self.meter.shares, job.id: 1.0}
        super().obey(node, saved)


def a_cluster():
    cluster = TrainingCluster()
    for kind in ("v100", "k80"):
        cluster.join(kind, gpus=4, kind=kind)
    return cluster


def run_at(cluster, rates, rounds):
    """All jobs run for so many rounds."""
    cluster.rates = {**cluster.rates, **rates}
    for _ in range(rounds):
        cluster.round()


def learned(cluster, profile, belief="default", gpus=1):
    return cluster.recovered.state.classes.learned(profile, belief, gpus)


def test_the_engine_hears_of_a_wrong_profile_and_corrects_it_on_types_that_were_not_seen():
    cluster = a_cluster()
    number = cluster.submit(**{**COMMAND, "profile": WRONG})
    cluster.round()
    classes = cluster.recovered.state.classes
    expected = classes.expected(WRONG, "default", 1)
    rate = round(expected["v100"] * 3)

    run_at(cluster, {number: rate}, 6)

    found = learned(cluster, WRONG)
    assert found["v100"] == pytest.approx(rate, rel=0.02)
    assert found["k80"] == pytest.approx(expected["k80"] * rate / expected["v100"], rel=0.02)
    [told] = cluster.report_to_engine.wrong_profiles(cluster.recovered.state, cluster.clock.now())
    assert (told.job, told.profile, told.type) == (number, WRONG, "v100")
    assert told.measured == pytest.approx(rate, rel=0.02)
    cluster.loop.remember([told])
    assert cluster.report_to_engine.wrong_profiles(cluster.recovered.state, cluster.clock.now()) == []


def test_a_profile_that_is_right_stays_as_it_is():
    cluster = a_cluster()
    number = cluster.submit(**{**COMMAND, "profile": WRONG})
    cluster.round()
    rate = cluster.recovered.state.classes.expected(WRONG, "default", 1)["v100"]

    run_at(cluster, {number: rate * 1.05}, 6)

    assert learned(cluster, WRONG) == {}
    assert cluster.of("SpeedsLearned") == []
    assert cluster.report_to_engine.wrong_profiles(cluster.recovered.state, 0.0) == []


def test_a_command_without_a_profile_is_first_tried_then_known_and_another_tenants_is_not():
    cluster = a_cluster()
    number = cluster.submit(**COMMAND, tenant="ann")
    other = cluster.submit(**COMMAND, tenant="bob")
    cluster.round()
    name = cluster.of("JobsSubmitted")[0]["profiles"][0]
    prior = cluster.recovered.state.classes.expected(name, "ann", 1)

    run_at(cluster, {number: 30.0, other: 90.0}, 6)

    assert prior["v100"] > prior["k80"] > 0
    assert learned(cluster, name, "ann")["v100"] == pytest.approx(30.0, rel=0.02)
    assert learned(cluster, name, "bob")["v100"] == pytest.approx(90.0, rel=0.02)
    assert 0 < learned(cluster, name, "ann")["k80"] < 30.0


def test_a_lie_about_a_profile_goes_no_further_than_a_factor_of_a_hundred():
    cluster = a_cluster()
    number = cluster.submit(**{**COMMAND, "profile": WRONG, "steps": 10**12})
    cluster.round()
    expected = cluster.recovered.state.classes.expected(WRONG, "default", 1)

    run_at(cluster, {number: 900_000.0}, 6)

    assert learned(cluster, WRONG)["v100"] == pytest.approx(100 * expected["v100"], rel=1e-6)


def test_reading_the_journal_again_gives_the_same_speeds_from_the_start_and_from_a_snapshot():
    cluster = a_cluster()
    number = cluster.submit(**COMMAND)
    cluster.round()
    run_at(cluster, {number: 30.0}, 3)
    cluster.snapshot()
    run_at(cluster, {number: 30.0}, 3)
    name = cluster.of("JobsSubmitted")[0]["profiles"][0]

    from_the_start = cluster.restarted()
    from_a_snapshot = cluster.restarted(stored=cluster.journal.stored)

    for again in (from_the_start, from_a_snapshot):
        assert again.registry.speeds == cluster.registry.speeds
        assert learned(again, name) == learned(cluster, name) != {}
        view = again.recovered.state.view(cluster.clock.now())
        mine = cluster.recovered.state.view(cluster.clock.now())
        assert view.classes.throughput.tolist() == mine.classes.throughput.tolist()


def test_a_snapshot_of_a_version_that_did_not_learn_is_read():
    cluster = Harness()
    number = cluster.running(**COMMAND)
    values = to_plain(LearnedSpeeds, cluster.registry.speeds)

    assert values == {"cells": []}
    assert from_plain(LearnedSpeeds, {}) == LearnedSpeeds()
    assert cluster.job(number).profile_wrong is None


def test_a_new_type_of_gpu_has_a_speed_as_soon_as_its_first_server_is_there():
    cluster = a_cluster()
    number = cluster.submit(**COMMAND)
    cluster.round()
    name = cluster.of("JobsSubmitted")[0]["profiles"][0]
    run_at(cluster, {number: 30.0}, 6)

    cluster.join("p100", gpus=4, kind="p100")
    cluster.round()
    cluster.round()

    assert learned(cluster, name).keys() == {"k80", "p100", "v100"}
    assert learned(cluster, name)["v100"] == pytest.approx(30.0, rel=0.02)


def test_an_estimate_for_a_type_is_replaced_as_soon_as_the_job_was_measured_there():
    cluster = a_cluster()
    number = cluster.submit(**COMMAND)
    cluster.round()
    name = cluster.of("JobsSubmitted")[0]["profiles"][0]
    run_at(cluster, {number: 30.0}, 6)
    estimate = learned(cluster, name)["k80"]

    cluster.recorder.record(measured([2 * estimate] * 8, job=number, name=name, type="k80"))
    cluster.round()

    assert learned(cluster, name)["k80"] == pytest.approx(2 * estimate)
    assert learned(cluster, name)["v100"] == pytest.approx(30.0, rel=0.02)


def test_a_queue_of_the_same_command_is_known_once_its_first_job_was_measured():
    cluster = a_cluster()
    first = cluster.submit(**COMMAND)
    run_at(cluster, {first: 30.0}, 7)
    name = cluster.of("JobsSubmitted")[0]["profiles"][0]

    second = cluster.submit(**{**COMMAND, "argv": ["python", "train.py", "--seed", "2"]})
    cluster.round()

    view = cluster.recovered.state.view(cluster.clock.now())
    v100 = view.types.index("v100")
    row = view.jobs.tolist().index(second)
    assert cluster.of("JobsSubmitted")[-1]["profiles"] == [name]
    assert view.classes.throughput[view.job_class[row], v100] == pytest.approx(30.0, rel=0.02)


def test_classes_of_commands_that_nobody_submits_any_more_are_forgotten(monkeypatch):
    monkeypatch.setattr(live_state, "MOST_CLASSES", 8)
    cluster = a_cluster()
    first = cluster.submit(**COMMAND)
    run_at(cluster, {first: 30.0}, 7)
    cluster.snapshot()
    for number in range(30):
        other = cluster.submit(**{**COMMAND, "argv": ["python", "train.py", f"--width={number}"]})
        cluster.round()
        cluster.cancel(other)
        cluster.round()

    state = cluster.recovered.state
    view = state.view(cluster.clock.now())
    row = view.job_class[view.jobs.tolist().index(first)]
    assert len(state.classes) <= 12
    assert view.classes.throughput[row, view.types.index("v100")] == pytest.approx(30.0, rel=0.02)
    assert cluster.restarted().picture() == cluster.picture()
    assert cluster.restarted(stored=cluster.journal.stored).picture() == cluster.picture()
