"""Everything Rota raises on purpose.

    RotaError
    ├── ConfigError          an option, file or value that cannot be used (exit code 2)
    │   ├── UnknownName      a name that no registry knows; the nearest one is offered
    │   ├── TraceError       a line of a trace that cannot be read
    │   ├── ProfileMissing   no measurement for what a job asks
    │   ├── OutputError      a result that cannot be written where it was asked
    │   └── AnswerError      an answer of a policy or a mechanism that makes no sense
    ├── IllegalTransition    a job did something its status does not allow
    ├── InfeasibleError      an optimisation problem without a solution
    └── SolveError           a solver that gave up
        └── SolveLate        a policy that has not answered in time, and may in the next round

A message says what, where, the value, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_NAME = 200
"""Characters of a name that are looked at and shown: the search for the nearest one takes the square of it."""


class RotaError(Exception):
    """Base of every error a user of Rota may want to catch."""


class ConfigError(RotaError):
    """Input that cannot be used as it is."""


class UnknownName(ConfigError):
    """A name that is not registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        name = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        same = [known for known in names if known.lower() == name.lower()]  # H100 is nearer to h100 than to v100
        near = same or difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        super().__init__(f"unknown {kind} {name!r}{hint} Known: {', '.join(names) or 'none'}.")
        self.nearest = near[0] if near else None


class TraceError(ConfigError):
    """A line of a trace that cannot be read."""

    def __init__(self, path: str, line: int, message: str, column: str | None = None) -> None:
        where = f"{path}:{line}" + (f", column {column}" if column else "")
        super().__init__(f"{where}: {message}")
        self.path, self.line, self.column, self.message = path, line, column, message


class ProfileMissing(ConfigError):
    """No measurement for a job's model on any type it could run on."""


class OutputError(ConfigError):
    """A file that cannot be written."""


class AnswerError(ConfigError):
    """A policy or a mechanism answered with what cannot be used."""


class IllegalTransition(RotaError):
    """A job changed status in a way the lifecycle does not allow; `story` has its last events, the newest last."""

    def __init__(self, what: str, story: Iterable[str] = (), job: int | None = None) -> None:
        self.job = job
        self.story = tuple(story)
        super().__init__(f"{what}; before that: {', '.join(self.story) or 'nothing'}")


class InfeasibleError(RotaError):
    """An optimisation problem without a solution."""


class SolveError(RotaError):
    """A solver stopped without an answer."""


class SolveLate(SolveError):
    """A policy has not answered in time; it may in the next round."""
