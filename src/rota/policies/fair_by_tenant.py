"""Fair between tenants first, then between the jobs of a tenant: another policy with weights worked out for that.

    G_t = min(D_t, l W_t)         GPUs that tenant t is entitled to: sum_t G_t = N, or all that is asked for
    g_i = min(s_i, l_t w_i)       and each of its jobs: sum over the jobs of t of g_i = G_t

W weight of the tenant, w weight of the job among those of its tenant, s GPUs that the job asks for, D_t their sum over
the jobs of t, N GPUs that are up. The inner policy sees g_i as the weight of job i, so all jobs reach the same level
when each has what it is entitled to; what somebody cannot use goes to the others. A tenant with a hundred jobs has as
much as one with a single job, if that can use it. On several types "as much" is what the inner policy shares out:
GPU time, or normalised throughput. Debts of jobs that leave pass to their tenant's other jobs (`Traits.by_tenant`), so
it makes no difference into how many short jobs a tenant cuts its work. With a single tenant the inner policy answers as
it is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import FloatArray, IntArray
from rota.core.classes import Classes, PairTable
from rota.core.configurations import Configurations
from rota.core.errors import ConfigError
from rota.core.ports import Policy
from rota.core.view import View
from rota.opt.groups import can_run, usable_rate
from rota.opt.one_type import fill
from rota.policies.registry import policies


def divides_by_weight(name: str) -> bool:
    """Whether a policy shares out in proportion to weights, so that it can be made fair between tenants."""
    return bool(getattr(policies.entry(name).factory, "by_weight", False))


def fair_between(policy: Policy, given: str | Policy | type[Policy], weights: Mapping[str, float]) -> Policy:
    """The policy, fair between tenants first if it goes by weights; `given` is how it was asked for."""
    by_weight = divides_by_weight(given) if isinstance(given, str) else bool(getattr(given, "by_weight", False))
    return TenantWeighted(policy, weights) if by_weight else policy


class TenantWeighted:
    """A policy that sees weights by which tenants come to equal parts."""

    def __init__(self, policy: Policy, weights: Mapping[str, float]) -> None:
        """Tenants that are not in `weights` have weight 1."""
        self._policy = policy
        self._weights = weights

    def allocate(self, view: View) -> Allocation:
        """The answer of the policy to the view with other weights."""
        if len(view) == 0 or len(np.unique(view.tenant)) == 1:
            return self._policy.allocate(view)
        allocation = self._policy.allocate(_weighted(view, entitlements(view, self._weights)))
        return dataclasses.replace(allocation, traits=dataclasses.replace(allocation.traits, by_tenant=True))


@policies.register("fair-by-tenant")
class FairByTenant:
    """Fair between tenants first, then between the jobs of each, by the rules of another policy."""

    def __init__(self, inner: str = "max-min-fairness-perf", weights: str = "") -> None:
        """`weights` is `vision=2,speech=1`; tenants that are not named have weight 1."""
        if not divides_by_weight(inner):
            raise ConfigError(
                f"policy 'fair-by-tenant': inner={inner!r} takes no notice of weights; give one that does, such as "
                "max-min-fairness-perf"
            )
        self.inner = inner
        self.weights = weights
        self._policy = TenantWeighted(policies.create(inner), parse_weights(weights))

    def allocate(self, view: View) -> Allocation:
        """Shares of the inner policy for weights by tenant."""
        return self._policy.allocate(view)


def parse_weights(text: str) -> dict[str, float]:
    """Weights of tenants from `vision=2,speech=1`. Raises ConfigError."""
    weights: dict[str, float] = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        name, _, number = part.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not name.strip() or not 0 < weight < math.inf:
            raise ConfigError(f"weights of tenants: {part!r} is not TENANT=WEIGHT with a weight above 0")
        weights[name.strip()] = weight
    return weights


def entitlements(view: View, weights: Mapping[str, float]) -> FloatArray:
    """[J] GPUs that each job is entitled to; 1 for jobs that cannot run now, which get nothing anyway."""
    runs = can_run(usable_rate(view))[view.job_class]
    size = np.where(runs, view.gpus, 0).astype(np.float64)
    asked = np.bincount(view.tenant, weights=size, minlength=len(view.tenants)).astype(np.float64)
    tenant_weight = np.array([weights.get(name, 1.0) for name in view.tenants])
    speed = np.divide(tenant_weight, asked, out=np.zeros(len(asked)), where=asked > 0)
    part, _ = fill(np.zeros(len(asked)), speed, asked, float(view.capacity.sum()))
    entitled = np.ones(len(view))
    for tenant in np.unique(view.tenant[runs]).tolist():
        mine = np.flatnonzero((view.tenant == tenant) & runs)
        pool = float(part[tenant] * asked[tenant])
        time, _ = fill(np.zeros(len(mine)), view.weight[mine] / size[mine], size[mine], pool)
        entitled[mine] = time * size[mine]
    return entitled


def _weighted(view: View, weight: FloatArray) -> View:
    """The view with other weights: jobs of a class and of different tenants are in different classes now."""
    key = view.job_class * len(view.tenants) + view.tenant
    _, first, job_class = np.unique(key, return_index=True, return_inverse=True)
    classes = _rows(view.classes, view.job_class[first], weight[first])
    # What the policy remembers is about other classes, and is a first guess only.
    return dataclasses.replace(view, classes=classes, job_class=job_class, weight=weight, previous=None)


def _rows(classes: Classes, rows: IntArray, weight: FloatArray) -> Classes:
    """Some classes, each as often as it is named, with other weights."""
    return dataclasses.replace(
        classes,
        profile=tuple(classes.profile[row] for row in rows.tolist()),
        gpus=classes.gpus[rows],
        weight=weight,
        throughput=classes.throughput[rows],
        spread=classes.spread[rows],
        step_s=classes.step_s[rows],
        best_step_s=classes.best_step_s[rows],
        runs_on=classes.runs_on[rows],
        configurations=_configurations(classes.configurations, rows),
        pairs=_PairRows(classes.pairs, rows),
        allowed=tuple(classes.allowed[row] for row in rows.tolist()) if classes.allowed else (),
        needs=tuple(classes.needs[row] for row in rows.tolist()) if classes.needs else (),
        bound=None if classes.bound is None else classes.bound[rows],
        priority=None if classes.priority is None else classes.priority[rows],
    )


def _configurations(known: Configurations, rows: IntArray) -> Configurations:
    numbers = rows.tolist()
    return dataclasses.replace(
        known,
        gpus=tuple(known.gpus[row] for row in numbers),
        fair=known.fair[rows],
        full=known.full[rows],
        cut=known.cut[rows],
        best=known.best[rows],
        problems={at: known.problems[row] for at, row in enumerate(numbers) if row in known.problems},
        by_class=tuple(known.by_class[row] for row in numbers),
        needs=tuple(known.needs[row] for row in numbers) if known.needs else (),
        _choices={},
    )


class _PairRows:
    """Rates of pairs, of some classes."""

    def __init__(self, pairs: PairTable, rows: IntArray) -> None:
        self._pairs = pairs
        self._rows = rows

    @property
    def known(self) -> FloatArray:
        """As far as the scheduler knows."""
        return self._pairs.known[np.ix_(self._rows, self._rows)]

    @property
    def true(self) -> FloatArray:
        """As it is in truth."""
        return self._pairs.true[np.ix_(self._rows, self._rows)]
