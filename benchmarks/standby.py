"""What a standby costs per commit: `python benchmarks/standby.py`.

Submissions of one job each, one after the other, to a scheduler without a standby, with one that follows, and with one
that every commit waits for; all as processes on this machine. A submission is one commit and its acknowledgement.
`--output-mb 300` also measures both while so much output of jobs is on its way to the standby.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from rota.deploy.control import Client

_JOB = {"emulated": True, "profile": "unprofiled", "steps": 1}


def start(state: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """A scheduler as a process, and its address."""
    command = [sys.executable, "-m", "rota.cli", "serve", "--state", str(state), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--insecure", "--json", *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["address"]


def put_output(folder: Path, megabytes: int) -> None:
    """Output of jobs as a scheduler has it, in segments of 1 MB, one of them for each attempt."""
    for job in range(megabytes):
        place = folder / str(job) / "1.0"
        place.mkdir(parents=True)
        (folder / str(job) / "tenant").write_text("default")
        (place / "000000-0").write_bytes(os.urandom(1_000_000))
        (place / "done").touch()
    os.sync()  # what is written back later would be taken for the cost of a standby


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def cpu_s(process: subprocess.Popen[str]) -> float:
    """CPU seconds of a process so far."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def measure(folder: Path, how: str, commits: int, output_mb: int = 0) -> dict[str, object]:
    """Milliseconds of a submission."""
    put_output(folder / "first.db.logs", output_mb)
    first, address = start(folder / "first.db", *(["--standby-sync"] if how == "sync" else []))
    programs = [first]
    try:
        with Client(address, insecure=True) as client:
            if how != "none":
                programs.append(start(folder / "second.db", "--standby-of", address)[0])
                while not client.status().standby_in_step:
                    time.sleep(0.1)
            times = []
            cpu_before = [cpu_s(program) for program in programs]
            size_before = size_of(folder / "second.db.logs")
            since = time.perf_counter()
            for _ in range(commits):
                began = time.perf_counter()
                client.submit([_JOB])
                times.append(1000 * (time.perf_counter() - began))
            took_s = time.perf_counter() - since
            shipped_mb = (size_of(folder / "second.db.logs") - size_before) / 1e6
            cpu = [round((cpu_s(p) - b) / took_s, 3) for p, b in zip(programs, cpu_before, strict=True)]
            status = client.status()
    finally:
        for program in programs:
            program.terminate()
            program.wait()
    cuts = statistics.quantiles(times, n=100)
    figures = {"median_ms": round(cuts[49], 2), "p90_ms": round(cuts[89], 2), "p99_ms": round(cuts[98], 2)}
    shipped = {"output_mb_per_s": round(shipped_mb / took_s, 1), "cpus": cpu, "load": round(os.getloadavg()[0], 1)}
    return {"standby": how, "commits": commits, **figures, "in_step": status.standby_in_step, **shipped}


def main() -> None:
    """Print a line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--output-mb", type=int, default=0)
    asked = parser.parse_args()
    ways = [("none", 0), ("async", 0), ("sync", 0)]
    ways += [(how, asked.output_mb) for how in ("async", "sync") if asked.output_mb]
    for how, output_mb in ways:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(json.dumps(measure(Path(folder), how, asked.commits, output_mb)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
