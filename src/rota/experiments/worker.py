"""A worker process: reads runs from standard input, writes outcomes to standard output.

`python -m rota.experiments.worker`. It loads everything once and then does run after run. Messages
are pickles between processes of one program, with their length before them. What a policy prints
goes to standard error, so that it cannot be taken for a message. When the parent is gone, however
that came about, so is the worker: a thread waits for the end of the input.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import Any, BinaryIO

READY = "ready"
_LENGTH = 8


def send(stream: BinaryIO, message: Any) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=5)
    stream.write(len(data).to_bytes(_LENGTH, "little") + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message; raises EOFError when the other side is gone."""
    size = int.from_bytes(_exactly(stream, _LENGTH), "little")
    return pickle.loads(_exactly(stream, size))  # noqa: S301 - from our own parent or child


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.read(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def main() -> None:
    """Work until the parent closes the pipe or dies."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, tasks), daemon=True).start()
    from rota.experiments.execution import execute  # the parent's end is watched from the first moment
    from rota.mechanisms.registry import mechanisms
    from rota.policies.registry import policies

    policies.names()
    mechanisms.names()
    send(out, READY)
    while True:
        parameters, overload = tasks.get()
        send(out, execute(parameters, overload))


def _listen(stream: BinaryIO, tasks: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            tasks.put(receive(stream))
        except (EOFError, OSError):  # noqa: PERF203 - it ends the loop
            os._exit(0)


if __name__ == "__main__":
    main()
