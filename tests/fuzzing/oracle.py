"""What may come of an input: an answer or an error that is meant for people, in five seconds and one gigabyte.

Seconds are those of the processor, as others may use the machine; on the clock it may take a minute.
"""

import contextlib
import resource
import signal
import traceback
from pathlib import Path

import click

from rota.core.errors import RotaError

SECONDS = 5.0
WALL_S = 60.0
MOST_RSS = 1_000_000_000
_HARD = 4 << 30
"""Bytes of address space: what asks for more gets MemoryError instead of the machine."""


class Hang(BaseException):
    """An input took too long; not an Exception, so that nothing on the way takes it for an error of its own."""


class Found(Exception):
    """Something that must not happen, found by the target itself."""


def limit_memory():
    """Keep this process from taking the whole machine."""
    resource.setrlimit(resource.RLIMIT_AS, (_HARD, _HARD))


def peak_rss(pid="self"):
    """The most bytes that a process has held at once; 0 if it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def _limited():
    def ring(*_):
        raise Hang

    before = {number: signal.signal(number, ring) for number in (signal.SIGALRM, signal.SIGPROF)}
    left, _ = signal.setitimer(signal.ITIMER_REAL, WALL_S)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, left)  # of a test around it, which has a limit of its own


def judge(feed, data):
    """(rejected, what is wrong): whether an input was refused, and None or why this is a fault."""
    try:
        with _limited():
            feed(data)
    except (RotaError, click.ClickException) as error:
        return True, _unprintable(error)
    except Hang:
        return (
            False,
            f"hang: no answer within {SECONDS:g} s of the processor, or {WALL_S:g} s\n{traceback.format_exc()}",
        )
    except Exception:  # noqa: BLE001 - the point of it
        return False, traceback.format_exc()
    return False, None


def _unprintable(error):
    """A message has to reach a terminal and a log."""
    message = error.format_message() if isinstance(error, click.ClickException) else str(error)
    try:
        message.encode()
    except UnicodeEncodeError:
        return f"message cannot be printed: {message!r:.300}\n{traceback.format_exc()[-3000:]}"
    return None
