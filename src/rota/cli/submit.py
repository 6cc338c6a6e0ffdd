"""`rota submit`: jobs for a deployed scheduler."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.arrays import array_field, entries
from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.dry_run import show_dry_run
from rota.cli.job_text import how, printable
from rota.cli.main import FAILED, OK
from rota.cli.options import echo_json, json_option, settings_option
from rota.cli.run_options import seconds_option
from rota.core.duration_text import duration_s
from rota.core.errors import ConfigError
from rota.core.lifecycle import JobPhase

if TYPE_CHECKING:
    from rota.core.job_spec import JobSpec
    from rota.deploy.control import Client

EXAMPLES = """
\b
Examples:
  rota submit --gpus 2 --profile resnet50-64 --steps 20000 -- python train.py --lr 0.1
  rota submit --emulated --gpus 4 --profile resnet18-32 --steps 20000 --wait
  rota submit --array 0-99%8 -- python train.py    # index: $ROTA_ARRAY_INDEX
  rota submit --time-limit 4h -- python train.py
  rota submit --dry-run --gpus 4 --profile resnet50-64 --steps 9000 -- python train.py
  rota submit --after 17 -- python evaluate.py     # once job or array 17 has finished
  rota submit --file jobs.toml
  rota submit --secret WANDB_API_KEY --env-file job.env -- python train.py

\b
A file has a table per job:
  [[job]]
  name = "sweep"
  count = 3                      # three jobs like this
  gpus = 2
  profile = "resnet18-32"
  steps = 20000
  command = "python train.py"    # or a list of words, or emulated = true
  env = { SEED = "1" }
Other keys: tenant, weight, deadline, cpus, memory_gb, image, cwd, ranks,
max_restarts, checkpoint_every, hung_after, model, batch, mps, preemptible,
least_turn, save_grace, array, after and after_any (names of jobs of the file, or
numbers of jobs), hold, time_limit, env_file (a file with KEY=VALUE lines), secrets (names of
variables of your own environment).
"""
_AMOUNT = click.FloatRange(0, min_open=True)


def _duration(_ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else duration_s(value)
    except ConfigError as error:
        raise click.BadParameter(str(error), param=param) from error


@click.command("submit", epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.argument("argv", metavar="[-- COMMAND ...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--file", metavar="FILE", help="TOML file with the jobs to submit (see below).")
@click.option("--name", metavar="TEXT", help="Name of the job, for people; need not be unique.")
@click.option(
    "--gpus",
    type=click.IntRange(1),
    help="Number of GPUs that the job asks for (default: 1).",
)
@click.option(
    "--profile",
    metavar="NAME",
    help="Profile of the job: a name of the catalogue, or a new one to learn its speed under (default: its command).",
)
@click.option("--steps", type=click.IntRange(1), help="Number of training steps of the job.")
@click.option(
    "--weight",
    type=_AMOUNT,
    help="Weight of the job, relative to other jobs (default: 1).",
)
@seconds_option("--deadline", "Deadline in seconds after the submission.", name="deadline_s")
@click.option(
    "--cpus",
    type=_AMOUNT,
    help="CPUs that the job asks for; shown with it, but not used for placing it yet.",
)
@click.option(
    "--memory-gb",
    type=_AMOUNT,
    help="Memory in GB (10^9 bytes) that the job asks for; shown, but not used for placing it yet.",
)
@click.option("--image", metavar="NAME", help="Container image in which the command runs.")
@settings_option("--env", "env", "Environment variable of the job; lists show its name only")
@click.option(
    "--env-file",
    "env_files",
    multiple=True,
    metavar="FILE",
    help="File with KEY=VALUE lines, environment variables of the job; repeatable.",
)
@click.option(
    "--secret",
    "secret_words",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable of the job; without a value that of your own environment; repeatable.",
)
@click.option(
    "--secret-file",
    "secret_files",
    multiple=True,
    metavar="NAME=PATH",
    help="Environment variable of the job whose value is the content of a file; repeatable.",
)
@click.option(
    "--cwd",
    metavar="DIR",
    help="Folder in which the command runs (default: this one; with an image: /).",
)
@click.option(
    "--ranks",
    type=click.Choice(["server", "gpu"]),
    help="Processes of the job: one per server (default) or one per GPU.",
)
@click.option(
    "--max-restarts",
    type=click.IntRange(0),
    help="Number of restarts after failures (default: 3).",
)
@seconds_option(
    "--checkpoint-every",
    "Seconds between two checkpoints of the job (default: 60; emulated: 5).",
    name="checkpoint_every_s",
)
@seconds_option(
    "--hung-after",
    "Seconds without a finished step after which the job is stopped and tried again.",
    name="hung_after_s",
)
@click.option(
    "--preemptible",
    type=click.Choice(["yes", "no", "auto"]),
    help="Whether the job may be stopped for another one (default: auto, once it is seen that it can save).",
)
@seconds_option(
    "--least-turn",
    "Seconds that the job runs at least, once started, before it may be preempted (default: the operator's).",
    name="least_turn_s",
)
@seconds_option(
    "--save-grace",
    "Seconds that the job may take to save after it was asked to stop (default: learned).",
    name="save_grace_s",
)
@click.option(
    "--emulated",
    is_flag=True,
    help="Run no command: emulated GPUs spend the time of the job.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="Model of an emulated job: its GPU memory and its speed, whatever --profile says.",
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    help="Batch size of the whole job in samples, with --model.",
)
@click.option(
    "--array",
    metavar="FIRST-LAST[:STEP][%LIMIT]",
    help="Submit a job array: one job per index, at most LIMIT of them at the same time.",
)
@click.option(
    "--after",
    type=click.IntRange(0),
    multiple=True,
    metavar="JOB",
    help="Start only after this job has finished; an array by its first job; repeatable.",
)
@click.option(
    "--after-any",
    type=click.IntRange(0),
    multiple=True,
    metavar="JOB",
    help="Start only after this job is over, however it ended; repeatable.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    metavar="DURATION",
    callback=_duration,
    help="How long the job may run, all attempts together, e.g. 4h; then it saves, stops and has failed.",
)
@click.option("--hold", is_flag=True, help="Hold the job: it starts after `rota release`.")
@click.option("--mps", is_flag=True, help="Share real GPUs with other jobs through NVIDIA's MPS.")
@click.option(
    "--tenant",
    metavar="NAME",
    help="Tenant of the job (administrators only; default: that of the token).",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the jobs are over; exit code 1 unless all finished.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Submit nothing: say where and when the jobs would start and end, if nobody else comes.",
)
@connection
@json_option
def command(
    *,
    argv: tuple[str, ...],
    file: str | None,
    wait: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Submit a command, an emulated job, or a file of jobs, and print the numbers of the jobs."""
    link = {key: options.pop(key) for key in ("scheduler", "certs", "token_file", "insecure")}
    given = {key: value for key, value in options.items() if value is not None}
    asked = {key: value for key, value in given.items() if value is not False and value not in ({}, ())}
    jobs = [placed(job) for job in _jobs(argv, file, asked)]
    if dry_run and wait:
        raise click.UsageError("--dry-run submits nothing that could be waited for; leave out --wait")
    with open_client(link, asked.get("tenant")) as client:
        if dry_run:
            show_dry_run(client.dry_run(jobs), as_json=as_json)
            return OK
        numbers = client.submit(jobs)
        for remark in client.remarks:
            click.echo(f"rota: note: {printable(remark)}", err=True)
        if wait:
            return _wait(client, jobs, numbers, as_json=as_json)
    if as_json:
        echo_json({"jobs": numbers, **array_field(jobs, numbers)})
    else:
        _print_numbers(jobs, numbers)
    return OK


