"""Output of jobs on its way from an agent to a user: the user's stream waits for chunks that the agent pushes."""

from __future__ import annotations

import asyncio
import itertools

from rota.rpc import rota_pb2 as pb

_LONGEST_QUEUE = 64
"""Chunks."""


class LogStreams:
    """Users who wait for chunks, by the number of their stream. Lives in the event loop of the server."""

    def __init__(self) -> None:
        self._queues: dict[int, asyncio.Queue[pb.LogChunk]] = {}
        self._nodes: dict[int, str] = {}
        self._numbers = itertools.count(1)

    def open(self, node: str) -> tuple[int, asyncio.Queue[pb.LogChunk]]:
        """A number and the queue of the chunks that a node will send."""
        number = next(self._numbers)
        self._queues[number] = asyncio.Queue(_LONGEST_QUEUE)
        self._nodes[number] = node
        return number, self._queues[number]

    def node(self, number: int) -> str | None:
        """Who was asked."""
        return self._nodes.get(number)

    def close(self, number: int) -> None:
        """Nobody reads any more."""
        self._queues.pop(number, None)
        self._nodes.pop(number, None)

    async def push(self, chunk: pb.LogChunk) -> None:
        """Hand a chunk to its reader; a slow reader slows the agent down."""
        queue = self._queues.get(chunk.id)
        if queue is not None:
            await queue.put(chunk)
