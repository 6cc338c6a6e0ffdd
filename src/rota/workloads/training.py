"""Example training workloads: real training scripts (PyTorch), found by name without importing any of them.

They are the files in `examples/` of a checkout; a wheel has the same files inside the package.
"""

from __future__ import annotations

import ast
from pathlib import Path

from rota.core.errors import ConfigError, UnknownName

NAMES = (
    "cifar",
    "imagenet",
    "language_model",
    "translation",
    "recommendation",
    "cyclegan",
    "reinforcement",
    "speech",
)
_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")
"""Of a wheel, and of a checkout."""


def names() -> list[str]:
    """Names of the training workloads."""
    return list(NAMES)


def script(name: str) -> Path:
    """The file of a training workload. Raises ConfigError."""
    if name not in NAMES:
        raise UnknownName("training workload", name, NAMES)
    for folder in _FOLDERS:
        if (folder / f"{name}.py").is_file():
            return folder / f"{name}.py"
    fix = "install Rota from a wheel or run it from a checkout"
    raise ConfigError(f"the file {name}.py of the training workload is in none of {_shown()}; {fix}")


def explanation(name: str) -> str:
    """What a training workload says about itself."""
    tree = ast.parse(script(name).read_text(encoding="utf-8"))
    return ast.get_docstring(tree) or ""


def summary(name: str) -> str:
    """The first sentence of that."""
    return " ".join(explanation(name).partition("\n\n")[0].split())


def _shown() -> str:
    return ", ".join(str(folder) for folder in _FOLDERS)
