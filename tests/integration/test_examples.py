"""The examples, stopped and resumed by a real endpoint: they end with the weights of a run that nobody stopped."""

import asyncio
import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from training import ONE, SOURCES, end_of, listening, process, surroundings

from rota.client import latest
from rota.deploy.worker.ranks import AttemptId

EXAMPLES = Path(__file__).parents[2] / "examples"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


def alone(script, *arguments):
    """Run an example outside Rota."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    subprocess.run(
        [sys.executable, EXAMPLES / script, *map(str, arguments)],
        check=True,
        capture_output=True,
        env={**clean, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"},
    )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def attempt(endpoint, folder, task, size, script, arguments, stop_after, steps):
    """One attempt of an example as a gang of `size`; stopped after some steps, or run to its end."""
    found = latest(folder / "checkpoints")
    endpoint.expect(task, range(size))
    gang = {"WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "OMP_NUM_THREADS": 1}
    async with contextlib.AsyncExitStack() as stack:
        jobs = []
        for rank in range(size):
            where = surroundings(
                folder, task, rank, size, found and found.path, ROTA_STEPS=steps, RANK=rank, LOCAL_RANK=rank, **gang
            )
            running = process(str(EXAMPLES / script), *arguments, environment=where)
            jobs.append(await stack.enter_async_context(running))
        if stop_after is not None:
            assert await endpoint.wait_for(lambda: endpoint.ranks(task)[0].step >= stop_after, 120)
            endpoint.stop(task)
        await asyncio.gather(*(end_of(job, 120) for job in jobs))
    await endpoint.wait_for(lambda: all(rank.over for rank in endpoint.ranks(task)), 10)
    return endpoint.ranks(task)


def in_two_attempts(folder, size, script, arguments, stop_after, steps):
    async def run():
        async with listening(folder / "agent" / "socket") as endpoint:
            first = await attempt(endpoint, folder, ONE, size, script, arguments, stop_after, steps)
            second = await attempt(endpoint, folder, AttemptId("7", 1), size, script, arguments, None, steps)
            return first, second

    (folder / "checkpoints").mkdir(exist_ok=True)
    first, second = asyncio.run(run())
    assert {rank.phase for rank in first} == {"stopped"}
    assert len({rank.step for rank in first}) == 1
    assert stop_after <= first[0].step == first[0].saved < steps
    assert {(rank.phase, rank.step) for rank in second} == {("done", steps)}


def test_the_numpy_example_ends_with_the_same_weights(tmp_path):
    in_two_attempts(
        tmp_path, 1, "numpy_mlp.py", ["--pause", 0.003, "--out", tmp_path / "two.npz"], stop_after=70, steps=600
    )
    alone("numpy_mlp.py", "--steps", 600, "--out", tmp_path / "one.npz")

    with np.load(tmp_path / "one.npz") as one, np.load(tmp_path / "two.npz") as two:
        assert set(one.files) == set(two.files)
        assert all((one[name] == two[name]).all() for name in one.files)


@needs_torch
@pytest.mark.parametrize("workers", [0, 2])
def test_the_torch_example_ends_with_the_same_weights(tmp_path, workers):
    import torch

    arguments = ["--cpu", "--workers", workers, "--out", tmp_path / "two.pt"]
    in_two_attempts(tmp_path, 1, "torch_cnn.py", arguments, stop_after=70, steps=1500)
    alone("torch_cnn.py", "--steps", 1500, "--cpu", "--out", tmp_path / "one.pt")

    one, two = (torch.load(tmp_path / name, weights_only=True) for name in ("one.pt", "two.pt"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@needs_torch
def test_two_ranks_of_the_torch_example_stop_on_the_same_step_and_go_on(tmp_path):
    """Gradients are averaged in collectives, so a rank that stopped a step earlier would leave the other hanging."""
    in_two_attempts(tmp_path, 2, "torch_cnn.py", ["--cpu", "--out", tmp_path / "two.pt"], stop_after=70, steps=1000)

    assert (tmp_path / "two.pt").exists()
