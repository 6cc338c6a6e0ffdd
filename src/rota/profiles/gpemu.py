"""The catalogue `gpemu`: speeds of the emulated GPUs (rota.emulate).

A profile is a model with the batch size of the whole job, `resnet50 (batch size 64)`, and its rate
is

    1 / (transfer + forward + backward)

of the step that was measured. On 2, 4 or 8 GPUs each computes its part of the batch and all
exchange gradients by the assumed ring of `rota.emulate.gangs`. Only batches whose part was measured
are here: nothing is fitted or interpolated. A rate of 0 means that this card was too small for the
part, or that its series is cut before it.
"""

from __future__ import annotations

from rota.emulate.cards import CARDS
from rota.emulate.catalogue import DeviceTimes
from rota.emulate.gangs import all_reduce_seconds
from rota.profiles.catalogue import Catalogue

GPUS = (1, 2, 4, 8)
ABOUT = {
    "name": "gpemu",
    "title": "36 vision models on six GPUs as rota.emulate has them, steps/s; gangs by an assumed ring",
    "source": "profiles published with GPEmu, github.com/mengwanguc/gpemu, commit 27e9534",
    "licence": "MIT by its package metadata",
    "reference": "v100",
}


def profile_name(model: str, batch: int) -> str:
    """What a model with a batch size is called."""
    return f"{model} (batch size {batch})"


def catalogue() -> Catalogue:
    """All measured steps as rates."""
    times = DeviceTimes(strict=True)
    rates: dict[tuple[str, int, str, bool], float] = {}
    for model in times.models:
        step = _steps(times, model)
        batches = sorted({batch for batch, _ in step})
        for batch in batches:
            for gpus in GPUS:
                part = batch // gpus
                if batch % gpus == 0 and part in batches:
                    step_of = {card.name: step.get((part, card.name)) for card in CARDS}
                    _add(rates, times, model, batch, gpus, step_of)
    return Catalogue("gpemu", rates, about=ABOUT)


def _steps(times: DeviceTimes, model: str) -> dict[tuple[int, str], float]:
    """Seconds of every measured step by batch and card."""
    return {
        (batch, card.name): times.step(model, card.name, batch).seconds
        for card in CARDS
        for batch in times.batches(model, card.name)
        if batch <= times.largest(model, card.name)
    }


def _add(
    rates: dict[tuple[str, int, str, bool], float],
    times: DeviceTimes,
    model: str,
    batch: int,
    gpus: int,
    seconds: dict[str, float | None],
) -> None:
    """The rows of one profile and number of GPUs, on one server and spread over several."""
    size = times.parameter_bytes(model)
    for spread in (False, True) if gpus > 1 else (False,):
        exchange = all_reduce_seconds(gpus, size, servers=2 if spread else 1)
        for type_, alone in seconds.items():
            key = (profile_name(model, batch), gpus, type_, spread)
            rates[key] = 0.0 if alone is None else 1.0 / (alone + exchange)
