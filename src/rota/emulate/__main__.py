"""`python -m rota.emulate`: which models and GPUs can be emulated, and how long a step takes."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence

from rota.core.errors import RotaError
from rota.emulate.cards import CARDS, card
from rota.emulate.catalogue import DeviceTimes, ExtrapolatedWarning
from rota.emulate.gangs import gang_step


def catalogue(times: DeviceTimes) -> dict[str, dict[str, dict[str, int]]]:
    """By model and GPU: the largest measured batch, and the largest that fits into its memory."""
    return {
        model: {
            gpu: {
                "measured": times.largest(model, gpu),
                "fits": times.largest_that_fits(model, gpu),
            }
            for gpu in times.gpus
        }
        for model in times.models
    }


def step(
    times: DeviceTimes, model: str, gpu: str, batch: float, gpus: int, servers: int
) -> dict[str, object]:
    """A step with its parts, its kind, and what it needs in memory."""
    step_time = gang_step(times, model, gpu, batch, gpus=gpus, servers=servers)
    need = times.memory(model, batch / gpus)
    usable = card(gpu).usable_mib
    return {
        "model": model,
        "gpu": card(gpu).name,
        "batch": batch,
        "gpus": gpus,
        "servers": servers,
        "kind": step_time.kind,
        "step_s": round(step_time.seconds, 7),
        "transfer_s": round(step_time.transfer_s, 7),
        "compute_s": round(step_time.compute_s, 7),
        "peak_mib": round(need.peak_mib, 1),
        "persistent_mib": round(need.persistent_mib, 1),
        "usable_mib": round(usable, 1),
        "fits": need.peak_mib <= usable,
    }


def _table(times: DeviceTimes) -> str:
    lines = [
        "largest measured batch / largest batch that fits",
        f"{'model':20}" + "".join(f"{c.name:>12}" for c in CARDS),
    ]
    for model, by_gpu in catalogue(times).items():
        cells = (f"{by_gpu[c.name]['measured']}/{by_gpu[c.name]['fits']}" for c in CARDS)
        lines.append(f"{model:20}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """List the catalogue, or show one step."""
    parser = argparse.ArgumentParser(prog="python -m rota.emulate", description=__doc__)
    parser.add_argument("model", nargs="?")
    parser.add_argument("gpu", nargs="?")
    parser.add_argument("batch", nargs="?", type=int, default=64)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument(
        "--strict", action="store_true", help="refuse batches outside the measured range"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    if args.model and not args.gpu:
        parser.error("a model needs a GPU beside it, for example: resnet50 v100 64")
    times = DeviceTimes(strict=args.strict)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolatedWarning)  # the kind is shown
            if args.model is None:
                text = json.dumps(catalogue(times)) if args.json else _table(times)
            else:
                facts = step(times, args.model, args.gpu, args.batch, args.gpus, args.servers)
                text = (
                    json.dumps(facts)
                    if args.json
                    else "\n".join(f"{k:15} {v}" for k, v in facts.items())
                )
    except RotaError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
