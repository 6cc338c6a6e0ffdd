"""The job templates of Gavel.

What its generators choose from, in the order that fixes their random numbers.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rota.core.jobs import Launch

FILE = Path(__file__).parent / "data" / "gavel-templates.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A kind of job: its profile and how it is started."""

    profile: str
    launch: Launch
    multi_gpu: bool
    """Whether it was measured with more than one GPU."""


@cache
def templates() -> tuple[Template, ...]:
    """The 26 templates, number 0 first."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return tuple(
        Template(
            profile=row["profile"],
            launch=Launch(
                command=row["command"],
                working_directory=row["working_directory"],
                steps_argument=row["steps_argument"],
                needs_data_dir=row["needs_data_dir"] == "1",
            ),
            multi_gpu=row["multi_gpu"] == "1",
        )
        for row in rows
    )
