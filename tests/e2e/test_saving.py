"""Jobs that are stopped save first, as long as they need and no longer; what is lost is counted and said."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults import Site, until

SAVER = """
import os, sys, time
import rota.client

SAVE_S = float(os.environ.get("SAVE_S", "0"))
HANGS = os.environ.get("HANGS") == "yes"
place = f"{sys.argv[1]}/{os.environ['ROTA_JOB']}"

def save(path):
    with open(place + ".saves", "a") as log:
        log.write(f"{os.environ['ROTA_EPOCH']} {lease.step}\\n")
    with open(path / "state", "w", buffering=1) as state:
        state.write(f"{lease.step}\\n")
        if HANGS:
            time.sleep(3600)
        until = time.monotonic() + SAVE_S
        while time.monotonic() < until:
            state.write("more and more\\n")
            time.sleep(0.25)
    with open(place + ".saves", "a") as log:
        log.write("whole\\n")

def load(path):
    with open(place + ".loads", "a") as log:
        log.write(f"{(path / 'state').read_text().split()[0]}\\n")

with rota.client.lease(save=save, load=load, steps=int(os.environ.get("STEPS", "0")) or None) as lease:
    while lease.next():
        with open(place + ".steps", "a") as log:
            log.write(f"{os.environ['ROTA_EPOCH']} {lease.step}\\n")
        time.sleep(0.05)
"""
DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
time.sleep(300)
"""
NEVER = 10000.0
"""Seconds between two checkpoints of a job that saves only when it is stopped."""
PATIENT = {"lease": 60, "dead_after": 30}
"""Leases that outlast the restart of a part of the deployment on a busy machine."""


class Notes:
    """What the saver wrote down."""

    def __init__(self, site, job):
        self.place = site.folder / "steps" / str(job)

    def lines(self, name):
        path = Path(f"{self.place}.{name}")
        return path.read_text().splitlines() if path.exists() else []

    def steps(self):
        return [tuple(map(int, line.split())) for line in self.lines("steps") if len(line.split()) == 2]


def saver(site, *, save_s=0.0, hangs=False, **fields):
    """A job that saves slowly or never ends saving; its number."""
    (site.folder / "saver.py").write_text(SAVER)
    env = {
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "SAVE_S": str(save_s),
        "HANGS": "yes" if hangs else "no",
    }
    argv = [sys.executable, f"{site.folder}/saver.py", f"{site.folder}/steps"]
    return site.submit(argv=argv, env=env, **{"checkpoint_every_s": NEVER, **fields})


@contextlib.contextmanager
def two_servers(folder, **settings):
    with Site(folder, **settings) as site:
        for name in ("n0", "n1"):
            site.agent(name)
        yield site


def drained(site, number, steps=10):
    """Drain the server of a job once it has made some steps."""
    until(lambda: len(Notes(site, number).steps()) >= steps, 60, "some steps")
    site.client.drain(site.job(number).parts[0].node)


