"""Entry point: finds the verb, runs it, and turns every outcome into a message and an exit code.

0 done; 1 the run failed; 2 input or output that cannot be used; 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence

import click

from rota._version import __version__
from rota.core.errors import ConfigError, RotaError

VERBS = {
    "simulate": "Simulate a workload on a cluster under a policy.",
    "sweep": "Make many runs, each only once: policies x loads x seeds x anything.",
    "results": "List and show the results in a store, or export them.",
    "replay": "Compute the metrics of a run again from its event log.",
    "compare": "Compare two runs, or two values of a sweep, and say whether they differ beyond noise.",
    "plot": "Draw a figure for a paper: completion times, utilisation, Gantt charts, heat maps.",
    "report": "Write one interactive HTML file about a sweep or some runs.",
    "repro": "Run published experiments again, and put the results beside the printed numbers.",
    "policies": "List scheduling policies, or explain one.",
    "mechanisms": "List mechanisms, or explain one.",
    "profile": "Measure how the speed of a command depends on CPUs, memory and storage.",
    "profiles": "List throughput catalogues, or show one.",
    "workloads": "List job generators, or explain one; run a training workload.",
    "clusters": "List built-in clusters, or show one.",
    "rules": "List rules presets, or show one.",
    "trace": "Describe a trace file, check it, convert it, or write one from a generator.",
    "fidelity": "Run a trace simulated and emulated, and compare job by job.",
    "up": "Start a whole cluster on this machine: scheduler and agents, until Ctrl-C.",
    "serve": "Run the scheduler of a deployment.",
    "agent": "Run the agent of a server, which starts and stops jobs there.",
    "submit": "Submit a command, an emulated job, or a file of jobs.",
    "submit-trace": "Submit the jobs of a trace to a live cluster, each at its arrival.",
    "jobs": "List the jobs of a deployment, or show one.",
    "why": "Say why a job waits, and what would place it.",
    "eta": "Estimate when jobs start and end.",
    "what-if": "Simulate a change to a live cluster: who gains, who loses.",
    "ledger": "Print GPU-hours by tenant: entitled, received, owed, lost, cost.",
    "policy": "Show what decides in a live cluster, or set another policy, mechanism or rules.",
    "tenants": "Show weights and limits of tenants, or set others on a live cluster.",
    "cancel": "Cancel jobs. A job that runs is asked to save and stop.",
    "hold": "Keep jobs from running until they are released.",
    "release": "Let jobs that are held start again.",
    "logs": "Print the output of a job.",
    "nodes": "List the servers of a deployment.",
    "pilots": "List, start and stop pilots: batch jobs of Slurm that are servers of a deployment.",
    "drain": "Keep jobs away from a server, or let them back.",
    "events": "Print what happens in a deployment, or export its event log.",
    "top": "Show the cluster in the terminal, and keep it up to date.",
    "dashboard": "Serve a page about the cluster on this machine, with your own rights.",
    "status": "Print the state of the scheduler: settings, clock, number of jobs.",
    "journal": "Check or repair the state file of a scheduler.",
    "backup": "Write a backup of a scheduler to FILE, while it runs.",
    "restore": "Make the state of a scheduler from a backup, or check one.",
    "certs": "Make and renew the certificates of a deployed scheduler, its agents and clients.",
    "tokens": "Make, list and revoke the tokens with which tenants submit jobs.",
    "bench": "Measure the speed of parts of Rota.",
    "demo": "Compare policies and mechanisms on built-in workloads; a table and a report.",
    "completion": "Print a script with which a shell completes commands, options and names.",
}
"""Verb to one line of help. Kept here so that `rota --help` imports none of the verbs."""

OK = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130
RUN_THREAD = "rota-run"
"""The thread in which a simulation runs (`session`, which is slow to import)."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Of an output that is full. Where it is a file it has a name; without one it is standard output."""
_LONGEST_MESSAGE = 20_000
"""Characters: what a file holds may be shown in a message, and a file may hold anything."""
_NUMBERS = {"integer": "a whole number", "float": "a number"}
"""What click calls them, and what people do."""
ISSUES = "the project's issue tracker"


