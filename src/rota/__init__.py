"""Rota: a scheduler for multi-tenant GPU clusters.

`rota.simulate(...)` runs a workload, `rota.sweep(...)` many of them, and `rota.replay(...)` reads an event log back;
see docs/python-api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota._version import __version__

if TYPE_CHECKING:
    from rota.api import Progress, Result, replay, simulate
    from rota.experiments.sweeping import sweep

__all__ = ["Progress", "Result", "__version__", "replay", "simulate", "sweep"]


def __getattr__(name: str) -> Any:
    """Load the interface on first use, so that `import rota` costs nothing."""
    if name == "sweep":
        from rota.experiments.sweeping import sweep

        return sweep
    if name in __all__:
        from rota import api  # that is the point

        return getattr(api, name)
    raise AttributeError(f"module 'rota' has no attribute {name!r}")
