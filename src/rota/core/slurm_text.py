"""What Slurm's commands print, as values: records of `scontrol -o`, times, generic resources, amounts of memory.

Nothing is looked up and nothing is run here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=")
_GRES = re.compile(r"(?:gres[:/])?gpu(?::(?P<type>[^:,=(]+?))?(?:[:=](?P<count>\d+))?$")
_UNITS_MB = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)B?")
MIB_GB = 1.048576e-3
"""GB (10^9 bytes) of a MiB, in which Slurm counts."""


@dataclass(frozen=True, slots=True)
class GpuGres:
    """GPUs of a node or of a request. An empty type means that it is not said."""

    type: str
    count: int


def records(text: str) -> Iterator[dict[str, str]]:
    """The records of `scontrol show ... -o`, one per line: names of fields and what stands behind them."""
    for line in text.splitlines():
        if line.strip():
            yield record(line)


def record(line: str) -> dict[str, str]:
    """One record. A value goes on to the next `Name=`, so it may hold blanks.

    Of several fields with one name the first one counts: what people write (Reason, Comment) comes last.
    """
    found = list(_FIELD.finditer(line))
    ends = [match.start() for match in found[1:]] + [len(line)]
    cut = list(zip(found, ends, strict=True))
    return {match[1]: line[match.end() : end].strip() for match, end in reversed(cut)}


def gpus_of(gres: str) -> list[GpuGres]:
    """The GPUs in a list of generic resources, such as `gpu:v100:4(S:0-1),nvme:1`, one entry for each type.

    Other resources are left out.
    """
    bare = re.sub(r"\([^)]*\)", "", gres)
    found = [_GRES.match(part.strip()) for part in bare.split(",")]
    gpus: dict[str, int] = {}
    for match in found:
        if match is None:
            continue
        kind, count = match["type"] or "", match["count"]
        if count is None and kind.isdigit():  # gpu:4 has no type
            kind, count = "", kind
        gpus[kind] = gpus.get(kind, 0) + int(count or 1)
    return [GpuGres(kind, count) for kind, count in gpus.items()]


def seconds_of(text: str) -> float | None:
    """Seconds of a time such as `1-02:03:04`, `02:03` or `4:00:00`; None for UNLIMITED and what is not a time."""
    days, dash, rest = text.strip().rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in parts) or (dash and not days.isdigit()) or len(parts) > 3:
        return None
    numbers = [int(part) for part in parts]
    if dash:  # D-HH, D-HH:MM, D-HH:MM:SS
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) == 1:  # minutes
        numbers = [0, *numbers, 0]
    elif len(numbers) == 2:  # MM:SS
        numbers = [0, *numbers]
    hours, minutes, seconds = numbers
    return float(int(days or 0) * 86_400 + hours * 3_600 + minutes * 60 + seconds)


def memory_mib(text: str) -> float | None:
    """MiB of an amount such as `32000`, `32000M` or `1.5T`; None for what is not one."""
    match = _AMOUNT.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS_MB[match[2]]
