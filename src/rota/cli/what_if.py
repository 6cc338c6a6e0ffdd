"""`rota what-if`: the coming rounds with and without a change."""

from __future__ import annotations

import re
from typing import Any

import click

from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota what-if --job 17 --gpus 2
  rota what-if --job 17 --memory-gb 64 --cpus 8 --priority 1
  rota what-if --add-server v100=4
  rota what-if --policy srtf --mechanism tune
  rota what-if --submit job.toml
  rota what-if --drain v100-0
"""

_TENANT_SETTING = re.compile(r"(?:(?P<tenant>.+)\.)?(?P<name>borrow|max_running|quota(?:\.[^.]+)?)")
_MOST_NEW = 20
"""New jobs of which it is said when they start."""


def _servers(_ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, int]]:
    found = []
    for value in values:
        name, _, count = value.partition("=")
        if not name or not count.isdecimal() or int(count) < 1:
            raise click.BadParameter(f"{value!r} is not TYPE=GPUS, such as v100=4", param=param)
        found.append((name, int(count)))
    return found


def _tenant_settings(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str, int]]:
    found = []
    for value in values:
        said, _, number = value.partition("=")
        match = _TENANT_SETTING.fullmatch(said)
        if match is None or not number.isdecimal():
            example = "such as borrow=8, vision.quota=12 or vision.quota.v100=8"
            raise click.BadParameter(f"{value!r} is not [TENANT.]SETTING=NUMBER, {example}", param=param)
        found.append((match["tenant"] or "", match["name"], int(number)))
    return found


@click.command("what-if", epilog=EXAMPLES)
@click.option("--job", type=click.IntRange(0), help="The job that is submitted again, asking for something else.")
@click.option("--gpus", type=click.IntRange(1), default=None, help="GPUs of that job instead of what it asks for.")
@click.option("--weight", type=click.FloatRange(0, min_open=True), default=None, help="Weight of that job.")
@click.option("--cpus", type=click.FloatRange(0), default=None, help="CPUs that it asks for; 0: none.")
@click.option("--memory-gb", type=click.FloatRange(0), default=None, help="Memory in GB that it asks for; 0: none.")
@click.option("--priority", type=int, default=None, help="Priority of that job.")
@click.option(
    "--tenant-setting",
    "tenant_settings",
    multiple=True,
    callback=_tenant_settings,
    metavar="[TENANT.]SETTING=NUMBER",
    help="Setting of a tenant: borrow, quota, quota.TYPE or max_running; yours without a name; repeatable.",
)
@click.option(
    "--add-server",
    "servers",
    multiple=True,
    callback=_servers,
    metavar="TYPE=GPUS",
    help="A server more; may be given several times.",
)
@click.option("--drain", default="", metavar="NODE", help="No job on a server.")
@click.option("--undrain", default="", metavar="NODE", help="Jobs are let back on a server.")
@click.option("--policy", default="", metavar="NAME", help="Another policy, a built-in one.")
@click.option("--mechanism", default="", metavar="NAME", help="Another mechanism, a built-in one.")
@click.option("--submit", "files", multiple=True, metavar="FILE", help="Jobs of a file, as of `rota submit --file`.")
@click.option("--cancel", type=int, multiple=True, metavar="JOB", help="A job less; may be given several times.")
@click.option("--release", type=int, multiple=True, metavar="JOB", help="Release a held job; repeatable.")
@connection
@json_option
def command(*, as_json: bool, files: tuple[str, ...], **options: Any) -> None:
    """Simulate a change to a live cluster: the coming rounds as they are and with it, who gains and who loses.

    Nothing is changed. Nobody else comes in either of the two. Of other tenants only sums are shown.
    """
    request = _request(options, files)
    with open_client(options) as client:
        answer = client.what_if(request)
    if as_json:
        echo_json(answer)
    else:
        show(answer)


def _request(options: dict[str, Any], files: tuple[str, ...]) -> Any:
    pb = needs_deploy("rota.rpc.rota_pb2")
    from rota.deploy.job_files import read_jobs
    from rota.rpc.convert import spec_message

    specs = [spec for file in files for spec in read_jobs(file)]
    return pb.WhatIfRequest(
        job=options.pop("job"),
        gpus=options.pop("gpus") or 0,
        weight=options.pop("weight") or 0.0,
        cpus=options.pop("cpus"),
        memory_gb=options.pop("memory_gb"),
        priority=options.pop("priority"),
        tenant_settings=[
            pb.TenantSetting(tenant=tenant, name=name, number=number)
            for tenant, name, number in options.pop("tenant_settings")
        ],
        add_servers=[pb.AddedServer(type=name, gpus=count) for name, count in options.pop("servers")],
        drain=options.pop("drain"),
        undrain=options.pop("undrain"),
        policy=options.pop("policy"),
        mechanism=options.pop("mechanism"),
        cancel=options.pop("cancel"),
        release=options.pop("release"),
        submit=[spec_message(spec) for spec in specs],
    )


def show(answer: dict[str, Any]) -> None:
    """Print who gains and who loses."""
    from rota.cli.tables import show_table

    click.echo(f"what if: {answer['what']}")
    rows = [("all", *_row(answer["all"])), *((row["tenant"], *_row(row)) for row in answer["tenants"])]
    show_table(None, ("tenant", "jobs", "mean JCT", "then", "makespan", "then", "sooner", "later"), rows, numbers=7)
    for name in ("gains", "loses"):
        if answer[name]:
            click.echo(f"{name}: {', '.join(answer[name])}")
    own = [job for job in answer["jobs"] if job["end_in_s"][0] != job["end_in_s"][1]]
    moved = [(str(job["job"]), *map(_time, job["start_in_s"]), *map(_time, job["end_in_s"])) for job in own]
    if moved:
        show_table(None, ("job", "starts in", "then", "ends in", "then"), moved, numbers=4)
    for job in answer["submitted"][:_MOST_NEW]:
        click.echo(f"new job {job['job']} {_when(job)}")
    if len(answer["submitted"]) > _MOST_NEW:
        click.echo(f"... and {len(answer['submitted']) - _MOST_NEW:,} more; --json lists them")
    if answer["lengths_unknown"]:
        click.echo(f"{answer['lengths_unknown']} jobs of which nobody knows the length run for ever in both")
    if not answer["complete"]:
        click.echo("there was no time to look to the end; jobs that end later are left out")


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    before = row["before"]
    after = row["after"]
    times = (before["mean_jct_s"], after["mean_jct_s"], before["makespan_s"], after["makespan_s"])
    return (str(row["jobs"]), *map(_time, times), str(row["sooner"]), str(row["later"]))


def _when(job: dict[str, Any]) -> str:
    """When a new job starts and ends, or why it does not."""
    if job["start_in_s"] is None:
        return f"does not start: {job['reason']}" if job["reason"] else "does not start"
    return f"starts in {_time(job['start_in_s'])}, ends in {_time(job['end_in_s'])}"


def _time(seconds: float | None) -> str:
    from rota.cli.tables import duration

    return "-" if seconds is None else duration(seconds)
