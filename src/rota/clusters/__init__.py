"""Which machines there are: clusters by name, from a short text, or from a TOML or INI file."""

from rota.clusters.accelerators import known_accelerators
from rota.clusters.loading import load, names

__all__ = ["known_accelerators", "load", "names"]
