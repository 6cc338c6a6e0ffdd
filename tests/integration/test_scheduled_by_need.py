"""The tutorial "from my script to scheduled by need" is typed, block by block, with a real cluster at the end."""

import contextlib
import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from guides import blocks_of

from rota import profiles

PAGE = "scheduled-by-need.md"
FAST = ["--run-seconds", "1", "--max-runs", "2"]
"""The page says how to profile well; here the profile only has to be good enough to go on with."""
_FILE = re.compile(r"# (\S+\.(?:py|csv))\n")


class Typist:
    """Saves the files of the page and types its commands, in a folder of its own."""

    def __init__(self, folder):
        self._folder = folder
        self._bin = Path(sys.executable).parent
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self._env["PATH"] = f"{self._bin}:{self._env['PATH']}"
        self.answer = ""
        self.typed = []
        self.cluster = None

    def take(self, block):
        saved = _FILE.match(block.body)
        if saved:
            text = block.body if saved[1].endswith(".py") else block.body.split("\n", 1)[1]
            (self._folder / saved[1]).write_text(text)
        elif block.language == "text":
            assert self.answer == block.body, f"{block}: the page says otherwise"
        else:
            assert block.language == "sh", f"{block}: nobody types this"
            self.answer = "".join(self._type(shlex.split(line)) for line in block.body.splitlines())

    def _type(self, words):
        program, verb = words[:2]
        self.typed.append(f"{program} {verb}")
        if program == "python":
            return self._run([sys.executable, *words[1:]])
        assert program == "rota"
        more = FAST if verb == "profile" else []
        command = [sys.executable, "-m", "rota.cli", verb, *more, *words[2:]]
        if verb == "profile":
            return self._profile(command)
        if verb != "up":
            return self._run(command)
        self.cluster = subprocess.Popen(
            [*command, "--json"], cwd=self._folder, env=self._env, stdout=subprocess.PIPE, text=True
        )
        return self.cluster.stdout.readline()

    def _profile(self, command):
        """It tries three times by itself, and refuses if other programs disturbed it each time."""
        done = self._start(command)
        if done.returncode and "contaminated" in done.stderr:
            pytest.skip(f"the machine is too busy to profile anything: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _start(self, command):
        return subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=self._folder, env=self._env, timeout=300
        )

    def _run(self, command):
        done = self._start(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def end(self):
        if self.cluster is not None:
            self.cluster.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.cluster.wait(60)
            self.cluster.kill()
            self.cluster.communicate()


def finished(path):
    with path.open(newline="") as file:
        return {row["job_id"]: float(row["jct_s"]) for row in csv.DictReader(file)}


@pytest.fixture
def typist(tmp_path):
    typing = Typist(tmp_path)
    yield typing
    typing.end()


@pytest.mark.long
def test_the_way_from_a_script_to_a_job_that_is_scheduled_by_need_can_be_typed(typist, tmp_path):
    pytest.importorskip("grpc", reason="the extra `deploy` is not installed")
    for block in blocks_of(PAGE):
        typist.take(block)

    assert typist.typed.count("rota profile") == 2
    assert "rota up" in typist.typed
    model = profiles.load(tmp_path / "mine.toml").models["mine", 1, "cpu"]
    assert model.stages.data_gb is not None
    same, need = finished(tmp_path / "same.csv"), finished(tmp_path / "need.csv")
    assert sum(need.values()) < 0.9 * sum(same.values())  # how much it is worth, two short runs do not tell exactly
    assert "light" in typist.answer
    assert "finished" in typist.answer
