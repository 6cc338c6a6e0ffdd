import asyncio
import random
import subprocess
import sys
import time

import pytest

from real_time import run_virtual
from rota.core.errors import ConfigError
from rota.emulate.catalogue import DeviceTimes, StepTime
from rota.emulate.device import Fleet
from rota.emulate.emulated import EmulatedJob, EmulatedSpec, Ended
from rota.emulate.sampling import Sampler
from rota.emulate.state import JobState

TIMES = DeviceTimes()


def test_agents_and_jobs_load_the_standard_library_only():
    script = (
        "import sys, rota.emulate.job, rota.emulate.server, rota.emulate.emulated\n"
        "ours = {m for m in sys.modules if m.startswith('rota.') and not m.startswith('rota.emulate')}\n"
        "sys.exit(str(ours) if ours != {'rota._version', 'rota.core', 'rota.core.errors'} else 'numpy' in sys.modules)"
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


def test_a_job_runs_to_its_end_and_leaves_its_device():
    async def run():
        device = Fleet.of(["v100"])["gpu0"]
        told = []
        spec = EmulatedSpec("a", StepTime(0.002), 50, memory=TIMES.memory("resnet50", 64), start_s=0.01)
        ended = await EmulatedJob(spec, [device], progress=told.append, progress_every_s=0.02).start()
        return ended, told, device

    ended, told, device = asyncio.run(run())
    assert ended == Ended(50, "done")
    assert told[-1] == 50
    assert told == sorted(told)
    assert (device.holders, device.memory.used_mib) == ([], 0.0)
    assert device.busy_s == pytest.approx(0.1)


def test_a14_a_job_is_off_its_device_within_a_tenth_of_a_second_in_the_middle_of_a_step():
    async def run():
        device = Fleet.of(["v100"])["gpu0"]
        job = EmulatedJob(EmulatedSpec("a", StepTime(2.0), 10), [device])
        task = job.start()
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        step = await job.stop()
        seconds = time.monotonic() - begun
        return step, seconds, task.result(), device.holders

    found = [asyncio.run(run()) for _ in range(3)]
    assert min(f[1] for f in found) <= 0.1
    assert all((f[0], f[2], f[3]) == (0, Ended(0, "stopped"), []) for f in found)


def test_a13_a_job_moved_twenty_times_counts_every_step_once(tmp_path):
    async def run():
        fleet = Fleet.of(["v100", "k80", "a100"], compression=10.0)
        draw = random.Random(0)
        step, attempts = 0, 0
        while step < 300:
            device = fleet[draw.choice(["gpu0", "gpu1", "gpu2"])]
            job = EmulatedJob(EmulatedSpec("a", StepTime(0.03), 300, sampler=Sampler(64, 4), seed=1), [device])
            if attempts:
                assert job.load(tmp_path / "c") == step
            task = job.start()
            await asyncio.wait([task], timeout=0.02 + 0.03 * draw.random() if attempts < 20 else None)
            step = await job.stop()
            assert job.save(tmp_path / "c") == step
            attempts += 1
        return step, attempts, job.state

    step, attempts, state = asyncio.run(run())
    whole = JobState.new(seed=1)
    for _ in range(300):
        whole.advance(16)
    assert step == 300
    assert attempts > 5
    assert (state.epoch, state.cursor, state.random.getstate()) == (whole.epoch, whole.cursor, whole.random.getstate())


def test_a16_a_gang_steps_on_all_its_devices_at_once():
    async def run():
        fleet = Fleet.of(["v100"] * 4)
        clock = asyncio.get_running_loop().time
        begun = clock()
        ended = await EmulatedJob(EmulatedSpec("a", StepTime(0.5), 20), list(fleet.devices.values())).start()
        return ended, clock() - begun, [d.busy_s for d in fleet.devices.values()]

    ended, seconds, busy = run_virtual(run())

    assert ended.step == 20
    assert seconds == pytest.approx(10.0)
    assert busy == pytest.approx([10.0] * 4)


def test_a8_only_the_job_that_asks_for_too_much_fails():
    async def run():
        device = Fleet.of(["p100"], sharing="fifo")["gpu0"]
        need = TIMES.memory("resnet50", 128)
        jobs = [EmulatedJob(EmulatedSpec(n, StepTime(0.002), 20, memory=need), [device]) for n in ("a", "b")]
        return await asyncio.gather(*(job.start() for job in jobs)), device.memory.used_mib

    (first, second), used = asyncio.run(run())
    assert first == Ended(20, "done")
    assert (second.step, second.why) == (0, "out-of-device-memory")
    assert "job 'b' asked for 10892 MiB" in second.detail
    assert used == 0.0


def test_a16_parts_of_a_gang_can_agree_on_the_step_to_stop_at():
    async def run():
        fleet = Fleet.of(["v100", "v100"])
        parts = [EmulatedJob(EmulatedSpec("a", StepTime(0.5), 20), [device]) for device in fleet.devices.values()]
        tasks = [part.start() for part in parts]
        await asyncio.sleep(2.2)
        assert [part.stop_at(4) for part in parts] == [False, False], "step 4 is under way"
        assert [part.stop_at(7) for part in parts] == [True, True]
        return [await task for task in tasks]

    assert run_virtual(run()) == [Ended(7, "stopped")] * 2


def test_a_checkpoint_can_be_written_while_steps_go_on(tmp_path):
    async def run():
        device = Fleet.of(["v100"])["gpu0"]
        job = EmulatedJob(EmulatedSpec("a", StepTime(0.002), 100_000, ballast_bytes=20_000_000), [device])
        job.start()
        await asyncio.sleep(0.02)
        saved = await job.checkpoint(tmp_path / "c")
        reached = await job.stop()
        return saved, reached

    saved, reached = asyncio.run(run())
    assert JobState.new(0).load(tmp_path / "c") == saved
    assert saved < reached


def test_a_device_that_is_taken_is_how_a_job_ends():
    async def run():
        device = Fleet.of(["v100"])["gpu0"]
        first = EmulatedJob(EmulatedSpec("a", StepTime(0.1), 5), [device])
        second = EmulatedJob(EmulatedSpec("b", StepTime(0.1), 5), [device])
        return await asyncio.gather(first.start(), second.start())

    first, second = run_virtual(run())
    assert (first.why, second.why) == ("done", "device-busy")
    assert "job 'a' is on it" in second.detail


def test_a_job_needs_a_device():
    with pytest.raises(ConfigError, match="'a' has no device"):
        EmulatedJob(EmulatedSpec("a", StepTime(1.0), 1), [])
