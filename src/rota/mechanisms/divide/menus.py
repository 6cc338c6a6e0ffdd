"""What jobs of a class may hold beside their GPUs: the proportional share and whatever was measured and is no slower.

An option that needs no less of anything than another one and is no faster is left out. One server must be able to
give all of it; jobs larger than any server hold no more per GPU than their share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rota.core.errors import ProfileMissing
from rota.core.tolerance import TOLERANCE
from rota.mechanisms.divide.filling import JobClass, Option, Server
from rota.mechanisms.divide.holdings import Holdings


def menu(
    holdings: Holdings, group: int, gpu_type: int, gpus: int, servers: list[Server], *, shared: bool, between: bool
) -> JobClass:
    """The options of a class on a type.

    Jobs that are `shared` with others hold the proportional share. With `between`, whole CPUs of a job between the
    measured amounts are there for what is left in the end.
    """
    known = holdings.known
    fair = known.holding(int(known.fair[group, gpu_type]))
    share = (fair.cpus, fair.memory_gb)
    options = [Option(fair.cpus, fair.memory_gb, fair.speed)]
    if not shared:
        full = known.holding(int(known.full[group, gpu_type]))
        options.append(Option(full.cpus, full.memory_gb, full.speed))
        most = (max(s[1] for s in servers), max(s[2] for s in servers))
        if gpus > max(s[0] for s in servers):
            most = share
        options += _measured(holdings, group, gpu_type, gpus, most, between=between)
    able = [
        o
        for o in options
        if (o.cpus, o.memory) == share or (o.speed >= 1 - TOLERANCE and _given(o, gpus, share, servers))
    ]
    kept = tuple(_useful(able))
    inside = [n for n, option in enumerate(kept) if _within(option, *share)]
    return JobClass(gpus=gpus, options=kept, floor=inside[-1])


def _measured(
    holdings: Holdings, group: int, gpu_type: int, gpus: int, most: tuple[float, float], *, between: bool
) -> Iterator[Option]:
    """What was measured up to `most` CPUs and GB of a job, and what lies between where that makes a difference."""
    table = holdings.known.measured(group, gpu_type)
    if table is None:
        return
    for memory in (float(m) * gpus for m in table.memory_gb):
        last: Option | None = None
        for cpus in (float(c) * gpus for c in table.cpus):
            if cpus > most[0] + TOLERANCE or memory > most[1] + TOLERANCE:
                break
            option = _option(holdings, group, gpu_type, cpus, memory)
            if option is None:
                continue
            if between and last is not None and option.speed > max(1.0, last.speed) + TOLERANCE:
                whole = range(math.floor(last.cpus) + 1, math.ceil(cpus))
                made = (_option(holdings, group, gpu_type, float(c), memory, offered=False) for c in whole)
                yield from (o for o in made if o is not None)
            yield option
            last = option


def _option(
    holdings: Holdings, group: int, gpu_type: int, cpus: float, memory: float, *, offered: bool = True
) -> Option | None:
    if not holdings.known.suffices(group, cpus, memory):
        return None
    try:
        row = holdings.number(group, gpu_type, cpus, memory)
    except ProfileMissing:  # a cell that was not measured is no option
        return None
    return Option(cpus, memory, float(holdings.speed[row]), offered)


def _given(option: Option, gpus: int, share: tuple[float, float], servers: list[Server]) -> bool:
    """Whether one server can give it, or for a job larger than any server, whether it is within its share."""
    if gpus > max(s[0] for s in servers):
        return _within(option, *share)
    return any(gpus <= server_gpus and _within(option, cpus, memory) for server_gpus, cpus, memory in servers)


def _within(option: Option, cpus: float, memory: float) -> bool:
    """Whether an option needs no more than these CPUs and GB."""
    return option.cpus <= cpus + TOLERANCE and option.memory <= memory + TOLERANCE


def _useful(options: list[Option]) -> list[Option]:
    """Without those that another one makes useless, slow ones first."""
    kept: list[Option] = []
    for option in sorted(options, key=lambda o: (-o.speed, o.cpus, o.memory, not o.offered)):
        if not any(
            k.cpus <= option.cpus + TOLERANCE
            and k.memory <= option.memory + TOLERANCE
            and (k.offered or not option.offered)
            for k in kept
        ):
            kept.append(option)
    return kept[::-1]
