"""First in, first out, each job on the fastest type that is free (Gavel, OSDI'20, section 4.4).

Jobs in order of arrival: the type with the highest throughput among those with enough free GPUs gets a share of 1.
The first job that fits nowhere blocks all behind it. `packed=True` (fifo-packed) then lets waiting jobs share GPUs
with one that has the same number of GPUs, where the sum of normalised throughputs (shared / alone) is largest and
above `threshold`; the first job that finds no partner ends it. With `blocked_shares=False` (Gavel's simulator) the job
that blocks the others while GPUs are left, too few for it, is passed over in this.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import NO_OPTIONS, Allocation, Options, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.policies.registry import policies


@policies.register(
    "fifo-packed",
    summary="First in, first out on the fastest free type; the rest shares.",
    from_run=("blocked_shares",),
    packed=True,
)
@policies.register("fifo-perf", summary="First in, first out, each job on the fastest free type.", packed=False)
class FifoPerf:
    """First in, first out on the fastest free type, optionally with space sharing.

    Parameters: threshold - the least sum of normalised throughputs at which two jobs share; blocked_shares - whether
    the first job that finds too few GPUs may share (as the rules say, unless it is given).
    """

    def __init__(self, packed: bool = False, threshold: float = 1.5, blocked_shares: bool = True) -> None:
        self._packed = packed
        self._blocked_shares = blocked_shares
        self._threshold = threshold

    def allocate(self, view: View) -> Allocation:
        """Shares of 1, first come first served."""
        placed, waiting = self._serve(view)
        pairs = self._share(view, placed, waiting) if self._packed else []
        share = np.zeros((len(view) + len(pairs), len(view.types)))
        share[list(placed), list(placed.values())] = 1.0
        extras = NO_OPTIONS
        if pairs:
            members = np.sort(np.array([(a, b) for a, b, _ in pairs]), axis=1)
            share[np.arange(len(view), len(share)), [gpu_type for *_, gpu_type in pairs]] = 1.0
            extras = Options(
                first=view.jobs[members[:, 0]], second=view.jobs[members[:, 1]], gpus=view.gpus[members[:, 0]]
            )
        traits = Traits(packs=self._packed, fills=False)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE, jobs=view.jobs, types=view.types, share=share, extras=extras, traits=traits
        )

    def _serve(self, view: View) -> tuple[dict[int, int], list[int]]:
        """Jobs on their types, in order of service; and the first that did not fit with those behind it."""
        free = view.capacity.tolist()
        rates = view.classes.throughput.tolist()
        wishes = np.argsort(-view.classes.throughput, axis=1, kind="stable").tolist()
        classes = view.job_class.tolist()
        sizes = view.gpus.tolist()
        somewhere = (view.classes.throughput > 0)[view.job_class] & (view.gpus[:, None] <= view.capacity)
        able: list[bool] = np.any(somewhere, axis=1).tolist()
        placed: dict[int, int] = {}
        for job, (group, size) in enumerate(zip(classes, sizes, strict=True)):
            for gpu_type in wishes[group]:
                if free[gpu_type] >= size and (rates[group][gpu_type] > 0 or not able[job]):
                    break
            else:
                passed_over = any(free) and not self._blocked_shares
                return placed, list(range(job + passed_over, len(view)))
            if rates[group][gpu_type] > 0:
                placed[job] = gpu_type
                free[gpu_type] -= size
        return placed, []

    def _share(self, view: View, placed: dict[int, int], waiting: list[int]) -> list[tuple[int, int, int]]:
        """(running job, newcomer, type) for each waiting job in turn, until one finds no partner."""
        pairs = []
        for job in waiting:
            partner = self._best_partner(view, placed, job)
            if partner is None:
                break
            pairs.append((partner, job, placed.pop(partner)))
        return pairs

    def _best_partner(self, view: View, placed: dict[int, int], job: int) -> int | None:
        others = np.array([j for j in placed if view.gpus[j] == view.gpus[job]], dtype=np.int64)
        if len(others) == 0:
            return None
        gpu_types = np.array([placed[j] for j in others.tolist()])
        mine = view.job_class[job]
        theirs = view.job_class[others]
        alone = view.classes.throughput
        pair = view.classes.pair
        with np.errstate(divide="ignore", invalid="ignore"):
            their_part = pair[theirs, mine, gpu_types] / alone[theirs, gpu_types]
            my_part = pair[mine, theirs, gpu_types] / alone[mine, gpu_types]
            gain = their_part + my_part
        gain = np.nan_to_num(gain, nan=0.0, posinf=0.0)
        best = int(np.argmax(gain))
        return int(others[best]) if gain[best] > self._threshold else None
