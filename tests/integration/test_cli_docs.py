"""What the documentation shows is run: Python blocks and `rota` commands, in the order of the page.

Guides, in which one block builds on another, are typed by `test_guides.py`.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/tutorial.md",
    "docs/workloads.md",
    "docs/python-api.md",
    "docs/synergy.md",
    "docs/determinism.md",
    "docs/event-log.md",
    "docs/experiments.md",
    "docs/figures.md",
    "docs/security.md",
    "docs/report.md",
]
LOG = """JobID|Account|Partition|Submit|Start|End|State|ReqTRES|AllocTRES
17|vision|gpu|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T02:01:00|COMPLETED|gres/gpu:a100=8|gres/gpu:a100=8
18|speech|gpu|2026-01-01T00:05:00|2026-01-01T00:05:00|2026-01-01T00:35:00|COMPLETED|gres/gpu=1|gres/gpu:v100=1
"""
FILES = {
    "january.txt": LOG,
    "jobs.csv": "JobID,submit,runtime_min,ngpu,card\nx1,2026-01-01 00:00:00,90,4,a100\n",
}
"""Files of their own that users have where a page shows what to do with them."""
WITH_ANSWERS = {"docs/tutorial.md"}
"""Pages on which a block `text` is what the commands before it print."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, kind):
    text = (PROJECT / page).read_text(encoding="utf-8")
    return [body for language, body in FENCE.findall(text) if language == kind]


def run(arguments, folder):
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_python_shown_in_the_documentation_runs(page, tmp_path):
    for body in blocks(page, "python"):
        run([sys.executable, "-W", "error", "-c", body], tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_shown_in_the_documentation_run(page, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    answer = ""
    for language, body in FENCE.findall((PROJECT / page).read_text(encoding="utf-8")):
        if language == "sh":
            answer = "".join(typed(line, tmp_path) for line in body.splitlines() if line.startswith(("rota ", "cmp ")))
        elif language == "text" and page in WITH_ANSWERS:
            assert answer.rstrip() == body.rstrip(), f"{page} says otherwise"


def typed(line, folder):
    program, *arguments = shlex.split(line)
    return run([sys.executable, "-m", "rota.cli", *arguments] if program == "rota" else [program, *arguments], folder)


@pytest.mark.parametrize(
    "page", [p.relative_to(PROJECT).as_posix() for p in PROJECT.rglob("*.md") if ".venv" not in p.parts]
)
def test_links_between_pages_lead_somewhere(page):
    text = (PROJECT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text)

    missing = [x for x in links if not x.startswith("http") and not (PROJECT / page).parent.joinpath(x).exists()]

    assert missing == []


def test_every_option_of_simulate_is_in_the_reference():
    from rota.cli.simulate import command

    reference = (PROJECT / "docs/command-line.md").read_text(encoding="utf-8")

    assert [o for p in command.params for o in p.opts if f"`{o}" not in reference and o != "--json"] == []


def test_every_option_of_sweep_is_in_its_page():
    from rota.cli.sweep import command

    page = (PROJECT / "docs/experiments.md").read_text(encoding="utf-8")

    assert [o for p in command.params if p.name != "spec" for o in p.opts if f"`{o}" not in page] == []


def test_the_sweep_shown_in_the_documentation_can_be_planned(tmp_path):
    (tmp_path / "las.toml").write_text(blocks("docs/experiments.md", "toml")[0])

    assert "runs, 0 with a result" in run(
        [sys.executable, "-m", "rota.cli", "sweep", "las.toml", "--dry-run"], tmp_path
    )


def test_every_rule_is_explained():
    from dataclasses import fields

    from rota.core.rules import Rules

    explained = (PROJECT / "docs/rules.md").read_text(encoding="utf-8")

    assert [f.name for f in fields(Rules) if f.name != "name" and f"`{f.name}`" not in explained] == []
