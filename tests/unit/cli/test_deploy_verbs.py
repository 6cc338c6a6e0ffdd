"""What every verb of a deployment has in common."""

import importlib
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from rota.cli.main import cli
from rota.cli.submit import placed
from rota.core.job_spec import JobSpec

VERBS = (
    "up", "serve", "agent", "submit", "submit-trace", "jobs", "cancel", "logs", "nodes", "drain", "events", "status",
    "hold", "release",
)  # fmt: skip
CLIENTS = VERBS[3:]
REFERENCE = Path(__file__).parents[3] / "docs" / "command-line.md"


def options(verb):
    command = importlib.import_module(f"rota.cli.{verb.replace('-', '_')}").command
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_examples_and_the_reference_has_the_verb(verb):
    shown = CliRunner().invoke(cli, [verb, "--help"])

    assert shown.exit_code == 0
    assert f"rota {verb}" in shown.output.partition("xample")[2]
    assert f"| `rota {verb}" in REFERENCE.read_text(encoding="utf-8")
    assert "--json" in options(verb)


@pytest.mark.parametrize("verb", CLIENTS)
def test_every_client_can_be_told_whom_to_talk_to(verb):
    assert {"--scheduler", "--certs", "--token-file", "--insecure"} <= options(verb)


@pytest.mark.parametrize("verb", ["serve"])
def test_every_option_of_the_scheduler_is_in_the_reference(verb):
    reference = REFERENCE.read_text(encoding="utf-8")

    assert [o for o in options(verb) if f"`{o}" not in reference and o != "--while-stdin"] == []


def test_a_shell_completes_the_verbs():
    found = {item.value for item in ShellComplete(cli, {}, "rota", "_ROTA_COMPLETE").get_completions([], "sub")}

    assert found == {"submit", "submit-trace"}


@pytest.mark.parametrize(
    ("job", "folder"),
    [
        ({"argv": ["x"]}, "HERE"),
        ({"argv": ["x"], "cwd": "below"}, "HERE/below"),
        ({"argv": ["x"], "cwd": "/srv"}, "/srv"),
        ({"argv": ["x"], "image": "host"}, ""),
        ({"argv": ["x"], "image": "host", "cwd": "/srv"}, "/srv"),
        ({"emulated": True, "steps": 1}, ""),
    ],
)
def test_a_command_runs_where_it_was_submitted_unless_it_has_an_image(job, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert placed(JobSpec(**job)).cwd == folder.replace("HERE", str(tmp_path))
