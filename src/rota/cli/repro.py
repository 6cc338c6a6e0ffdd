"""`rota repro`: published results by name, run again and put beside what was printed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli import names
from rota.cli.main import FAILED, INTERRUPTED, OK
from rota.cli.options import echo_json, json_option

if TYPE_CHECKING:
    from rota.experiments.repro.carrying import ReproductionOutcome
    from rota.experiments.repro.model import Reproduction, ReproductionResult, Row
    from rota.experiments.runner import SweepProgress
    from rota.experiments.spec import Spec

STORE = "rota-repro.db"
EXAMPLES = """
\b
Examples:
  rota repro list
  rota repro gavel-check
  rota repro gavel-fig8 --quick
  rota repro gavel-fig8 --store repro.db -o out -j 2
  rota repro all --quick -o out
  rota repro report out -o page.md
"""


class Reproductions(click.Group):
    """Every reproduction is a command of its own.

    Which there are is looked up when one is asked for.
    """

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """`list`, `all`, `report`, or the reproduction of that name."""
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        from rota.experiments.repro.catalogue import load

        load(cmd_name)
        return _runs([cmd_name], cmd_name, "Run this one.")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Names of reproductions as well."""
        from click.shell_completion import CompletionItem

        completions = super().shell_complete(ctx, incomplete)
        known = [name for name in names.reproductions() if name.startswith(incomplete)]
        return completions + [CompletionItem(name) for name in known]


@click.group("repro", cls=Reproductions, epilog=EXAMPLES, subcommand_metavar="NAME [OPTIONS]...")
def command() -> None:
    """Run published experiments again: ours, published, difference, verdict, and the figure.

    NAME is one of `rota repro list`. Results are kept in a store, so nothing is computed twice. See
    docs/reproductions.md.
    """


@command.command("list", epilog="Example: rota repro list --json")
@json_option
def list_(*, as_json: bool) -> None:
    """What can be reproduced."""
    from rota.experiments.repro.catalogue import load, specs

    reproductions = [load(name) for name in names.reproductions()]
    if as_json:
        echo_json(
            [
                {
                    **{
                        key: getattr(r, key) for key in ("name", "title", "paper", "item", "source", "licence", "quick")
                    },
                    "published": _published(r),
                    "runs": sum(len(s.points()) for s in specs(r, quick=False)),
                    "quick_runs": sum(len(s.points()) for s in specs(r, quick=True)),
                }
                for r in reproductions
            ]
        )
        return
    from rota.cli.tables import show_table

    rows = [(r.name, r.item, r.title, str(_published(r)), str(_runs_of(r))) for r in reproductions]
    show_table(None, ("name", "paper's", "what", "numbers", "runs"), rows, numbers=2)


def _published(wanted: Reproduction) -> int:
    return sum(len(line.values) for line in wanted.lines) + len(wanted.ratios)


def _runs_of(wanted: Reproduction) -> int | str:
    from rota.experiments.repro.catalogue import specs

    return sum(len(s.points()) for s in specs(wanted, quick=False)) or "-"


@command.command("report", epilog="Example: rota repro report out -o page.md")
@click.argument("sources", nargs=-1, required=True, metavar="DIR|FILE...")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="File for the page (default: standard output).",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print all results as one JSON list instead of the page.",
)
def report(*, sources: Sequence[str], output: str | None, as_json: bool) -> None:
    """A page in Markdown out of recorded results, without running anything."""
    from rota.analysis.output import write_file
    from rota.experiments.repro.page import page, read_results

    results = read_results(sources)
    text = _as_text([r.numbers() for r in results]) if as_json else page(results)
    if output is None:
        click.echo(text, nl=False)
        return
    write_file(output, text)
    click.echo(output)


def _runs(wanted: Sequence[str], name: str, text: str) -> click.Command:
    """The command that runs some reproductions."""

    @click.command(name, help=text, epilog=f"Example: rota repro {name} --quick -o out")
    @click.option(
        "--quick",
        is_flag=True,
        help="Run fewer points, for about a minute, and say what is left out.",
    )
    @click.option(
        "--store",
        default=STORE,
        show_default=True,
        metavar="FILE",
        help="Store of results.",
    )
    @click.option(
        "-j",
        "--workers",
        type=int,
        metavar="N",
        help="Number of processes (default: one per CPU).",
    )
    @click.option(
        "-o",
        "--output",
        metavar="DIR",
        help="Folder for the figure (PNG, PDF) and the JSON.",
    )
    @click.option("--stored", is_flag=True, help="Run nothing: compare what the store has.")
    @click.option("--strict", is_flag=True, help="Exit code 1 if a number is not met.")
    @click.option("--quiet", is_flag=True, help="Print no line per run.")
    @json_option
    def run(**options: Any) -> int:
        return _reproduce(list(wanted) or list(names.reproductions()), **options)

    return run


