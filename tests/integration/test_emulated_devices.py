"""Emulated jobs as real processes: loaders that read and burn CPU, signals, kill -9, devices of an agent."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rota.emulate.catalogue import StepTime
from rota.emulate.dataset import generate
from rota.emulate.device import DevicePool
from rota.emulate.job import main
from rota.emulate.loader import Loader, LoaderFailed, LoaderSettings
from rota.emulate.pacing import Pacer
from rota.emulate.sampling import Sampler
from rota.emulate.server import ASKING_S, DeviceServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc and sets CPU affinity")

JOB = [sys.executable, "-m", "rota.emulate.job"]
BATCH = 16
COST_S = 0.002


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("data") / "samples", 512, 16384)


def throughput(loader, step, batches):
    """Samples per second of loader and device, and cores that the loader got."""
    pacer = Pacer()
    for _ in range(3 * loader.settings.workers):
        pacer.step(step, loader.next().ready)
    begun, cpu = time.monotonic(), loader.cpu_s
    for _ in range(batches):
        pacer.step(step, loader.next().ready)
    seconds = time.monotonic() - begun
    return BATCH * batches / seconds, (loader.cpu_s - cpu) / seconds


def finished(arguments, timeout=60):
    done = subprocess.run([*JOB, *arguments], check=False, capture_output=True, text=True, timeout=timeout)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_samples_come_in_order_and_cost_the_cpu_time_they_should(dataset):
    sampler = Sampler(512, BATCH, seed=3)
    with Loader(dataset, sampler, LoaderSettings(workers=2, cpu_s=COST_S), start=5) as loader:
        batches = [loader.next() for _ in range(10)]
        cost = loader.cpu_s / (10 * BATCH)

    assert [b.step for b in batches] == list(range(5, 15))
    assert [b.samples for b in batches] == [sampler.at(step) for step in range(5, 15)]
    assert cost == pytest.approx(COST_S, rel=0.03)
    assert sum(b.disk_bytes for b in batches) == 10 * BATCH * dataset.sample_bytes


@pytest.fixture
def one_core():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.usefixtures("one_core")
def test_a10_throughput_is_what_cpus_allow(dataset):
    errors = []
    for _ in range(3):
        with Loader(dataset, Sampler(512, BATCH), LoaderSettings(workers=2, cpu_s=COST_S)) as loader:
            rate, cores = throughput(loader, StepTime(BATCH / 4000), 12)
        assert cores <= 1.05, "two workers on one core"
        # Where others use this machine the loader gets less than its core; what it got is what counts.
        errors.append(abs(rate / (cores / COST_S) - 1))
        if errors[-1] <= 0.05:
            return
    pytest.fail(f"{errors} off")


@pytest.mark.usefixtures("one_core")
def test_a10_throughput_is_what_the_device_allows(dataset):
    rates = []
    for _ in range(3):
        with Loader(dataset, Sampler(512, BATCH), LoaderSettings(workers=2, cpu_s=COST_S / 10)) as loader:
            rates.append(throughput(loader, StepTime(BATCH / 160), 12))
        if abs(rates[-1][0] / 160 - 1) <= 0.05:
            return
    if os.getloadavg()[0] > 4 * os.cpu_count():
        pytest.skip(f"this machine is too busy to give a thirtieth of a core in time: {rates}")
    pytest.fail(f"{rates} instead of 160 samples/s")


@pytest.fixture
def quota_group():
    """A control group (version 1) for a fifth of a core."""
    group = Path("/sys/fs/cgroup/cpu") / f"rota-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("20000")
        (group / "cpu.cfs_quota_us").write_text("4000")
    except OSError as error:
        pytest.skip(f"no CPU quota can be set here: {error}")
    yield group
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.02)


def test_a10_a_cpu_quota_is_felt_as_a_quota(dataset, quota_group):
    rates = []
    for _ in range(3):
        with Loader(dataset, Sampler(512, BATCH), LoaderSettings(workers=2, cpu_s=COST_S)) as loader:
            for pid in loader.pids:
                (quota_group / "cgroup.procs").write_text(str(pid))
            rate, cores = throughput(loader, StepTime(0.001), 10)
        rates.append((rate, cores))
        if abs(rate / (0.2 / COST_S) - 1) <= 0.05:
            return
    if all(cores < 0.19 for _, cores in rates):
        pytest.skip(f"this machine is too busy to give a fifth of a core: {rates}")
    pytest.fail(f"{rates} instead of {0.2 / COST_S} samples/s")


@pytest.mark.parametrize("part", [0.25, 0.6])
def test_a11_a_cache_of_a_part_saves_that_part_of_the_reads(dataset, part):
    with Loader(dataset, Sampler(512, BATCH), LoaderSettings(workers=2, cache_bytes=part * dataset.size)) as loader:
        read = []
        for _ in range(3):
            before = loader.disk_bytes
            for _ in range(32):
                loader.next()
            read.append((loader.disk_bytes - before) / dataset.size)

    assert read[0] == 1.0
    assert read[1:] == pytest.approx([1 - part] * 2, abs=0.02)


def test_a11_throughput_follows_a_cap_on_reading(dataset):
    rates = []
    for _ in range(3):
        with Loader(dataset, Sampler(512, BATCH), LoaderSettings(workers=2, bandwidth=2e6)) as loader:
            rates.append(throughput(loader, StepTime(0.001), 10)[0])
        if abs(rates[-1] / (2e6 / dataset.sample_bytes) - 1) <= 0.05:
            return
    pytest.fail(f"{rates}")


def test_a_lost_loader_process_is_reported(dataset):
    with Loader(dataset, Sampler(512, BATCH), LoaderSettings(workers=1, cpu_s=0.01)) as loader:
        os.kill(loader.pids[0], signal.SIGKILL)
        with pytest.raises(LoaderFailed, match="exit code -9"):
            [loader.next() for _ in range(10)]


def test_loader_processes_end_with_a_job_that_is_killed(tmp_path):
    arguments = ["--step-seconds", "0.02", "--steps", "100000", "--dataset", tmp_path / "d", "--sample-bytes", "4096"]
    job = subprocess.Popen([*JOB, *arguments, "--samples", "64", "--order", tmp_path / "order"])
    until(lambda: (tmp_path / "order").exists() and (tmp_path / "order").stat().st_size > 0)
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()

    job.kill()
    job.wait()

    assert len(children) == 1
    until(lambda: not Path(f"/proc/{children[0]}").exists())


def order_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a13_an_interrupted_job_trains_on_the_same_samples_in_the_same_order(tmp_path):
    common = ["--step-seconds", "0.01", "--steps", "60", "--batch", "10", "--samples", "95", "--seed", "7"]
    assert finished([*common, "--order", tmp_path / "whole"])[1]["step"] == 60

    moved = [*common, "--order", tmp_path / "moved", "--checkpoint", tmp_path / "c"]
    (tmp_path / "moved").touch()
    for more in (5, 12, 1):
        wanted = len(order_of(tmp_path / "moved")) + more
        job = subprocess.Popen([*JOB, *moved], stdout=subprocess.PIPE, text=True)
        until(lambda n=wanted: len(order_of(tmp_path / "moved")) >= n)
        job.terminate()
        assert json.loads(job.communicate(timeout=20)[0])["stopped"] in {"lease", "done"}
        assert job.returncode == 0
    code, account, _ = finished(moved)

    assert (code, account["step"], account["stopped"]) == (0, 60, "done")
    assert order_of(tmp_path / "moved") == order_of(tmp_path / "whole")
    assert json.loads((tmp_path / "c" / "state.json").read_text())["step"] == 60


def test_a13_a_killed_job_loses_at_most_what_came_after_its_last_checkpoint(tmp_path):
    arguments = ["--step-seconds", "0.01", "--steps", "80", "--batch", "10", "--samples", "95"]
    arguments += ["--order", tmp_path / "order", "--checkpoint", tmp_path / "c", "--checkpoint-every", "0.1"]
    job = subprocess.Popen([*JOB, *arguments])
    until((tmp_path / "c" / "state.json").exists)
    job.kill()
    job.wait()
    saved = json.loads((tmp_path / "c" / "state.json").read_text())["step"]
    reached = len(order_of(tmp_path / "order"))

    code, account, _ = finished(arguments)

    assert (code, account["first_step"], account["step"]) == (0, saved, 80)
    assert 0 <= reached - saved <= 60
    done = dict(map(tuple, ([s, tuple(x)] for s, x in order_of(tmp_path / "order"))))
    assert sorted(done) == list(range(80))


def test_a14_a_job_process_stops_in_the_middle_of_a_long_step(tmp_path):
    job = subprocess.Popen(
        [*JOB, "--step-seconds", "30", "--steps", "5", "--checkpoint", tmp_path / "c", "--order", tmp_path / "o"],
        stdout=subprocess.PIPE,
        text=True,
    )
    until((tmp_path / "o").exists)
    time.sleep(0.2)
    begun = time.monotonic()
    job.terminate()
    account = json.loads(job.communicate(timeout=10)[0])

    assert time.monotonic() - begun < 2.0, "with all that ending a process takes"
    assert (job.returncode, account["step"], account["stopped"]) == (0, 0, "lease")


@contextlib.asynccontextmanager
async def agent(folder, **fleet):
    server = DeviceServer(DevicePool.of(["p100"], asking_s=ASKING_S, **fleet), folder / "s")
    await server.start()
    try:
        yield server.fleet["gpu0"], ["--devices-at", str(folder / "s"), "--device", "gpu0"]
    finally:
        await server.close()


async def job_at(*arguments):
    return await asyncio.create_subprocess_exec(*JOB, *map(str, arguments), stdout=subprocess.PIPE)


async def soon(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen")


def test_a8_a_killed_process_gives_its_memory_back_and_a_second_one_fails_alone(tmp_path):
    async def run():
        async with agent(tmp_path, sharing="fifo") as (device, where):
            job = ["--model", "resnet50", "--gpu", "p100", "--batch", "128", "--steps", "100", *where]
            first = await job_at(*job, "--name", "a")
            await soon(lambda: device.memory.used_mib > 10_000)
            second = await job_at(*job, "--name", "b")
            failed = json.loads((await second.communicate())[0])
            held = device.memory.holders
            first.kill()
            await first.communicate()
            await soon(lambda: device.memory.used_mib == 0.0)
            return second.returncode, failed, held, device.holders

    code, failed, held, left = asyncio.run(asyncio.wait_for(run(), 60))
    assert (code, failed["failed"]) == (1, "out-of-device-memory")
    assert "job 'b' asked for 10892 MiB" in failed["detail"]
    assert list(held) == ["a"]
    assert left == []


def test_a_connection_that_sends_rubbish_harms_nobody(tmp_path):
    lines = ["rubbish", "[]", "{}", '{"op": "run"}', '{"op": "attach", "device": "gpu9", "job": "x"}']
    lines += ['{"op": "attach", "device": "gpu0", "job": "x"}', '{"op": "run", "compute_s": 1e400}']
    lines += ['{"op": "run", "compute_s": 1, "ready": "now"}', '{"op": "run", "compute_s": 1, "ready": NaN}']
    lines += ['{"op": "unknown"}', '{"op": "run", "compute_s": 0.001}']

    async def run():
        async with agent(tmp_path, sharing="fifo") as (device, _):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
            answers = []
            for line in lines:
                writer.write(line.encode() + b"\n")
                if "unknown" not in line:
                    answers.append(json.loads(await reader.readline()))
            writer.write(b"x" * 200_000)
            assert await reader.read() == b"", "the connection is dropped"
            writer.close()
            await soon(lambda: device.holders == [])
            return [a["op"] for a in answers]

    found = asyncio.run(asyncio.wait_for(run(), 30))
    assert found == ["failed"] * 5 + ["attached"] + ["failed"] * 3 + ["ran"]


def test_a7_processes_share_a_device_by_weight(tmp_path):
    async def run():
        async with agent(tmp_path, sharing="weighted") as (device, where):
            jobs = [
                await job_at("--step-seconds", 0.02, "--steps", 10_000, "--name", name, "--weight", weight, *where)
                for name, weight in (("a", 3), ("b", 1))
            ]
            await soon(lambda: len(device.holders) == 2)
            before = {name: device._seats[name].served_s for name in "ab"}
            await asyncio.sleep(2.0)
            served = {name: device._seats[name].served_s - before[name] for name in "ab"}
            for job in jobs:
                job.terminate()
            ended = [json.loads((await job.communicate())[0]) for job in jobs]
            await soon(lambda: device.holders == [])
            return served, ended

    for _ in range(3):
        served, ended = asyncio.run(asyncio.wait_for(run(), 60))
        assert [e["stopped"] for e in ended] == ["lease", "lease"]
        if served["a"] / (served["a"] + served["b"]) == pytest.approx(0.75, abs=0.03):
            return
    pytest.fail(f"{served}")


def test_a19_compression_is_refused_where_the_data_side_is_real(tmp_path, capsys):
    code = main(["--step-seconds", "1", "--steps", "1", "--dataset", str(tmp_path / "d"), "--compression", "20"])

    assert code == 2
    assert "--scaled-data" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_wrong_options_are_explained(capsys):
    assert main(["--steps", "1"]) == 2
    assert capsys.readouterr().err == "error: say either --model and --gpu, or --step-seconds\n"
    assert main(["--model", "resnet50", "--gpu", "v10", "--steps", "1"]) == 2
    assert "did you mean 'v100'" in capsys.readouterr().err
    code, _, error = finished(["--step-seconds", "1", "--steps", "1", "--devices-at", "/nowhere"])
    assert (code, "/nowhere: no agent offers devices there" in error) == (2, True)
