"""A file that others may write while the scheduler runs, read again when it has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from rota.core.errors import ConfigError
from rota.deploy.security import secret_files

Content = TypeVar("Content")
_log = logging.getLogger(__name__)


class WatchedFile(Generic[Content]):
    """What `read` makes of a file, as of now.

    A broken file is said once, with what is shut until it is mended.
    """

    def __init__(self, path: Path, read: Callable[[], Content], shut: str) -> None:
        self._path = path
        self._read = read
        self._shut = shut
        self._seen: secret_files.Stamp | None = None
        self._content: Content | None = None
        self._fresh = True

    def content(self) -> Content | None:
        """The content; None if the file is broken."""
        seen = secret_files.stamp(self._path)
        if self._fresh or seen != self._seen:
            self._fresh = False
            self._seen = seen
            try:
                self._content = self._read()
            except ConfigError as error:
                self._content = None
                _log.error("%s until this is mended: %s", self._shut, error)
        return self._content
