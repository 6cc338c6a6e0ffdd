"""Debts of jobs that leave, where tenants are to have their parts (`Traits.by_tenant`).

    owed_h += sum_i g_i b_i / sum_h g_h        for each other job h of the tenant

b_i seconds by type that leaving job i was owed (negative: it had too much), g GPUs. So the GPU seconds that a tenant is
owed stay the same, however its work is cut into jobs. A tenant without other jobs is owed nothing any more.
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import FloatArray, IntArray, some


def inherited(tenant: IntArray, gpus: IntArray, leaving: IntArray, balance: FloatArray) -> FloatArray:
    """[T, J] seconds by which jobs are owed more; `leaving` are positions, `balance` [T, J] what each is owed."""
    stays = np.ones(len(tenant), dtype=np.bool_)
    stays[leaving] = False
    more = np.zeros_like(balance)
    for heir_of in np.unique(tenant[leaving]).tolist():
        heirs = stays & (tenant == heir_of)
        left = leaving[tenant[leaving] == heir_of]
        if some(heirs):
            more[:, heirs] = (balance[:, left] @ gpus[left] / gpus[heirs].sum())[:, None]
    return more
