"""`rota profile`: measure how the speed of a training command depends on CPUs, memory and storage."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.options import json_option, seconds

if TYPE_CHECKING:
    from rota.profiler.cell import JobToProfile
    from rota.profiler.run import RunRules

EXAMPLES = """
\b
Examples:
  rota profile --job-name resnet18 --cpu 2 --memory 4 --num-gpus 1 -b 64 -- python train.py --data ./data
  rota profile --job-name lm --cpu 2 --memory 2 --steps-regex 'step (?P<step>\\d+)' -- ./train.sh
  rota profile --job-name emulated --device emulate:v100 -- python -m rota.emulate.job --model resnet50 --batch 64
  rota profile --check resnet18.toml -- python train.py --data ./data
"""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
FAILED = 1
_LEAST = 0.001
_MOST = 1e9
"""Of CPUs, GB and MB/s."""


def amounts(_ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...]:
    """Callback for `0.5,1,2`."""
    found = []
    for part in (value or "").split(","):
        if not part.strip():
            continue
        try:
            found.append(float(part))
        except ValueError:
            found.append(-1.0)
        if not _LEAST <= found[-1] <= _MOST:
            raise click.BadParameter(f"{part.strip()!r} in {value!r} is not an amount from {_LEAST:g} on", param=param)
    return tuple(found)


def amount(_ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Callback for one of them, or 0."""
    if not 0 <= value <= _MOST or 0 < value < _LEAST:
        raise click.BadParameter(f"{value!r} is not an amount from {_LEAST:g} on, or 0", param=param)
    return value


@click.command("profile", epilog=EXAMPLES, context_settings={"ignore_unknown_options": False})
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--job-name", "name", metavar="NAME", help="Name of the profile, and of the file NAME.toml.")
@click.option(
    "--cpu", "cpus", type=float, default=0.0, callback=amount, help="CPUs that the job gets at most (0: all)."
)
@click.option(
    "--memory",
    "memory_gb",
    type=float,
    default=0.0,
    callback=amount,
    help="Memory in GB (10^9 bytes) at most (0: half of the machine).",
)
@click.option("--num-gpus", "gpus", type=click.IntRange(1, 1024), default=1, show_default=True, help="GPUs of the job.")
@click.option(
    "-b", "--batch-size", "batch", type=click.IntRange(1), help="Items per step: noted, told as ROTA_BATCH_SIZE."
)
@click.option(
    "--docker-img", "image", default="", metavar="IMAGE", help="Run in this image; `host` or a folder: by runc."
)
@click.option(
    "--container-mnt", "mounts", multiple=True, metavar="PATH[:ro]",
    help="Folder that the container sees under the same path; repeatable.",
)  # fmt: skip
@click.option(
    "--launcher", default="", metavar="NAME", help="Launcher: process, docker, podman or runc (default: by the image)."
)
@click.option("--nnodes", type=click.IntRange(1), default=1, show_default=True, help="Servers; only 1 can be profiled.")
@click.option("--node_rank", type=click.IntRange(0), default=0, hidden=True)
@click.option("--master_addr", default="127.0.0.1", show_default=True, help="MASTER_ADDR of the job.")
@click.option(
    "--master_port", type=click.IntRange(1, 65535), default=29500, show_default=True, help="MASTER_PORT of the job."
)
@click.option("--max-iterations", "--max_iterations", type=click.IntRange(1), help="Steps of a run at most.")
@click.option(
    "--steps-regex",
    default="",
    metavar="REGEX",
    help="What the command prints per step, with a group step, rate or seconds.",
)
@click.option(
    "--device", default="auto", show_default=True, metavar="NAME", help="Device: auto, gpu, cpu, or emulate:TYPE."
)
@click.option(
    "--type", "type_", default="", metavar="NAME", help="Name of the GPU type in the profile (default: as found)."
)
@click.option("--cpu-axis", callback=amounts, metavar="LIST", help="CPUs of the rows, e.g. 0.5,1,2 (default: six).")
@click.option("--storage", callback=amounts, metavar="LIST", help="MB/s of storage to measure, e.g. 5,20.")
@click.option("--data", default="", metavar="PATH", help="Where the data are: the disk whose reads are limited.")
@click.option("--max-runs", type=click.IntRange(1, 1000), default=10, show_default=True, help="Runs at most.")
@click.option(
    "--run-seconds", type=float, default=45.0, show_default=True, callback=seconds, help="Of measuring per run."
)
@click.option(
    "--patience", type=float, default=60.0, show_default=True, callback=seconds, help="Seconds without a step."
)
@click.option("-o", "--output", metavar="FILE", help="File for the profile (default: NAME.toml).")
@click.option("--again", is_flag=True, help="Begin anew instead of going on with the runs that are there.")
@click.option(
    "--check", "check", metavar="FILE", help="Measure cells of this profile again, and say how far off it is."
)
@click.option(
    "--check-cells", type=click.IntRange(1, 100), default=3, show_default=True, help="How many, with --check."
)
@json_option
def command(command_line: tuple[str, ...], *, as_json: bool, check: str | None, **options: Any) -> int:
    """Measure how the speed of a command depends on CPUs, memory and storage, and write a profile.

    A handful of runs are measured, the other cells are predicted by a model of the job's pipeline, each with its
    error. Interrupted, the same command goes on. See docs/profiler.md.
    """
    if not command_line:
        raise click.UsageError(
            "name the command to profile after --, e.g. rota profile --job-name a -- python train.py"
        )
    _refuse(options)
    if check is not None:
        from rota.cli.profile_check import check_profile

        return check_profile(
            check, _job(options, command_line), _rules(options), options["check_cells"], as_json=as_json
        )
    from rota.cli.profile_run import profile_job

    name = options["name"]
    if not name:
        raise click.UsageError("give --job-name NAME: the profile is written to NAME.toml")
    output = Path(options["output"] or f"{name}.toml")
    if output.suffix != ".toml":
        raise click.UsageError(f"-o {str(output)!r} does not end in .toml, and profiles are written as TOML")
    job = _job(options, command_line)
    axis = _axis(options["cpu_axis"], job.cpus)
    return profile_job(
        job,
        axis,
        options["storage"],
        options["max_runs"],
        _rules(options),
        output,
        again=options["again"],
        as_json=as_json,
    )


