"""Synergy's recorded trace: five comma-separated columns, no header (OSDI 2022).

job id, model, arrival in seconds, iterations, GPUs. Ids are whole numbers but mean nothing: jobs
are numbered by their order in the file. The artifact prints arrivals of a static trace as floats
(`0.0`, `0.001`) and all others as whole numbers, and so do we: as floats if any of them has a
fraction.
"""

from __future__ import annotations

from collections.abc import Iterator

from rota.core.errors import OutputError
from rota.core.jobs import Jobs, table
from rota.core.parsing import is_count
from rota.workloads import cells
from rota.workloads.files import TraceFile
from rota.workloads.registry import Holds, formats
from rota.workloads.rows import comma_separated

COLUMNS = ("job_id", "model", "arrival", "iterations", "gpus")
FORBIDDEN = ",\t\n\r\0"


@formats.register("synergy")
class SynergyTrace:
    """Synergy's five columns, without weights and deadlines."""

    holds = Holds()

    def recognises(self, first_line: str) -> bool:
        """Whether a trace that begins with this line has five columns, the first a number."""
        row = first_line.split(",")
        return "\t" not in first_line and len(row) == len(COLUMNS) and _whole(row[0])

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a trace."""
        rows = comma_separated(file, COLUMNS)
        for row, cell in enumerate(rows.cells["job_id"]):
            if not _whole(cell):
                rows.refuse(row, "job_id", "a job number; give a whole number >= 0")
        return table(
            profile_names=rows.names("model"),
            gpus=rows.gpus("gpus"),
            total_steps=rows.steps("iterations"),
            submitted=rows.arrivals("arrival"),
        )

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """One line per job; refuses weights and deadlines, which these columns cannot hold."""
        if (jobs.weight != 1).any() or (jobs.slo == jobs.slo).any():
            fix = "use gavel or csv"
            raise OutputError(f"the synergy format cannot hold weights or deadlines; {fix}")
        profiles = [cells.plain(name, FORBIDDEN) for name in jobs.profiles]
        fractions = bool((jobs.submitted % 1 != 0).any())
        columns = (jobs.profile, jobs.submitted, jobs.total_steps, jobs.gpus)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, (profile, at, steps, gpus) in enumerate(rows):
            arrival = repr(at) if fractions else str(int(at))
            amount = cells.amount("steps", steps, exact=exact)
            yield f"{number},{profiles[profile]},{arrival},{amount},{gpus}\n"


def _whole(cell: str) -> bool:
    return is_count(cell.strip())
