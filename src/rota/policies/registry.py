"""The table of policies by name."""

from __future__ import annotations

from rota.core.ports import Policy
from rota.core.registry import Registry

policies: Registry[Policy] = Registry("policy", "rota.policies", "rota.policies", method="allocate")
