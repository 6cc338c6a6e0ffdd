"""`rota top`: the cluster in the terminal."""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from rota.cli.connection import connection, open_client

if TYPE_CHECKING:
    from rich.console import Console

    from rota.cli.top_screen import View
    from rota.dashboard.watching import Watcher

EXAMPLES = """
\b
Examples:
  rota top
  rota top --once --show waiting --sort eta | head -30
"""
_WIDE = 160
"""Columns where there is no terminal."""
_SHOWS = ("running", "waiting", "over", "all")
_SORTS = ("job", "tenant", "gpus", "done", "time", "reason", "eta")
_KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1bOA": "up",
    "\x1bOB": "down",
}
_QUIT = frozenset({"q", "Q", "\x03", "\x04"})
_TICK_S = 0.2


@click.command("top", epilog=EXAMPLES)
@click.option("--once", is_flag=True, help="Print one frame and end; works without a terminal.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(0.2, 3600.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two refreshes.",
)
@click.option("--show", type=click.Choice(_SHOWS), default="running", show_default=True, help="Jobs in the table.")
@click.option("--sort", type=click.Choice(_SORTS), default="job", show_default=True, help="Column to sort by.")
@connection
def command(*, once: bool, every_s: float, show: str, sort: str, **options: Any) -> None:
    """Show the cluster in the terminal, and keep it up to date: health, GPUs, jobs with reasons and expected starts.

    Keys: q quits, tab chooses which jobs, s the column to sort by, r reverses, arrows and page keys scroll.
    """
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("standard input and output are not a terminal; `rota top --once` prints one frame")
    client = open_client(options)
    from rota.cli.top_screen import View
    from rota.dashboard.watching import Pace, Watcher

    view = View(show=show, sort=sort)
    watcher = Watcher(client, Pace(refresh_s=every_s, usage_s=0.0, idle_after_s=1e9))
    try:
        if once:
            _print_once(watcher, view)
        else:
            _live(watcher, view)
    finally:
        watcher.stop()
        client.close()


def _print_once(watcher: Watcher, view: View) -> None:
    from rota.cli.top_screen import frame
    from rota.deploy.clocks import wall_s

    watcher.refresh()
    if view.show != "running":
        watcher.ask_questions()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    for line in frame(watcher.picture, view, width=width, height=None, now=wall_s()):
        click.echo(line.plain.rstrip())


def _live(watcher: Watcher, view: View) -> None:
    from rich.console import Console

    console = Console()
    watcher.start()
    with console.screen(hide_cursor=True), _single_keys() as descriptor:
        shown: tuple[Any, ...] = ()
        pending = ""
        while True:
            picture = watcher.look()
            now = (picture.version, view, tuple(console.size), int(time.monotonic()))
            if now != shown:
                shown = now
                _draw(console, watcher, view)
            ready, _, _ = select.select([descriptor], [], [], _TICK_S)
            if not ready:
                continue
            typed = os.read(descriptor, 256).decode(errors="replace")
            if not typed:
                return
            pending += typed
            keys, pending = keys_of(pending)
            if any(key in _QUIT for key in keys):
                return
            view = _after(view, keys, watcher, console)


def _after(view: View, keys: list[str], watcher: Watcher, console: Console) -> View:
    from rota.cli.top_screen import rows_that_fit

    rows = rows_that_fit(watcher.picture, console.size.width, console.size.height)
    for key in keys:
        view = view.after(key, rows)
    return view.within(watcher.picture, rows)


def _draw(console: Console, watcher: Watcher, view: View) -> None:
    from rich.text import Text

    from rota.cli.top_screen import frame
    from rota.deploy.clocks import wall_s

    size = console.size
    lines = frame(watcher.picture, view, width=size.width, height=size.height, now=wall_s())
    console.control()
    console.file.write("\x1b[H")
    for place, line in enumerate(lines):
        console.print(line, end="", soft_wrap=True)
        console.file.write("\x1b[K" + ("\n" if place + 1 < len(lines) else ""))
    console.print(Text(""), end="")
    console.file.write("\x1b[J")
    console.file.flush()


@contextmanager
def _single_keys() -> Iterator[int]:
    """Standard input key by key; as before afterwards."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys_of(typed: str) -> tuple[list[str], str]:
    """The keys in what was typed, and the beginning of one whose rest has not come yet."""
    keys: list[str] = []
    rest = typed
    while rest:
        known = next((sequence for sequence in _KEYS if rest.startswith(sequence)), None)
        if known is not None:
            keys.append(_KEYS[known])
            rest = rest[len(known) :]
        elif rest.startswith("\x1b") and any(sequence.startswith(rest) for sequence in _KEYS):
            return keys, rest
        else:
            keys.append(rest[0])
            rest = rest[1:]
    return keys, ""