class Verbs(click.Group):
    """Imports the module of a verb only when that verb is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command object in `rota.cli.<verb>`, with an underscore for every hyphen."""
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"rota.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb of a command line; who mistypes it hears of the nearest one."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = _nearest(args[0], VERBS)
            ctx.fail(f"no such command {args[0]!r}{f'; did you mean {near!r}?' if near else '.'}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """The table of verbs, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _allow_unpacked(ctx: click.Context, param: click.Parameter, value: float | None) -> None:  # noqa: ARG001 - click's
    """For this process and those that it starts."""
    if value is not None:
        os.environ["ROTA_MAX_UNPACKED_MB"] = repr(value)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try `rota demo`, or `rota simulate --help` for examples.",
)
@click.version_option(__version__, prog_name="rota")
@click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    help="Print the traceback of an error (or ROTA_DEBUG=1).",
)
@click.option(
    "--max-unpacked-mb",
    type=click.FloatRange(0.0, 1e9, min_open=True, max_open=True),
    metavar="MB",
    expose_value=False,
    callback=_allow_unpacked,
    help="Most that a compressed file may hold (or ROTA_MAX_UNPACKED_MB; default 256).",
)
def cli() -> None:
    """Schedule jobs on clusters of several types of GPUs: simulated, emulated or real."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        return _main(arguments)
    except KeyboardInterrupt:  # where nobody else takes it: while results or a message are written
        return _say("interrupted", INTERRUPTED)


def _main(arguments: Sequence[str] | None) -> int:
    args = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--traceback" in args or os.environ.get("ROTA_DEBUG", "0") not in {"", "0"}
    _open_closed_streams()
    try:
        words = [word for word in args if word != "--traceback"]
        code = cli.main(words, prog_name="rota", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as stop:
        own = _blame(stop)
        if own is not None:
            return _say(f"error: {own}", USAGE)
        return stop.code if isinstance(stop.code, int) else FAILED
    except BrokenPipeError:
        _write_no_more()  # the reader (head, less) has gone
        return FAILED
    except Exception as error:  # noqa: BLE001 - the last place where an error can be turned into a message
        code = _explain(error, debug=debug)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        own = _blame(error)
        if own is None:
            raise
        return _say(f"error: {own}", USAGE)
    _leave_solvers_behind(code)
    return code if isinstance(code, int) else OK


def _leave_solvers_behind(code: object) -> None:
    """End here if Ctrl-C was pressed and a solver goes on in the thread of the run; the end of Python would wait."""
    if code == INTERRUPTED and any(thread.name == RUN_THREAD for thread in threading.enumerate()):
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one; None if none does."""
    import difflib  # not for --help

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), None)


def _explain_usage(error: click.UsageError) -> int:
    message = error.format_message()
    if isinstance(error, click.NoSuchOption):
        near = _nearest(error.option_name, error.possibilities or ())
        message = f"no such option {error.option_name!r}; did you mean {near!r}?" if near else message
    if isinstance(error, click.BadParameter):
        message = _in_words(message, error.param)
    if message.startswith("Usage: "):  # a verb with parts, and none of them was named
        click.echo(message, err=True)
        return USAGE
    asked = error.ctx.command_path if error.ctx else "rota"
    return _say(f"error: {message}\nSee `{asked} --help`.", USAGE)


def _in_words(message: str, param: click.Parameter | None) -> str:
    """What click says of a value that is no number, without names of types, and in which unit."""
    fix = "; give seconds, without a unit" if param is not None and param.metavar == "SECONDS" else ""
    for kind, words in _NUMBERS.items():
        for ending in (f" is not a valid {kind} range.", f" is not a valid {kind}."):
            if message.endswith(ending):
                return f"{message.removesuffix(ending)} is not {words}{fix}"
    return message


def _open_closed_streams() -> None:
    """Who closes a stream (>&-) wants to see nothing there; Python has no object for it then."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - until the process ends


def _write_no_more() -> None:
    """Leave nothing to be flushed to standard output when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, click.Abort):
        return _say("interrupted", INTERRUPTED)
    if isinstance(error, click.UsageError):
        return _explain_usage(error)
    if isinstance(error, click.ClickException):
        return _say(f"error: {error.format_message()}", USAGE)
    if isinstance(error, RotaError):
        return _say(f"error: {error}", USAGE if isinstance(error, ConfigError) else FAILED)
    file = error.filename if isinstance(error, OSError) else None
    told = _blame(error) or (f"{file}: {error.strerror}" if isinstance(error, OSError) and file is not None else None)
    if told is None and isinstance(error, FileNotFoundError) and _folder_is_gone():
        told = "the current folder is not there any more; go to another one (cd)"
    if told is None and isinstance(error, OSError) and error.errno in _NO_ROOM:
        _write_no_more()
        told = f"cannot write: {error.strerror}; what is there is not whole"
    if told is not None:
        return _say(f"error: {told}", USAGE)
    return _explain_unexpected(error)


def _explain_unexpected(error: Exception) -> int:
    if _while_interrupted(error):
        return _say("interrupted", INTERRUPTED)
    return _say(
        f"internal error: {type(error).__name__}: {error}\nThis is a bug in Rota {__version__}. "
        "Run again with --traceback (or ROTA_DEBUG=1) and report the output with the command to "
        f"{ISSUES}.",
        FAILED,
    )


def _while_interrupted(error: BaseException | None) -> bool:
    """Whether an error is what became of Ctrl-C on its way up, e.g. out of an import that it cut off."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _folder_is_gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - --help loads no pathlib
    except OSError:
        return True
    return False


def _blame(error: BaseException) -> str | None:
    """The line of a user's own code that an exception came from."""
    from rota.core import own_code  # not for --help

    return own_code.blame(error)


def _say(message: str, code: int) -> int:
    from rota.core.control_characters import visible  # not for --help

    shown = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]} ..."
    click.echo(f"rota: {visible(shown)}", err=True)
    return code
