"""The process that answers: follows the journal, and lets a child of its own think about each question.

A line of JSON on standard input is a question, a line on standard output its answer. The child has a copy of the state
for nothing (fork), a bound on its CPU time, and cannot hurt anybody when it fails. It ends when its input does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from rota.core.errors import RotaError
from rota.deploy import structured_logs
from rota.deploy.questions.answers import Answers
from rota.deploy.questions.breaking_off import Thinking
from rota.deploy.questions.following import Follower
from rota.deploy.questions.fork import Deadline

NICENESS = 10
_SPARE_CPU_S = 2
"""CPU seconds after the end of a simulation in which its answer has to be written."""
_MOST_MEMORY = 1 << 30
"""Bytes that a child may need beside what it began with."""
_MOST_BYTES = 8 << 20
"""Of an answer."""

log = logging.getLogger(__name__)


def main(path: str, log_format: str = structured_logs.TEXT) -> None:
    """Answer until standard input ends."""
    os.nice(NICENESS)
    structured_logs.configure("warning", log_format)
    thinking = Thinking()
    follower = Follower(Path(path))
    with contextlib.suppress(RotaError):
        follower.catch_up()
    _say({"ready": True, "event": follower.event})
    for line in sys.stdin:
        thinking.begin()
        _say(_answered(follower, json.loads(line), thinking))


def _say(values: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _answered(follower: Follower, asked: dict[str, Any], thinking: Thinking) -> dict[str, Any]:
    began = time.process_time()
    try:
        follower.catch_up()
        if asked["question"]["kind"] == "occupancy":  # here, so that what was read is there for the next question
            follower.occupancy.read_on(follower.event, follower.recovered.registry)
    except RotaError as error:
        return {"refused": str(error), "cpu_s": time.process_time() - began}
    gc.freeze()  # so that the child's collector leaves our pages alone
    answer, child_s = _in_a_child(follower, asked, thinking)
    return {**answer, "cpu_s": time.process_time() - began + child_s}


def _in_a_child(follower: Follower, asked: dict[str, Any], thinking: Thinking) -> tuple[dict[str, Any], float]:
    """The answer of a child process, and its CPU seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _think(follower, asked, writing)
    thinking.started(child)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read(_MOST_BYTES + 1)
    thinking.ended()
    if len(said) > _MOST_BYTES:
        said = b""
    _, status, used = os.wait4(child, 0)
    cpu_s = used.ru_utime + used.ru_stime
    if os.waitstatus_to_exitcode(status) != 0 or not said:
        limit = f"it took longer than its {asked['cpu_s']:g} CPU seconds, or more memory than there is"
        return {"exhausted": f"the question has no answer: {limit}; ask for less (one job, --futures 0)"}, cpu_s
    answer: dict[str, Any] = json.loads(said)
    return answer, cpu_s


def _think(follower: Follower, asked: dict[str, Any], pipe: int) -> None:
    """In the child: answer and end."""
    code = 1
    try:
        cpu_s = float(asked["cpu_s"])
        Deadline.within(cpu_s)
        most = int(cpu_s) + _SPARE_CPU_S
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + _MOST_MEMORY, resource.RLIM_INFINITY))
        with os.fdopen(pipe, "w", encoding="utf-8") as out:
            json.dump(_safely(follower, asked["question"], cpu_s), out)
        code = 0
    finally:
        os._exit(code)


def _data_bytes() -> int:
    """What the process has already, and the child with it."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(pages[5]) * resource.getpagesize()


def _safely(follower: Follower, question: dict[str, Any], cpu_s: float) -> dict[str, Any]:
    try:
        return {"answer": Answers(follower).answer(question, cpu_s)}
    except RotaError as error:
        return {"refused": str(error)}
    except MemoryError:
        much = f"more than {_MOST_MEMORY >> 20} MB of memory"
        return {"exhausted": f"the question has no answer: it took {much}; ask for less"}
    except Exception as error:  # whatever it is, somebody waits for an answer
        log.exception("a question failed: %s", question)
        return {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main(*sys.argv[1:])
