"""How long `rota serve` takes to start on a state file with many finished jobs: `python benchmarks/start_up.py`.

A state file is made with jobs that ended, as a scheduler writes them; then a scheduler is started on it, as a process,
and the wall time is taken until it listens and until it has answered its first request. Memory is that of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rota.core.job_spec import spec_from
from rota.core.lifecycle import JobPhase
from rota.deploy.control import Client
from rota.deploy.events import JobsArchived
from rota.deploy.scheduler.journal import Journal
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.recorder import event_row
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.service import Scheduler

_BATCH = 10_000
_PROFILE = "ResNet-18 (batch size 32)"


def finished_job(number: int) -> Job:
    """One that ran for an hour."""
    spec = spec_from({"name": f"train-{number}", "gpus": 1, "steps": 100_000, "profile": _PROFILE, "emulated": True})
    return Job(
        id=number,
        spec=spec,
        submitted=number * 1.0,
        by="client:somebody (tenant vision)",
        phase=JobPhase.FINISHED,
        epoch=1,
        saved_step=100_000,
        started=number + 60.0,
        ended=number + 3660.0,
        story=("JobAccepted", "AttemptStarted", "AttemptEnded", "JobsFinished"),
    )


def fill(path: Path, jobs: int) -> None:
    """A state file whose scheduler has let go of so many jobs."""
    first = Scheduler(Options(state=path))
    first.start()
    first.stop()
    journal = Journal(path)
    for begin in range(0, jobs, _BATCH):
        batch = [finished_job(number) for number in range(begin, min(begin + _BATCH, jobs))]
        # The event is about no job in memory: those were never there.
        journal.append([event_row(JobsArchived(at=float(begin), jobs=()))], archived=batch)
    journal.close()


def start(path: Path) -> dict[str, float]:
    """Wall seconds until a scheduler listens and until it answers, and its memory in MB."""
    command = [
        sys.executable,
        "-m",
        "rota.cli",
        "serve",
        "--state",
        str(path),
        "--listen",
        "127.0.0.1:0",
        "--insecure",
        "--json",
    ]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        listens_s = time.perf_counter() - began
        with Client(address, insecure=True) as client:
            client.status()
        answers_s = time.perf_counter() - began
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        memory_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    finally:
        process.terminate()
        process.wait()
    return {"listens_s": listens_s, "answers_s": answers_s, "cpu_s": cpu_s, "memory_mb": memory_kb / 1024}


def main() -> None:
    """Print a line of JSON for each number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[0, 100_000, 1_000_000])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder", help="where the state files are made (default: a temporary folder)")
    asked = parser.parse_args()
    for jobs in asked.jobs:
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            path = Path(folder) / "state.db"
            fill(path, jobs)
            runs = [start(path) for _ in range(asked.times)]
            best = {name: round(min(run[name] for run in runs), 2) for name in runs[0]}
            worst = {f"{name}_worst": round(max(run[name] for run in runs), 2) for name in runs[0]}
            size_mb = round(path.stat().st_size / 1e6)
            sys.stdout.write(json.dumps({"finished_jobs": jobs, "state_file_mb": size_mb, **best, **worst}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
