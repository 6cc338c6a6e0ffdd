"""Entities: tenants with weights, which they divide among their own jobs fairly or in order.

Text form: `a=2:fairness,b=1:fifo` (tenant = weight : inner policy). Tenants that are not named have
weight 1 and divide it fairly. See levels.py for what a schedule of needs is, and
policies/water_filling.py for the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError, UnknownName
from rota.core.view import View
from rota.opt.groups import JobGroups, by_class_and

INNER = ("fairness", "fifo")


@dataclass(frozen=True, slots=True)
class Entity:
    """How much a tenant counts, and how it divides what it gets."""

    weight: float = 1.0
    inner: str = "fairness"


def parse(text: str | None) -> dict[str, Entity] | None:
    """Entities by tenant from their text form; None if there is no text."""
    if text is None or not text.strip():
        return None
    entities: dict[str, Entity] = {}
    for part in text.split(","):
        name, equals, rest = part.partition("=")
        number, _, inner = rest.partition(":")
        inner = inner.strip() or "fairness"
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not equals or not name.strip() or not 0 < weight < np.inf:
            form = "tenant=weight:inner, e.g. a=2:fairness"
            raise ConfigError(f"entities: {part.strip()!r} is not of the form {form}")
        if inner not in INNER:
            raise UnknownName("inner policy of an entity", inner, INNER)
        entities[name.strip()] = Entity(weight, inner)
    return entities


def by_entity(view: View, entities: Mapping[str, Entity]) -> tuple[JobGroups, EntitySchedule]:
    """Groups by class and tenant (by job where a tenant serves in order), and how they rise."""
    table = [entities.get(name, Entity()) for name in view.tenants]
    ordered = np.array([e.inner == "fifo" for e in table])
    own = len(view.tenants) + np.arange(len(view))
    label = np.where(ordered[view.tenant], own, view.tenant)
    groups = by_class_and(view, label)
    tenant = np.zeros(len(groups), dtype=np.int64)
    tenant[groups.member] = view.tenant
    place = np.zeros(len(groups), dtype=np.int64)
    place[groups.member] = np.arange(len(view))
    parts: list[_Fair | _Ordered] = []
    for t, entity in enumerate(table):
        mine = np.flatnonzero(tenant == t)
        if entity.inner == "fifo":
            parts.append(_Ordered(mine[np.argsort(place[mine])], entity.weight, groups))
        elif len(mine):
            parts.append(_Fair(mine, entity.weight, groups))
    return groups, EntitySchedule(parts)


class EntitySchedule:
    """Needs of all groups when every entity rises with its weight."""

    def __init__(self, parts: list[_Fair | _Ordered]) -> None:
        self._parts = parts

    def marks(self, ceiling: FloatArray) -> FloatArray:
        """Ascending water levels between which all needs are linear."""
        return np.unique(np.concatenate([part.marks(ceiling) for part in self._parts]))

    def needs(self, tau: float, ceiling: FloatArray) -> FloatArray:
        """[G] levels at water level tau."""
        need = np.zeros(len(ceiling))
        for part in self._parts:
            need[part.members] = part.needs(tau, ceiling)
        return need


class _Fair:
    """Jobs rise by w_i / s_i for every unit of z.

    Z rises by W / (weight of the jobs that still rise).
    """

    def __init__(self, members: IntArray, weight: float, groups: JobGroups) -> None:
        self.members = members
        self._weight = weight
        self._speed = groups.weight[members] / groups.gpus[members]
        self._mass = groups.weight[members] * groups.count[members]

    def _path(self, ceiling: FloatArray) -> tuple[FloatArray, FloatArray]:
        z = ceiling[self.members] / self._speed
        order = np.argsort(z, kind="stable")
        rising = self._mass[order][::-1].cumsum()[::-1]
        z = z[order]
        tau = np.cumsum(np.diff(z, prepend=0.0) * rising) / self._weight
        return tau, z

    def marks(self, ceiling: FloatArray) -> FloatArray:
        return self._path(ceiling)[0]

    def needs(self, tau: float, ceiling: FloatArray) -> FloatArray:
        times, z = self._path(ceiling)
        now = np.interp(tau, np.append(0.0, times), np.append(0.0, z))
        need: FloatArray = np.minimum(ceiling[self.members], self._speed * now)
        return need


class _Ordered:
    """The first job that can still rise does, by W / s; the others wait."""

    def __init__(self, members: IntArray, weight: float, groups: JobGroups) -> None:
        self.members = members
        self._pace = weight / groups.gpus[members]

    def marks(self, ceiling: FloatArray) -> FloatArray:
        return np.cumsum(ceiling[self.members] / self._pace)

    def needs(self, tau: float, ceiling: FloatArray) -> FloatArray:
        top = ceiling[self.members]
        length = top / self._pace
        begin = np.cumsum(length) - length
        need: FloatArray = np.minimum(np.maximum((tau - begin) * self._pace, 0.0), top)
        return need