def _jobs(argv: tuple[str, ...], file: str | None, asked: dict[str, Any]) -> Sequence[JobSpec]:
    """The jobs of a file, or the one of the command line."""
    if file is None:
        return [_job(argv, asked)]
    if asked or argv:
        flags = ", ".join(sorted(asked)) or "a command"
        fix = f"leave out {flags}, or write it into the file"
        raise click.UsageError(f"--file says it all; {fix}")
    jobs: Sequence[JobSpec] = needs_deploy("rota.deploy.job_files").read_jobs(file)
    return jobs


def _print_numbers(jobs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
    """A line per entry: the number of the job, or of the first job of an array."""
    for spec, first, size in entries(jobs, numbers):
        click.echo(str(first))
        if spec.array:
            click.echo(f"rota: array {first}: jobs {first} to {first + size - 1}", err=True)
    sys.stdout.flush()


def _job(argv: tuple[str, ...], asked: dict[str, Any]) -> JobSpec:
    from rota.core.job_spec import JobSpec

    env = _environment(asked)
    if not argv and not asked.get("emulated"):
        raise click.UsageError("nothing to run: give a command after --, or --emulated, or --file")
    if argv and asked.get("emulated"):
        raise click.UsageError("give either a command or --emulated")
    speed_known = asked.get("profile") or asked.get("model")
    if asked.get("emulated") and not (speed_known and asked.get("steps")):
        problem = "an emulated job needs --profile and --steps (or --model, --batch and --steps)"
        raise click.UsageError(problem)
    return JobSpec(**asked, argv=argv, env=env)


def _environment(asked: dict[str, Any]) -> dict[str, str]:
    """All variables of the job; what they came from is taken out of `asked`."""
    variables = needs_deploy("rota.deploy.variables")
    sources = [("--env", asked.pop("env", {}))]
    sources += [(f"--env-file {path}", variables.read_env_file(path)) for path in asked.pop("env_files", ())]
    sources += [("--secret", variables.given_secret(word, os.environ)) for word in asked.pop("secret_words", ())]
    sources += [("--secret-file", variables.secret_from_file(word)) for word in asked.pop("secret_files", ())]
    together: dict[str, str] = variables.merged(sources)
    return together


def placed(job: JobSpec) -> JobSpec:
    """A command with the folder it runs in.

    A relative one is seen from here, and without one it is this folder.

    A container has folders of its own, so there nothing is said for the user.
    """
    if not job.argv or (job.image and not job.cwd):
        return job
    return replace(job, cwd=str(Path(job.cwd).absolute()))


def _wait(client: Client, jobs: Sequence[JobSpec], numbers: list[int], *, as_json: bool) -> int:
    if not as_json:
        _print_numbers(jobs, numbers)
    try:
        infos = client.wait(numbers)
    except KeyboardInterrupt:
        some = " ".join(str(number) for number in numbers[:8]) + (" ..." if len(numbers) > 8 else "")
        click.echo(f"\nrota: the jobs go on; `rota jobs` shows them, `rota cancel {some}` ends them", err=True)
        raise
    if as_json:
        echo_json({"jobs": numbers, "phases": [info.phase for info in infos]})
    for info in infos:
        if info.phase != JobPhase.FINISHED.value:
            click.echo(f"rota: job {info.job} {how(info)}", err=True)
            if info.spec.argv and info.epoch:
                click.echo(f"rota: its output: rota logs {info.job}", err=True)
    return OK if all(info.phase == JobPhase.FINISHED.value for info in infos) else FAILED
