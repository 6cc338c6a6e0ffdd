"""TERM that comes from a batch system to every process of a job at once.

The agent of the server hears of it too, and asks the job to save and stop: that is what ends the
loop. Without this a process that does nothing about TERM would be dead before it can save. Programs
that handle TERM themselves go on to.
"""

from __future__ import annotations

import os
import signal
import threading


def leave_term_to_the_agent() -> None:
    """Do nothing at TERM, in this process and not in its children.

    A program that does something already is left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    signal.signal(
        signal.SIGTERM, _nothing
    )  # not SIG_IGN, which programs that it starts would inherit
    os.register_at_fork(after_in_child=_as_before)


def _nothing(number: int, frame: object) -> None:
    del number, frame


def _as_before() -> None:
    if signal.getsignal(signal.SIGTERM) is _nothing:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
