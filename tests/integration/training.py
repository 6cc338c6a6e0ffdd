"""Real training processes and a real endpoint, for the tests of the iterator."""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import rota
from rota.deploy.worker.endpoint import Endpoint
from rota.deploy.worker.ranks import AttemptId

SOURCES = Path(rota.__file__).parents[1]
ONE = AttemptId("7", 0)

# A job that keeps the items it has seen, and writes at the end how it went.
JOB = """
import json, os, sys
from pathlib import Path
import rota.client

seconds, out = float(sys.argv[1]), Path(sys.argv[2])
seen = []

def save(path):
    (path / "seen.json").write_text(json.dumps(seen))

def load(path):
    seen[:] = json.loads((path / "seen.json").read_text())

it = rota.client.Iterator(lambda epoch: [epoch * 10 + i for i in range(10)], save=save, load=load)
first = it.step
for item in it:
    it.wait(seconds)
    seen.append(item)
out.write_text(json.dumps({"first": first, "step": it.step, "stopped": it.stopped, "seen": seen}))
"""

# A rank of a gang: every step ends in a collective, a byte through a pipe to each of the others and back.
RANK = """
import json, os, sys, time
from pathlib import Path
import rota.client

pipes, out, pause = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
it = rota.client.Iterator(lambda epoch: range(1000), save=lambda path: (path / "model").write_text(str(it.step)))
others = [rank for rank in range(it.world_size) if rank != it.rank]
send = {other: os.open(pipes / f"{it.rank}-{other}", os.O_RDWR) for other in others}
receive = {other: os.open(pipes / f"{other}-{it.rank}", os.O_RDWR) for other in others}
for item in it:
    time.sleep(pause)
    for other in others:
        os.write(send[other], b"+")
    for other in others:
        os.read(receive[other], 1)
out.write_text(json.dumps({"step": it.step, "stopped": it.stopped}))
"""


class WatchedEndpoint(Endpoint):
    """An endpoint whose changes can be waited for."""

    def __init__(self, path, **callbacks):
        super().__init__(path, on_change=self._wake, **callbacks)
        self._changed = asyncio.Event()

    def _wake(self, _):
        self._changed.set()

    async def wait_for(self, test, timeout):
        """Wait until something holds that changes with the ranks; whether it came true in time."""
        end = asyncio.get_running_loop().time() + timeout
        while not test():
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), end - asyncio.get_running_loop().time())
            except asyncio.TimeoutError:
                return test()
        return True


@contextlib.asynccontextmanager
async def listening(path, **callbacks):
    endpoint = WatchedEndpoint(path, **callbacks)
    await endpoint.start()
    try:
        yield endpoint
    finally:
        await endpoint.close()


@contextlib.asynccontextmanager
async def process(script, *arguments, environment=None, python=sys.executable):
    """A Python process that runs a script; killed at the end if it is still there."""
    running = await asyncio.create_subprocess_exec(
        python,
        *(["-c", script] if "\n" in script else [script]),
        *(str(argument) for argument in arguments),
        env={**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "", **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


def surroundings(folder, task=ONE, rank=0, size=1, resume=None, **more):
    """The environment that an agent gives to a rank."""
    checkpoints = Path(folder, "checkpoints")
    checkpoints.mkdir(exist_ok=True)
    return {
        "ROTA_JOB": task.job,
        "ROTA_EPOCH": str(task.epoch),
        "ROTA_RANK": str(rank),
        "ROTA_WORLD_SIZE": str(size),
        "ROTA_LOCAL_RANK": str(rank),
        "ROTA_SOCKET": str(Path(folder, "agent", "socket")),
        "ROTA_CHECKPOINTS": str(checkpoints),
        "ROTA_RESUME": str(resume or ""),
        "ROTA_STEPS": "1000000",
        **{name: str(value) for name, value in more.items()},
    }


async def end_of(running, timeout=30):
    """Wait for a process; its complaint is the message when it failed."""
    _, errors = await asyncio.wait_for(running.communicate(), timeout)
    assert running.returncode == 0, errors.decode()


def result(path):
    return json.loads(Path(path).read_text())
