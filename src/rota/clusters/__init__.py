"""Which machines there are: clusters by name, from a short text, or from a TOML or INI file."""

from rota.clusters.accelerators import known_accelerators
from rota.clusters.loading import load, names
from rota.clusters.ordering import in_order, types_by_speed

__all__ = ["in_order", "known_accelerators", "load", "names", "types_by_speed"]
