"""`make profile-checks`: what docs/profiler.md says about the accuracy of `rota profile`, measured on this machine.

Prints a table and exits with 1 if a figure is out of bounds. `--only known,storage,burners`, `--json`.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rota import profiles
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import inspect
from rota.deploy.worker.limits import pick
from rota.profiler.cell import CONTAMINATED, Cell, JobToProfile, RunRecord
from rota.profiler.fit import predict, stages_of
from rota.profiler.run import CellRunner, RunRules
from rota.profiler.session import GROUP

HERE = Path(__file__).parent / "profiled"
KNOWN = (sys.executable, str(HERE / "known.py"))
BURNER = "while True: pass"
Row = tuple[str, float, float, float, bool]
"""What, found, true, allowed relative difference, whether it is within that."""


def measured(argv: tuple[str, ...], cells: Sequence[Cell], folder: Path) -> list[RunRecord]:
    """The records of these cells, one after the other; a disturbed one is tried three times."""
    job = JobToProfile(name="check", argv=argv, cpus=2, memory_gb=1.0, cwd=str(folder))

    async def work() -> list[RunRecord]:
        host = Host(folder / "work", inspect(), pick(folder=GROUP))
        records: list[RunRecord] = []
        memory = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="rota-checks-"))
        try:
            async with CellRunner(job, host, (folder, memory), RunRules()) as runner:
                for cell in cells:
                    for _ in range(3):
                        record = await runner.run(cell, lambda *_: None)
                        records.append(record)
                        runner.uses_data = record.data is not None
                        if record.outcome != CONTAMINATED:
                            break
        finally:
            host.close()
            shutil.rmtree(memory, ignore_errors=True)
        return records

    return asyncio.run(work())


def known(folder: Path) -> list[Row]:
    """Knee at 0.5 CPU within 10 %, plateau within 3 % of what the job reaches without any limit."""
    output = folder / "known.toml"
    rota = [sys.executable, "-m", "rota.cli", "profile", "--job-name", "known", "--cpu", "2", "--memory", "1"]
    subprocess.run([*rota, "-o", str(output), "--", *KNOWN], check=True, stdout=subprocess.DEVNULL, cwd=folder)
    model = profiles.load(output).models["known", 1, "cpu"]
    knee = model.stages.knee_cpus(1.0)
    runs = len((folder / "known.runs.jsonl").read_text().splitlines()) - 1
    plateau = 1 / model.step_s
    return [
        (f"knee of the known job, CPUs ({runs} runs)", knee, 0.5, 0.10, abs(knee / 0.5 - 1) <= 0.10),
        ("plateau of the known job, steps/s", plateau, 50.0, 0.03, abs(plateau / 50.0 - 1) <= 0.03),
    ]


def storage(folder: Path) -> list[Row]:
    """The speed at 10 MB/s from runs at 5, 20 and without a limit."""
    argv = (sys.executable, str(HERE / "with_data.py"), "--data", str(folder / "data"))
    cells = [Cell(2.0, 1.0), Cell(2.0, 0.5), *(Cell(2.0, 0.5, mbps) for mbps in (5.0, 20.0, 10.0))]
    records = measured(argv, cells, folder)
    held_back = [record for record in records if record.cell == cells[-1] and record.usable]
    others = [record for record in records if record.cell != cells[-1]]
    if not held_back:
        return [("storage at 10 MB/s", float("nan"), float("nan"), 0.05, False)]
    expected = predict(stages_of(others), others, cells[-1]).rate
    off = abs(expected / held_back[0].rate - 1)
    return [("steps/s at 10 MB/s, predicted from 5 and 20", expected, held_back[0].rate, 0.05, off <= 0.05)]


def burners(folder: Path) -> list[Row]:
    """With two programs that use all CPUs: within 5 %, or refused."""
    rows: list[Row] = []
    others = [subprocess.Popen([sys.executable, "-c", BURNER]) for _ in range(2)]
    try:
        for cell, truth in ((Cell(2.0, 1.0), 50.0), (Cell(0.5, 1.0), 50.0), (Cell(0.25, 1.0), 25.0)):
            record = measured(KNOWN, [cell], folder)[-1]
            refused = record.outcome == CONTAMINATED
            good = refused or abs(record.rate / truth - 1) <= 0.05
            rows.append((f"{cell}, two burners: {record.outcome}", record.rate, truth, 0.05, good))
    finally:
        for other in others:
            other.kill()
            other.wait()
    return rows


CHECKS = {"known": known, "storage": storage, "burners": burners}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CHECKS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    for name in args.only.split(","):
        with tempfile.TemporaryDirectory(prefix="rota-checks-") as folder:
            before = os.getloadavg()[0]
            found = CHECKS[name](Path(folder))
            rows += [(*row, f"{before:.1f}-{os.getloadavg()[0]:.1f}") for row in found]
    if args.json:
        keys = ("what", "found", "true", "allowed", "good", "load")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
    else:
        for what, value, truth, allowed, good, load in rows:
            verdict = "good" if good else "OUT OF BOUNDS"
            print(
                f"{what:48} {value:8.3f}  against {truth:8.3f}  within {100 * allowed:.0f} %  {verdict}  (load {load})"
            )
    return 0 if all(row[4] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
