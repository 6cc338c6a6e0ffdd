import asyncio
import time
from itertools import pairwise

import pytest

from real_time import run_virtual, within
from rota.core.errors import ConfigError, UnknownName
from rota.emulate.catalogue import DeviceTimes, StepTime
from rota.emulate.device import Device, DeviceBusy, DevicePool
from rota.emulate.device_memory import DeviceMemory, OutOfDeviceMemory

TIMES = DeviceTimes()


async def steps_of(device, name, steps, step, **attach):
    """When each step of a job ended, its start first."""
    clock = asyncio.get_running_loop().time
    seat = device.attach(name, **attach)
    ends = [clock()]
    for _ in range(steps):
        assert await seat.run(step)
        ends.append(clock())
    device.release(name)
    return ends


async def shared(sharing, jobs, step, steps):
    device = Device("d", "p100", 1e6, sharing=sharing)
    ends = await asyncio.gather(*(steps_of(device, f"j{i}", steps, step) for i in range(jobs)))
    return ends, device.lateness()


@pytest.mark.parametrize("sharing", ["fifo", "round-robin", "weighted"])
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a7_each_of_k_jobs_sees_k_times_its_step(sharing, jobs):
    step = StepTime(0.5753, 0.0067)

    ends, _ = run_virtual(shared(sharing, jobs, step, steps=40))

    expected = step.seconds if jobs == 1 else jobs * step.compute_s
    for mine in ends:
        lengths = [b - a for a, b in pairwise(mine[1 : 40 - jobs])]
        assert lengths == pytest.approx([expected] * len(lengths))


def test_a7_on_the_real_clock():
    def measure():
        ends, report = asyncio.run(shared("fifo", 2, StepTime(0.03), steps=16))
        return max(mine[14] - mine[1] for mine in ends), report

    within(13 * 0.06, 0.01, measure)


def test_a7_joining_and_leaving_are_felt_within_two_steps():
    async def run():
        device = Device("d", "p100", 1e6, sharing="round-robin")
        first = asyncio.ensure_future(steps_of(device, "a", 20, StepTime(0.5)))
        await asyncio.sleep(1.7)
        second = await steps_of(device, "b", 5, StepTime(0.5))
        return await first, second

    first, second = run_virtual(run())

    lengths = [round(b - a, 6) for a, b in pairwise(first)]
    assert lengths == [0.5] * 4 + [1.0] * 5 + [0.5] * 11
    assert second[1] - second[0] <= 0.8 + 1e-6
    assert [round(b - a, 6) for a, b in pairwise(second[1:])] == [1.0] * 4


def test_time_is_shared_by_weight():
    async def run():
        device = Device("d", "v100", 1e6, sharing="weighted")
        seats = [device.attach("a", weight=3.0), device.attach("b", weight=1.0)]

        async def go(seat):
            while await seat.run(StepTime(0.005)):
                pass

        tasks = [asyncio.ensure_future(go(seat)) for seat in seats]
        await asyncio.sleep(8.0)
        for name in device.holders:
            device.release(name)
        await asyncio.gather(*tasks)
        return [seat.served_s for seat in seats]

    a, b = run_virtual(run())
    assert a / (a + b) == pytest.approx(0.75, abs=0.01)


def test_a15_many_devices_are_paced_in_one_process():
    def measure():
        async def run():
            fleet = DevicePool.of(["v100"] * 128)
            ends = await asyncio.gather(*(steps_of(d, "j", 50, StepTime(0.02)) for d in fleet.devices.values()))
            reports = [d.lateness() for d in fleet.devices.values()]
            return max(e[-1] - e[0] for e in ends), max(reports, key=lambda r: r.max_s)

        return asyncio.run(run())

    within(1.0, 0.02, measure)


def test_a18_the_same_job_goes_as_fast_on_each_type_as_the_table_says():
    async def run():
        fleet = DevicePool.of(TIMES.gpus)
        steps = [TIMES.step("resnet50", d.type, 64) for d in fleet.devices.values()]
        runs = (steps_of(d, "j", 50, s) for d, s in zip(fleet.devices.values(), steps, strict=True))
        return steps, await asyncio.gather(*runs)

    steps, ends = run_virtual(run())

    assert [(e[-1] - e[0]) / 50 for e in ends] == pytest.approx([s.seconds for s in steps])


