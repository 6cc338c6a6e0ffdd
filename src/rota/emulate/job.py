"""An emulated training job as a process.

    python -m rota.emulate.job --model resnet50 --gpu v100 --steps 100

Each step waits for a batch of the real data side (if there is one), then for the device. Under Rota
the job obeys its lease through `rota.client`; alone it counts to its steps, saves to `--checkpoint`
and stops cleanly on SIGTERM. At its end it writes one JSON line: steps, seconds, where the time
went, how late the device was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from rota.core.errors import ConfigError, RotaError
from rota.emulate.cards import card
from rota.emulate.catalogue import DeviceMemoryNeed, DeviceTimes, ExtrapolatedWarning, StepTime
from rota.emulate.dataset import generate
from rota.emulate.device_memory import DeviceError, DeviceMemory
from rota.emulate.gangs import gang_step
from rota.emulate.loader import Loader, LoaderSettings
from rota.emulate.pacing import Pacer
from rota.emulate.remote import RemoteDevices
from rota.emulate.sampling import Sampler
from rota.emulate.state import JobState
from rota.emulate.steps import Steps, open_steps


@dataclass(frozen=True)
class Work:
    """What a job does, apart from where."""

    name: str
    step: StepTime
    steps: int
    sampler: Sampler
    memory: DeviceMemoryNeed | None = None
    load_s: float = 0.0
    overlap: bool = False
    compression: float = 1.0
    dataset: Path | None = None
    sample_bytes: int = 0
    loading: LoaderSettings | None = None
    weight: float = 1.0


@dataclass
class Account:
    """Where the time of this attempt went, in real seconds."""

    first_step: int = 0
    step: int = 0
    wall_s: float = 0.0
    data_wait_s: float = 0.0
    device_s: float = 0.0
    disk_bytes: int = 0
    cache_hits: int = 0
    loader_cpu_s: float = 0.0
    stopped: str | None = None


class _LocalDevice(Pacer):
    """A device of the job's own, paced in this process."""

    def __init__(self, work: Work, gpu: str | None, steps: Steps) -> None:
        super().__init__(overlap=work.overlap, compression=work.compression, interrupt=steps)
        if work.memory is not None and gpu is not None:
            memory = DeviceMemory(gpu, card(gpu).usable_mib)
            memory.hold(work.name, work.memory.persistent_mib)
            memory.hold(work.name, work.memory.peak_mib)


def train(
    work: Work,
    device: _LocalDevice | RemoteDevices,
    steps: Steps,
    state: JobState,
    order: IO[str] | None = None,
) -> Account:
    """Make steps until the lease or the work ends.

    `order` gets a line with the samples of every finished step.
    """
    account = Account(first_step=state.step)
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        loader = _loader(work, state, stack)
        if work.load_s:
            steps.wait(work.load_s / work.compression)
        device.begin()
        while steps.next():
            if not _finish_step(work, device, steps, loader, account):
                steps.abandon()
                continue
            if order is not None:
                order.write(json.dumps([state.step, work.sampler.at(state.step)]) + "\n")
            state.advance(work.sampler.steps_per_epoch)
        if loader is not None:
            account.disk_bytes = loader.disk_bytes
            account.cache_hits = loader.hits
            account.loader_cpu_s = loader.cpu_s
    account.wall_s = time.monotonic() - start
    account.step = state.step
    account.stopped = steps.stopped
    return account


def _finish_step(
    work: Work,
    device: _LocalDevice | RemoteDevices,
    steps: Steps,
    loader: Loader | None,
    account: Account,
) -> bool:
    """Wait for the data of a step and then for the device.

    False if a stop was ordered meanwhile.
    """
    ready = None
    if loader is not None:
        began = time.monotonic()
        batch = loader.next(lambda: steps.stopping)
        account.data_wait_s += time.monotonic() - began
        if batch is None:
            return False
        ready = batch.ready
    began = time.monotonic()
    done = device.step(work.step, ready)
    account.device_s += time.monotonic() - began
    return done


def _loader(work: Work, state: JobState, stack: contextlib.ExitStack) -> Loader | None:
    if work.loading is None or work.dataset is None:
        return None
    dataset = generate(work.dataset, work.sampler.samples, work.sample_bytes)
    return stack.enter_context(Loader(dataset, work.sampler, work.loading, start=state.step))


def options() -> argparse.ArgumentParser:
    """The command line. What an agent says in the environment is the default."""
    parser = argparse.ArgumentParser(
        prog="python -m rota.emulate.job", description="An emulated training job."
    )
    _add_work_options(parser.add_argument)
    _add_data_options(parser.add_argument)
    _add_device_options(parser.add_argument)
    return parser


