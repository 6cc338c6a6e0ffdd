"""Gavel's trace: ten tab-separated columns, no header (Narayanan et al., OSDI 2020).

job type, command, working directory, steps argument, needs data directory (0/1), total steps, GPUs,
priority weight, SLO (-1 = none), arrival in seconds. The artifact truncates steps and weights to
whole numbers when it writes; a file with exact float steps is read as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from rota.core.jobs import Jobs, Launch, table
from rota.workloads import cells
from rota.workloads.files import TraceFile
from rota.workloads.registry import Holds, formats
from rota.workloads.rows import launches, tab_separated

COLUMNS = (
    "job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir", "total_steps", "scale_factor",
    "priority_weight", "SLO", "arrival_time",
)  # fmt: skip


@formats.register("gavel")
class GavelTrace:
    """Gavel's ten columns."""

    holds = Holds(commands=True)

    def recognises(self, first_line: str) -> bool:
        """Whether a trace that begins with this line has ten columns."""
        return first_line.count("\t") == len(COLUMNS) - 1

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a trace."""
        rows = tab_separated(file, COLUMNS)
        starts = (rows.cells[column] for column in COLUMNS[1:4])
        return table(
            profile_names=rows.names("job_type"),
            gpus=rows.gpus("scale_factor"),
            total_steps=rows.steps("total_steps"),
            submitted=rows.arrivals("arrival_time"),
            weight=rows.weights("priority_weight"),
            slo=rows.slos("SLO"),
            launch=launches(zip(*starts, rows.flags("needs_data_dir"), strict=True)),
        )

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """One line per job."""
        heads = ["\t".join(map(cells.plain, _head(launch))) for launch in jobs.launches]
        profiles = [cells.plain(name) for name in jobs.profiles]
        columns = (jobs.profile, jobs.launch, jobs.total_steps, jobs.gpus, jobs.weight, jobs.slo, jobs.submitted)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for profile, launch, steps, gpus, weight, slo, at in rows:
            asked = cells.amount("steps", steps, exact=exact)
            importance = cells.amount("weight", weight, exact=exact)
            yield (
                f"{profiles[profile]}\t{heads[launch]}\t{asked}\t{gpus}\t{importance}\t"
                f"{cells.slo(slo, exact=exact)}\t{cells.whole_or_exact(at)}\n"
            )


def _head(launch: Launch) -> tuple[str, str, str, str]:
    return launch.command, launch.working_directory, launch.steps_argument, str(int(launch.needs_data_dir))