def _refuse(options: dict[str, Any]) -> None:
    """What cannot be honoured is refused by its name."""
    if options["nnodes"] != 1 or options["node_rank"] != 0:
        what = "--nnodes" if options["nnodes"] != 1 else "--node_rank"
        fix = "profile it on one server; a [[rate]] with spread = true says how fast it is on several"
        raise click.UsageError(f"{what} {options[what.strip('-')]}: a profile is of one server; {fix}")
    if options["name"] and not _NAME.fullmatch(options["name"]):
        raise click.UsageError(f"--job-name {options['name']!r}: use 1 to 80 letters, digits, '_', '.' and '-'")
    if options["mounts"] and not options["image"]:
        raise click.UsageError("--container-mnt is about a container; give --docker-img as well")
    for text in options["mounts"]:
        path, _, mode = text.partition(":")
        if mode not in {"", "ro", "rw"} or not Path(path).is_absolute():
            fix = "a container sees a folder under its own path: write /PATH or /PATH:ro"
            raise click.UsageError(f"--container-mnt {text!r}: {fix}")


def _job(options: dict[str, Any], argv: tuple[str, ...]) -> JobToProfile:
    from rota.deploy.worker.inventory import allowed_cpus, usable_memory_bytes
    from rota.profiler.cell import JobToProfile

    image = options["image"]
    cwd = str(Path.cwd())
    return JobToProfile(
        name=options["name"] or "check",
        argv=argv,
        cpus=options["cpus"] or float(len(allowed_cpus())),
        memory_gb=options["memory_gb"] or round(usable_memory_bytes() / 2e9, 1),
        gpus=options["gpus"],
        batch=options["batch"],
        max_iterations=options["max_iterations"],
        image=image,
        launcher=options["launcher"],
        mounts=(*options["mounts"], cwd) if image else (),
        master_addr=options["master_addr"],
        master_port=options["master_port"],
        steps_regex=options["steps_regex"],
        device=options["device"],
        type=options["type_"],
        data=str(Path(options["data"]).absolute()) if options["data"] else "",
        cwd=cwd,
        env={} if image else _passed_on(),
    )


def _passed_on() -> dict[str, str]:
    """The user's own environment: on one's own machine a command runs as it does without Rota."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}


def _rules(options: dict[str, Any]) -> RunRules:
    from rota.profiler.run import RunRules

    return RunRules(measure_s=options["run_seconds"], patience_s=options["patience"])


def _axis(axis: tuple[float, ...], cpus: float) -> tuple[float, ...]:
    if axis and max(axis) > cpus:
        raise click.UsageError(f"--cpu-axis goes up to {max(axis):g}, but the job gets {cpus:g} CPUs at most (--cpu)")
    return axis
