import asyncio
import random
import subprocess
import sys

import pytest

from real_time import run_virtual
from rota.core.errors import ConfigError
from rota.emulate.catalogue import StepTime
from rota.emulate.device import DevicePool
from rota.emulate.sampling import Sampler
from rota.emulate.state import JobState


def test_agents_and_jobs_load_the_standard_library_only():
    script = (
        "import sys, rota.emulate.job, rota.emulate.server\n"
        "ours = {m for m in sys.modules if m.startswith('rota.') and not m.startswith('rota.emulate')}\n"
        "core = {'rota.core.errors', 'rota.core.files', 'rota.core.unix_sockets'}\n"
        "sys.exit(str(ours) if ours != {'rota._version', 'rota.core', *core} else 'numpy' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_sample_is_drawn_once_per_epoch_and_orders_differ():
    sampler = Sampler(samples=103, batch=10, seed=5)

    epochs = [[s for step in range(e * 11, e * 11 + 11) for s in sampler.at(step)] for e in range(3)]

    assert all(sorted(epoch) == list(range(103)) for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert sampler.place(25) == (2, 3)
    assert Sampler(samples=103, batch=10, seed=5).at(17) == sampler.at(17)


def test_a_checkpoint_restores_step_place_and_random_numbers(tmp_path):
    state = JobState.new(seed=3, ballast_bytes=3_000_000)
    for _ in range(25):
        state.advance(11)
    state.save(tmp_path / "c")
    expected = state.random.random()

    other = JobState.new(seed=0)

    assert other.load(tmp_path / "c") == 25
    assert (other.epoch, other.cursor, other.seed) == (2, 3, 3)
    assert other.random.random() == expected
    assert (tmp_path / "c" / "ballast").stat().st_size == 3_000_000


def test_a_damaged_checkpoint_is_named(tmp_path):
    JobState.new(seed=3, ballast_bytes=10).save(tmp_path)
    (tmp_path / "ballast").write_bytes(b"123")
    with pytest.raises(ConfigError, match="3 bytes instead of 10"):
        JobState.new(seed=0).load(tmp_path)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(ConfigError, match="not a checkpoint of an emulated job"):
        JobState.new(seed=0).load(tmp_path)


def test_a13_a_job_moved_twenty_times_counts_every_step_once(tmp_path):
    async def run():
        fleet = DevicePool.of(["v100", "k80", "a100"])
        draw = random.Random(0)
        attempts = 0
        state = JobState.new(seed=1)
        while state.step < 300:
            device = fleet[draw.choice(["gpu0", "gpu1", "gpu2"])]
            interrupted_after_s = 4.0 * draw.random() if attempts < 20 else 1000.0
            state = await attempt(device, tmp_path / "c", interrupted_after_s)
            attempts += 1
        return attempts, state

    async def attempt(device, checkpoint, interrupted_after_s):
        state = JobState.new(seed=1)
        if checkpoint.exists():
            state.load(checkpoint)
        seat = device.attach("a")
        asyncio.get_running_loop().call_later(interrupted_after_s, seat.interrupt)
        while state.step < 300 and await seat.run(StepTime(0.3)):
            state.advance(16)
        device.release("a")
        state.save(checkpoint)
        return state

    attempts, state = run_virtual(run())

    whole = JobState.new(seed=1)
    for _ in range(300):
        whole.advance(16)
    assert state.step == 300
    assert attempts == 21
    assert (state.epoch, state.cursor, state.random.getstate()) == (whole.epoch, whole.cursor, whole.random.getstate())
