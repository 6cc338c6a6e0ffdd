"""The wall clock is set, forward and back, on the scheduler and on agents, while they run and while they are down.

Nothing that runs may notice: every job ends well, in its first attempt, with every step done once.
"""

import json
import signal
import subprocess
import sys
import time

import pytest

from faults import Site, results, until

MINUTE = 60.0
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class SetClock:
    """The wall clock of some processes, as seconds that it is ahead."""

    def __init__(self, path):
        self._path = path
        self.set(0.0)

    def set(self, seconds):
        self._path.write_text(str(seconds))

    @property
    def prefix(self):
        """What is put before a command so that it has this clock."""
        return ("env", f"ROTA_TEST_WALL_CLOCK={self._path}")


class ClockedSite(Site):
    """A site whose scheduler and agents have wall clocks of their own."""

    def __init__(self, folder, **settings):
        self.clocks = {who: SetClock(folder / f"{who}.clock") for who in ("scheduler", "agents")}
        super().__init__(folder, prefix=self.clocks["scheduler"].prefix, **{"lease": 20, **settings})

    def agent(self, name, gpus="emulate:v100=1", **how):
        super().agent(name, gpus, prefix=self.clocks["agents"].prefix, **how)

    def set_clocks(self, seconds, *whose):
        for who in whose or tuple(self.clocks):
            self.clocks[who].set(seconds)

    def sets(self):
        """By how much the clock was set, as the journal has it."""
        return [round(event["by_s"]) for event in self.events("ClockSet")]


def done_once(site, number, steps):
    """A job is over, in one attempt, with each step done once and in order."""
    (job,) = site.done(number, seconds=90)
    assert (job.phase, job.reason, job.epoch) == ("finished", "", 1)
    done = site.steps(number)
    assert [s[1] for s in done] == list(range(steps))
    assert done[-1][4] == results(steps)[-1]
    assert site.credited_in_order(number)[-1] == steps


def undisturbed(site, *numbers):
    """Jobs run on in their first attempt, with each step done once and in order; they are cancelled then."""
    saves_on(site, *numbers)
    for number in numbers:
        job = site.job(number)
        assert (job.phase, job.reason, job.epoch) == ("running", "", 1)
        assert [s[1] for s in site.steps(number)] == list(range(len(site.steps(number))))
        assert site.credited_in_order(number)
    site.client.cancel(numbers)
    site.done(*numbers)


def saves_on(site, *numbers):
    """Wait until jobs have saved more than now."""
    before = [site.job(number).saved_step for number in numbers]
    until(
        lambda: all(site.job(number).saved_step > was for number, was in zip(numbers, before, strict=True)),
        what="another save",
    )


def status(site):
    words = [sys.executable, "-m", "rota.cli", "status", "--scheduler", site.address, "--insecure"]
    told = subprocess.run([*words, "--json"], check=True, capture_output=True, text=True)
    shown = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(told.stdout), " ".join(shown.stdout.split())


def test_a_clock_that_is_set_while_everything_runs_changes_nothing_and_is_told(tmp_path):
    with ClockedSite(tmp_path) as site:
        site.agent("n0", "emulate:v100=2")
        jobs = [site.submit(steps=10**6), site.submit(emulated=True, steps=10**6, checkpoint_every_s=1.0)]
        saves_on(site, *jobs)
        began = site.client.status().now_s

        for seconds in (HOUR, -HOUR, DAY, -DAY, 0.0):
            site.set_clocks(seconds)
            until(lambda seconds=seconds: sum(site.sets()) == seconds, what="the scheduler's notice")
        told, shown = status(site)

        undisturbed(site, *jobs)
        assert site.sets() == [HOUR, -2 * HOUR, DAY + HOUR, -2 * DAY, DAY]
        assert (told["clock_sets"], round(told["last_clock_set_by_s"])) == (5, DAY)
        assert "was set 5 times" in shown
        assert "times, the last time" in shown
        assert "forward by" in shown
        assert 0 < told["now_s"] - began < MINUTE
        assert "the wall clock was set back by 172800 s" in site.log("scheduler")


@pytest.mark.parametrize(
    "step",
    [
        -DAY,
        DAY,
        pytest.param(-MINUTE, marks=pytest.mark.long),
        pytest.param(-HOUR, marks=pytest.mark.long),
        pytest.param(HOUR, marks=pytest.mark.long),
    ],
)
def test_a_clock_that_is_set_while_a_part_is_down_costs_no_attempt(tmp_path, step):
    with ClockedSite(tmp_path) as site:
        site.agent("n0", "emulate:v100=3")
        jobs = [site.submit(steps=10**6), site.submit(emulated=True, steps=10**6, checkpoint_every_s=1.0)]
        saves_on(site, *jobs)

        site.kill("scheduler")
        site.set_clocks(step, "scheduler")
        site.serve()
        new = site.submit(steps=20)
        saves_on(site, *jobs)
        done_once(site, new, 20)
        site.kill("n0")
        site.set_clocks(step, "agents")
        site.agent("n0", "emulate:v100=3")
        saves_on(site, *jobs)
        site.kill("n0")
        site.kill("scheduler")
        site.set_clocks(0.0)
        site.serve()
        site.agent("n0", "emulate:v100=3")
        new = site.submit(steps=20)

        done_once(site, new, 20)
        undisturbed(site, *jobs)
        assert site.sets() == [step, -step]
        assert site.events("NodeLost") == []


