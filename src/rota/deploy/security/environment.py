"""The environment of a job: what it needs to run, and nothing that opens the scheduler or the machine.

An agent is started with paths to its key, perhaps with credentials of a cloud. Jobs belong to others, so they get names
from a short list only, plus what their owner asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rota.core.errors import ConfigError

_PASSED = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
    "LD_LIBRARY_PATH", "LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_DEVICE_ORDER", "VIRTUAL_ENV", "CONDA_PREFIX",
}  # fmt: skip
_PASSED_FAMILIES = ("LC_", "NCCL_", "OMP_")
_SECRETS = {"ROTA_TOKEN", "ROTA_TOKEN_FILE", "ROTA_CERTS"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOUNDS_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|AUTH", re.IGNORECASE)


def job_environment(
    machine: Mapping[str, str], asked: Mapping[str, str], own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Variables of a job: some of the machine's, what its owner asked for, and Rota's `own` (which win).

    Raises ConfigError for a name that cannot be one, or that belongs to the scheduler's own secrets.
    """
    for name, value in asked.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise ConfigError(f"a job cannot set the variable {name!r}: use letters, digits and _, and no zero byte")
        if name in _SECRETS:
            raise ConfigError(f"a job cannot set {name}: it is how clients find their secrets; use another name")
    passed = {k: v for k, v in machine.items() if k in _PASSED or k.startswith(_PASSED_FAMILIES)}
    return {**passed, **asked, **(own or {})}


def redacted(environment: Mapping[str, str]) -> dict[str, str]:
    """The same for logs and records: values whose names sound like secrets are hidden."""
    return {k: "***" if _SOUNDS_SECRET.search(k) else v for k, v in environment.items()}
