"""The pages for users of Gavel and of Synergy: every command on them is typed, and every option beside its command."""

import itertools
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from guides import blocks_of

from live import Live, until
from rota.cli.main import cli

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("coming-from-gavel.md", "coming-from-synergy.md")
THEIRS = {
    "coming-from-gavel.md": """
        --log-dir --window-start --window-end --timeout --processes --policies --cluster-spec --num_gpus_per_server
        --seeds --interval --fixed-job-duration --cutoff-throughputs-file --throughputs-file --generate-multi-gpu-jobs
        --generate-multi-priority-jobs --simulate-steady-state --solver --verbose --checkpoint-threshold
        --profiling_percentages --num_reference_models --ideal --utilization-threshold --throughput-lower-bound
        --throughput-upper-bound --num-data-points --num_trials --trace --seed --throughputs_file --time_per_iteration
        --policy --expected_num_workers --run_dir --data_dir --checkpoint_dir --timeline_dir""",
    "coming-from-synergy.md": """
        --cluster_job_log --plot --multigpu --config_file --cluster_config --conn_file --no_use_cache --no_cache_result
        --no_simulate --num_jobs_default --num-jobs-default --static --small_static_trace --record_trace
        --replay_trace --philly_arrival --no_exp --run_dir --data_dir --checkpoint_dir""",
}
"""Options in the texts of their instructions."""
_BASE = re.compile(r"^Beside `rota ([^`]+)`", re.MULTILINE)
_ROW = re.compile(r"^\|(?P<theirs>.*?)\|(?P<here>.*?)\|(?P<remark>.*)\|$", re.MULTILINE)
_REPEATABLE = ("--set", "--set-profiles", "--vary")
_VERB = re.compile(r"`rota ([a-z-]+)[^`]*`")


def option_rows():
    """What is beside a base command on a page: the command and an option of ours."""
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        for base in _BASE.finditer(text):
            table = text[base.end() :].partition("\n\n")[2].partition("\n\n")[0]
            for row in _ROW.finditer(table):
                here = row["here"].strip().strip("`")
                if here.startswith("-") and set(here) != {"-"}:
                    yield pytest.param(base[1], here, id=f"{page.split('.')[0]}: {here}")


def with_options(base, here):
    """The words of a command with more options: what can be given once takes the place of that of the base."""
    words, more = shlex.split(base), shlex.split(here)
    names = [word for word in more if word.startswith("--") and word not in _REPEATABLE]
    names += ["--workload", "--set"] if "--trace" in more else []
    settings = {word.partition("=")[0] for word in more if "=" in word}
    settings |= {"jobs_per_hour"} if "original" in settings else set()
    kept = [word for word in words if not word.startswith("-")][:1]
    for option, value in itertools.pairwise(words[1:]):
        if option.startswith("-") and option not in names and value.partition("=")[0] not in settings:
            kept += [option, value]
    return kept + more


def typed(words):
    """What a command prints."""
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, f"rota {shlex.join(words)}\n{done.output}\n{done.exception}"
    return done.output


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks_of(page) if block.language == "sh" for line in block.body.splitlines()]

    assert len(lines) > 15
    for words in (shlex.split(line)[1:] for line in lines):
        by_name_only = words[0] == "repro" and words[1] != "list"
        assert typed([*words, "--help"] if by_name_only else words)


@pytest.mark.parametrize(("base", "here"), list(option_rows()))
def test_every_option_beside_theirs_is_taken(base, here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed(["trace", "generate", "gavel-trace", "jobs.trace", "--jobs", "10"])
    words = with_options(base, here)

    assert typed([*words, "--dry-run"] if words[0] == "sweep" else words)


@pytest.mark.parametrize("page", PAGES)
def test_every_option_of_their_instructions_is_on_the_page(page):
    text = (DOCS / page).read_text(encoding="utf-8")

    assert [option for option in THEIRS[page].split() if not re.search(rf"`[^`]*{option}(?![\w-])", text)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_verb_that_is_named_exists(page):
    verbs = set(_VERB.findall((DOCS / page).read_text(encoding="utf-8")))

    assert verbs > {"serve", "agent", "submit-trace", "profile"}
    assert verbs - set(cli.list_commands(None)) == set()


@pytest.mark.parametrize("page", PAGES)
def test_the_deployment_of_the_page_runs(page, tmp_path):
    (block,) = [block for block in blocks_of(page) if block.language == "console"]
    up, *others = [shlex.split(line.removeprefix("$ "))[1:] for line in block.body.splitlines()]
    live = Live(tmp_path)
    trace = others[0][1]
    workload, to = ("gavel-trace", "gavel") if trace.endswith(".trace") else ("philly-derived", "synergy")
    load = "interarrival_s=1" if to == "gavel" else "jobs_per_hour=3600"
    live.run("trace", "generate", workload, trace, "--jobs", "6", "--set", load, "--to", to)

    live.up(*up[1:])
    try:
        for words in others:
            assert live.run(*words)
        until(lambda: len(live.ask("jobs", "--all")) == 6, 60.0, "the jobs of the trace are there")
    finally:
        live.down()
