"""What pilots live through, on a real Slurm: time limits, scancel, preemption, dead nodes, dead daemons.

The long forms (`make slurm`) measure what docs/slurm.md says, and print it.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

import real_slurm
from live import Live, until
from slurm_site import SlurmSite
from slurm_steps import SERVE, Belongings, Steps, agents_of, busy_pilot, ended

pytestmark = pytest.mark.skipif(bool(real_slurm.missing()), reason=f"Slurm: {real_slurm.missing()}")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with (
        real_slurm.RealSlurm(nodes=3) as slurm,
        SlurmSite(tmp_path_factory.mktemp("life"), slurm, *SERVE) as running,
    ):
        running.pool("--gres", "gpu:v100:4", "--nodes", "2", "--time", "30m")
        running.until_up(2)
        yield running


def test_a_cancelled_pilot_ends_everything_before_slurm_calls_its_node_idle_and_no_step_is_lost(site):
    steps = Steps(site)
    with site.client() as client:
        jobs = steps.submit(client, 2, steps=200)
        row = busy_pilot(site)
        job = row["jobs"][0]
        assert steps.alive([job])

        site.slurm.run("scancel", row["slurm_job"])
        until(lambda: ended(site.slurm, row), 30)

        assert steps.alive([job]) == [] or client.job(job).parts[0].node != row["pilot"]
        steps.check(client, jobs, steps=200)
        site.until_up(2)


def test_kill_9_of_slurmctld_scheduler_keeper_and_agent_starts_nothing_twice_and_loses_nothing(site):
    steps = Steps(site)
    with site.client() as client:
        jobs = steps.submit(client, 2, steps=400)
        before = {row["pilot"]: row["slurm_job"] for row in site.pilots().values() if row["state"] == "up"}
        attempts = {job: client.job(job).epoch for job in jobs}

        site.kill("pool-gpu")
        site.slurm.kill("slurmctld")
        site.kill("serve")
        os.kill(agents_of(site.slurm, row := {"slurm_job": next(iter(before.values()))})[0], signal.SIGKILL)
        site.serve()
        site.slurm.start_controller()
        site.pool("--gres", "gpu:v100:4", "--nodes", "2", "--time", "30m")

        until(lambda: len(agents_of(site.slurm, row)) == 1, 20, "the agent is started again")
        site.until_up(2)
        after = {one["pilot"]: one["slurm_job"] for one in site.pilots().values() if one["state"] == "up"}
        assert after == before
        hosts = Counter(one["host"] for one in site.pilots().values() if one["state"] in {"up", "starting", "pending"})
        assert max(hosts.values()) == 1
        steps.check(client, jobs, steps=400)
        assert {job: client.job(job).epoch for job in jobs} == attempts


# Long forms


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("proctrack", ["linuxproc", "cgroup"])
def test_no_step_is_lost_and_nothing_outlives_its_pilot(proctrack, tmp_path, capsys):
    """scancel, preemption, state=down, notice before the time limit, dead scheduler, slurmd and agent."""
    with real_slurm.RealSlurm(nodes=3, proctrack=proctrack) as slurm, SlurmSite(tmp_path, slurm, *SERVE) as site:
        site.pool("--gres", "gpu:v100:4", "--min", "2", "--max", "3", "--time", "60m")
        site.until_up(2)
        steps = Steps(site)
        (tmp_path / "urgent.sh").write_text("#!/bin/sh\nsleep 3\n")

        urgent = ("sbatch", "-p", "urgent", "--gres=gpu:v100:4", "--mem=1000", f"--chdir={tmp_path}")
        ways = {
            "scancel": lambda row: slurm.run("scancel", row["slurm_job"]),
            "preemption": lambda row: slurm.run(*urgent, f"--nodelist={row['host']}", str(tmp_path / "urgent.sh")),
            "state=down": lambda row: slurm.run(
                "scontrol", "update", f"nodename={row['host']}", "state=down", "reason=x"
            ),
            "notice": lambda row: slurm.run("scancel", "--batch", "--signal=USR1", row["slurm_job"]),
            "scancel without a scheduler": lambda row: (site.kill("serve"), slurm.run("scancel", row["slurm_job"])),
            "slurmd killed": lambda row: slurm.kill(row["host"]),
            "agent killed": lambda row: os.kill(agents_of(slurm, row)[0], signal.SIGKILL),
        }
        with site.client() as client:
            for name, way in ways.items():
                jobs = steps.submit(client, 2, steps=600)
                row = busy_pilot(site)
                job = row["jobs"][0]
                belongings = Belongings(slurm, row)
                began = time.monotonic()

                way(row)

                if name == "agent killed":
                    until(lambda row=row: len(agents_of(slurm, row)) == 1, 20)
                else:
                    until(lambda row=row: ended(slurm, row), 60)
                    alive = belongings.alive()  # the agent included; of a node that is down Slurm does not call it idle
                    assert not alive or name in {"state=down", "slurmd killed"}, f"{name}: {alive}"
                took = time.monotonic() - began
                there = steps.alive([job])
                state = slurm.states()[slurm.names.index(row["host"])]
                if "serve" not in site.processes:
                    site.serve()
                left = there if row["pilot"] in {part.node for part in client.job(job).parts} else []
                assert not left or state != "idle", f"{name}: {left} are alive and {row['host']} is idle"
                if name == "slurmd killed":
                    slurm.start_node(row["host"])
                # What was saved while nobody heard of it is not known to the scheduler, and done again.
                steps.check(client, jobs, steps=600, again=600 if "without" in name else 0)
                if name == "state=down":
                    until(lambda row=row: not agents_of(slurm, row), 20)
                    slurm.run("scontrol", "update", f"nodename={row['host']}", "state=resume")
                site.until_up(2)
                with capsys.disabled():
                    sys.stdout.write(f"\n{proctrack}: {name}: over after {took:.1f} s, no step lost")


@pytest.mark.long
def test_a_time_limit_ends_a_pilot_in_order_and_its_successor_is_there_before(tmp_path, capsys):
    with real_slurm.RealSlurm(nodes=3) as slurm, SlurmSite(tmp_path, slurm, *SERVE) as site:
        site.pool("--gres", "gpu:v100:4", "--nodes", "1", "--time", "3m", "--replace-before", "130")
        site.until_up(1)
        steps = Steps(site)
        with site.client() as client:
            jobs = steps.submit(client, 1, steps=7000)
            first = busy_pilot(site)
            left = []

            def successor():
                rows = site.pilots()
                states = {name: row["state"] for name, row in rows.items()}
                left.append(rows[first["pilot"]]["left_s"])
                return [name for name, state in states.items() if state == "up" and name != first["pilot"]]

            until(successor, 120, "the successor is up")
            assert (left[-1] or 0.0) > 75.0  # the signal comes up to a minute earlier than asked for
            until(lambda: ended(slurm, first), 180)
            assert slurm.jobs()[int(first["slurm_job"])] == "COMPLETED"
            steps.check(client, jobs, steps=7000)
        with capsys.disabled():
            sys.stdout.write(f"\ntime limit of 180 s: the successor was up {left[-1]:.0f} s before the end")


@pytest.mark.long
def test_a_stopped_slurmctld_does_not_delay_a_round(tmp_path, capsys):
    with real_slurm.RealSlurm(nodes=3) as slurm, SlurmSite(tmp_path, slurm, *SERVE) as site:
        site.pool("--gres", "gpu:v100:4", "--nodes", "2", "--time", "30m")
        site.until_up(2)
        with site.client() as client:
            job = {"emulated": True, "profile": "resnet18-32", "steps": 10**7, "gpus": 4}
            client.submit([job] * 3)
            until(lambda: client.status().rounds > 2, 30)
            controller = slurm.processes["slurmctld"].pid
            os.kill(controller, signal.SIGSTOP)
            times = []
            try:
                end = time.monotonic() + 60
                seen = client.status().rounds
                while time.monotonic() < end:
                    now = client.status().rounds
                    if now != seen:
                        times.append(time.monotonic())
                        seen = now
                    time.sleep(0.01)
            finally:
                os.kill(controller, signal.SIGCONT)
            gaps = [b - a for a, b in pairwise(times)]
            with capsys.disabled():
                shown = f"gaps {min(gaps):.2f} to {max(gaps):.2f} s"
                sys.stdout.write(f"\nslurmctld stopped for 60 s: {len(times)} rounds of 2 s, {shown}")
            assert len(times) >= 28
            assert max(gaps) < 2.5
            until(lambda: len(site.up()) == 2, 60)


@pytest.mark.long
def test_thirty_two_nodes_come_up_and_slurm_is_asked_once_for_all(tmp_path, capsys):
    with real_slurm.RealSlurm(nodes=32, gpus=1, cpus=2) as slurm:
        serve = ("--policy", "fifo", "--time-scale", "60", "--round", "60", "--heartbeat", "5", "--dead-after", "60")
        with SlurmSite(tmp_path, slurm, *serve) as site:
            began = time.monotonic()
            site.pool("--gres", "gpu:v100:1", "--nodes", "32", "--time", "30m", "--every", "10")
            site.until_up(32, 400)
            up_s = time.monotonic() - began
            controller = slurm.processes["slurmctld"].pid
            before = cpu_s(controller)
            asked = slurm.run("sdiag")
            time.sleep(60)
            used = cpu_s(controller) - before
            squeues = requests(slurm.run("sdiag")) - requests(asked)
        with capsys.disabled():
            sys.stdout.write(
                f"\n32 pilots up after {up_s:.0f} s (slurm itself {slurm.started_s:.1f} s); "
                f"then {squeues} squeue calls a minute, {used:.2f} CPU s of slurmctld a minute"
            )
        assert squeues <= 8


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def requests(sdiag):
    """How often the list of jobs was asked for."""
    found = [line for line in sdiag.splitlines() if "REQUEST_JOB_INFO" in line]
    return sum(int(line.split("count:")[1].split()[0]) for line in found)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_forty_jobs_take_as_long_under_pilots_as_under_rota_up(tmp_path, capsys):
    """The same trace of real processes on emulated GPUs, on three servers each, at once: other load is the same."""
    options = ("--policy", "fifo", "--round", "5", "--heartbeat", "0.5", "--dead-after", "20")
    lines = ["job_id,arrival_s,profile,gpus,steps"]
    lines += [f"{i},{2 * i},ResNet-18 (batch size 32),{(1, 1, 2, 4)[i % 4]},{40 + 37 * i % 80}" for i in range(40)]
    made = tmp_path / "forty.csv"
    made.write_text("\n".join(lines) + "\n")
    command = f"{sys.executable} -m rota.emulate.job --step-seconds 0.25 --steps {{steps}}"
    asked = ("submit-trace", str(made), "--command", command, "--wait", "--json")
    (tmp_path / "up").mkdir()
    live = Live(tmp_path / "up").up("--emulate", "--server", "v100=12/4:cpus=8:memory=32", *options)
    with contextlib.ExitStack() as stack:
        stack.callback(live.down)
        slurm = stack.enter_context(real_slurm.RealSlurm(nodes=3))
        site = stack.enter_context(SlurmSite(tmp_path, slurm, *options))
        site.pool("--gres", "gpu:v100:4", "--nodes", "3", "--time", "60m")
        site.until_up(3)
        with ThreadPoolExecutor(2) as both:
            up = both.submit(live.run, *asked, timeout=600)
            pilots = both.submit(site.run, *asked, *site.connection, timeout=600)
        under_up = mean_jct_s(up.result())
        under_pilots = mean_jct_s(pilots.result())
    with capsys.disabled():
        apart = under_pilots / under_up - 1
        sys.stdout.write(
            f"\nmean JCT of 40 jobs: {under_up:.1f} s under rota up, {under_pilots:.1f} s under pilots ({apart:+.1%})"
        )
    assert abs(apart) < 0.05


def mean_jct_s(text):
    return json.loads(text)["mean_jct_s"]
