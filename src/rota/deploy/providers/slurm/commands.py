"""Slurm's own commands, and what it means when they fail.

Slurm has no interface that is there on every site but these. All calls have a time limit: a controller that is down
lets them hang for 9 s and more.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rota.core.errors import ConfigError
from rota.deploy.providers.port import PlaceRefused, PlaceSilent

TIMEOUT_S = 30.0
_HEADER = re.compile(r"[A-Z_]+(\|[A-Z_]+)*")
"""The first line of squeue: JOBID|STATE|..."""
_SILENT = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "zero bytes were transmitted",
    "communication connection failure",
    "unable to resolve",
    "munge",
    "configuration source",
)
"""What Slurm says when it cannot be reached, rather than that something is wrong with the question."""
PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "SLURM_CONF",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)
"""Variables that Slurm's commands and pilots see. Nothing else of ours gets into a batch job: no token, no key."""


def passed_on(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of Slurm's commands, which sbatch gives to the job."""
    return {name: environ[name] for name in PASSED_ON if name in environ}


@dataclass
class SlurmCommands:
    """Runs Slurm's commands and counts them."""

    timeout_s: float = TIMEOUT_S
    calls: dict[str, int] = field(default_factory=dict)

    def run(self, *words: str) -> str:
        """What a command prints. Raises PlaceSilent, PlaceRefused with Slurm's own words."""
        self.calls[words[0]] = self.calls.get(words[0], 0) + 1
        code, output, errors = self._done(words)
        if code == 0:
            return output
        said = own_words(errors or output) or f"{words[0]} ended with code {code}"
        if any(sign in said.lower() for sign in _SILENT):
            raise PlaceSilent(said)
        raise PlaceRefused(said)

    def _done(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Exit code, output and errors of a command. With it ends what it started: at some sites it is a script."""
        try:
            process = subprocess.Popen(  # noqa: S603 - names of Slurm's commands, no shell
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                errors="replace", env=passed_on(), start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            problem = f"{words[0]} is not installed here; run this where Slurm's commands are (a login node)"
            raise ConfigError(problem) from error
        with process:
            try:
                output, errors = process.communicate(timeout=self.timeout_s)
            except subprocess.TimeoutExpired as error:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise PlaceSilent(f"{words[0]} did not answer within {self.timeout_s:g} s") from error
        return process.returncode, output, errors


def rows_of(commands: SlurmCommands, columns: int, *options: str) -> list[list[str]]:
    """What squeue lists, as `columns` cells; the last one may hold more of the separator `|`.

    The header is asked for too: without it an answer is not one of squeue, and empty output is no empty queue. Raises
    PlaceSilent, PlaceRefused.
    """
    header, *lines = commands.run("squeue", *options).splitlines() or [""]
    rows = [line.split("|", columns - 1) for line in lines]
    wrong = [line for line, row in zip(lines, rows, strict=True) if len(row) < columns]
    if header.count("|") < columns - 1 or not _HEADER.fullmatch(header):
        wrong = [header]
    if wrong:
        raise PlaceSilent(f"squeue printed {wrong[0][:80]!r} instead of a list of jobs")
    return rows


def own_words(text: str) -> str:
    """What Slurm said, in one line."""
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines))[:500]
