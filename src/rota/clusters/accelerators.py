"""What is known about accelerator types without being told: memory and price."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from rota.clusters.documents import DATA, accelerators_in, read_toml
from rota.core.cluster import AcceleratorType


@cache
def known_accelerators() -> tuple[AcceleratorType, ...]:
    """The built-in facts."""
    path = DATA / "accelerators.toml"
    return accelerators_in(read_toml(path), str(path))


def described(
    types: Iterable[str],
    own: Iterable[AcceleratorType] = (),
) -> tuple[AcceleratorType, ...]:
    """A description of each type, alphabetical.

    What the given one says, for the rest the built-in one, else nothing but the name.
    """
    facts = {a.name: a for a in known_accelerators()}
    for given in own:
        known = facts.get(given.name, given)
        facts[given.name] = AcceleratorType(
            name=given.name,
            memory_gb=given.memory_gb or known.memory_gb,
            hourly_price=known.hourly_price if given.hourly_price is None else given.hourly_price,
        )
    return tuple(facts.get(t, AcceleratorType(name=t)) for t in sorted(set(types)))
