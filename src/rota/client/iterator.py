"""The iterator: any iterable of batches, under a lease."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sized
from collections.abc import Iterator as Items
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from rota.client import environment, stalls
from rota.client.loop_status import LoopStatus
from rota.client.session import Hook, Hooks, TrainingSession
from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

Item = TypeVar("Item")
_LOADER_STATE = "loader.pickle"
_END = object()


class Iterator(LoopStatus, Generic[Item]):
    """Passes on the items of `loader`; saves, resumes, reports and stops where Rota wants it.

    `loader` is an iterable that can be read once per epoch, or a function from the number of the
    epoch to one. With a total of steps (`steps`, or what the scheduler ordered) one `for` loop runs
    through as many epochs as it takes; without, or inside `epochs()`, it is one pass. A step is an
    item handed out and the loop body for it finished.
    """

    def __init__(
        self,
        loader: Iterable[Item] | Callable[[int], Iterable[Item]],
        *,
        save: Hook | None = None,
        load: Hook | None = None,
        steps: int | None = None,
        save_on: str = "rank0",
        every_steps: int | None = None,
    ) -> None:
        self._loader = loader
        self._stateful = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        self._epoch = 0
        self._position = 0
        self._one_pass = False
        self._abandoned = False
        self._to_skip = 0
        if self._stateful:
            save = save and self._and_loader_state(save)
            load = load and self._after_loader_state(load)
        hooks = Hooks(save, load, save_on, every_steps)
        self._session = TrainingSession(environment.read(os.environ), hooks, steps, self._place)
        self._meter = stalls.StallMeter() if stalls.is_on() else None
        self._session.meter = self._meter
        self._session.open()
        resumed = self._session.resumed
        if resumed is not None:
            self._epoch = resumed.epoch
            self._position = resumed.position
            self._to_skip = resumed.position

    @property
    def epoch(self) -> int:
        """The pass over the data that is under way, from 0."""
        return self._epoch

    @property
    def stall_times(self) -> stalls.StallTimes | None:
        """Seconds of computing and waiting in this attempt so far; None if nothing is timed."""
        return None if self._meter is None else self._meter.times()

    def abandon(self) -> None:
        """Do not count the step that is under way: its item comes again when the job goes on."""
        if self._stateful:
            raise ConfigError(
                "abandon(): a loader with state_dict() cannot take an item back; finish the step "
                "instead."
            )
        self._abandoned = True

    def finish(self) -> None:
        """Say that the job is done, for loops whose total of steps nobody knows.

        Saves and reports.
        """
        self._session.finish()

    def epochs(self, count: int) -> Items[int]:
        """The epochs that are left of `count`, for scripts with a loop over epochs.

        Inside, `for` is one pass.
        """
        self._one_pass = True
        while self._epoch < count and self._session.going():
            before = self._epoch
            yield before
            if self._epoch == before and self._session.stopped is None:
                return  # the script left the pass by itself
        self._session.finish()

    def __len__(self) -> int:
        return len(cast("Sized", self._loader))

    def __enter__(self) -> Iterator[Item]:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None:
            self._session.finish()
        elif isinstance(error, Exception):
            self._session.fail(error)

    def __iter__(self) -> Items[Item]:
        session = self._session
        while session.going():
            meter = self._meter
            source = self._open_pass() if meter is None else meter.opened(self._open_pass)
            while True:
                # A loader with a state counts what is drawn as gone: draw only what is used.
                if self._stateful and not session.begin():
                    return
                item = next(source, _END)
                if item is _END:
                    break
                if not self._stateful and not session.begin():
                    return
                self._position += 1
                yield cast("Item", item)
                if not self._close_step():
                    return
            session.gate.abandon()
            self._close_pass()
            if self._one_pass or session.total is None:
                return

    def _close_step(self) -> bool:
        if not self._abandoned:
            return self._session.finished()
        self._abandoned = False
        self._position -= 1
        return self._session.abandon()

    def _open_pass(self) -> Items[Item]:
        """Begin an epoch, or go on in the middle of the one that the checkpoint was made in."""
        loader = self._loader
        skip = self._to_skip
        self._to_skip = 0
        if not skip:
            self._position = 0
        passing: Any = loader if hasattr(loader, "__iter__") else loader(self._epoch)
        for part in (passing, getattr(passing, "sampler", passing)):
            if hasattr(part, "set_epoch"):
                part.set_epoch(self._epoch)
        if skip and _moved_to(passing, skip, by_sampler=not self._stateful):
            skip = 0
        source = iter(passing)
        if not self._stateful:
            for drawn in range(skip):
                if next(source, _END) is _END:
                    raise ConfigError(
                        f"the checkpoint was made after item {skip} of epoch {self._epoch}, but "
                        "the loader has only "
                        f"{drawn} items now; resume with the data it was made with."
                    )
        replay = self._session.env.replay
        return cast("Items[Item]", source if replay is None else _again_and_again(source, replay))

    def _close_pass(self) -> None:
        if self._position == 0 and self._session.total is not None:
            raise ConfigError(
                f"the loader gave no item in epoch {self._epoch}, at step {self.step} of "
                f"{self._session.total}: it is empty, or can be read only once. Pass a list, a "
                "DataLoader, or a function from the epoch to an iterable."
            )
        self._epoch += 1
        self._position = 0

    def _place(self) -> tuple[int, int]:
        return self._epoch, self._position

    def _and_loader_state(self, save: Hook) -> Hook:
        """`save`, which for a loader that has a state also keeps that in the checkpoint."""
        import pickle  # few loaders have a state

        def save_both(path: Path) -> None:
            save(path)
            state = cast("Any", self._loader).state_dict()
            (path / _LOADER_STATE).write_bytes(pickle.dumps(state))

        return save_both

    def _after_loader_state(self, load: Hook) -> Hook:
        """`load`, which first puts a loader that has a state back to where it was."""
        import pickle  # few loaders have a state

        def load_both(path: Path) -> None:
            state = pickle.loads((path / _LOADER_STATE).read_bytes())  # noqa: S301 - the job's own checkpoint
            cast("Any", self._loader).load_state_dict(state)
            load(path)

        return load_both


def _moved_to(passing: Any, items: int, *, by_sampler: bool) -> bool:
    """Whether the loader, or its sampler, could go there without reading what is before it."""
    if hasattr(passing, "set_position"):
        passing.set_position(items)
        return True
    sampler = getattr(passing, "sampler", None)
    if not by_sampler or not hasattr(sampler, "set_position"):
        return False
    # A sampler counts what it draws: a DataLoader makes an item of `batch_size` of them.
    cast("Any", sampler).set_position(items * (getattr(passing, "batch_size", None) or 1))
    return True


def _again_and_again(source: Items[Any], count: int) -> Items[Any]:
    """The first items of a loader, for ever."""
    items = []
    for item in source:
        items.append(item)
        yield item
        if len(items) == count:
            break
    while items:
        yield from items
