"""Nothing in a deployment depends on the wall clock going forward: one module reads it, all others ask that one."""

import ast
from pathlib import Path

import pytest

import rota

ROOT = Path(rota.__file__).parent
CHECKED = ("deploy", "client", "emulate", "cli")
ALLOWED = {
    "deploy/clocks.py": "it is the module",
    "deploy/worker/shim.py": "it is run by path and imports nothing of ours; the times are only shown to people",
}
READS = {
    ("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"),
    ("date", "today"), ("time", "CLOCK_REALTIME"), ("time", "CLOCK_TAI"),
}  # fmt: skip
IMPORTED = {"time", "time_ns", "CLOCK_REALTIME", "CLOCK_TAI"}


def reads_of_the_wall_clock(text):
    """Lines of a module that read the wall clock."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if (owner, node.attr) in READS:
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "time" and _names(node) & IMPORTED:
            yield node.lineno


def _names(node):
    return {alias.name for alias in node.names}


@pytest.mark.parametrize("folder", CHECKED)
def test_one_module_reads_the_wall_clock(folder):
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.relative_to(ROOT).as_posix() not in ALLOWED
        for line in reads_of_the_wall_clock(path.read_text(encoding="utf-8"))
    ]

    assert found == [], "use rota.deploy.clocks: machine_s for what lasts, wall_s for what is shown or dated"


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time\nclock = time.time_ns",
        "from time import time",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now()",
        "import time\ntime.clock_gettime(time.CLOCK_REALTIME)",
    ],
)
def test_the_check_finds_every_way_to_read_it(text):
    assert list(reads_of_the_wall_clock(text))
