"""Slurm's own commands, and what it means when they fail.

Slurm has no interface that is there on every site but these. All calls have a time limit: a controller that is down
lets them hang for 9 s and more.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rota.core.errors import ConfigError
from rota.deploy.providers.port import PlaceRefused, PlaceSilent

TIMEOUT_S = 30.0
_SILENT = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "zero bytes were transmitted",
    "communication connection failure",
    "unable to resolve",
    "munge",
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
        try:
            done = subprocess.run(  # noqa: S603 - names of Slurm's commands, no shell
                words, check=False, capture_output=True, text=True, timeout=self.timeout_s, env=passed_on(),
                stdin=subprocess.DEVNULL, errors="replace",
            )  # fmt: skip
        except FileNotFoundError as error:
            problem = f"{words[0]} is not installed here; run this where Slurm's commands are (a login node)"
            raise ConfigError(problem) from error
        except subprocess.TimeoutExpired as error:
            raise PlaceSilent(f"{words[0]} did not answer within {self.timeout_s:g} s") from error
        if done.returncode == 0:
            return done.stdout
        said = own_words(done.stderr or done.stdout) or f"{words[0]} ended with code {done.returncode}"
        if any(sign in said.lower() for sign in _SILENT):
            raise PlaceSilent(said)
        raise PlaceRefused(said)


def own_words(text: str) -> str:
    """What Slurm said, in one line."""
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines))[:500]
