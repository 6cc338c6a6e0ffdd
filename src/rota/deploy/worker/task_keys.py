"""A secret for every rank, so that one job cannot speak for another.

All of them are made from one key of the agent's own, which only the agent's user can read: nothing
has to be kept for each task, and an agent that is started again knows the secrets of the tasks it
adopts.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from rota.core import files
from rota.deploy.worker.ranks import RankId

VARIABLE = "ROTA_TASK_KEY"
"""The variable in which a rank finds its secret."""
_BYTES = 32


class TaskKeys:
    """The secrets of one agent's ranks."""

    def __init__(self, path: Path) -> None:
        """`path` is the file with the key of the agent; it is made if it is not there."""
        self._key = _read_or_make(path)

    def of(self, rank_id: RankId) -> str:
        """The secret of a rank."""
        attempt = rank_id.attempt
        text = f"{attempt.job}\n{attempt.epoch}\n{rank_id.rank}"
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def fits(self, rank_id: RankId, said: object) -> bool:
        """Whether somebody who says to be this rank is it."""
        if not isinstance(said, str):
            return False
        return hmac.compare_digest(said.encode("utf-8", "surrogatepass"), self.of(rank_id).encode())


def _read_or_make(path: Path) -> bytes:
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        key = b""
    if len(key) == _BYTES:
        return key
    key = secrets.token_bytes(_BYTES)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, key.hex(), mode=0o600)
    return key
