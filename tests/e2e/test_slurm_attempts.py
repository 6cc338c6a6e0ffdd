"""One batch job of a real Slurm for each attempt (`rota pilots start --per-attempt`)."""

import json
import os
import signal
import sys
import time

import pytest

import real_slurm
from live import until
from slurm_site import SlurmSite, processes_of_job
from slurm_steps import SERVE, Steps, agents_of

pytestmark = pytest.mark.skipif(bool(real_slurm.missing()), reason=f"Slurm: {real_slurm.missing()}")


PATIENT = ("--lease", "40", "--dead-after", "20")
"""For a busy machine: agents that were killed are back before their leases end."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with (
        real_slurm.RealSlurm(nodes=2, accounts=True) as slurm,
        SlurmSite(tmp_path_factory.mktemp("attempts"), slurm, *SERVE, *PATIENT) as running,
    ):
        running.pool("--per-attempt", "--gres", "gpu:v100:4", "--nodes", "2", "--time", "30m")
        running.until_up(2)
        yield running


def batch_jobs(slurm, job):
    """{number: (state, node, GPUs)} of the batch jobs of a job, the oldest first."""
    said = slurm.run("squeue", "-h", "-t", "all", f"--name=rota-job-{job}", "-o", "%i|%T|%N|%b")
    rows = [line.split("|") for line in said.splitlines()]
    return {int(number): tuple(rest) for number, *rest in sorted(rows, key=lambda row: int(row[0]))}


def number_of(slurm, job):
    """The batch job of a job that runs."""
    (number,) = [number for number, row in batch_jobs(slurm, job).items() if row[0] == "RUNNING"]
    return number


def test_every_attempt_is_a_batch_job_with_its_own_resources_in_slurms_accounts(site):
    slurm = site.slurm
    show = "echo gpus=$CUDA_VISIBLE_DEVICES cpus=$SLURM_CPUS_PER_TASK; exit $1"
    with site.client() as client:
        good, bad = client.submit(
            [
                {
                    "argv": ["/bin/sh", "-c", show, "sh", code],
                    "gpus": 2,
                    "cwd": "/",
                    "max_restarts": 0,
                    "name": "hidden",
                }
                for code in ("0", "3")
            ]
        )
        client.wait([good, bad], 60)
        assert client.job(good).phase == "finished", client.job(good)
        assert client.job(bad).phase == "failed"
        until(lambda: b"gpus=" in b"".join(client.logs(good)), 10)
        assert b"gpus=0,1" in b"".join(client.logs(good)) or b"gpus=2,3" in b"".join(client.logs(good))

    done = slurm.accounts_of_jobs()
    assert done[f"rota-job-{good}"] == ("root(0)", "COMPLETED")
    assert done[f"rota-job-{bad}"] == ("root(0)", "FAILED")
    assert {state for state, *_ in batch_jobs(slurm, good).values()} == {"COMPLETED"}
    shown = slurm.run("scontrol", "show", "job", "-o", str(next(iter(batch_jobs(slurm, good)))))
    assert "Requeue=0" in shown
    assert "gres:gpu:v100:2" in shown
    assert "hidden" not in shown
    assert "NumCPUs=3 " in shown  # the same part of the 6 CPUs that pilots leave as of the GPUs


@pytest.mark.long
def test_an_attempt_that_slurm_ends_saves_and_goes_on_in_another_batch_job(site):
    steps = Steps(site)
    with site.client() as client:
        (job,) = steps.submit(client, 1, steps=250)
        first = number_of(site.slurm, job)

        site.slurm.run("scancel", str(first))

        until(lambda: batch_jobs(site.slurm, job)[first][0] == "CANCELLED", 20)
        assert processes_of_job(site.slurm, first) == []
        steps.check(client, [job], steps=250)
        assert len(batch_jobs(site.slurm, job)) == 2
        assert client.job(job).lost_steps == 0


@pytest.mark.long
def test_ranks_of_an_attempt_share_its_batch_job_and_each_has_its_own_device(site):
    script = "echo rank=$RANK gpus=$CUDA_VISIBLE_DEVICES job=$SLURM_JOB_ID; sleep 1"
    with site.client() as client:
        (job,) = client.submit(
            [{"argv": ["/bin/sh", "-c", script], "gpus": 2, "ranks": "gpu", "cwd": "/", "max_restarts": 0}]
        )
        assert client.wait([job], 60)[0].phase == "finished"

        def lines():
            said = [b"".join(client.logs(job, rank=rank)).decode().split() for rank in (0, 1)]
            return said if all(said) else None

        first, second = until(lines, 10)
    (number,) = batch_jobs(site.slurm, job)
    assert first[2] == second[2] == f"job={number}"
    assert {first[0], second[0]} == {"rank=0", "rank=1"}
    assert first[1] != second[1]


@pytest.mark.long
def test_an_agent_that_was_killed_finds_its_attempts_in_the_same_batch_jobs(site):
    steps = Steps(site)
    with site.client() as client:
        jobs = steps.submit(client, 2, steps=900)
        numbers = {job: number_of(site.slurm, job) for job in jobs}
        attempts = {job: client.job(job).epoch for job in jobs}
        site.slurm.until_written_down()
        site.kill("pool-gpu")
        site.slurm.kill("slurmctld")
        site.kill("serve")
        for row in [{"slurm_job": number} for number in pilots_of(site)]:
            os.kill(agents_of(site.slurm, row)[0], signal.SIGKILL)
        site.serve()
        site.slurm.start_controller()
        site.pool("--per-attempt", "--gres", "gpu:v100:4", "--nodes", "2", "--time", "30m")
        site.until_up(2)

        steps.check(client, jobs, steps=900)
        assert {job: client.job(job).epoch for job in jobs} == attempts
        for job in jobs:  # a slurmctld that was killed may have forgotten them, but there are no others
            assert set(batch_jobs(site.slurm, job)) <= {numbers[job]}


def pilots_of(site):
    said = json.loads((site.folder / "pools" / "gpu" / "pilots.json").read_text())["pilots"]
    return [pilot["id"] for pilot in said if not pilot["end"]]


@pytest.mark.long
def test_gpus_that_somebody_else_has_only_delay_a_job_and_slurms_words_are_shown(site):
    (site.folder / "other.sh").write_text("#!/bin/sh\nsleep 1000\n")
    other = site.slurm.run(
        "sbatch", "--parsable", "--nodes=2", "--gres=gpu:v100:4", "--mem=100", "--chdir=/", "-o", "/dev/null",
        str(site.folder / "other.sh"),
    ).strip()  # fmt: skip
    until(lambda: site.slurm.jobs()[int(other)] == "RUNNING", 20)
    with site.client() as client:
        (job,) = client.submit([{"argv": ["true"], "gpus": 4, "cwd": "/", "max_restarts": 0}])
        until(lambda: {row[0] for row in batch_jobs(site.slurm, job).values()} == {"PENDING"}, 20)

        client.drain(client.job(job).parts[0].node)  # it is told to stop before Slurm had room for it

        until(lambda: "CANCELLED" in {row[0] for row in batch_jobs(site.slurm, job).values()}, 20)
        site.slurm.run("scancel", other)
        assert client.wait([job], 60)[0].phase == "finished"
        assert client.job(job).restarts == 0
        assert "before Slurm had started its batch job" in site.run("events", "--job", str(job), *site.connection)
        for node in client.nodes():
            client.drain(node.node, undo=True)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("proctrack", ["linuxproc", "cgroup"])
def test_whatever_ends_an_attempt_no_step_is_lost_and_nothing_of_it_runs_on(proctrack, tmp_path, capsys):
    """Of attempts with batch jobs of their own: every way in which Slurm, or a fault, ends one."""
    with (
        real_slurm.RealSlurm(nodes=3, proctrack=proctrack) as slurm,
        SlurmSite(tmp_path, slurm, *SERVE) as site,
    ):
        site.pool("--per-attempt", "--gres", "gpu:v100:4", "--nodes", "3", "--time", "60m")
        site.until_up(3)
        steps = Steps(site)
        (tmp_path / "urgent.sh").write_text("#!/bin/sh\nsleep 3\n")
        urgent = ("sbatch", "-p", "urgent", "--gres=gpu:v100:4", "--mem=1000", f"--chdir={tmp_path}")

        def pilot_of(job):
            node = client.job(job).parts[0].node
            return {"slurm_job": site.pilots()[node]["slurm_job"]}

        def kill_all_of_the_pilot(job, _):
            for process, _ in processes_of_job(slurm, pilot_of(job)["slurm_job"]):
                os.kill(process, signal.SIGKILL)

        ways = {
            "scancel of the attempt": lambda _, number: slurm.run("scancel", str(number)),
            "preemption by a higher partition": lambda job, number: slurm.run(
                *urgent, f"--nodelist={batch_jobs(slurm, job)[number][1]}", str(tmp_path / "urgent.sh")
            ),
            "notice before its time limit": lambda _, number: slurm.run(
                "scancel", "--batch", "--signal=USR1", str(number)
            ),
            "scancel of the pilot": lambda job, _: slurm.run("scancel", pilot_of(job)["slurm_job"]),
            "agent killed": lambda job, _: os.kill(agents_of(slurm, pilot_of(job))[0], signal.SIGKILL),
            "kill -9 of all of the pilot": kill_all_of_the_pilot,
        }
        with site.client() as client:
            for name, way in ways.items():
                (job,) = steps.submit(client, 1, steps=500)
                number = number_of(slurm, job)
                began = time.monotonic()

                way(job, number)

                if name != "agent killed":
                    until(lambda job=job, number=number: over(slurm, job, number), 60, name)
                    assert processes_of_job(slurm, number) == [], name
                took = time.monotonic() - began
                # What was saved while nobody could hear of it is done again.
                steps.check(client, [job], steps=500, again=500 if "all of" in name else 0)
                site.until_up(3)
                with capsys.disabled():
                    sys.stdout.write(f"\n{proctrack}: one batch job per attempt: {name}: over after {took:.1f} s")


def over(slurm, job, number):
    return batch_jobs(slurm, job)[number][0] not in {"RUNNING", "COMPLETING", "SIGNALING", "PENDING"}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_successor_on_the_same_node_waits_until_the_pilot_before_it_has_left(tmp_path, capsys):
    """Pilots without GPUs fit on a node twice; only one of them may offer its GPUs."""
    with real_slurm.RealSlurm(nodes=1) as slurm, SlurmSite(tmp_path, slurm, *SERVE) as site:
        site.pool("--per-attempt", "--gres", "gpu:v100:4", "--nodes", "1", "--time", "2m", "--replace-before", "75")
        site.until_up(1)
        steps = Steps(site)
        with site.client() as client:
            jobs = steps.submit(client, 1, steps=7000)
            (first,) = pilots_of(site)
            until(lambda: len(running_pilots(slurm)) == 2, 100, "the successor runs in Slurm")
            assert first in running_pilots(slurm)
            assert len(site.up()) == 1  # it waits for the node

            until(lambda: first not in running_pilots(slurm), 120, "the first one has left")
            began = time.monotonic()
            until(lambda: [name for name in site.up() if name != "gpu-0"], 30, "the successor is up")
            took = time.monotonic() - began
            steps.check(client, jobs, steps=7000)
        with capsys.disabled():
            sys.stdout.write(
                f"\none batch job per attempt: a successor on the same node was up {took:.1f} s after the end"
            )


def running_pilots(slurm):
    return slurm.run("squeue", "-h", "--name=rota-gpu", "-t", "RUNNING", "-o", "%i").split()
