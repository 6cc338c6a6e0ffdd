"""The guides are typed from the first block to the last, and say what comes out."""

import importlib.util
import re
import subprocess
import sys

import pytest
from guides import DOCS, Reader, blocks_of, needed_by

PAGES = [
    "loop.md",
    "add-a-policy.md",
    "add-a-mechanism.md",
    "add-a-trace-format.md",
    "add-an-executor.md",
    "add-a-provider.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed_from_the_first_block_to_the_last(page, tmp_path):
    reader = Reader(tmp_path)

    reader.work_through(page)

    assert reader.ran > 0
    assert reader.compared > 0


@pytest.mark.parametrize("page", PAGES)
def test_every_answer_on_a_page_is_compared_and_no_block_is_left_out(page):
    kinds = {block.language for block in blocks_of(page) if block.file_name is None}

    assert kinds <= {"python", "sh", "toml", "text"}


def test_what_the_page_about_the_loop_points_at_is_there():
    page = (DOCS / "loop.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `(src/[^`]+)` \| ([^|]+) \|$", page, re.MULTILINE)

    missing = [
        f"{path}: {name}"
        for path, names in rows
        for name in re.findall(r"`(\w+)`", names)
        if not re.search(rf"^ *(def|class) {name}\b", (DOCS.parent / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]

    assert len(rows) > 10
    assert missing == []


def test_last_month_under_rota_can_be_typed_from_the_page_about_slurm(tmp_path):
    page = (DOCS / "slurm.md").read_text(encoding="utf-8")
    first = page[: page.index("## Last month under Rota")].count("\n") + 1
    sample = [block for block in blocks_of("slurm.md") if block.line > first and not block.body.startswith("$")]
    reader = Reader(tmp_path)

    for block in sample:
        reader.take(block)

    assert (reader.ran, reader.compared) == (1, 1)


SAME_RUN = """
import dataclasses
import rota
from my_mechanisms.one_server import OneServer
from rota.core.horizon import EVERY_ROUND
from rota.mechanisms.registry import mechanisms


class Silent(OneServer):
    def divide(self, view, choice):
        return dataclasses.replace(super().divide(view, choice), horizon=EVERY_ROUND)


mechanisms.register("one-server")(OneServer)
mechanisms.register("silent")(Silent)
settings = {"jobs": 60, "interarrival_s": 2500, "multi_gpu": True}
for policy in ("fifo", "srtf", "las", "max-min-fairness-perf", "max-min-fairness-packed"):
    run = {"workload": "gavel-continuous", "settings": settings, "seed": 2, "cluster": "v100=16/8", "policy": policy}
    with_horizon = rota.simulate(**run, mechanism="one-server")
    silent = rota.simulate(**run, mechanism="silent")
    apart = abs(with_horizon.jobs["finish_s"] - silent.jobs["finish_s"]).max()
    assert apart < 1e-3, f"{policy}: {apart} s"
"""


def test_the_mechanism_of_the_guide_keeps_what_its_horizon_promises(tmp_path):
    """A run in which it is asked in every round is the same run."""
    reader = Reader(tmp_path)
    for block in needed_by("add-a-mechanism.md"):
        reader.take(block)

    reader.run_python(SAME_RUN)


FIT = """
from my_engine.announcer import Announcer
from my_engine.replay_clock import ReplayClock
from my_formats.queue_file import QueueFile
from my_mechanisms.emptiest import EmptiestFirst
from my_mechanisms.one_server import OneServer
from my_policies.equal_time import EqualTime
from my_policies.night_shift import NightShift
from my_place import MyPlace
from my_policies.shortest_first import ShortestFirst
from rota.core.ports import Clock, Executor, Policy
from rota.deploy.providers.port import Provider
from rota.mechanisms.dividing import Divide
from rota.workloads.registry import TraceFormat

policies: list[Policy] = [EqualTime(), NightShift(), ShortestFirst()]
mechanisms: list[Divide] = [EmptiestFirst(), OneServer()]
trace_format: TraceFormat = QueueFile()
executor: Executor = Announcer()
clock: Clock = ReplayClock([], 360.0)
provider: Provider = MyPlace()
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="types are checked with 3.11 and newer, as by `make lint`")
def test_a_type_checker_finds_that_what_the_guides_write_fits(tmp_path):
    reader = Reader(tmp_path)
    for page in PAGES[1:]:
        for block in needed_by(page):
            reader.take(block)
    (tmp_path / "fit.py").write_text(FIT)

    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.py"))
    options = ["--strict", "--config-file=", "--explicit-package-bases"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files], check=False, capture_output=True, text=True, cwd=tmp_path
    )

    assert done.returncode == 0, done.stdout + done.stderr
