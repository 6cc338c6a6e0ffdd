"""A run in the middle, saved to go on later.

The file is a SHA-256 and a pickle that holds nothing but Rota's own values and NumPy arrays; the reader refuses
anything else. It is written beside its place and renamed, so a crash leaves the last good one. A checkpoint belongs to
one configuration and one version of Rota.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota._version import __version__
from rota.core.errors import ConfigError, OutputError
from rota.core.files import replacing

_OWN_MODULES = (
    "rota.core.", "rota.engine.state", "rota.engine.classes", "rota.engine.configurations",
    "rota.engine.pair_rates", "rota.engine.pairs",
    "rota.engine.trigger", "rota.engine.columns", "rota.engine.live_state", "rota.analysis.metrics",
    "rota.analysis.job_table", "rota.analysis.ledger", "rota.analysis.warmup", "rota.deploy.events",
    "rota.deploy.scheduler.records", "rota.deploy.scheduler.registry", "rota.deploy.scheduler.queue_index",
    "rota.sim.queue_rules", "rota.sim.queue_gate", "rota.sim.limited_group", "rota.sim.idle_choice",
)  # fmt: skip
_NUMPY = {
    "numpy": {"ndarray", "dtype", "bool_", "int64", "float64"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
}
"""All that arrays need. Much else in NumPy opens files or starts programs when it is called."""
_SAFE_BUILTINS = {"set", "frozenset", "slice", "bytearray", "object"}
_MAGIC = "rota-checkpoint-7"
_MARK = b"rota-checkpoint"
_MAY_DIFFER = {"until"}
"""Settings that say how far a run goes, not how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All that a run needs to go on."""

    config: Mapping[str, Any]
    parts: Mapping[str, Any]


def save(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in one piece; a device or a pipe (/dev/null) is refused, as a file would take its place."""
    there = Path(path)
    if there.exists() and not there.is_file():
        raise OutputError(f"cannot write checkpoint {path}: it is not a file to go on from; give a file name")
    try:
        body = pickle.dumps((_MAGIC, __version__, dict(checkpoint.config), dict(checkpoint.parts)), protocol=5)
        with replacing(path) as file:
            file.write(_head(body))
            file.write(body)
    except OSError as error:
        raise OutputError(f"cannot write checkpoint {path}: {error.strerror or error}") from error


def load(path: str | Path, config: Mapping[str, Any]) -> Checkpoint:
    """Read a checkpoint of the same run; anything else is refused with the reason."""
    try:
        magic, version, saved, parts = SafeReader(io.BytesIO(_body(Path(path).read_bytes()))).load()
    except OSError as error:
        raise ConfigError(f"cannot read checkpoint {path}: {error.strerror or error}") from error
    except Exception as error:
        what = "is not a checkpoint of Rota, or it is damaged, or of an earlier version"
        raise ConfigError(f"{path} {what} ({type(error).__name__}). Run from the start.") from error
    if magic != _MAGIC or version != __version__:
        which = f"version {version}" if version != __version__ else f"an earlier state of version {version}"
        raise ConfigError(f"{path} was written by {which}; this is {__version__}. Run from the start.")
    for key in sorted((set(saved) | set(config)) - _MAY_DIFFER):
        if saved.get(key) != config.get(key):
            raise ConfigError(
                f"{path} belongs to another run: {key} was {saved.get(key)!r}, now {config.get(key)!r}. "
                "Give the options of the run that wrote it."
            )
    return Checkpoint(config=saved, parts=parts)


def _head(body: bytes) -> bytes:
    """What stands before the values: damage is found before any of them is made."""
    return b"%s %s\n" % (_MARK, hashlib.sha256(body).hexdigest().encode())


def _body(content: bytes) -> bytes:
    """The values, still packed. Raises UnpicklingError if they are not as they were written."""
    head, _, body = content.partition(b"\n")
    if head + b"\n" != _head(body):
        raise pickle.UnpicklingError("the checksum is wrong")
    return body


class SafeReader(pickle.Unpickler):
    """Loads only values that a checkpoint can hold."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse what is not a type of ours or of NumPy's."""
        if "." not in name:
            if module == "builtins" and name in _SAFE_BUILTINS:
                return super().find_class(module, name)
            if name in _NUMPY.get(module, ()):
                return super().find_class(module, name)
            if module.startswith(_OWN_MODULES):
                found = super().find_class(module, name)
                if isinstance(found, type) and found.__module__ == module:
                    return found
        raise pickle.UnpicklingError(f"{module}.{name} does not belong in a checkpoint")
