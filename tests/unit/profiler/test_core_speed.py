"""The speed of CPUs, seen by a fixed piece of work, and runs that turn out to have had slow ones."""

import os
import subprocess
import sys
import time
from pathlib import Path

import rota.profiler.core_speed
from rota.profiler.cell import CONTAMINATED, MEASURED, Cell, RunRecord
from rota.profiler.core_speed import CoreSpeed
from rota.profiler.journal import Journal


def test_a_probe_counts_its_work_until_it_is_closed():
    speed = CoreSpeed(tuple(os.sched_getaffinity(0)))
    try:
        end = time.monotonic() + 30
        while speed.probes < 4 and time.monotonic() < end:
            time.sleep(0.05)
            speed.read()
        assert speed.probes >= 4
        assert 1e-5 < speed.probe_s / speed.probes < 0.1
    finally:
        speed.close()


def test_a_probe_ends_when_nobody_reads_any_more():
    """As after kill -9 of the profiler."""
    cpu = str(min(os.sched_getaffinity(0)))
    probe = subprocess.Popen([sys.executable, rota.profiler.core_speed.__file__, cpu], stdout=subprocess.PIPE)
    probe.stdout.readline()

    probe.stdout.close()

    assert probe.wait(30) == 0


def test_a_run_on_a_cpu_that_was_faster_later_is_not_believed():
    slow = RunRecord(cell=Cell(1.0), outcome=MEASURED, rate=30.0, pace=2400.0)
    fast = RunRecord(cell=Cell(1.0), outcome=MEASURED, rate=40.0, pace=4000.0)
    unknown = RunRecord(cell=Cell(0.5), outcome=MEASURED, rate=15.0)

    journal = Journal(Path("a.runs.jsonl"), {}, [slow, fast, unknown])

    assert [record.outcome for record in journal.believed] == [CONTAMINATED, MEASURED, MEASURED]
    assert "40 % slower" in journal.believed[0].reason
    assert journal.records[0].outcome == MEASURED
