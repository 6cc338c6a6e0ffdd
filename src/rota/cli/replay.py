"""`rota replay`: the metrics of a run, computed again from its event log."""

from __future__ import annotations

import click

from rota.cli.options import json_option


@click.command("replay", epilog="Example: rota replay run.jsonl.gz --jobs-csv jobs.csv --json")
@click.argument("log", metavar="LOG")
@click.option("--jobs-csv", metavar="FILE", help="Write one line per job to this CSV file.")
@json_option
def command(log: str, *, jobs_csv: str | None, as_json: bool) -> None:
    """Compute the metrics of a run again from its event log.

    The numbers equal those of the run itself, apart from the time and memory it took.
    """
    from rota import api  # numpy only when needed
    from rota.analysis.jobs_csv import write_jobs_csv
    from rota.analysis.output import check_writable
    from rota.cli.simulate import show

    if jobs_csv is not None:
        check_writable(jobs_csv)
    result = api.replay(log)
    if jobs_csv is not None:
        write_jobs_csv(jobs_csv, result.jobs)
    show(result, as_json=as_json)