def rota(site, *words):
    """What a verb prints; remarks, which go to standard error, behind the rest."""
    command = [sys.executable, "-m", "rota.cli", *words, "--scheduler", site.address, "--insecure"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def end_of(site, number, epoch=1):
    found = [e for e in site.events("AttemptEnded", job=number) if e["epoch"] == epoch]
    return found[0] if found else None


def test_a_checkpoint_that_takes_15_seconds_is_completed_and_resumed_from(tmp_path):
    with two_servers(tmp_path) as site:
        number = saver(site, save_s=15.0)
        drained(site, number)
        until(lambda: site.job(number).epoch == 2 and len(Notes(site, number).lines("loads")) == 1, 90, "a move")
        notes = Notes(site, number)
        ended = end_of(site, number)

        last = max(step for epoch, step in notes.steps() if epoch == 1) + 1
        assert (ended["outcome"], ended["lost_steps"], ended["lost_s"]) == ("stopped", 0, 0.0)
        assert [line for line in notes.lines("saves") if line != "whole"] == [f"1 {last}"], "it saved once"
        assert notes.lines("loads") == [str(last)]
        stopping = site.events("AttemptStopping", job=number)[0]
        assert ended["at"] - stopping["at"] > 14.0
        job = site.job(number)
        assert job.longest_save_s > 14.0
        assert job.restart_cost_s > 14.0
        assert (job.restarts, job.thrown_back, job.saved_step >= last) == (0, 0, True)
        site.client.cancel([number])


def test_a_save_that_hangs_is_ended_after_its_grace_and_the_steps_are_told(tmp_path):
    with two_servers(tmp_path) as site:
        number = saver(site, hangs=True, save_grace_s=2.0)
        drained(site, number)
        ended = until(lambda: end_of(site, number), 60, "the end of the attempt")
        stopping = site.events("AttemptStopping", job=number)[0]

        assert ended["outcome"] == "cut-off"
        steps = max(step for epoch, step in Notes(site, number).steps() if epoch == 1) + 1
        assert ended["lost_steps"] == steps
        assert ended["detail"].startswith(f"stopped before its checkpoint was complete: {steps} steps lost (its save ")
        assert "no progress for 2 s" in ended["detail"]
        assert 2.0 <= ended["at"] - stopping["at"] < 20.0
        until(lambda: site.job(number).epoch == 2, 30, "the next attempt")
        job = site.job(number)
        assert (job.preemptions, job.thrown_back, job.thrown_back_to_zero, job.lost_steps) == (0, 1, 1, steps)
        assert job.last_cut == ended["detail"]
        assert Notes(site, number).lines("loads") == [], "a half-written checkpoint was resumed from"
        assert site.events("AttemptStarted", job=number)[1]["resume"] == ""
        site.client.cancel([number])


def test_it_becomes_known_that_a_job_can_save_and_stays_so_after_kill_9(tmp_path):
    with two_servers(tmp_path, **PATIENT) as site:
        number = saver(site)
        plain = site.submit(argv=["sleep", "300"], env={})
        until(lambda: site.job(number).can_save, 60, "the sign that it can save")
        until(lambda: site.job(plain).phase == "running", 60, "the other job")
        (known,) = site.events("JobCanSave")
        assert (known["job"], known["how"]) == (number, "its command uses rota.client and saves")
        assert not site.job(plain).can_save

        site.kill("scheduler")
        site.serve()

        job = site.job(number)
        assert (job.can_save, job.can_save_why) == (True, "its command uses rota.client and saves")
        assert not site.job(plain).can_save
        until(lambda: site.job(number).phase == "running", 30, "the job to go on")
        assert len(site.events("JobCanSave")) == 1
        site.client.cancel([number, plain])
        site.done(number, plain)


def test_a_grace_of_two_seconds_is_kept_by_a_command_that_ignores_term(tmp_path):
    with two_servers(tmp_path) as site:
        deaf = tmp_path / "deaf"
        number = site.submit(argv=[sys.executable, "-c", DEAF, str(deaf)], env={}, save_grace_s=2.0)
        until(deaf.exists, 60, "that it ignores TERM")
        site.client.drain(site.job(number).parts[0].node)
        ended = until(lambda: end_of(site, number), 60, "its end")
        stopping = site.events("AttemptStopping", job=number)[0]

        assert 2.0 <= ended["at"] - stopping["at"] < 9.0, "less than the 10 s of a command that says nothing"
        assert ended["outcome"] == "stopped"
        assert ended["times_to_zero"] == 1
        assert ended["lost_s"] > 2.0
        site.client.cancel([number])


def test_a_command_that_is_thrown_back_twice_is_warned_about(tmp_path):
    with two_servers(tmp_path) as site:
        number = site.submit(argv=["sleep", "300"], env={}, preemptible="yes")
        for epoch in (1, 2):
            until(
                lambda epoch=epoch: site.job(number).epoch == epoch and site.job(number).phase == "running",
                60,
                "a start",
            )
            home = site.job(number).parts[0].node
            site.client.drain({"n0": "n1", "n1": "n0"}[home], undo=True)
            site.client.drain(home)
            until(lambda epoch=epoch: end_of(site, number, epoch), 60, "a stop")
        until(lambda: site.job(number).thrown_back_to_zero == 2, 10, "the count")
        told = {
            "list": rota(site, "jobs"),
            "one": rota(site, "jobs", str(number)),
            "json": rota(site, "jobs", str(number), "--json"),
            "events": rota(site, "events"),
        }

        advice = "submit it with --preemptible no, or let it save with rota.client"
        assert f"warning: job {number}: it was thrown back to its start 2 times" in told["list"]
        assert all(advice in " ".join(told[verb].split()) for verb in ("list", "one", "events", "json"))
        values = json.loads(told["json"])
        assert (values["thrown_back_to_zero"], values["can_save"], values["preemptible"]) == (2, True, "yes")
        assert values["lost_s"] > 0
        site.client.cancel([number])


def test_a_save_beyond_the_limit_of_the_operator_is_cut_off_though_it_grows(tmp_path):
    with Site(tmp_path) as site:
        site._start("n0", [
            "agent", "--scheduler", site.address, "--insecure", "--gpus", "emulate:v100=1", "--name", "n0", "--folder",
            f"{tmp_path}/n0", "--longest-save", "3",
        ], [])  # fmt: skip
        until(lambda: site.node("n0") == "up", 30, "the agent")
        number = saver(site, save_s=120.0, save_grace_s=1000.0)
        drained(site, number)
        ended = until(lambda: end_of(site, number), 60, "the end")

        assert ended["outcome"] == "cut-off"
        assert "longer than 3 s, the limit of the operator" in ended["detail"]


def test_a_job_that_saves_is_killed_with_its_lease_if_the_scheduler_is_gone(tmp_path):
    with two_servers(tmp_path) as site:
        number = saver(site, save_s=120.0)
        drained(site, number)
        until(lambda: Notes(site, number).lines("saves"), 60, "the save")
        (started,) = site.events("AttemptStarted", job=number)
        extended = [e["until"] for e in site.events("LeasesExtended") if [number, 1] in e["attempts"]]
        lease_end = max([started["lease_until"], *extended])
        site.kill("scheduler")
        until(lambda: site.tasks(number) == [], 60, "the end of its processes")
        assert time.time() - site.begun() - lease_end < 6.0
        site.serve()
        ended = until(lambda: end_of(site, number), 60, "the end")

        assert ended["outcome"] == "cut-off"
        assert "its lease has ended" in ended["detail"]
        site.client.cancel([number])


@pytest.mark.parametrize("ends_meanwhile", [False, True])
def test_a_save_survives_kill_9_of_the_agent(tmp_path, ends_meanwhile):
    """The agent comes back while the job still saves, or finds the checkpoint of a job that has ended meanwhile."""
    with two_servers(tmp_path, **PATIENT) as site:
        number = saver(site, save_s=5.0)
        drained(site, number)
        home = site.job(number).parts[0].node
        until(lambda: Notes(site, number).lines("saves"), 60, "the save")
        site.kill(home)
        if ends_meanwhile:
            until(lambda: site.tasks(number) == [], 60, "the end of its processes")
        site.agent(home, wait=False)
        ended = until(lambda: end_of(site, number), 60, "the end")
        until(lambda: Notes(site, number).lines("loads"), 60, "the next attempt")

        notes = Notes(site, number)
        last = max(step for epoch, step in notes.steps() if epoch == 1) + 1
        assert (ended["outcome"], ended["lost_steps"]) == ("stopped", 0)
        assert notes.lines("loads") == [str(last)]
        assert [line for line in notes.lines("saves") if line != "whole"] == [f"1 {last}"]
        site.client.cancel([number])


def test_commands_that_cannot_save_run_one_after_the_other_in_one_attempt_each(tmp_path):
    """Four commands on two GPUs under the default policy: nobody is thrown back."""
    with Site(tmp_path, policy="max-min-fairness-perf") as site:
        site.agent("n0", "emulate:v100=2")
        numbers = [site.submit(argv=["sleep", "6"], env={}) for _ in range(4)]
        jobs = site.done(*numbers, seconds=60)

        assert [job.phase for job in jobs] == ["finished"] * 4
        assert [job.epoch for job in jobs] == [1] * 4
