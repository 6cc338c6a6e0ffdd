"""Where the lists of names come from.

Everything heavy is imported inside, when a list is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.core.registry import Registry


def policy_registry() -> Registry[Any]:
    """Every policy."""
    from rota.policies.registry import policies as registry

    return registry


def mechanism_registry() -> Registry[Any]:
    """Every mechanism."""
    from rota.mechanisms.registry import mechanisms as registry

    return registry


def workload_registry() -> Registry[Any]:
    """Every job generator."""
    from rota.workloads.registry import workloads as registry

    return registry


def policies() -> list[str]:
    """Names of policies."""
    return policy_registry().names()


def mechanisms() -> list[str]:
    """Names of mechanisms."""
    return mechanism_registry().names()


def workloads() -> list[str]:
    """Names of job generators."""
    return workload_registry().names()


def training_workloads() -> list[str]:
    """Names of training workloads."""
    from rota.workloads import training

    return training.names()


def clusters() -> list[str]:
    """Names of built-in clusters."""
    from rota import clusters as package

    return package.names()


def profiles() -> list[str]:
    """Names of built-in catalogues."""
    from rota import profiles as package

    return package.names()


def rules() -> list[str]:
    """Names of rules presets."""
    from rota.core.rules import PRESETS

    return list(PRESETS)


def trace_formats() -> list[str]:
    """Names of trace formats."""
    from rota.workloads.registry import formats

    return formats.names()


def reproductions() -> list[str]:
    """Names of reproductions."""
    from rota.experiments.repro.catalogue import names

    return list(names())
