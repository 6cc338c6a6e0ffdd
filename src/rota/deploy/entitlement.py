"""How many GPUs each tenant is entitled to: G_t = min(D_t, l W_t), as in `policies/fair_by_tenant` and the ledger."""

from __future__ import annotations

from collections.abc import Mapping


def entitled_gpus(asked: Mapping[str, float], weights: Mapping[str, float], capacity: float) -> dict[str, float]:
    """Parts by weight of those who ask for more; who asks for less gets that, and the rest goes to the others."""
    asks = {tenant: float(gpus) for tenant, gpus in asked.items() if gpus > 0}
    parts: dict[str, float] = {}
    left = capacity
    while asks:
        level = left / sum(weights.get(tenant, 1.0) for tenant in asks)
        content = {tenant: gpus for tenant, gpus in asks.items() if gpus <= level * weights.get(tenant, 1.0)}
        if not content:
            return parts | {tenant: level * weights.get(tenant, 1.0) for tenant in asks}
        parts |= content
        left -= sum(content.values())
        asks = {tenant: gpus for tenant, gpus in asks.items() if tenant not in content}
    return parts
