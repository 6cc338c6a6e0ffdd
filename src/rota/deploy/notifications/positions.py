"""Which events every target has been told of, in a file beside the state file: the name of that and `.notified`.

Written now and then while something is delivered, so a scheduler that is killed tells the last few again, with the same
keys. If it cannot be written (a full disk), notifications go on, and more of them are told again after a restart.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rota.core import files
from rota.core.errors import ConfigError
from rota.core.parsing import parse_json

log = logging.getLogger(__name__)

_WRITE_EVERY_S = 1.0


def positions_file(state: Path) -> Path:
    """Where it is kept."""
    return state.with_name(state.name + ".notified")


class Positions:
    """Numbers of events by target. Any thread."""

    def __init__(self, path: Path, journal: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._journal = journal
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._numbers = self._read()
        self._written: dict[str, int] = {}
        self._written_at = -_WRITE_EVERY_S
        self._failed = False

    def _read(self) -> dict[str, int]:
        try:
            kept = parse_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        if not isinstance(kept, dict) or not isinstance(kept.get("targets"), dict):
            raise self._unusable("it is not what this scheduler writes")
        if kept.get("journal") != self._journal:
            log.warning("%s is about another state file; notifications begin with what happens now", self._path)
            return {}
        numbers = kept["targets"]
        if not all(isinstance(number, int) and number >= 0 for number in numbers.values()):
            raise self._unusable("a number of an event is none")
        return dict(numbers)

    def _unusable(self, why: object) -> ConfigError:
        return ConfigError(
            f"{self._path} cannot be used ({why}); it says which notifications were delivered. Remove it, and they "
            "begin with what happens from then on"
        )

    def begin(self, targets: Iterable[str], last: int) -> None:
        """Targets that are new begin behind an event; those that are not there any more are forgotten."""
        with self._lock:
            self._numbers = {name: min(self._numbers.get(name, last), last) for name in targets}
        self.write(now=True)

    def of(self, target: str) -> int:
        """The last event that a target has been told of, or did not want to know."""
        with self._lock:
            return self._numbers[target]

    def advance(self, target: str, number: int) -> None:
        """A target is through with an event."""
        with self._lock:
            self._numbers[target] = number

    def write(self, *, now: bool = False) -> None:
        """Keep it, if it is time."""
        with self._lock:
            due = self._monotonic() - self._written_at >= _WRITE_EVERY_S
            if self._numbers == self._written or not (due or now):
                return
            kept = dict(self._numbers)
            self._written_at = self._monotonic()
            try:
                text = json.dumps({"journal": self._journal, "targets": kept}) + "\n"
                files.write_text(self._path, text, mode=0o600)
            except OSError as error:
                if not self._failed:
                    log.error(  # noqa: TRY400 - a full disk, in one line
                        "cannot write %s (%s): after a restart notifications are sent again from event %s",
                        self._path, error.strerror, min(self._written.values(), default=0),
                    )  # fmt: skip
                self._failed = True
                return
            self._failed = False
            self._written = kept