command.add_command(_runs([], "all", "Run all of them, one after the other."))


def _reproduce(wanted: Sequence[str], *, output: str | None, strict: bool, quiet: bool, as_json: bool,
               **how: Any) -> int:  # fmt: skip
    from rota.experiments.repro.carrying import reproduce
    from rota.experiments.repro.catalogue import load

    folder = None if output is None else _folder(output)
    results: list[ReproductionResult] = []
    for name in wanted:
        reproduction = load(name)
        outcome = reproduce(reproduction, watching=_watching(quiet=quiet), **how)
        if outcome.interrupted:
            kept = f"what had ended is in {how['store']}"
            click.echo(f"rota: interrupted: {kept}; run the same command again to go on", err=True)
            return INTERRUPTED
        results.append(outcome.result)
        paths = [] if folder is None else _save(reproduction, outcome, folder)
        if not as_json:
            _show(outcome.result, paths)
    if as_json:
        every = [result.numbers() for result in results]
        click.echo(_as_text(every if len(wanted) > 1 else every[0]), nl=False)
    if any(r.failed for r in results):
        return FAILED
    good = {"met", "close", "not published"}
    return FAILED if strict and any(set(r.counts()) - good for r in results) else OK


def _watching(
    *, quiet: bool
) -> Callable[[Spec], contextlib.AbstractContextManager[Callable[[SweepProgress], None] | None]]:
    from rota.cli.sweep_progress import sweep_progress

    @contextlib.contextmanager
    def watching(spec: Spec) -> Iterator[Callable[[SweepProgress], None] | None]:
        with sweep_progress(spec, quiet=quiet) as progress:
            yield progress

    return watching


def _folder(output: str) -> Path:
    from rota.core.errors import OutputError

    path = Path(output)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "give another one"
        raise OutputError(f"cannot make the folder {output}: {error.strerror}; {fix}") from error
    return path


def _save(wanted: Reproduction, outcome: ReproductionOutcome, folder: Path) -> list[Path]:
    """The figure as PNG and PDF, and the JSON."""
    from rota.analysis import plots
    from rota.analysis.output import write_file
    from rota.experiments.repro.drawing import figure

    result = outcome.result
    path = folder / f"{wanted.name}.json"
    write_file(path, _as_text(result.numbers()))
    if not outcome.measured:
        return [path]
    drawn = figure(wanted, outcome.measured, result.rows)
    paths = [path]
    for form in ("png", "pdf"):
        paths.append(folder / f"{wanted.name}.{form}")
        write_file(paths[-1], plots.rendered(drawn, form))
    return paths


def _show(result: ReproductionResult, paths: Sequence[Path]) -> None:
    from rota.cli.tables import reflow, show_table

    show_table(
        f"{result.name}: {result.title} ({result.paper}, {result.item})",
        ("what", "ours", "published", "difference", "verdict"),
        [_cells(row) for row in result.rows],
    )
    counts = (
        ", ".join(f"{n} {verdict}" for verdict, n in result.counts().items()) or "nothing published to compare with"
    )
    said = [
        f"{result.runs} runs ({result.computed} computed now, {result.unstable} unstable), {result.cpu_s:,.1f} CPU s."
    ]
    if result.quick:
        said.append(f"Quick: {result.cut} {result.left_out} published numbers were not compared.")
    reasons = dict.fromkeys(row.reason for row in result.rows if row.reason)
    said += [f"Not met or close: {text}" for text in reasons]
    said += result.notes
    click.echo(f"\n{counts}")
    for text in said:
        click.echo(reflow(text))
    for path in paths:
        click.echo(str(path))
    click.echo("")


def _cells(row: Row) -> tuple[str, ...]:
    from rota.experiments.repro.page import number

    name = row.name if row.at is None else f"{row.name}, {row.at:g}"
    unit = f" {row.unit}" if row.unit else ""
    digits = 8 if row.at is None else 4
    ours = "-" if row.ours is None else f"{number(row.ours, digits)}{unit}"
    off = "-" if row.difference is None else f"{row.difference:+.2f} %"
    published = "-" if row.published is None else f"{number(row.published, digits)}{unit}"
    return name, ours, published, off, row.verdict


def _as_text(numbers: Any) -> str:
    import json

    return json.dumps(numbers, indent=1, ensure_ascii=False) + "\n"
