"""Rota: a scheduler for multi-tenant GPU clusters.

    import rota

    result = rota.simulate(workload="gavel-static", settings={"jobs": 20}, cluster="v100=4,k80=4", policy="fifo-perf")
    print(result.summary["mean_jct_s"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota._version import __version__

if TYPE_CHECKING:
    from rota.api import Progress, Result, replay, simulate

__all__ = ["Progress", "Result", "__version__", "replay", "simulate"]


def __getattr__(name: str) -> Any:
    """Load the interface on first use, so that `import rota` costs nothing."""
    if name in __all__:
        from rota import api  # noqa: PLC0415 - that is the point

        return getattr(api, name)
    raise AttributeError(f"module 'rota' has no attribute {name!r}")
