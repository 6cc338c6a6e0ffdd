"""What a user says about speeds that a scheduler does not know from the start (`--set-profiles`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.core.errors import ConfigError, UnknownName
from rota.core.ports import Throughputs
from rota.core.registry import convert
from rota.profiles.beliefs import BelievedCatalogue
from rota.profiles.catalogue import Catalogue
from rota.profiles.estimator import Estimator

_SCALING = "scaling"
_OF_PAIRS = {"profiled_fraction": float, "reference_models": int}
_OF_BELIEFS = {"unprofiled_fraction": float, "wrong_fraction": float, "wrong_factor": float, "learn": bool}
_OF_BOTH = {"seed": int}


def estimated(speeds: Throughputs, settings: Mapping[str, Any], seed: int) -> Throughputs:
    """What the settings ask for: numbers of GPUs by a scaling rule, pairs by the estimator, speeds to be found out.

    Without settings, the catalogue itself.
    """
    if not settings:
        return speeds
    if not isinstance(speeds, Catalogue):
        fix = "give profiles by name or as a file"
        raise ConfigError(f"profile settings need a catalogue of Rota; {fix}")
    if _SCALING in settings:
        speeds = speeds.scaled(str(settings[_SCALING]))
    values = {"seed": seed, **_converted(settings)}
    of_pairs = _OF_PAIRS.keys() & values.keys()
    of_beliefs = _OF_BELIEFS.keys() & values.keys()
    if of_pairs and of_beliefs:
        raise ConfigError(
            f"{min(of_pairs)} and {min(of_beliefs)} cannot be used together: speeds of pairs are estimated from speeds "
            "of jobs alone, which have to be known for that"
        )
    if of_beliefs:
        return BelievedCatalogue(speeds, **values)
    asked = of_pairs or "seed" in {key.replace("-", "_") for key in settings}
    return Estimator(speeds, **values) if asked else speeds


def _converted(settings: Mapping[str, Any]) -> dict[str, Any]:
    known = {**_OF_PAIRS, **_OF_BELIEFS, **_OF_BOTH}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        name = key.replace("-", "_")
        if name == _SCALING:
            continue
        if name not in known:
            raise UnknownName("parameter of the throughput estimator:", key, (*known, _SCALING))
        values[name] = convert(value, known[name], f"throughput estimator: {key}")
    return values
