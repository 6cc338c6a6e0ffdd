"""What the example workloads share: options, data made on the spot, checkpoints, and the check that they learned.

A workload has a `Goal`, a function that makes the raw bytes of an item and one that decodes them, and a function that
trains on a batch. All randomness is in the checkpoint or follows from (seed, epoch, item), so a job that is stopped at
any step and goes on elsewhere ends with the same weights, bit by bit. No part of Rota's interface: copy what you like.
"""

import argparse
import ctypes
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

try:
    import PIL  # noqa: F401 - the scripts that need it import it without this message
    import torch
except ImportError as missing:
    fix = "pip install '.[examples]' in a checkout of Rota"
    print(f"{Path(sys.argv[0]).name}: {missing.name} is not installed; {fix}", file=sys.stderr)
    raise SystemExit(2) from None

import rota.client
from rota.core.errors import RotaError
from rota.data import CachedDataset, Files, Sampler

RESERVE_GB = 0.8
"""Memory of an example beside the cache of its data: PyTorch, the model, the workers."""
REPORT_EVERY = 20
KEPT_BYTES = 1 << 30
"""Freed memory that stays with the process."""
_LARGEST_IN_HEAP = 32 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of mallopt(3)."""
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a workload learns: a figure that is at least (or at most) `target` after `steps` steps, on unseen data."""

    metric: str
    target: float
    steps: int
    at_most: bool = False

    def reached(self, value: float) -> bool:
        """Whether the figure is good enough."""
        return value <= self.target if self.at_most else value >= self.target

    def __str__(self) -> str:
        return f"{self.metric} {'at most' if self.at_most else 'at least'} {self.target:g} after {self.steps} steps"


@dataclass(frozen=True, kw_only=True)
class Items:
    """A data set that is made on the spot: item i is `make(i, random)`, and `decode(raw, i, random)` prepares it."""

    name: str
    count: int
    make: Callable[[int, np.random.Generator], bytes]
    decode: Callable[[bytes, int, np.random.Generator], Any]
    cold: bool = False
    """Read past the page cache, as if the data set were larger than memory."""

    def raw(self, index: int) -> bytes:
        """The bytes of an item; those from `count` on are never trained on."""
        return self.make(index, np.random.default_rng([2026, index]))

    def unseen(self, count: int) -> Any:
        """A batch of items that training does not see."""
        chosen = range(self.count, self.count + count)
        return torch.utils.data.default_collate([self.decode(self.raw(i), i, np.random.default_rng(i)) for i in chosen])

    def files(self, folder: Path) -> list[Path]:
        """The items as files. They appear all at once, whoever else makes them and whenever this process is killed."""
        made = folder / f"{self.name}-{self.count}"
        if not made.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            being_made = Path(tempfile.mkdtemp(dir=folder, prefix=f"{self.name}-"))
            try:
                for index in range(self.count):
                    (being_made / f"{index:05}").write_bytes(self.raw(index))
                being_made.rename(made)
            except OSError:
                shutil.rmtree(being_made, ignore_errors=True)
                if not made.is_dir():  # else another process was faster
                    raise
        return [made / f"{index:05}" for index in range(self.count)]


class EpochSampler(Sampler):
    """The order of items, and the number of the epoch where the loader's processes see it."""

    def __init__(self, items: int, seed: int) -> None:
        super().__init__(items, seed=seed)
        self.shared_epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        super().set_epoch(epoch)
        self.shared_epoch[0] = epoch


def _decode(items: Items, seed: int, epoch: torch.Tensor, raw: bytes, index: int) -> Any:
    """Random crops and the like follow from seed, epoch and item, whichever process prepares it."""
    return items.decode(raw, index, np.random.default_rng([seed, int(epoch), index]))


