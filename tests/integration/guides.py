"""Pages of the documentation, typed as a reader would: files saved, scripts and commands run, answers compared."""

import configparser
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCS = Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# (\S+\.(?:py|toml|txt))\n")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    body: str

    @property
    def file_name(self):
        """Where a reader saves it; None for what is typed."""
        match = _FILE_NAME.match(self.body)
        return None if match is None else match[1]

    def __str__(self):
        return f"{self.page}:{self.line}"


def blocks_of(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    return [Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2]) for match in _FENCE.finditer(text)]


def needed_by(page):
    """The blocks that a reader saves as files."""
    return [block for block in blocks_of(page) if block.file_name is not None]


class Reader:
    """Works through a page in a folder of its own."""

    def __init__(self, folder):
        self._folder = folder
        self._answer = None
        self.compared = 0
        """Answers that were compared with what the page says."""
        self.ran = 0
        """Scripts and commands."""

    def work_through(self, page):
        for block in blocks_of(page):
            self.take(block)

    def take(self, block):
        if block.file_name is not None:
            self._save(block)
        elif block.language == "text":
            assert self._answer == block.body, f"{block}: the page says otherwise"
            self.compared += 1
        elif block.language == "python":
            self._answer = self.run_python(block.body, block)
        elif block.language == "sh":
            self._answer = "".join(self._command(line, block) for line in block.body.splitlines())
        elif block.language == "toml":
            self._install(block)

    def run_python(self, code, block="code of the test"):
        return self._run([sys.executable, "-W", "error", "-c", code], block)

    def _save(self, block):
        path = self._folder / block.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.body.split("\n", 1)[1] if path.suffix == ".txt" else block.body, encoding="utf-8")

    def _command(self, line, block):
        program, *arguments = shlex.split(line)
        assert program == "rota", f"{block}: only commands of Rota are run here"
        return self._run([sys.executable, "-m", "rota.cli", *arguments], block)

    def _install(self, block):
        """What pip leaves behind: the metadata of a distribution, here with the code beside it."""
        project = tomllib.loads(block.body)["project"]
        name = project["name"].replace("-", "_")
        metadata = self._folder / f"{name}-{project['version']}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n")
        points = configparser.ConfigParser(delimiters="=")
        points.read_dict(project["entry-points"])
        with (metadata / "entry_points.txt").open("w") as file:
            points.write(file)

    def _run(self, arguments, block):
        self.ran += 1
        done = subprocess.run(
            arguments,
            check=False,
            capture_output=True,
            text=True,
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(self._folder)},
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout
