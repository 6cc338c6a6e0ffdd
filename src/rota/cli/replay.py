"""`rota replay`: the metrics of a run, computed again from its event log."""

from __future__ import annotations

import click

from rota.cli.options import json_option
from rota.cli.standard_output import check_outputs, people_aside


@click.command("replay", epilog="Example: rota replay run.jsonl.gz --jobs-csv jobs.csv --json")
@click.argument("log", metavar="LOG")
@click.option("--jobs-csv", metavar="FILE", help="Write one line per job to this CSV file; - is standard output.")
@json_option
def command(log: str, *, jobs_csv: str | None, as_json: bool) -> None:
    """Compute the metrics of a run again from its event log.

    The numbers equal those of the run itself, apart from the time and memory it took.
    """
    from rota import api  # numpy only when needed
    from rota.analysis.jobs_csv import write_jobs_csv
    from rota.cli.simulate import show

    check_outputs({"--jobs-csv": jobs_csv}, as_json=as_json)
    result = api.replay(log)
    if jobs_csv is not None:
        write_jobs_csv(jobs_csv, result.jobs)
    with people_aside(jobs_csv):
        show(result, as_json=as_json)
