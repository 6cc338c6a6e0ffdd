"""The dashboard and `rota jobs` at size: 10,000 jobs on 1,000 GPUs, with a real scheduler, gateway and browser.

    python benchmarks/dashboard.py [--jobs 10000] [--servers 250] [--seconds 30] [--pictures FOLDER]

Agents are played in this process through the requests of real ones, as 250 of them would be about this machine and not
about the dashboard. CPU times are stated beside wall times: they hold on a machine that has something else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import deployed
from rota.deploy.control import Client
from rota.deploy.scheduler.options import Options, Timing
from rota.deploy.server.serving import Port, served

ROTA = (sys.executable, "-m", "rota.cli")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TENANTS = 12
ROUND_S = 30.0
REPORT_EVERY_S = 3.0


class Cluster:
    """A scheduler behind a real port, and servers that do what they are told."""

    def __init__(self, folder: Path, servers: int) -> None:
        patient = Timing(dead_after_s=3600.0, lease_s=3600.0)  # agents are played, perhaps on a busy machine
        state = folder / "state.db"
        self._options = Options(state=state, policy="las", round_s=ROUND_S, profiles="gavel", timing=patient)
        self._servers = servers
        self._ready = threading.Event()
        self._stop = threading.Event()
        self.address = ""

    def __enter__(self) -> Cluster:  # noqa: PYI034 - Self is not in Python 3.10
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait(60)
        kinds = ("v100", "p100", "k80")
        deployed.SCALE = 1.0
        agents = [
            deployed.PlayedAgent(self._scheduler, f"{kinds[i % 3]}-{i:03d}", kinds[i % 3]) for i in range(self._servers)
        ]
        threading.Thread(target=self._report, args=(agents,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        time.sleep(1.0)

    async def _serve(self) -> None:
        async with served(self._options, Port(address="127.0.0.1:0", insecure=True)) as (scheduler, number):
            self._scheduler = scheduler
            self.address = f"127.0.0.1:{number}"
            self._ready.set()
            await asyncio.to_thread(self._stop.wait)

    def _report(self, agents: list[deployed.PlayedAgent]) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            for agent in agents:
                with contextlib.suppress(Exception):
                    agent.report(self._scheduler)
            time.sleep(max(0.1, REPORT_EVERY_S - (time.monotonic() - began)))


def submit(client: Client, count: int) -> None:
    """Jobs of several tenants; some are short, so that there is something to see."""
    draw = random.Random(1)
    profiles = ("ResNet-18 (batch size 32)", "LM (batch size 20)", "Transformer (batch size 64)")
    jobs = [
        {
            "emulated": True,
            "profile": draw.choice(profiles),
            "steps": draw.choice((2_000, 20_000, 2_000_000)),
            "gpus": draw.choice((1, 1, 1, 2, 4)),
            "name": f"train-{draw.choice(('resnet', 'bert', 'gpt', 'speech'))}-{number}",
            "tenant": f"team-{number % TENANTS:02d}",
        }
        for number in range(count)
    ]
    for first in range(0, count, 2_000):
        client.submit(jobs[first : first + 2_000])


def timed(*arguments: str) -> tuple[float, float, int]:
    """CPU seconds, wall seconds and lines of a verb."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run([*ROTA, *arguments], check=True, capture_output=True, text=True)
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, wall_s, done.stdout.count("\n")