def test_leases_of_a_server_nobody_hears_hold_though_the_clock_was_set_forward(tmp_path):
    """A day has passed by the wall clock. The server that is cut off knows better, and its job runs on its lease."""
    with ClockedSite(tmp_path, lease=8, dead_after=2) as site:
        site.agent("n0")
        number = site.submit(steps=400)
        saves_on(site, number)
        site.agent("n1")

        site.programs["n0"].send_signal(signal.SIGSTOP)
        site.kill("scheduler")
        site.set_clocks(DAY)
        site.serve()
        until(lambda: site.job(number).epoch == 2 and site.steps(number)[-1][0] == 2, 60, "a second attempt")

        (lost,) = site.events("AttemptEnded", job=number)
        assert lost["outcome"] == "lost"
        done = site.steps(number)
        first, second = ([s[2] for s in done if s[0] == epoch] for epoch in (1, 2))
        assert max(first) < min(second), "both attempts ran at the same time"
        site.programs["n0"].send_signal(signal.SIGCONT)
        site.client.cancel([number])
        site.done(number)


def test_a_gang_stops_on_one_step_after_a_restart_with_the_clock_set_back(tmp_path):
    """Once led by the new scheduler alone, and once begun by a scheduler that dies over it."""
    with ClockedSite(tmp_path, lease=40) as site:
        for name in ("n0", "n1", "n2"):
            site.agent(name, "emulate:v100=1")
        number = site.submit(gpus=2, ranks="gpu", steps=4000, pause=0.02)
        _all_step(site, number)
        site.kill("scheduler")
        site.set_clocks(-HOUR, "scheduler")
        site.serve()

        _stop_gang(site, number, lambda: None)
        _all_step(site, number)
        _stop_gang(site, number, lambda: _restart(site, -DAY))

        site.client.cancel([number])
        site.done(number)


def test_a_clock_that_is_wrong_at_a_start_removes_no_output(tmp_path):
    with ClockedSite(tmp_path, round=0.1) as site:
        site.agent("n0")
        number = site.submit(argv=["sh", "-c", "echo important"])
        site.done(number)
        until(lambda: output(site, number), what="output")

        _restart(site, 32 * DAY)
        site.client.status()
        time.sleep(1.0)
        _restart(site, 0.0)

        assert output(site, number) == b"important\n"


def test_output_goes_when_its_job_is_over_for_long_enough(tmp_path):
    with ClockedSite(tmp_path, round=0.1, keep_logs_days=1e-6) as site:
        site.agent("n0")
        number = site.submit(argv=["sh", "-c", "echo important"])
        site.done(number)
        until(lambda: output(site, number), what="output")
        still = site.submit(argv=["sh", "-c", "echo running; sleep 60"])
        until(lambda: output(site, still), what="output")

        _restart(site, 0.0)

        until(lambda: not output(site, number), what="the removal")
        assert output(site, still) == b"running\n"


def output(site, number):
    until(lambda: site.job(number).epoch > 0, what="a start")
    return b"".join(site.client.logs(number))


def _restart(site, seconds):
    site.kill("scheduler")
    site.set_clocks(seconds, "scheduler")
    site.serve()


def _all_step(site, number):
    """Wait until both ranks of the current attempt make steps."""

    def there():
        epoch = site.job(number).epoch
        lines = [site.steps(number, rank) for rank in range(2)]
        return all(done and done[-1][0] == epoch for done in lines)

    until(there, 60, "a step of every rank")


def _stop_gang(site, number, meanwhile):
    """Move a gang; all its ranks end on the same step."""
    job = site.job(number)
    home = job.parts[0].node
    site.client.drain(home)
    meanwhile()

    def end():
        ends = [e for e in site.events("AttemptEnded", job=number) if e["epoch"] == job.epoch]
        return ends[0] if ends else None

    ended = until(end, 60, "a stop")
    site.client.drain(home, undo=True)
    assert ended["outcome"] == "stopped", ended
    last = {max(s[1] for s in site.steps(number, rank) if s[0] == job.epoch) for rank in range(2)}
    assert len(last) == 1, f"ranks ended after different steps {last}"