def options(about: str, goal: Goal, batch: int, workers: int = 1) -> argparse.Namespace:
    """The options of a workload; its first random number is drawn after this."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole = partial(_whole, 1)
    batch = _told("ROTA_BATCH_SIZE", batch)
    parser.add_argument("--steps", "--max-iterations", type=whole, default=goal.steps, help="default: %(default)s")
    parser.add_argument("-b", "--batch-size", type=whole, default=batch, help="items per step; default: %(default)s")
    parser.add_argument("--workers", type=partial(_whole, 0), default=workers, help="processes that prepare items")
    parser.add_argument("--data", type=Path, default=Path("example-data"), help="folder for the data that it makes")
    parser.add_argument(
        "--device-ms", type=_milliseconds, default=0.0, help="milliseconds to wait in each step, as for a GPU"
    )
    parser.add_argument("--seed", type=partial(_whole, 0), default=0)
    parser.add_argument("--out", type=Path, help="write the final weights to this file")
    parser.add_argument("--check", action="store_true", help=f"exit with 1 unless it learned: {goal}")
    chosen = parser.parse_args()
    chosen.goal = goal
    chosen.steps = _told("ROTA_STEPS", chosen.steps)  # the scheduler's number wins
    if chosen.out is not None and not chosen.out.parent.is_dir():
        refuse(f"--out {chosen.out}: there is no folder {chosen.out.parent}; make it first")
    torch.manual_seed(chosen.seed)
    torch.set_num_threads(1)  # with another number sums have another order, and the weights other last bits
    torch.use_deterministic_algorithms(DEVICE.type == "cpu")
    keep_freed_memory()
    return chosen


def keep_freed_memory() -> None:
    """Do not give memory back to the system after each step, to be given it anew in the next.

    Without this a third of the CPU time of small models goes there, and how long it takes depends on the machine's
    neighbours. For the C library of GNU; with others nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in ((_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, _LARGEST_IN_HEAP)):
            mallopt(parameter, value)


def _whole(least: int, text: str) -> int:
    if not (text.isdecimal() and least <= int(text) < 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {10**9 - 1}")
    return int(text)


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from 0 to 1000000")
    return value


def _told(variable: str, otherwise: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() and int(text) > 0 else otherwise


def refuse(message: object) -> NoReturn:
    """End with one line about what cannot be used."""
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    raise SystemExit(2)


def train(
    chosen: argparse.Namespace,
    items: Items,
    parts: Mapping[str, Any],
    step: Callable[[Any], torch.Tensor],
    measure: Callable[[], float],
) -> None:
    """Train until the steps are made or the job is stopped; `parts` have a state_dict, `step` gives the loss."""
    try:
        data, loader = _loader(chosen, items)
        it = rota.client.Iterator(loader, save=partial(_save, parts), load=partial(_load, parts), steps=chosen.steps)
    except OSError as error:
        refuse(f"{error}; name another folder with --data, or remove this one, and it is made again")
    except RotaError as error:
        refuse(error)
    if it.resumed:
        print(f"resumed at step {it.step}", flush=True)
    began = None
    first = it.step
    for batch in it:
        began = began or time.monotonic()
        loss = step([part.to(DEVICE) for part in batch])
        if chosen.device_ms:
            time.sleep(chosen.device_ms / 1000)
        if (it.step + 1) % REPORT_EVERY == 0:
            print(f"step {it.step + 1} epoch {it.epoch} loss {loss.item():.4f}", flush=True)
    seconds = time.monotonic() - (began or time.monotonic())
    print(f"ended at step {it.step}: {it.stopped}; {it.step - first} steps in {seconds:.3f} s", flush=True)
    print(f"{data.counters.hit_ratio:.0%} of the items were found in the cache", flush=True)
    if it.stopped == "done":
        _finish(chosen, parts, measure)


def _loader(chosen: argparse.Namespace, items: Items) -> tuple[CachedDataset, torch.utils.data.DataLoader]:
    sampler = EpochSampler(items.count, chosen.seed)
    decode = partial(_decode, items, chosen.seed, sampler.shared_epoch)
    data = CachedDataset(Files(items.files(chosen.data), cold=items.cold), decode, reserve_gb=RESERVE_GB)
    loader = torch.utils.data.DataLoader(
        data,
        batch_size=chosen.batch_size,
        sampler=sampler,
        num_workers=chosen.workers,
        persistent_workers=chosen.workers > 0,
        generator=torch.Generator(),  # a loader draws a number per epoch, also of an epoch that is resumed
    )
    return data, loader


def _save(parts: Mapping[str, Any], folder: Path) -> None:
    state = {name: part.state_dict() for name, part in parts.items()}
    torch.save({"parts": state, "random": torch.get_rng_state()}, folder / "state.pt")


def _load(parts: Mapping[str, Any], folder: Path) -> None:
    state = torch.load(folder / "state.pt", map_location=DEVICE, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(state["parts"][name])
    torch.set_rng_state(state["random"].cpu())


def _finish(chosen: argparse.Namespace, parts: Mapping[str, Any], measure: Callable[[], float]) -> None:
    if chosen.out is not None:
        try:
            torch.save({name: part.state_dict() for name, part in parts.items()}, chosen.out)
        except (OSError, RuntimeError) as error:
            refuse(f"--out {chosen.out}: {error}")
    with torch.no_grad():
        value = measure()
    print(f"{chosen.goal.metric} {value:.4f}; goal: {chosen.goal}", flush=True)
    if chosen.check and not chosen.goal.reached(value):
        raise SystemExit(1)
