"""`rota submit`: jobs for a deployed scheduler."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.jobs import how
from rota.cli.main import FAILED, OK
from rota.cli.options import echo_json, json_option, seconds, settings_option
from rota.core.lifecycle import JobPhase

if TYPE_CHECKING:
    from rota.core.job_spec import JobSpec
    from rota.deploy.control import Client

EXAMPLES = """
\b
Examples:
  rota submit --gpus 2 --profile resnet50-64 --steps 20000 -- python train.py --lr 0.1
  rota submit --emulated --gpus 4 --profile resnet18-32 --steps 20000 --wait
  rota submit --file jobs.toml

\b
A file has a table per job:
  [[job]]
  name = "sweep"
  count = 3                      # as many alike
  gpus = 2
  profile = "resnet18-32"
  steps = 20000
  command = "python train.py"    # or a list of words, or emulated = true
  env = { SEED = "1" }
Other keys: tenant, weight, deadline, cpus, memory_gb, image, cwd, ranks,
max_restarts, checkpoint_every, hung_after, model, batch, mps.
"""


@click.command("submit", epilog=EXAMPLES)
@click.argument("argv", metavar="[-- COMMAND ...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--file", metavar="FILE", help="Jobs from a TOML file.")
@click.option("--name", metavar="TEXT", help="For people.")
@click.option("--gpus", type=click.IntRange(1), help="GPUs (default: 1).")
@click.option("--profile", metavar="NAME", help="How fast it goes; without one it is scheduled as unknown.")
@click.option("--steps", type=click.IntRange(1), help="Steps it has to do.")
@click.option("--weight", type=click.FloatRange(0, min_open=True), help="Its part relative to others (default: 1).")
@click.option("--deadline", "deadline_s", type=float, callback=seconds, metavar="SECONDS", help="After submission.")
@click.option("--cpus", type=click.FloatRange(0, min_open=True), help="It asks for so many; the mechanism decides.")
@click.option("--memory-gb", type=click.FloatRange(0, min_open=True), help="Memory, likewise.")
@click.option("--image", metavar="NAME", help="Container image to run in.")
@settings_option("--env", "env", "Variable of the job's environment")
@click.option("--cwd", metavar="DIR", help="Where it runs (default: here, with an image /).")
@click.option("--ranks", type=click.Choice(["server", "gpu"]), help="Processes: one per server (default) or per GPU.")
@click.option("--max-restarts", type=click.IntRange(0), help="Failures before it is given up (default: 3).")
@click.option("--checkpoint-every", "checkpoint_every_s", type=float, callback=seconds, metavar="SECONDS")
@click.option("--hung-after", "hung_after_s", type=float, callback=seconds, metavar="SECONDS", help="No step: stopped.")
@click.option("--emulated", is_flag=True, help="No command: an emulated device spends the time.")
@click.option("--model", metavar="NAME", help="Of an emulated job: its memory, and without --profile its speed.")
@click.option("--batch", type=click.IntRange(1), help="Batch size of the whole job, with --model.")
@click.option("--mps", is_flag=True, help="Share real GPUs through NVIDIA's MPS.")
@click.option("--tenant", metavar="NAME", help="Whose job it is (administrators; default: that of the token).")
@click.option("--wait", is_flag=True, help="Wait until it is over; exit code 1 unless it finished.")
@connection
@json_option
def command(*, argv: tuple[str, ...], file: str | None, wait: bool, as_json: bool, **options: Any) -> int:
    """Submit a job: any command, an emulated job, or a file of jobs. Prints the numbers of the jobs."""
    link = {key: options.pop(key) for key in ("scheduler", "certs", "token_file", "insecure")}
    asked = {key: value for key, value in options.items() if value is not None and value is not False and value != {}}
    if file is not None:
        if asked or argv:
            flags = ", ".join(sorted(asked)) or "a command"
            raise click.UsageError(f"--file says it all; leave out {flags}, or write it into the file")
        jobs = needs_deploy("rota.deploy.job_files").read_jobs(file)
    else:
        jobs = [_job(argv, asked)]
    jobs = [placed(job) for job in jobs]
    with open_client(link, asked.get("tenant")) as client:
        numbers = client.submit(jobs)
        if wait:
            return _wait(client, numbers, as_json=as_json)
    if as_json:
        echo_json({"jobs": numbers})
    else:
        click.echo("\n".join(str(number) for number in numbers))
    return OK


def _job(argv: tuple[str, ...], asked: dict[str, Any]) -> JobSpec:
    from rota.core.job_spec import JobSpec

    if not argv and not asked.get("emulated"):
        raise click.UsageError("nothing to run: give a command after --, or --emulated, or --file")
    if argv and asked.get("emulated"):
        raise click.UsageError("give either a command or --emulated")
    if asked.get("emulated") and not ((asked.get("profile") or asked.get("model")) and asked.get("steps")):
        raise click.UsageError("an emulated job needs --profile and --steps (or --model, --batch and --steps)")
    return JobSpec(**asked, argv=argv)


def placed(job: JobSpec) -> JobSpec:
    """A command with the folder it runs in: a relative one is seen from here, and without one it is this folder.

    A container has folders of its own, so there nothing is said for the user.
    """
    if not job.argv or (job.image and not job.cwd):
        return job
    return replace(job, cwd=str(Path(job.cwd).absolute()))


def _wait(client: Client, numbers: list[int], *, as_json: bool) -> int:
    if not as_json:
        click.echo("\n".join(str(number) for number in numbers))
        sys.stdout.flush()
    infos = client.wait(numbers)
    if as_json:
        echo_json({"jobs": numbers, "phases": [info.phase for info in infos]})
    for info in infos:
        if info.phase != JobPhase.FINISHED.value:
            click.echo(f"rota: job {info.job} {how(info)}", err=True)
    return OK if all(info.phase == JobPhase.FINISHED.value for info in infos) else FAILED