def test_a1_every_measured_step_takes_as_long_as_it_was_measured():
    keys = [(m, g, b) for m in TIMES.models for g in TIMES.gpus for b in (1, 64, 256) if b <= TIMES.largest(m, g)]
    steps = [TIMES.step(*key) for key in keys]

    async def run():
        return await asyncio.gather(*(steps_of(Device("d", "v100", 1.0), "j", 20, step) for step in steps))

    ends = run_virtual(run())

    assert len(steps) > 400
    assert [(e[-1] - e[0]) / 20 for e in ends] == pytest.approx([s.seconds for s in steps])


def test_a1_on_the_real_clock():
    step = TIMES.step("resnet18", "a100", 16)

    def measure():
        device = Device("d", "a100", 1.0)
        ends = asyncio.run(steps_of(device, "j", 50, step))
        return (ends[-1] - ends[0]) / 50 / step.seconds, device.lateness()

    within(1.0, 0.01, measure)


def test_a_device_of_ones_own_refuses_a_second_job():
    async def run():
        device = Device("gpu3", "v100", 1e4)
        device.attach("a")
        with pytest.raises(DeviceBusy, match="gpu3: job 'a' is on it, so 'b' cannot be"):
            device.attach("b")
        device.release("a")
        device.attach("b")
        return device.holders

    assert asyncio.run(run()) == ["b"]


def test_an_interrupted_step_frees_the_device_at_once():
    async def run():
        device = Device("d", "v100", 1e4, sharing="fifo")
        a, b = device.attach("a"), device.attach("b")
        long = asyncio.ensure_future(a.run(StepTime(5.0)))
        short = asyncio.ensure_future(b.run(StepTime(0.01)))
        await asyncio.sleep(0.02)
        begun = time.monotonic()
        a.interrupt()
        return await long, await short, time.monotonic() - begun

    done, next_done, seconds = asyncio.run(run())
    assert (done, next_done) == (False, True)
    assert seconds < 0.2


def test_a_cancelled_job_leaves_nothing_behind():
    async def run():
        device = Device("d", "v100", 1e4, sharing="fifo")
        task = asyncio.ensure_future(device.attach("a").run(StepTime(5.0)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.wait_for(device.attach("b").run(StepTime(0.001)), 1.0)

    assert asyncio.run(run())


def test_a8_a_batch_that_does_not_fit_fails_by_type():
    memory = DeviceMemory("p100", 0.92 * 16280)
    memory.hold("small", TIMES.memory("resnet50", 128).persistent_mib)
    memory.hold("small", TIMES.memory("resnet50", 128).peak_mib)
    memory.release("small")

    with pytest.raises(OutOfDeviceMemory, match=r"p100: job 'big' asked for 21480 MiB, 14978 of 14978 MiB") as caught:
        memory.hold("big", TIMES.memory("resnet50", 256).peak_mib)

    assert (caught.value.rota_reason, caught.value.holder) == ("out-of-device-memory", "big")
    assert memory.used_mib == 0.0


def test_a8_the_second_job_is_refused_and_the_first_is_not_disturbed():
    memory = DeviceMemory("p100", 0.92 * 16280)
    for name in ("first", "second"):
        memory.hold(name, 374.0)
    memory.hold("first", 10892.0)

    with pytest.raises(OutOfDeviceMemory, match="held by first 10892"):
        memory.hold("second", 10892.0)

    assert memory.holders == {"first": 10892.0, "second": 374.0}
    assert memory.release("second") == 374.0
    assert memory.release("first") == 10892.0
    assert (memory.used_mib, memory.release("first")) == (0.0, 0.0)


def test_wrong_names_and_values_are_refused():
    with pytest.raises(UnknownName, match="way to share a device 'fair'"):
        Device("d", "v100", 1.0, sharing="fair")
    with pytest.raises(ConfigError, match="0 MiB"):
        Device("d", "v100", 0.0)
    with pytest.raises(UnknownName, match="GPU 'h100'"):
        DevicePool.of(["h100"])
    with pytest.raises(UnknownName, match="device 'gpu1'"):
        DevicePool.of(["v100"])["gpu1"]
    assert DevicePool.of(["h100"], memory_mib=80_000.0)["gpu0"].memory.capacity_mib == pytest.approx(73_600.0)
