"""What a standby costs per commit: `python benchmarks/standby.py`.

Submissions of one job each, one after the other, to a scheduler without a standby, with one that follows, and with one
that every commit waits for; all as processes on this machine. A submission is one commit and its acknowledgement.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def measure(folder: Path, how: str, commits: int) -> dict[str, object]:
    """Milliseconds of a submission."""
    first, address = start(folder / "first.db", *(["--standby-sync"] if how == "sync" else []))
    programs = [first]
    try:
        with Client(address, insecure=True) as client:
            if how != "none":
                programs.append(start(folder / "second.db", "--standby-of", address)[0])
                while not client.status().standby_in_step:
                    time.sleep(0.1)
            times = []
            for _ in range(commits):
                began = time.perf_counter()
                client.submit([_JOB])
                times.append(1000 * (time.perf_counter() - began))
            status = client.status()
    finally:
        for program in programs:
            program.terminate()
            program.wait()
    cuts = statistics.quantiles(times, n=100)
    figures = {"median_ms": round(cuts[49], 2), "p90_ms": round(cuts[89], 2), "p99_ms": round(cuts[98], 2)}
    return {"standby": how, "commits": commits, **figures, "in_step": status.standby_in_step}


def main() -> None:
    """Print a line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=500)
    asked = parser.parse_args()
    for how in ("none", "async", "sync"):
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(json.dumps(measure(Path(folder), how, asked.commits)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
