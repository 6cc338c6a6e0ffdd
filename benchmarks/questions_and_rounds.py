"""Whether rounds come later while a hundred questions a minute are asked.

    python benchmarks/questions_and_rounds.py [--rounds 100]

An emulated cluster with more jobs than GPUs and rounds of two seconds: first nobody asks, then two tenants ask about a
hundred questions a minute in all, then nobody again. A round is late by the wall time from its start until its
decisions are committed and leases are extended, as the journal has it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rota.core.errors import RotaError
from rota.deploy.control import Client
from rota.rpc import rota_pb2 as pb

SCALE = 30.0
ROUND_S = 60.0


def lateness(client: Client, after: int) -> tuple[list[float], int]:
    """Wall seconds of the rounds behind an event, and the number of the last event."""
    late: dict[float, float] = {}
    last = after
    for number, event in client.events(after):
        last = number
        if event["event"] == "LeasesExtended":
            begun = event["at"] // ROUND_S * ROUND_S
            late.setdefault(begun, (event["at"] - begun) / SCALE)
    return list(late.values()), last


def asking(client: Client, job: int, stop: threading.Event, done: list[float]) -> None:
    """A question every 1.1 s, of all kinds in turn."""
    kinds = itertools.cycle(
        (
            lambda client, job: client.why(job),
            lambda client, job: client.eta([job], futures=4),
            lambda client, _: client.eta(futures=0),
            lambda client, _: client.what_if(pb.WhatIfRequest(add_servers=[pb.AddedServer(type="v100", gpus=4)])),
            lambda client, _: client.ledger(),
        )
    )
    for ask in kinds:
        if stop.wait(0.0):
            return
        began = time.monotonic()
        try:
            ask(client, job)
            done.append(time.monotonic() - began)
        except RotaError as error:
            print(error, file=sys.stderr)
        stop.wait(max(0.0, 1.1 - (time.monotonic() - began)))


def told(late: list[float]) -> dict[str, Any]:
    ordered = sorted(late)
    return {
        "rounds": len(ordered),
        "median_ms": round(1000 * statistics.median(ordered), 1),
        "p99_ms": round(1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    settings = parser.parse_args()
    span_s = settings.rounds * ROUND_S / SCALE
    with tempfile.TemporaryDirectory() as folder:
        rota = [sys.executable, "-m", "rota.cli"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        command = [*rota, "up", "--json", "--server", "v100=16/4", "--emulate", "--policy", "max-min-fairness-perf"]
        command += ["--time-scale", str(SCALE), "--round", str(ROUND_S)]
        up = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert up.stdout is not None
            address = json.loads(up.stdout.readline())["address"]
            certs = Path(folder) / ".rota" / "certs"
            clients = []
            for tenant in ("a", "b"):
                token = Path(folder) / f"{tenant}.token"
                subprocess.run(
                    [*rota, "tokens", "create", "--tenant", tenant, "--dir", str(certs), "--out", str(token)],
                    check=True,
                    capture_output=True,
                )
                clients.append(Client(address, certs=certs, token_file=token))
            with Client(address, certs=certs, token_file=Path(folder) / ".rota" / "token") as admin:
                print(json.dumps(measured(admin, clients, span_s)))
        finally:
            up.terminate()
            up.wait(30)


def measured(admin: Client, clients: list[Client], span_s: float) -> dict[str, Any]:
    specs = [
        {"emulated": True, "profile": "resnet18-32", "steps": 300_000, "gpus": 1 + n % 2, "weight": 1.0}
        for n in range(20)
    ]
    jobs = [number for client in clients for number in client.submit(specs)]
    time.sleep(5.0)
    last = admin.status().events
    answer: dict[str, Any] = {}
    for name in ("before", "asked", "after"):
        stop = threading.Event()
        done: list[float] = []
        pairs = zip(clients, (jobs[19], jobs[39]), strict=True)
        askers = [threading.Thread(target=asking, args=(*pair, stop, done), daemon=True) for pair in pairs]
        for asker in askers if name == "asked" else ():
            asker.start()
        time.sleep(span_s)
        stop.set()
        late, last = lateness(admin, last)
        answer[name] = told(late)
        if name == "asked":
            for asker in askers:
                asker.join(60)
            answer[name] |= {
                "questions_a_minute": round(60 * len(done) / span_s, 1),
                "median_answer_s": round(statistics.median(done), 2),
            }
    return answer


if __name__ == "__main__":
    main()
