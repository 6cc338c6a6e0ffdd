"""Real jobs on pilots that write down every step, and what tests of pilots ask again and again."""

import contextlib
import sys
from pathlib import Path

import chaos
from live import alive, until
from slurm_site import processes_of_job

SERVE = (
    "--policy", "fifo", "--round", "2", "--heartbeat", "0.5", "--dead-after", "10", "--lease", "20"
)  # fmt: skip
"""Agents that were killed are back before their leases end, on a busy machine too."""
SOURCE = str(Path(__file__).parents[1] / "src")


class Steps:
    """Real jobs that write down every step, so that none can be lost or done for nothing unseen."""

    def __init__(self, site):
        self.site = site
        (site.folder / "steps").mkdir(exist_ok=True)
        self.script = site.folder / "stepper.py"
        self.script.write_text(chaos.STEPPER)

    def submit(self, client, count, steps=600, gpus=4):
        argv = [sys.executable, str(self.script), str(self.site.folder / "steps")]
        job = {"argv": argv, "steps": steps, "gpus": gpus, "env": {"PYTHONPATH": SOURCE}, "cwd": str(self.site.folder)}
        jobs = client.submit([{**job, "max_restarts": 0, "checkpoint_every_s": 5.0}] * count)
        until(lambda: all(client.job(number).step > 10 for number in jobs), 60, "jobs run")
        return jobs

    def check(self, client, jobs, steps=600, again=0):
        """All finished, every step was done, and at most `again` of them a second time."""
        for info in client.wait(jobs, 180, every_s=0.2):
            done = [int(word) for word in (self.site.folder / "steps" / str(info.job)).read_text().split()]
            assert info.phase == "finished", info
            assert info.saved_step == steps
            assert sorted(set(done)) == list(range(steps))
            assert len(done) - len(set(done)) <= again
            assert info.restarts == 0

    def alive(self, jobs):
        """Processes of jobs."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and str(self.script).encode() in (entry / "cmdline").read_bytes():
                    of = dict(
                        part.split(b"=", 1) for part in (entry / "environ").read_bytes().split(b"\0") if b"=" in part
                    )
                    if int(of.get(b"ROTA_JOB", b"-1")) in jobs and alive(int(entry.name)):
                        found.append(int(entry.name))
        return found


def busy_pilot(site, pool="gpu"):
    """The row of a pilot with a job."""

    def found():
        return [row for row in site.pilots().values() if row["state"] == "up" and row["jobs"] and row["pool"] == pool]

    return until(found, 30)[0]


def agents_of(slurm, row):
    """Numbers of the processes of a pilot's agent."""
    found = processes_of_job(slurm, row["slurm_job"])
    return [number for number, words in found if " agent --scheduler" in words]


def ended(slurm, row):
    return slurm.jobs().get(int(row["slurm_job"]), "gone") not in {"RUNNING", "SIGNALING", "COMPLETING", "PENDING"}


class Belongings:
    """Everything that belongs to a pilot: its process, the agent, supervisors of jobs, and the jobs themselves."""

    def __init__(self, slurm, row):
        self.slurm = slurm
        self.row = row
        agent = next(words for _, words in self._marked() if " agent --scheduler" in words)
        self.folder = agent.split("--folder ")[1].split()[0]
        until(lambda: len(self.alive()) >= 4, 20)  # pilot, agent, supervisor, job: ordered, but perhaps not started yet

    def _marked(self):
        return processes_of_job(self.slurm, self.row["slurm_job"])

    def alive(self):
        """{number: command line}, those that only wait to be reaped left out."""
        found = dict(self._marked())
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                known = entry.name.isdigit() and (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if known and self.folder.encode() in known:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
        return {number: words for number, words in found.items() if alive(number)}
