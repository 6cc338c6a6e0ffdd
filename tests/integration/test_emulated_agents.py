"""Agents of emulated servers: processes that train on their devices, jobs without a process, and both in one memory."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc")

from fleet import a_fleet, training
from rota.deploy.worker.limits import pick
from rota.deploy.worker.runc import RuncLauncher
from rota.emulate.catalogue import DeviceTimes
from rota.emulate.gangs import gang_step
from rota.rpc import rota_pb2 as pb

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux")

TYPES = ("a100", "k80", "m40", "p100", "rtx6000", "v100")


def run(folder, servers, story, **options):
    """Let a story happen in a fleet."""

    async def whole():
        async with a_fleet(folder, servers, **options) as fleet:
            return await story(fleet)

    return asyncio.run(whole())


def held(fleet, node):
    """MiB by holder on every device of a server."""
    return {name: device.memory.holders for name, device in fleet.agents[node].devices.fleet.devices.items()}


def test_a_training_process_gets_the_time_of_the_agents_devices_in_compressed_time(tmp_path):
    async def story(fleet):
        [job] = await fleet.submit({"argv": training("--model", "resnet50", "--batch", "64"), "steps": 60})
        info = await fleet.over(job)
        return info, json.loads(await fleet.output(job)), held(fleet, "a")

    info, told, memory = run(tmp_path, {"a": "v100=1"}, story, time_scale=10.0)

    assert (info.phase, info.saved_step, told["stopped"]) == ("finished", 60, "done")
    expected = 60 * DeviceTimes().step("resnet50", "v100", 64).seconds / 10.0
    assert told["device_s"] >= 0.98 * expected
    assert told["device_s"] == pytest.approx(expected, abs=0.5), "this machine may be busy, but not that busy"
    assert memory == {"emulated-0": {}}


def test_a_process_that_asks_for_too_much_fails_by_name_and_its_neighbour_goes_on(tmp_path):
    async def story(fleet):
        good, bad = await fleet.submit(
            {"argv": training("--model", "resnet50"), "steps": 100000},
            {"argv": training("--model", "vgg16", "--batch", "2000"), "steps": 10},
        )
        failed = await fleet.over(bad)
        before = (await fleet.job(good)).step
        going = await fleet.until(good, lambda info: info.step > before + 3)
        holders = held(fleet, "a")
        os.kill(fleet.pid(good), signal.SIGKILL)
        killed = await fleet.over(good)
        return failed, going, holders, killed, held(fleet, "a")

    failed, going, holders, killed, after = run(tmp_path, {"a": "v100=2"}, story, time_scale=10.0)

    assert failed.phase == "failed"
    assert failed.reason.startswith("out-of-device-memory: ")
    assert "asked for 141892 MiB, 29909 of 29909 MiB are free" in failed.reason
    assert going.phase == "running"
    assert [list(by) for by in holders.values() if by] == [["0"]]
    assert killed.reason.startswith("killed")
    assert after == {"emulated-0": {}, "emulated-1": {}}, "kill -9 frees memory and device"


def test_a_gang_in_one_process_holds_all_its_devices(tmp_path):
    folder = tmp_path / ("a path that is too long for a socket" * 3)
    folder.mkdir()

    async def story(fleet):
        words = training("--model", "resnet50", "--batch", "64")
        [job] = await fleet.submit({"argv": words, "gpus": 2, "steps": 100000})
        await fleet.until(job, lambda info: info.step > 3)
        return held(fleet, "a")

    memory = run(folder, {"a": "v100=2"}, story, time_scale=10.0)

    each = DeviceTimes().memory("resnet50", 32).peak_mib
    assert memory == {f"emulated-{i}": {"0": pytest.approx(each)} for i in (0, 1)}


def test_a_gang_over_two_servers_finishes_with_its_steps_counted_once(tmp_path):
    async def story(fleet):
        [job] = await fleet.submit(
            {"argv": training("--model", "resnet50", "--batch", "64"), "gpus": 2, "steps": 60},
        )
        return await fleet.over(job), json.loads(await fleet.output(job))

    info, told = run(tmp_path, {"a": "v100=1", "b": "v100=1"}, story, time_scale=10.0)

    assert (info.phase, info.saved_step) == ("finished", 60)
    step = gang_step(DeviceTimes(), "resnet50", "v100", 64, gpus=2, servers=2).seconds
    assert told["device_s"] >= 0.98 * 60 * step / 10.0


def test_a_training_process_goes_on_with_the_devices_of_the_next_agent(tmp_path):
    async def story(fleet):
        [job] = await fleet.submit({"argv": training("--model", "resnet50"), "steps": 100000})
        before = await fleet.until(job, lambda info: info.step > 3)
        pid = fleet.pid(job)
        await fleet.restart("a")
        after = await fleet.until(job, lambda info: info.step > before.step + 10)
        return before.epoch, after.epoch, pid, fleet.pid(job), list(held(fleet, "a")["emulated-0"])

    epoch, later, pid, same, holders = run(tmp_path, {"a": "v100=1"}, story, time_scale=10.0)

    assert (epoch, pid) == (later, same)
    assert holders == ["0"]


def test_a_data_side_that_would_not_keep_up_with_compressed_time_is_refused(tmp_path):
    async def story(fleet):
        words = training("--model", "resnet50", "--dataset", str(tmp_path / "data"))
        [job] = await fleet.submit({"argv": words, "steps": 10})
        await fleet.over(job)
        return await fleet.output(job)

    assert "--compression 10 speeds up the device but not the real data side" in run(
        tmp_path, {"a": "v100=1"}, story, time_scale=10.0
    )


def test_a18_the_same_job_on_six_types_keeps_the_ratios_of_the_table(tmp_path):
    async def story(fleet):
        jobs = await fleet.submit(*[{"emulated": True, "profile": "resnet50-64", "steps": 10**7}] * 6)
        await asyncio.gather(*(fleet.until(job, lambda info: info.step > 0) for job in jobs))
        rates = {}
        runners = {kind: fleet.agents[kind]._tasks.running()[0] for kind in TYPES}
        loop = asyncio.get_running_loop()
        first = {kind: (loop.time(), runners[kind].state().step) for kind in TYPES}
        await asyncio.sleep(3.0)
        for kind in TYPES:
            since, step = first[kind]
            rates[kind] = (runners[kind].state().step - step) / (loop.time() - since)
        return rates

    rates = run(tmp_path, {kind: f"{kind}=1" for kind in TYPES}, story, time_scale=200.0, round_s=200.0)

    table = {kind: 1.0 / DeviceTimes().step("resnet50", kind, 64).seconds for kind in TYPES}
    for kind in TYPES:
        assert rates[kind] / rates["v100"] == pytest.approx(table[kind] / table["v100"], rel=0.01)


def test_the_memory_of_a_device_is_respected_by_jobs_without_a_process(tmp_path):
    async def story(fleet):
        named, modelled, fits = await fleet.submit(
            {"emulated": True, "profile": "", "model": "vgg16", "batch": 512, "steps": 10},
            {"emulated": True, "model": "resnet50", "batch": 2000, "steps": 10},
            {"emulated": True, "model": "resnet50", "batch": 64, "steps": 40},
        )
        return [await fleet.over(job) for job in (named, modelled, fits)], held(fleet, "a")

    (big, huge, fits), memory = run(tmp_path, {"a": "k80=3"}, story, time_scale=20.0)

    for info in (big, huge):
        assert info.reason.startswith("out-of-device-memory: emulated-"), info
        assert "of 10526 MiB are free" in info.reason
    assert fits.phase == "finished"
    assert fits.ended_s - fits.submitted_s >= 40 * DeviceTimes().step("resnet50", "k80", 64).seconds
    assert memory == {f"emulated-{i}": {} for i in range(3)}


def test_two_jobs_that_the_policy_packs_run_on_the_same_device(tmp_path):
    async def story(fleet):
        one = {"emulated": True, "profile": "ResNet-18 (batch size 32)", "steps": 10**7}
        jobs = await fleet.submit(one, {**one, "profile": "A3C"})
        infos = [await fleet.until(job, lambda info: info.phase == "running" and info.step > 0) for job in jobs]
        return [[(part.node, list(part.devices)) for part in info.parts] for info in infos]

    places = run(
        tmp_path, {"a": "v100=1"}, story, time_scale=60.0, round_s=60.0, profiles="gavel",
        policy="max-min-fairness-packed",
    )  # fmt: skip

    assert places == [[("a", ["emulated-0"])]] * 2


def test_a_gang_takes_the_time_of_its_parts_and_the_exchange(tmp_path):
    async def story(fleet):
        [job] = await fleet.submit({"emulated": True, "profile": "resnet50-64", "gpus": 4, "steps": 10**6})
        await fleet.until(job, lambda info: info.step > 0)
        return fleet.agents["a"]._tasks.running()[0]._rate

    step = gang_step(DeviceTimes(), "resnet50", "v100", 64, gpus=4).seconds
    assert run(tmp_path, {"a": "v100=4"}, story, time_scale=10.0) == pytest.approx(10.0 / step)


def test_a_container_trains_on_the_devices_and_keeps_its_lease(tmp_path):
    if why := RuncLauncher(pick(), tmp_path / "runc").unavailable():
        pytest.skip(why)
    words = training("--model", "resnet50", "--batch", "64")
    source = Path(__file__).parents[2]

    async def story(fleet):
        inside, reading = await fleet.submit(
            {"argv": words, "steps": 10**6, "image": "host", "cwd": str(source)},
            {"argv": ["touch", "/etc/rota-was-here"], "image": "host"},
        )
        going = await fleet.until(inside, lambda info: info.step > 3)
        failed = await fleet.over(reading)
        said = await fleet.output(reading)
        await fleet.control.Drain(pb.DrainRequest(node="a"))
        stopped = await fleet.until(inside, lambda info: info.phase == "waiting")
        await fleet.control.Drain(pb.DrainRequest(node="a", undo=True))
        resumed = await fleet.until(inside, lambda info: info.epoch == 2 and info.step > stopped.saved_step)
        return going, failed, said, stopped, resumed

    going, failed, said, stopped, resumed = run(tmp_path, {"a": "v100=2"}, story, time_scale=10.0)

    assert (failed.phase, "Read-only file system" in said) == ("failed", True)
    assert stopped.saved_step >= going.step, "it saved when it was asked to stop"
    assert resumed.restarts == 0


def test_mps_is_refused_without_a_gpu(tmp_path):
    async def story(fleet):
        [job] = await fleet.submit({"argv": ["true"], "mps": True})
        return await fleet.over(job)

    assert "MPS needs a GPU, and this machine has none" in run(tmp_path, {"a": "v100=1"}, story).reason
