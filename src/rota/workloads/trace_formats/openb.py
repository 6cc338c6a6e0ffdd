"""Pods of Alibaba's 2023 GPU trace: CSV with a header (openb_pod_list_*.csv; alibaba/clusterdata).

A pod is a job: it arrives at creation_time and takes from scheduled_time to deletion_time (pods
that were still running end with the trace). Pods without a GPU, and those never scheduled, are left
out. A part of one GPU (gpu_milli below 1000) counts as a whole one; fractions=drop leaves such pods
out instead. qos is the tenant, cpu_milli and memory_mib are kept as requests. gpu_spec names the types
of GPU on which a pod may run (`V100M16|V100M32`; empty: any), as the list of nodes calls them, which
`--cluster openb_node_list_gpu_node.csv` reads. With failed=drop only pods in phase Succeeded or
Running stay. Pods are replayed as recorded unless assign gives them models.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.jobs import Jobs, requests
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import Left, names_of, read_only
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.rows import header_of, with_header
from rota.workloads.settings import chosen
from rota.workloads.type_rules import TypeRules, type_set

REQUIRED = ("num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
ENDED_WELL = ("Succeeded", "Running")


@formats.register("openb")
class OpenbTrace:
    """Pods of Alibaba's 2023 GPU trace. Only read; replayed as recorded, or with models by a rule."""

    holds = EVERYTHING

    def __init__(
        self,
        *,
        assign: str = "recorded",
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
        failed: str = "keep",
        fractions: str = "whole",
        types: str = "keep",
        elsewhere: str = "never",
        rename: str = "",
    ) -> None:
        self._types = TypeRules(types=types, elsewhere=elsewhere, rename=rename)
        self._assignment = Assignment(assign, assign_seed, profiles, reference, self._types)
        self._failed = chosen("failed", failed, ("keep", "drop"))
        self._fractions = chosen("fractions", fractions, ("whole", "drop"))

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header with the needed columns."""
        return set(REQUIRED) <= set(header_of(first_line))

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a trace."""
        rows = with_header(file, REQUIRED, kind="log")
        wanted = "a time; give seconds >= 0"
        created = rows.floats("creation_time", lambda v: v >= 0, wanted)
        started = rows.optional("scheduled_time", wanted, zero=True)
        duration = rows.optional("deletion_time", wanted, zero=True) - started
        gpus = rows.gpus("num_gpu", 0)
        wanted = "a part of a GPU; give 0 to 1000"
        milli = rows.floats("gpu_milli", lambda v: (v >= 0) & (v <= 1000), wanted)
        left = Left(file, rows.lines)
        left.out(gpus == 0, "ask for no GPU")
        left.out(np.isnan(duration), "were never scheduled")
        left.out(duration <= 0, "took no time")
        said = rows.filled("pod_phase", "Running").cells["pod_phase"]
        phases = np.array([phase.strip() for phase in said])
        left.unfinished(~np.isin(phases, ENDED_WELL), self._failed)
        if self._fractions == "drop":
            fix = "fractions=whole keeps them, with a whole one"
            left.out(milli < 1000, "ask for a part of a GPU", fix)
        parts = left.keep & (milli < 1000)
        if parts.any():
            what = f"{np.count_nonzero(parts):,} pods ask for a part of a GPU, and each counts as a whole one"
            file.problems.remark(rows.lines[int(np.argmax(parts))], what, "fractions=drop leaves them out")
        specs = rows.filled("gpu_spec", "").cells["gpu_spec"]
        log = Logged(
            submitted=created,
            duration=duration,
            gpus=gpus,
            tenants=[qos.strip() for qos in rows.filled("qos", "default").cells["qos"]],
            requests=requests(
                len(rows),
                cpus=_positive(rows.optional("cpu_milli", "thousandths of a CPU; give a number >= 0", zero=True))
                / 1000,
                memory_gb=_positive(rows.optional("memory_mib", "MiB; give a number >= 0", zero=True)) / 1024,
            ),
            asked=self._types.asked([type_set(cell) for cell in specs]),
            names=names_of(rows, "name"),
        )
        return left.jobs(log, self._assignment)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """Refuses: a list of pods has neither models nor steps."""
        raise read_only("openb", jobs)


def _positive(values: FloatArray) -> FloatArray:
    return np.where(values > 0, values, np.nan)
