"""The six GPUs that were measured: names, short names used throughout Rota, memory."""

from __future__ import annotations

from dataclasses import dataclass

from rota.core.errors import UnknownName

USABLE = 0.92
"""Part of the nominal memory that a job gets: the context and fragmentation take the rest. On the
real cards the last batch that worked had its peak at a median of 0.91 to 0.93 of the nominal
size."""


@dataclass(frozen=True)
class Card:
    """A GPU type."""

    name: str
    full_name: str
    memory_mib: float
    """Nominal size."""

    @property
    def usable_mib(self) -> float:
        """What jobs can hold together."""
        return USABLE * self.memory_mib


CARDS = (
    Card("a100", "NVIDIA_A100-SXM4-40GB", 40536.0),
    Card("k80", "Tesla_K80", 11441.0),
    Card("m40", "Tesla_M40", 11448.0),
    Card("p100", "Tesla_P100-PCIE-16GB", 16280.0),
    Card("rtx6000", "Quadro_RTX_6000", 24220.0),
    Card("v100", "Tesla_V100-PCIE-32GB", 32510.0),
)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


_BY_NAME = {_plain(name): card for card in CARDS for name in (card.name, card.full_name)}


def card(name: str) -> Card:
    """The card of a short or full name, in any case."""
    if _plain(name) not in _BY_NAME:
        raise UnknownName("GPU", name, [c.name for c in CARDS])
    return _BY_NAME[_plain(name)]
