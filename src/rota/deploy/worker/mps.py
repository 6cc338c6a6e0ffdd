"""Two tasks on one GPU through NVIDIA's MPS: one daemon per GPU, started when first needed.

Nothing of this has run on a GPU in our tests: they check the refusals, and the commands against a
stand-in program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from rota.core.errors import ConfigError

CONTROL = "nvidia-cuda-mps-control"
_ANSWER_WITHIN_S = 15.0


def unavailable(gpus: int) -> str:
    """Why MPS cannot be used here; empty if it can."""
    if gpus == 0:
        return "MPS needs a GPU, and this machine has none"
    if shutil.which(CONTROL) is None:
        return f"MPS needs {CONTROL}, which is not on the PATH"
    return ""


class Mps:
    """The MPS daemons of this machine, one per GPU, below a folder."""

    def __init__(self, folder: str | Path, gpus: int) -> None:
        self.folder = Path(folder).absolute()
        self.gpus = gpus

    def environment(self, device: str) -> dict[str, str]:
        """What a task needs to find the daemon of its GPU."""
        base = self.folder / "mps" / device
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(base / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(base / "log"),
        }

    def start(self, device: str) -> dict[str, str]:
        """Start the daemon of a GPU, or find it running; what tasks need to reach it.

        Refuses where there is no MPS.
        """
        if why := unavailable(self.gpus):
            raise ConfigError(f"{why}; submit the job without space sharing")
        env = self.environment(device)
        for path in env.values():
            Path(path).mkdir(parents=True, exist_ok=True)
        if not self._answers(device):
            self._control(device, "-d")
        return env

    def stop(self, device: str) -> None:
        """End the daemon of a GPU; nothing happens if there is none."""
        if not unavailable(self.gpus) and self._answers(device):
            self._control(device, command="quit\n")

    def _answers(self, device: str) -> bool:
        try:
            self._control(device, command="get_server_list\n")
        except ConfigError:
            return False
        return True

    def _control(self, device: str, *arguments: str, command: str | None = None) -> None:
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "CUDA_VISIBLE_DEVICES": device,
            **self.environment(device),
        }
        try:
            completed = subprocess.run(
                [shutil.which(CONTROL) or CONTROL, *arguments],
                input=command,
                stdin=subprocess.DEVNULL if command is None else None,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
                text=True,
                timeout=_ANSWER_WITHIN_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"{CONTROL} for GPU {device} did not answer: {error}") from error
        if completed.returncode != 0:
            log = self.folder / "mps" / device / "log"
            raise ConfigError(
                f"{CONTROL} for GPU {device} failed with exit code {completed.returncode}; "
                f"see {log}"
            )
