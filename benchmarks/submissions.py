"""CPU time of the scheduler per submission, of one or several checkouts in turn: what all checks of a request cost.

python benchmarks/submissions.py . ../before

Each round starts a scheduler of each checkout behind certificates (`rota serve --certs`), submits jobs one by one with
a token of a tenant, and takes the CPU time of the scheduler's process. The median over all rounds is printed.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("checkouts", nargs="+", type=Path, help="Folders with src/rota.")
    parser.add_argument("--rounds", type=int, default=5, help="How often each is measured.")
    parser.add_argument("--jobs", type=int, default=1500, help="Submissions of one job in each round.")
    options = parser.parse_args()
    measured: dict[Path, list[float]] = {checkout: [] for checkout in options.checkouts}
    for _ in range(options.rounds):
        for checkout, seconds in measured.items():
            with tempfile.TemporaryDirectory() as folder:
                seconds.append(_cpu_per_submission(checkout.resolve(), Path(folder), options.jobs))
    for checkout, seconds in measured.items():
        each = " ".join(f"{1e6 * value:.0f}" for value in seconds)
        print(f"{checkout}: {1e6 * statistics.median(seconds):.0f} us of CPU time per submission ({each})")


def _cpu_per_submission(checkout: Path, folder: Path, jobs: int) -> float:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    rota = [sys.executable, "-m", "rota.cli"]
    certs = folder / "certs"
    for words in (["certs", "init", certs], ["certs", "client", "alice", "--dir", certs]):
        subprocess.run([*rota, *map(str, words)], check=True, env=environment, capture_output=True)
    token = folder / "token"
    words = ["tokens", "create", "--tenant", "vision", "--dir", str(certs), "--out", str(token)]
    subprocess.run([*rota, *words], check=True, env=environment, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"localhost:{free.getsockname()[1]}"
    serve = ["serve", "--state", str(folder / "state.db"), "--certs", str(certs), "--listen", address]
    with (folder / "log").open("wb") as log, subprocess.Popen([*rota, *serve], env=environment, stderr=log) as server:
        try:
            return _submitted(address, certs, token, server.pid, jobs)
        finally:
            server.terminate()
            server.wait(30)


def _submitted(address: str, certs: Path, token: Path, server: int, jobs: int) -> float:
    from rota.core.errors import RotaError
    from rota.deploy.control import Client

    job = {"emulated": True, "profile": "resnet18-32", "steps": 1000, "name": "a job", "env": {"A": "1"}}
    with Client(address, certs=certs, token_file=token) as client:
        end = time.monotonic() + 30
        while True:
            try:
                client.submit([job] * 10)
                break
            except RotaError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        before = _cpu_s(server)
        for _ in range(jobs):
            client.submit([job])
        return (_cpu_s(server) - before) / jobs


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


if __name__ == "__main__":
    main()