def _add_work_options(add: Callable[..., object]) -> None:
    env = os.environ
    add("--name", default=env.get("ROTA_JOB", "job"))
    add("--model", help="a model of the built-in catalogue")
    add("--gpu", default=env.get("ROTA_GPU_TYPE"), help="a GPU of the built-in catalogue")
    add("--batch", type=int, default=64, help="samples per step of the whole job")
    add(
        "--step-seconds",
        type=float,
        help="instead of --model: a constant step, as from a profile of the scheduler",
    )
    add("--steps", type=int, default=env.get("ROTA_STEPS"), required=not env.get("ROTA_STEPS"))
    add(
        "--gpus",
        type=int,
        default=env.get("ROTA_GPUS", "1"),
        help="number of devices that divide the batch",
    )
    add(
        "--servers",
        type=int,
        default=env.get("ROTA_SERVERS", "1"),
        help="number of servers with these devices",
    )
    add("--strict", action="store_true", help="refuse batches outside the measured range")
    add("--overlap", action="store_true", help="copy the next batch while this one is computed")
    scale = env.get("ROTA_TIME_SCALE", "1")
    add(
        "--compression", type=float, default=scale, help="factor by which emulated time runs faster"
    )
    add("--seed", type=int, default=0, help="of the order of samples")
    add("--checkpoint", type=Path, help="folder to save to and go on from, outside of Rota")
    add("--checkpoint-every", type=float, default=60.0, metavar="SECONDS")
    add("--ballast-mib", type=float, default=0.0, help="MiB to write with each checkpoint")
    add("--order", type=Path, help="append the samples of every finished step to this file")


def _add_data_options(add: Callable[..., object]) -> None:
    add("--samples", type=int, default=1024, help="number of samples in an epoch")
    add(
        "--dataset",
        type=Path,
        help="file with real data, made if it is missing; without it there is no data side",
    )
    add("--sample-bytes", type=int, default=110_592)
    add("--workers", type=int, default=1, help="number of loader processes")
    add("--cpu-ms", type=float, default=0.0, help="CPU milliseconds per sample")
    add("--prefetch", type=int, default=2, help="batches per worker ahead of the device")
    add("--cache-mib", type=float, default=0.0, help="MiB of RAM that keep samples")
    add("--bandwidth", type=float, help="bytes per second that may be read")
    add(
        "--scaled-data",
        action="store_true",
        help="with --compression: the data side is scaled to it by its settings",
    )


def _add_device_options(add: Callable[..., object]) -> None:
    env = os.environ
    add("--devices-at", default=env.get("ROTA_DEVICE_SOCKET"), help="socket of the agent's devices")
    add(
        "--device",
        default=env.get("ROTA_DEVICES") or "gpu0",
        help="names of devices, with commas between",
    )
    add("--weight", type=float, default=1.0, help="on a device shared by weight")


def work_of(args: argparse.Namespace) -> Work:
    """What the command line asks for, checked."""
    if (args.model is None) == (args.step_seconds is None) or (args.model and not args.gpu):
        raise ConfigError("say either --model and --gpu, or --step-seconds")
    if args.dataset and args.compression != 1.0 and not args.scaled_data:
        raise ConfigError(
            f"--compression {args.compression:g} speeds up the device but not the real data side "
            "(--dataset), so the result would mean nothing; leave one out, or divide --cpu-ms and "
            "multiply --bandwidth by the same factor and say --scaled-data"
        )
    memory = None
    load_s = 0.0
    if args.model is None:
        step = StepTime(args.step_seconds)
    else:
        times = DeviceTimes(strict=args.strict)
        step = gang_step(
            times, args.model, args.gpu, args.batch, gpus=args.gpus, servers=args.servers
        )
        memory = times.memory(args.model, args.batch / args.gpus)
        load_s = times.seconds(args.model, args.gpu, 1, "load").value
    loading = LoaderSettings(
        workers=args.workers,
        cpu_s=args.cpu_ms / 1000.0,
        prefetch=args.prefetch,
        cache_bytes=args.cache_mib * 1024.0 * 1024.0,
        bandwidth=args.bandwidth,
    )
    return Work(
        name=args.name,
        step=step,
        steps=args.steps,
        sampler=Sampler(args.samples, args.batch, args.seed),
        memory=memory,
        load_s=load_s,
        overlap=args.overlap,
        compression=args.compression,
        dataset=args.dataset,
        sample_bytes=args.sample_bytes,
        loading=loading if args.dataset else None,
        weight=args.weight,
    )


def run(args: argparse.Namespace) -> dict[str, object]:
    """Do it; what is written at the end."""
    work = work_of(args)
    state = JobState.new(args.seed, int(args.ballast_mib * 1024 * 1024))
    device: _LocalDevice | RemoteDevices | None = None

    def save(folder: Path) -> None:
        state.save(folder)
        if device is not None:
            device.begin()

    with contextlib.ExitStack() as stack:
        every_s = args.checkpoint_every
        opened = open_steps(
            args.steps, save=save, load=state.load, checkpoint=args.checkpoint, every_s=every_s
        )
        steps = stack.enter_context(opened)
        order = (
            stack.enter_context(args.order.open("a", encoding="utf-8", buffering=1))
            if args.order
            else None
        )
        if args.devices_at:
            remote = RemoteDevices(args.devices_at, args.device.split(","), work.name, steps)
            stack.callback(remote.close)
            remote.attach(work.memory, weight=work.weight, overlap=work.overlap)
            device = remote
            account = train(work, remote, steps, state, order)
            return asdict(account)
        local = _LocalDevice(work, args.gpu, steps)
        device = local
        account = train(work, local, steps, state, order)
        return {**asdict(account), "lateness": asdict(local.report())}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job.

    The exit code is 0 when it ended well (also if it was stopped), 1 when it failed, 2 when it was
    asked wrongly.
    """
    args = options().parse_args(arguments)
    warnings.simplefilter("once", ExtrapolatedWarning)
    try:
        result = run(args)
    except RotaError as error:
        if isinstance(error, DeviceError):
            failure = {"failed": error.rota_reason, "detail": str(error)}
            sys.stdout.write(json.dumps(failure) + "\n")
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, ConfigError) else 1
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
