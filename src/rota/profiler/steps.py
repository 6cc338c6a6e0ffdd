"""Who says how many steps a job has made: its client, or its output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rota.core.errors import ConfigError
from rota.deploy.clocks import machine_s, wall_s
from rota.deploy.worker.frames import STDERR, FrameReader, read_piece, segments_in
from rota.deploy.worker.ranks import Rank

GROUPS = ("step", "rate", "seconds")
_PIECE = 1 << 20
_LONGEST_LINE = 1 << 16
_ANEW = 0.1
"""Steps that are this part of the last ones, or less, are those of another epoch."""


@dataclass(slots=True)
class StepCount:
    """The latest that was said: so many steps at that second since boot."""

    at: float = 0.0
    step: float = 0.0
    told: int = 0
    """How often something new was said."""
    epochs: int = 0
    """How often the steps began anew; nobody knows how many were made meanwhile."""
    _said: float = 0.0

    def tell(self, at: float, step: float) -> None:
        """Steps go on, or begin anew; a little less than before is what somebody said late."""
        if step > self._said:
            self.step += step - self._said
        elif self._said and step <= _ANEW * self._said:
            self.epochs += 1
        else:
            return
        self._said = step
        self.at = at
        self.told += 1


def of_rank(count: StepCount, rank: Rank) -> None:
    """What a rank with `rota.client` said."""
    count.tell(rank.step_at or machine_s(), float(rank.step))


def compiled(text: str) -> re.Pattern[str]:
    """The expression of `--steps-regex`: with a group `step`, `rate` or `seconds`, or one group for the step."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ConfigError(f"--steps-regex {text!r} is no regular expression: {error}") from None
    named = set(pattern.groupindex)
    if named & set(GROUPS) or (pattern.groups == 1 and not named):
        return pattern
    fix = r"give e.g. 'step (?P<step>\d+)', '(?P<rate>[\d.]+) it/s' or '(?P<seconds>[\d.]+) s/it'"
    raise ConfigError(f"--steps-regex {text!r} has no group that says steps; {fix}")


@dataclass(slots=True)
class OutputSteps:
    """Reads the output of a task as it grows, for steps and for what to show of it."""

    folder: Path
    pattern: re.Pattern[str] | None
    count: StepCount
    lines: int = 0
    last_error: str = ""
    last_line: str = ""
    _offset_of: dict[str, int] = field(default_factory=dict)
    _reader_of: dict[str, FrameReader] = field(default_factory=dict)
    _rest: dict[str, str] = field(default_factory=dict)
    _rate_at: float = 0.0

    def poll(self) -> None:
        """Take in what is new."""
        since_boot = machine_s() - wall_s()
        for segment in segments_in(self.folder):
            data = read_piece(self.folder / segment.name, self._offset_of.get(segment.name, 0), _PIECE)
            if not data:
                continue
            self._offset_of[segment.name] = self._offset_of.get(segment.name, 0) + len(data)
            reader = self._reader_of.setdefault(segment.name, FrameReader())
            for frame in reader.feed(data):
                self._take(frame.stream, frame.data.decode("utf-8", "replace"), frame.at + since_boot)

    def _take(self, stream: str, text: str, at: float) -> None:
        *whole, rest = re.split(r"[\r\n]", self._rest.get(stream, "") + text)
        self._rest[stream] = rest[-_LONGEST_LINE:]
        for line in whole:
            if not line.strip():
                continue
            self.lines += 1
            self.last_line = line.strip()
            if stream == STDERR:
                self.last_error = self.last_line
            self._look_for_steps(line, at)

    def _look_for_steps(self, line: str, at: float) -> None:
        found = self.pattern.search(line) if self.pattern is not None else None
        if found is None:
            return
        groups: Mapping[str, str | None] = found.groupdict() or {"step": found[1]}
        if number := groups.get("step"):
            self.count.tell(at, _number(number))
            return
        rate = _number(groups.get("rate") or "0")
        seconds = _number(groups.get("seconds") or "0")
        rate = rate or (1 / seconds if seconds > 0 else 0.0)
        if self._rate_at and at > self._rate_at:
            self.count.tell(at, self.count.step + rate * (at - self._rate_at))
        self._rate_at = at


def _number(text: str) -> float:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return 0.0
    return value if 0 <= value < 1e15 else 0.0
