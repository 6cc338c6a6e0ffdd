"""Stops and moves of real jobs: exact, together, and at once."""

import itertools
import os
import random
import time

import pytest

from faults import Site, results, tell, until


def moved(site, number, times, seed, nodes=("n0", "n1")):
    """Drain the server of a job at random moments, so that it moves; seconds without a step for each move."""
    draw = random.Random(seed)
    for _ in range(times):
        epoch = site.job(number).epoch
        until(lambda epoch=epoch: (done := site.steps(number)) and done[-1][0] == epoch, 30, "a step")
        time.sleep(draw.uniform(0.0, 0.8))
        job = site.job(number)
        assert job.phase == "running", job.reason
        home = job.parts[0].node
        site.client.drain(next(n for n in nodes if n != home), undo=True)
        site.client.drain(home)
        until(lambda epoch=epoch: site.job(number).epoch > epoch and site.job(number).phase == "running", 30, "a move")
    for node in nodes:
        site.client.drain(node, undo=True)


def preempt(folder, times, steps):
    with Site(folder) as site:
        site.agent("n0", "emulate:v100=1")
        site.agent("n1", "emulate:k80=1")
        number = site.submit(steps=steps, pause=0.02)
        until(lambda: site.steps(number), what="a step")
        moved(site, number, times, seed=1)
        (job,) = site.done(number, seconds=120)

        steps_done = site.steps(number)
        assert (job.phase, job.saved_step, job.restarts) == ("finished", steps, 0)
        assert job.preemptions >= times
        assert [s[1] for s in steps_done] == list(range(steps)), "a step was repeated or left out"
        assert [s[4] for s in steps_done] == results(steps)
        assert site.credited_in_order(number)[-1] == steps
        gaps = [b[2] - a[2] for a, b in itertools.pairwise(steps_done) if a[0] != b[0]]
        assert site.busy() == {"n0": 0, "n1": 0}
        tell("last step before to first step after a move", gaps)


def test_a_job_that_is_moved_ends_with_the_same_result(tmp_path):
    preempt(tmp_path, 4, 400)


@pytest.mark.long
def test_twenty_moves_between_two_types_change_nothing(tmp_path):
    preempt(tmp_path, 20, 1600)


HALF = 0.5
"""A clock of half speed: a job without a profile makes a step every 2 s."""


def stop_times(site, number):
    """When the order was written and when its end was known to the scheduler, at the last stop; wall seconds."""
    begun = site.begun()
    stopping, ended = site.events("AttemptStopping", job=number)[-1], site.events("AttemptEnded", job=number)[-1]
    return begun + stopping["at"] / HALF, begun + ended["at"] / HALF


def test_an_emulated_job_leaves_its_device_at_once_in_the_middle_of_a_long_step(tmp_path):
    """Steps of 2 s. The checkpoint that the agent writes when it takes the job off says when that was."""
    with Site(tmp_path, time_scale=HALF, round=0.5) as site:
        site.agent("n0", "emulate:v100=1")
        at_agent, whole = [], []
        for _ in range(3):
            number = site.submit(emulated=True, steps=1000, profile="unprofiled", checkpoint_every_s=100.0)
            until(lambda number=number: site.job(number).phase == "running", what="a start")
            time.sleep(0.7)
            site.client.cancel([number])
            until(lambda number=number: site.events("AttemptEnded", job=number), what="the end")
            ordered, known = stop_times(site, number)
            (saved,) = (site.folder / "checkpoints" / str(number)).glob("1/*.json")
            at_agent.append(saved.stat().st_mtime - ordered)
            whole.append(known - ordered)
            site.done(number)
        tell("order to device free", at_agent)
        tell("order to end known to the scheduler", whole)
        assert sorted(at_agent)[1] < 0.1
        assert sorted(whole)[1] < 0.5


def gang(folder, stops):
    with Site(folder) as site:
        for name in ("n0", "n1", "n2"):
            site.agent(name, "emulate:v100=2")
        number = site.submit(gpus=4, ranks="gpu", steps=4000, pause=0.02, max_restarts=3)
        for at in range(stops):
            running(site, number)
            time.sleep(0.3 + 0.05 * (at % 7))
            home = site.job(number).parts[at % 2].node
            epoch = site.job(number).epoch
            site.client.drain(home)
            until(lambda epoch=epoch: end_of(site, number, epoch), 45, "a stop")
            site.client.drain(home, undo=True)
            last = {max(s[1] for s in site.steps(number, rank) if s[0] == epoch) for rank in range(4)}
            assert len(last) == 1, f"stop {at}: ranks ended after different steps {last}"
            assert end_of(site, number, epoch)["outcome"] == "stopped"
        kill_one_rank(site, number)
        for rank in range(4):
            seen = [s for s in site.steps(number, rank) if s[0] <= stops]
            assert [s[1] for s in seen] == list(range(len(seen)))
        site.client.cancel([number])
        site.done(number)
        until(lambda: set(site.busy().values()) == {0} and site.tasks() == [], what="free devices")


def end_of(site, number, epoch):
    """How an attempt ended, once it has."""
    return next((e for e in site.events("AttemptEnded", job=number) if e["epoch"] == epoch), None)


def running(site, number):
    """Wait until all ranks of the current attempt make steps; its number."""

    def there():
        job = site.job(number)
        lines = [site.steps(number, rank) for rank in range(4)]
        return job.phase == "running" and all(s and s[-1][0] == job.epoch for s in lines)

    until(there, 45, "a step of every rank")
    return site.job(number).epoch


def kill_one_rank(site, number):
    epoch = running(site, number)
    until(lambda: site.credited_in_order(number) and site.job(number).saved_step > 0, what="a save")
    before = site.job(number).saved_step
    ranks = [site.steps(number, rank)[-1][3] for rank in range(4)]
    os.kill(ranks[3], 9)
    killed = time.time()
    ended = until(lambda: end_of(site, number, epoch), 30, "the end of the gang")
    assert ended["outcome"] in {"failed", "killed"}
    assert site.begun() + ended["at"] - killed < 3.0, "the ranks that were left held their devices"
    assert "rank 3" in ended["detail"] or "a rank ended" in ended["detail"], ended
    again = running(site, number)
    assert again == epoch + 1
    started = site.events("AttemptStarted", job=number)[-1]
    assert started["resume_step"] >= before
    for rank in range(4):
        first = next(s for s in site.steps(number, rank) if s[0] == again)
        assert first[1] == started["resume_step"]
    assert not set(ranks) & set(site.tasks(number))


def test_a_gang_on_two_servers_stops_on_one_step_and_dies_together(tmp_path):
    gang(tmp_path, 3)


@pytest.mark.long
def test_a_gang_stops_on_the_same_step_twenty_times(tmp_path):
    gang(tmp_path, 20)
