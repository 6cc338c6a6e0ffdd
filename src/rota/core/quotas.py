"""GPUs that tenants are promised, and how many more they may borrow.

A quota is a number of GPUs of any type, or numbers by type. Whatever a tenant holds beyond it is borrowed:

    borrowed = max(0, held - quota)                   of any type
    borrowed = sum over types of max(0, held - quota)   by type

A tenant without a quota is promised nothing and may borrow all that is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one tenant is promised."""

    any_type: int = 0
    """GPUs of any type ..."""
    by_type: Mapping[str, int] | None = None
    """... or by type; types that are not named are borrowed."""
    borrow: float = math.inf
    """GPUs beyond it that the tenant may hold."""

    @property
    def limited(self) -> bool:
        """Whether it makes any difference."""
        return self.total > 0 or self.borrow < math.inf

    @property
    def total(self) -> int:
        """GPUs of all types together."""
        return self.any_type if self.by_type is None else sum(self.by_type.values())

    def of_type(self, gpu_type: str) -> int:
        """GPUs of a type that are promised by name."""
        return 0 if self.by_type is None else self.by_type.get(gpu_type, 0)

    def borrowed(self, held: Mapping[str, int]) -> int:
        """GPUs beyond the quota of a tenant that holds so many, by type."""
        if self.by_type is None:
            return max(0, sum(held.values()) - self.any_type)
        return sum(max(0, gpus - self.of_type(gpu_type)) for gpu_type, gpus in held.items())

    def unused(self, held: Mapping[str, int]) -> dict[str, int]:
        """GPUs of the quota that a tenant does not hold, by type; of any type under an empty name."""
        if self.by_type is None:
            return {"": max(0, self.any_type - sum(held.values()))}
        return {gpu_type: max(0, gpus - held.get(gpu_type, 0)) for gpu_type, gpus in self.by_type.items()}

    def permits(self, held: Mapping[str, int], gpu_type: str, gpus: int) -> bool:
        """Whether a tenant that holds so many GPUs may hold more of a type."""
        more = {**held, gpu_type: held.get(gpu_type, 0) + gpus}
        return self.borrowed(more) <= self.borrow

    def words(self) -> str:
        """The numbers, for people: `8 v100 + 4 k80`, `12`."""
        if self.by_type is None:
            return f"{self.any_type}"
        return " + ".join(f"{gpus} {gpu_type}" for gpu_type, gpus in sorted(self.by_type.items())) or "0"


NO_QUOTA = Quota()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Quotas of all tenants."""

    named: Mapping[str, Quota] = field(default_factory=dict)
    default: Quota = NO_QUOTA
    """Of each tenant that is not named."""

    @property
    def limited(self) -> bool:
        """Whether any tenant has one that makes a difference."""
        return self.default.limited or any(quota.limited for quota in self.named.values())

    def of(self, tenant: str) -> Quota:
        """The quota of a tenant."""
        return self.named.get(tenant, self.default)

    def types(self) -> set[str]:
        """Types of GPU that are named."""
        known = (*self.named.values(), self.default)
        return {gpu_type for quota in known for gpu_type in quota.by_type or ()}


def beyond_capacity(quotas: Iterable[Quota], capacity: Mapping[str, int]) -> str:
    """Which promises cannot all be kept at once with so many GPUs by type, in words; empty if all can."""
    known = list(quotas)
    for gpu_type in sorted({gpu_type for quota in known for gpu_type in quota.by_type or ()}):
        promised = sum(quota.of_type(gpu_type) for quota in known)
        there = capacity.get(gpu_type, 0)
        if promised > there:
            return f"quotas of {gpu_type} add up to {promised:,} GPUs, and {there:,} are there"
    promised = sum(quota.total for quota in known)
    there = sum(capacity.values())
    return f"quotas add up to {promised:,} GPUs, and {there:,} are there" if promised > there else ""
