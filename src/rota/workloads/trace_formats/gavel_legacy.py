"""Gavel's older trace: seven tab-separated columns, no header (its `traces/msr` files).

job type, command (with `cd DIRECTORY && ` in front), steps argument, needs data directory (0/1),
total steps, arrival in seconds, GPUs. The directory is taken from the command and kept relative to
the folder of all workloads, as in the ten columns; weight is 1 and there is no SLO.
"""

from __future__ import annotations

from collections.abc import Iterator

from rota.core.errors import OutputError
from rota.core.jobs import Jobs, Launch, table
from rota.workloads import cells
from rota.workloads.files import TraceFile
from rota.workloads.registry import Holds, formats
from rota.workloads.rows import launches, tab_separated

COLUMNS = ("job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "arrival_time", "scale_factor")
ROOT = "%s/gpusched/workloads/pytorch/"
"""Where the workloads were when these traces were made."""


@formats.register("gavel-legacy")
class GavelLegacyTrace:
    """Gavel's seven columns, without weights and deadlines."""

    holds = Holds(commands=True)

    def recognises(self, first_line: str) -> bool:
        """Whether a trace that begins with this line has seven columns."""
        return first_line.count("\t") == len(COLUMNS) - 1

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a trace."""
        rows = tab_separated(file, COLUMNS)
        commands = map(_split, rows.cells["command"])
        arguments = zip(rows.cells["num_steps_arg"], rows.flags("needs_data_dir"), strict=True)
        pairs = zip(commands, arguments, strict=True)
        starts = ((*command, *argument) for command, argument in pairs)
        return table(
            profile_names=rows.names("job_type"),
            gpus=rows.gpus("scale_factor"),
            total_steps=rows.steps("total_steps"),
            submitted=rows.arrivals("arrival_time"),
            launch=launches(starts),
        )

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """One line per job; refuses weights and deadlines, which these columns cannot hold."""
        if (jobs.weight != 1).any() or (jobs.slo == jobs.slo).any():
            fix = "use gavel or csv"
            raise OutputError(f"the gavel-legacy format cannot hold weights or deadlines; {fix}")
        heads = ["\t".join(map(cells.plain, _head(launch))) for launch in jobs.launches]
        profiles = [cells.plain(name) for name in jobs.profiles]
        columns = (jobs.profile, jobs.launch, jobs.total_steps, jobs.submitted, jobs.gpus)
        for profile, launch, steps, at, gpus in zip(*(c.tolist() for c in columns), strict=True):
            yield (
                f"{profiles[profile]}\t{heads[launch]}\t{cells.amount('steps', steps, exact=exact)}\t"
                f"{cells.fixed(at, exact=exact)}\t{gpus}\n"
            )


def _split(command: str) -> tuple[str, str]:
    """The command proper, and the directory it is started in."""
    if not command.startswith("cd ") or " && " not in command:
        return command, ""
    directory, _, rest = command.removeprefix("cd ").partition(" && ")
    return rest, directory.removeprefix(ROOT)


def _head(launch: Launch) -> tuple[str, str, str]:
    directory = launch.working_directory
    if directory and not directory.startswith(("%s", "/")):
        directory = ROOT + directory
    command = f"cd {directory} && {launch.command}" if directory else launch.command
    return command, launch.steps_argument, str(int(launch.needs_data_dir))
