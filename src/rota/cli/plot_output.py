"""What all kinds of `rota plot` share: where a figure goes, how large it is, how its curves look."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rota.analysis.figures.style import BANDS, WIDTHS, Style, inches
from rota.cli.options import F, completes, echo_json, settings_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rota.experiments.plotting import RunSelection

Numbers = Callable[[], dict[str, Any]]

sweep_option = click.option(
    "--sweep",
    "sweep_name",
    metavar="NAME",
    help="Name of the sweep, if the store has several.",
)
where_option = settings_option("--where", "where", "Take only runs with this value, e.g. load=0.5")


def bins_option(default: int) -> Callable[[F], F]:
    """`--bins N`."""
    return click.option(
        "--bins",
        type=click.IntRange(1, 10_000),
        default=default,
        show_default=True,
        help="Number of bins over time.",
    )


def _size(_ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    return None if value is None else inches(value, param.opts[0])


def output_options(function: F) -> F:
    """Where the figure goes and how large it is, or its numbers instead."""
    text = "Print the numbers instead of drawing them."
    function = click.option("--json", "as_json", is_flag=True, help=text)(function)
    function = click.option(
        "--height", callback=_size, metavar="INCHES", help="Height of the figure (default: by what is in it)."
    )(function)
    function = click.option(
        "--width",
        callback=_size,
        metavar="INCHES|NAME",
        shell_complete=completes(lambda: WIDTHS),
        help=f"Width of the figure: inches, or {', '.join(WIDTHS)}.",
    )(function)
    text = "File for the figure: .png, .pdf or .svg."
    return click.option("-o", "--output", metavar="FILE", help=text)(function)


def axis_options(function: F) -> F:
    """Scales and names of both axes."""
    for axis in ("y", "x"):
        text = f"Name of the {axis} axis (default: by what is drawn)."
        function = click.option(f"--{axis}-label", metavar="TEXT", help=text)(function)
        flag = f"--log-{axis}/--linear-{axis}"
        text = f"Make the {axis} axis logarithmic or not (default: by the kind of figure)."
        function = click.option(flag, default=None, help=text)(function)
    return function


def curve_options(function: F) -> F:
    """Which curves, in which order, under which names; and the axes."""
    function = click.option(
        "--without",
        multiple=True,
        metavar="NAME",
        help="Leave out this curve, or all that match a pattern; repeatable.",
    )(function)
    function = click.option(
        "--curve",
        "curves",
        multiple=True,
        metavar="NAME",
        help="Draw only this curve (or those that match a pattern like 'srtf*'), in the order given; repeatable.",
    )(function)
    function = click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="NAME=LABEL",
        help="Other name of a curve in the legend, e.g. srtf=SRTF; repeatable.",
    )(function)
    return axis_options(function)


def band_options(function: F) -> F:
    """How intervals over seeds are drawn."""
    function = click.option("--no-band", is_flag=True, help="Draw no intervals; the same as --band none.")(function)
    return click.option(
        "--band",
        type=click.Choice(BANDS),
        default="auto",
        show_default=True,
        help="How to draw 95 % intervals; auto: areas of up to four curves, whiskers of more.",
    )(function)


def style_of(options: dict[str, Any]) -> Style:
    """The style out of the options of a verb, which are taken away; width and height stay."""
    names = ("log_x", "log_y", "x_label", "y_label", "labels", "curves", "without", "band")
    given = {name: options.pop(name) for name in names if name in options}
    if options.pop("no_band", False):
        given["band"] = "none"
    return Style(width=options["width"], height=options["height"], **given)


def selection(sweep: str | None, where: dict[str, str]) -> RunSelection:
    """Which runs of a store are meant."""
    from rota.experiments.plotting import RunSelection

    return RunSelection(sweep=sweep, where=where)


def check(*, output: str | None, as_json: bool, **_size: float | None) -> None:
    """What is wrong with the output is said before anything is read."""
    if as_json and output is None:
        return
    if as_json or output is None:
        raise click.UsageError("give either -o FILE (.png, .pdf or .svg) or --json")
    from rota.analysis.output import check_writable
    from rota.analysis.plots import require_matplotlib
    from rota.analysis.trace_plots import form_of

    form_of(output)
    require_matplotlib()
    check_writable(output)


def put(
    numbers: Numbers,
    figure: Callable[[], Figure],
    *,
    output: str | None,
    as_json: bool,
    width: float | None = None,
    height: float | None = None,
) -> None:
    """Draw the figure into its file in the size that was asked for, or print its numbers."""
    if as_json or output is None:
        echo_json(numbers())
        return
    from rota.analysis.output import write_file
    from rota.analysis.plots import rendered
    from rota.analysis.trace_plots import form_of

    drawn = figure()
    drawn.set_size_inches(width or drawn.get_figwidth(), height or drawn.get_figheight())
    write_file(output, rendered(drawn, form_of(output)))
    click.echo(output)
