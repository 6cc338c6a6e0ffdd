"""Files with which Rota is installed as a service: programs that read them accept them, and their options exist."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rota.cli.main import cli

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
_OPTION = re.compile(r"--[a-z][a-z-]+")


def options_of(verb):
    return {name for parameter in cli.get_command(None, verb).params for name in parameter.opts}


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_takes_the_unit(unit, tmp_path):
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed")
    installed = tmp_path / unit.name
    installed.write_text(unit.read_text(encoding="utf-8").replace("/opt/rota/bin/rota", sys.executable))

    done = subprocess.run([program, "verify", str(installed)], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_options_of_the_unit_and_of_its_settings_exist(unit):
    text = unit.read_text(encoding="utf-8")
    (verb, words) = re.search(r"^ExecStart=/opt/rota/bin/rota (\w+) (.*)$", text, re.MULTILINE).groups()
    (settings,) = re.findall(r"^EnvironmentFile=-/etc/rota/(\S+)$", text, re.MULTILINE)
    (more,) = re.findall(r'^ROTA_\w+="(.*)"$', (DEPLOY / "systemd" / settings).read_text("utf-8"), re.MULTILINE)

    assert set(_OPTION.findall(f"{words} {more}")) <= options_of(verb)


def test_a_restart_of_the_agent_ends_no_job():
    text = (DEPLOY / "systemd" / "rota-agent.service").read_text(encoding="utf-8")

    assert "\nKillMode=process\n" in text
    assert "\nDelegate=yes\n" in text


def test_options_of_the_compose_file_exist():
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    commands = [shlex.split(words) for words in re.findall(r"^    command: (\w.*)$", text, re.MULTILINE)]

    assert len(commands) == 3
    for verb, *words in commands:
        assert {word for word in words if word.startswith("--")} <= options_of(verb)


def test_logrotate_takes_its_file(tmp_path):
    if (program := shutil.which("logrotate", path="/usr/sbin:/usr/bin")) is None:
        pytest.skip("logrotate is not installed")
    command = [program, "--debug", "--state", str(tmp_path / "state"), str(DEPLOY / "logrotate.conf")]

    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.returncode == 0
    assert "error" not in done.stderr.lower()