def cpu_of(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def verbs(address: str) -> None:
    where = ("--scheduler", address, "--insecure")
    for words in (("jobs",), ("jobs", "--limit", "0"), ("jobs", "--limit", "0", "--json"), ("top", "--once")):
        runs = [timed(*words, *where) for _ in range(3)]
        cpu_s = min(run[0] for run in runs)
        wall_s = min(run[1] for run in runs)
        print(f"rota {' '.join(words):24} {cpu_s:6.2f} s CPU, {wall_s:6.2f} s wall, {runs[0][2]:,} lines")


class Traffic:
    """Bytes that a page received."""

    def __init__(self, page: object) -> None:
        self.bytes = 0
        session = page.context.new_cdp_session(page)  # type: ignore[attr-defined]
        session.send("Network.enable")
        session.on("Network.dataReceived", self._data)

    def _data(self, event: dict[str, int]) -> None:
        self.bytes += event["dataLength"]


def look(address: str, seconds: float, pictures: Path | None) -> None:
    from playwright.sync_api import sync_playwright

    command = [*ROTA, "dashboard", "--scheduler", address, "--insecure", "--port", "0", "--json"]
    gateway = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        link = json.loads(gateway.stdout.readline())["link"]  # type: ignore[union-attr]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            traffic = Traffic(page)
            began = time.perf_counter()
            page.goto(link)
            page.wait_for_selector(".server")
            cold_s = time.perf_counter() - began
            paint_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            print(
                f"first paint              {paint_ms / 1000:6.2f} s; map and table after {cold_s:.2f} s (cold gateway)"
            )
            page.wait_for_selector("#job-table tbody tr[data-job]")
            print(f"page and first picture   {traffic.bytes / 1e3:6.1f} kB")
            again(page, traffic)
            steady(page, traffic, gateway.pid, seconds)
            rounds(page)
            if pictures is not None:
                take_pictures(page, pictures)
            browser.close()
    finally:
        gateway.terminate()
        gateway.wait()


def again(page: object, traffic: Traffic) -> None:
    traffic.bytes = 0
    began = time.perf_counter()
    page.reload()  # type: ignore[attr-defined]
    page.wait_for_selector(".server")  # type: ignore[attr-defined]
    page.wait_for_selector("#job-table tbody tr[data-job]")  # type: ignore[attr-defined]
    warm_s = time.perf_counter() - began
    entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    paint_ms = page.evaluate(entry)  # type: ignore[attr-defined]
    print(f"reload                   {paint_ms / 1000:6.2f} s to first paint; map and table after {warm_s:.2f} s")


def steady(page: object, traffic: Traffic, gateway: int, seconds: float) -> None:
    page.wait_for_timeout(3_000)  # type: ignore[attr-defined]
    traffic.bytes = 0
    gateway_s = cpu_of(gateway)
    ours_s = time.process_time()
    page.wait_for_timeout(1_000 * seconds)  # type: ignore[attr-defined]
    rate = traffic.bytes / seconds / 1e3
    gateway_part = (cpu_of(gateway) - gateway_s) / seconds
    ours = (time.process_time() - ours_s) / seconds
    print(
        f"updates                  {rate:6.1f} kB/s over {seconds:.0f} s; gateway {100 * gateway_part:.0f} % of a CPU,"
    )
    print(f"                         scheduler and played agents {100 * ours:.0f} % of a CPU")


def rounds(page: object) -> None:
    began = time.perf_counter()
    page.click("#past-button")  # type: ignore[attr-defined]
    page.wait_for_selector("#past-slider", timeout=120_000)  # type: ignore[attr-defined]
    opened_s = time.perf_counter() - began
    page.locator("#past-slider").focus()  # type: ignore[attr-defined]
    before = page.inner_text("#past-told")  # type: ignore[attr-defined]
    began = time.perf_counter()
    page.keyboard.press("ArrowLeft")  # type: ignore[attr-defined]
    changed = "before => document.getElementById('past-told').textContent !== before"
    page.wait_for_function(changed, arg=before)  # type: ignore[attr-defined]
    step_s = time.perf_counter() - began
    print(f"past rounds              {opened_s:6.2f} s to read them all, {step_s:.2f} s for a step of the slider")
    page.click("#past-button")  # type: ignore[attr-defined]


def take_pictures(page: object, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    page.evaluate("scrollTo(0, 0)")  # type: ignore[attr-defined]
    page.screenshot(path=folder / "dashboard.png")  # type: ignore[attr-defined]
    page.set_viewport_size({"width": 390, "height": 844})  # type: ignore[attr-defined]
    page.emulate_media(color_scheme="dark")  # type: ignore[attr-defined]
    page.wait_for_timeout(500)  # type: ignore[attr-defined]
    page.screenshot(path=folder / "dashboard-phone-dark.png")  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--servers", type=int, default=250, help="with 4 GPUs each")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), given.servers) as cluster:
        with Client(cluster.address, insecure=True) as client:
            submit(client, given.jobs)
            until = time.monotonic() + 120
            while client.status().running < 0.5 * 4 * given.servers / 2 and time.monotonic() < until:
                time.sleep(0.5)
            status = client.status()
        gpus = 4 * given.servers
        print(f"{given.jobs:,} jobs, {status.running:,} of them running, on {gpus:,} GPUs of {given.servers} servers")
        print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
        verbs(cluster.address)
        alone_s = time.process_time()
        time.sleep(given.seconds / 2)
        alone = (time.process_time() - alone_s) / (given.seconds / 2)
        print(f"nobody looks             scheduler and played agents {100 * alone:.0f} % of a CPU")
        if BROWSER is None:
            print("no Chromium or Chrome is installed: the page was not looked at")
        else:
            look(cluster.address, given.seconds, given.pictures)


if __name__ == "__main__":
    main()
