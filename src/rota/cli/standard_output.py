"""`-` in the place of a file: standard output gets that data alone.

What a verb says to people goes to standard error then.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping

import click

from rota.analysis.output import STANDARD_OUTPUT, check_writable


def check_outputs(path_by_flag: Mapping[str, str | None], *, as_json: bool) -> None:
    """Refuse two outputs on standard output, and files that could not be written in the end."""
    for path in path_by_flag.values():
        if path is not None and path != STANDARD_OUTPUT:
            check_writable(path)
    taken = [flag for flag, path in path_by_flag.items() if path == STANDARD_OUTPUT]
    taken += ["--json"] if as_json else []
    if len(taken) > 1 and STANDARD_OUTPUT in path_by_flag.values():
        problem = f"{taken[0]} and {taken[1]} both write to standard output"
        raise click.UsageError(f"{problem}; give a file instead of `-` to one of them")


@contextlib.contextmanager
def people_aside(*paths: str | None) -> Iterator[None]:
    """Inside, text goes to standard error if one of these outputs has standard output."""
    if STANDARD_OUTPUT not in paths:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield
