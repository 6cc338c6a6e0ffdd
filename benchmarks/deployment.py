"""A deployment at scale on one machine: bring-up, idle cost, pacing, memory; a long queue.

    python benchmarks/deployment.py [--servers 32] [--gpus 8] [--jobs 200] [--queue 10000] [--per-process N] [--json F]

Starts `rota up` in a temporary folder and stops it again. Memory is the resident memory of every process (scheduler,
agents and `rota up` itself) while the jobs run, added up: a page that several of them share counts several times, in
`shared_once` once. Pacing is counted from the order to start until the scheduler knows the end; lateness is that of the
devices alone.
"""

from __future__ import annotations

import argparse
import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from rota.core import files
from rota.deploy.control import Client

PROFILE = "ResNet-18 (batch size 32)"


def children_of(process: subprocess.Popen[bytes]) -> dict[str, list[psutil.Process]]:
    """Scheduler and agents by what they run."""
    children = psutil.Process(process.pid).children(recursive=True)
    return {kind: [child for child in children if kind in child.cmdline()[:6]] for kind in ("serve", "agent")}


def cpu_part(processes: list[psutil.Process], seconds: float) -> list[float]:
    """Part of a core that processes use."""
    before = [sum(p.cpu_times()[:2]) for p in processes]
    time.sleep(seconds)
    return [(sum(p.cpu_times()[:2]) - b) / seconds for p, b in zip(processes, before, strict=True)]


def up(folder: Path, servers: int, gpus: int, per_process: int | None) -> tuple[subprocess.Popen[bytes], Client, float]:
    """`rota up`, a client of it, and how long it took."""
    command = [sys.executable, "-m", "rota.cli", "up", "--server", f"v100={servers * gpus}/{gpus}", "--emulate",
               "--round", "5", "--policy", "fifo", "--state", str(folder / "rota")]  # fmt: skip
    command += [] if per_process is None else ["--per-process", str(per_process)]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=(folder / "up.log").open("wb"), stderr=subprocess.STDOUT)
    config = folder / "rota" / "client.toml"
    while not config.exists():
        time.sleep(0.05)
    client = None
    while True:
        if process.poll() is not None:
            sys.exit((folder / "up.log").read_text())
        try:
            client = client or Client(
                _value(config, "scheduler"), certs=_value(config, "certs"), token_file=_value(config, "token_file")
            )
            if sum(node.state == "up" for node in client.nodes()) == servers:
                return process, client, time.perf_counter() - began
        except Exception:  # noqa: BLE001 - it is just coming up
            client = None
        time.sleep(0.1)


def _value(config: Path, key: str) -> str:
    for line in config.read_text().splitlines():
        name, _, value = line.partition("=")
        if name.strip() == key:
            return value.strip().strip('"')
    return ""


def sizes(processes: list[psutil.Process]) -> dict[str, float]:
    """Memory of `rota up`, the scheduler and the processes of agents, in this order."""
    mb = [p.memory_info().rss / 1e6 for p in processes]
    once = sum(p.memory_full_info().pss / 1e6 for p in processes)
    return {"up_mb": mb[0], "scheduler_mb": mb[1], "agent_process_mb": max(mb[2:]), "total_mb": sum(mb),
            "total_shared_once_mb": once}  # fmt: skip


def pacing(client: Client, folder: Path, jobs: int, meanwhile: Callable[[], None]) -> tuple[float, np.ndarray, float]:
    """Emulated jobs of known length on all devices; how long their attempts really took, and how late devices were."""
    rate = None
    numbers = []
    for _ in range(jobs // 50):
        spec = {"emulated": True, "profile": PROFILE, "gpus": 1, "steps": 600, "checkpoint_every_s": 10.0}
        numbers += client.submit([spec] * 50)
    late = 0.0
    for _ in range(4):
        time.sleep(4)
        late = max(late, *(node.lateness_s for node in client.nodes()))
    meanwhile()
    client.wait(numbers)
    started = {}
    took = []
    database = sqlite3.connect(folder / "rota" / "state.db")
    for (body,) in database.execute("SELECT body FROM events ORDER BY seq"):
        line = json.loads(body)
        if line["event"] == "AttemptStarted":
            started[line["job"]] = line["at"]
            rate = line["rate"]
        elif line["event"] == "AttemptEnded" and line["job"] in numbers:
            took.append(line["at"] - started[line["job"]])
    return 600 / rate, np.array(took), late


def queue(client: Client, count: int) -> tuple[float, float]:
    """A long queue: how long 1,000 single submissions take on top of it, and how long a round is decided."""
    spec = {"emulated": True, "profile": PROFILE, "gpus": 1, "steps": 10**9}
    for _ in range((count - 1000) // 500):
        client.submit([spec] * 500)
    began = time.perf_counter()
    for _ in range(1000):
        client.submit([spec])
    alone = time.perf_counter() - began
    time.sleep(12)
    return alone, client.status().last_decision_s


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--servers", type=int, default=32)
    asked.add_argument("--gpus", type=int, default=8)
    asked.add_argument("--jobs", type=int, default=200)
    asked.add_argument("--queue", type=int, default=10000)
    asked.add_argument("--per-process", type=int, help="agents that share a process (default: that of `rota up`)")
    asked.add_argument("--json", type=Path)
    given = asked.parse_args()
    out = None if given.json is None else given.json.absolute()
    with tempfile.TemporaryDirectory(prefix="rota-scale-") as place:
        folder = Path(place)
        process, client, seconds = up(folder, given.servers, given.gpus, given.per_process)
        measured = {"bring_up_s": seconds}
        try:
            kinds = children_of(process)
            measured["idle_scheduler_core"] = cpu_part(kinds["serve"], 15)[0]
            measured["idle_agents_core"] = sum(cpu_part(kinds["agent"], 5))
            every = [psutil.Process(process.pid), *kinds["serve"], *kinds["agent"]]
            measured["agent_processes"] = len(kinds["agent"])
            expected, took, late = pacing(client, folder, given.jobs, lambda: measured.update(sizes(every)))
            measured |= {"pacing_mean_error": float(took.mean() / expected - 1),
                      "pacing_worst_error": float(np.abs(took / expected - 1).max()),
                      "device_lateness_s": late}  # fmt: skip
            measured["submit_1000_s"], measured["decision_s"] = queue(client, given.queue)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
    for name, value in measured.items():
        print(f"{name:22} {value:10.4f}")
    if out:
        files.write_text(out, json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
