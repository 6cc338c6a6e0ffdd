"""`rota workloads`: what can be given to `--workload`, and training workloads that can be run."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from rota.cli import names
from rota.cli.listing import show_list, show_registry
from rota.cli.options import completes, echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota workloads gavel-continuous
  rota workloads train
  rota workloads train imagenet --steps 200 --workers 2
"""


class _GeneratorsAndTrain(click.Group):
    """Any name but `train` is that of a job generator."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb `train`, or the explanation of a generator."""
        if args[0] == train.name:
            return super().resolve_command(ctx, args)
        return show.name, show, args


@click.group("workloads", cls=_GeneratorsAndTrain, invoke_without_command=True, epilog=EXAMPLES)
@json_option
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> None:
    """List job generators, or explain one (rota workloads NAME); `train` runs an example training job."""
    ctx.obj = as_json
    if ctx.invoked_subcommand is not None:
        return
    show_registry(names.workload_registry(), None, as_json=as_json)
    if not as_json and sys.stdout.isatty():  # in a pipe a line is a generator
        click.echo("\nTraining workloads, run by `rota workloads train NAME`:")
        _list_training(as_json=False)


@click.command("show", hidden=True)
@click.argument("name", shell_complete=completes(names.workloads))
@json_option
@click.pass_obj
def show(as_json_before_name: bool, /, name: str, *, as_json: bool) -> None:
    """Explain one job generator."""
    show_registry(names.workload_registry(), name, as_json=as_json or as_json_before_name)


@command.command("train", epilog="Example: rota workloads train imagenet --steps 200 --workers 2")
@click.argument("name", required=False, shell_complete=completes(names.training_workloads))
@click.option("--steps", type=click.IntRange(1, 10**9 - 1), help="Training steps (default: as many as it needs).")
@click.option("-b", "--batch-size", type=click.IntRange(1, 10**9 - 1), help="Items per step.")
@click.option("--workers", type=click.IntRange(0, 1024), help="Processes that read and prepare items.")
@click.option(
    "--device-ms", type=click.FloatRange(0, 1e6), metavar="MS", help="Milliseconds to wait in each step, as for a GPU."
)
@click.option("--data", metavar="DIR", help="Folder for the data that it makes (default: example-data).")
@click.option("--seed", type=click.IntRange(0, 10**9 - 1), help="Seed of weights and order (default: 0).")
@click.option("--out", metavar="FILE", help="File for the final weights.")
@click.option("--check", is_flag=True, help="Exit with 1 unless it reaches what its file states.")
@json_option
@click.pass_obj
def train(as_json_before_name: bool, /, name: str | None, *, as_json: bool, **options: Any) -> None:
    """Run an example training workload here, or as the command of a job; without NAME list them.

    They need PyTorch: pip install '.[examples]' in a checkout of Rota. See docs/training-workloads.md.
    """
    if name is None:
        _list_training(as_json=as_json or as_json_before_name)
        return
    from rota.workloads.training import script

    arguments = [sys.executable, str(script(name))]
    for option, value in options.items():
        if value is True:
            arguments.append(f"--{option}")
        elif value not in {None, False}:
            arguments += [f"--{option.replace('_', '-')}", str(value)]
    sys.stdout.flush()
    os.execv(arguments[0], arguments)  # noqa: S606 - it becomes the training process, so signals reach it


def _list_training(*, as_json: bool) -> None:
    from rota.workloads import training

    rows = [(name, training.summary(name)) for name in training.names()]
    if as_json:
        echo_json([{"name": name, "summary": summary, "file": str(training.script(name))} for name, summary in rows])
        return
    show_list("training workload", rows, as_json=False)
