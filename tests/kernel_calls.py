"""Calls of compiled kernels that make sense, and the same with one or more arguments made wrong.

    python tests/kernel_calls.py --calls 200000 --seed 1

makes wrong calls at random: each must return, or be refused with an exception. What must not happen is seen by
AddressSanitizer and UBSan (`make sanitize`). Ordinary tests refuse every kind of wrong argument once.
"""

from __future__ import annotations

import argparse
import random
import sys
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from rota.kernels import _compiled

REFUSALS = (ValueError, TypeError, IndexError, MemoryError)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _dimensions(name: str, rng: np.random.Generator) -> dict[str, int]:
    """Lengths that go together."""
    size = {letter: int(rng.integers(1, 7)) for letter in LETTERS}
    if name in ("append", "without"):
        size["R"] = size["A"] + size["D"]
    if name == "append":
        size["G"] = int(rng.integers(0, min(7, size["R"]) + 1))
        size["N"] = size["B"] + size["V"]
    if name == "without":
        size["G"] = int(rng.integers(0, size["B"] + 1))
        size["N"] = size["B"] - size["G"]
    if name == "by_speed":
        size["E"] = size["T"] + 1
    if name == "seat":
        size["K"] = min(size["K"], size["J"])
    if name == "arrange":
        size["J"] = max(size["J"], size["N"])
        size["K"] = min(size["K"], size["N"])
    if name == "walk":
        size["N"] = 12
    return size


def _array(parameter: tuple, size: dict[str, int], rng: np.random.Generator) -> np.ndarray:
    _, kind, shape, below, least = parameter
    letters = shape.strip(">?").upper()
    form = [int(letter) if letter.isdigit() else size[letter] for letter in letters]
    if kind.lower() == "d" or (kind.lower() == "x" and size["A"] % 2):
        return rng.random(form) * 100 + 0.01
    if kind.lower() == "b":
        return rng.random(form) < 0.7
    end = {"": 100, "#": 5, "*": size["N"]}.get(below) or size[below]
    return rng.integers(least, max(end, least + 1), form)


def _walk(rng: np.random.Generator, size: dict[str, int]) -> dict[str, Any]:
    """Empty servers of four GPUs, and tasks of which the first stay."""
    servers = size["S"]
    gpus = np.full(servers, 4)
    stays = int(rng.integers(0, min(servers, 3) + 1))
    most = int(gpus.sum())
    sizes = rng.choice([1, 1, 2, 3, 5], size["N"])
    sizes[:stays] = 2
    return {
        "gpus": array("q", gpus),
        "cpus": array("d", gpus * 3.0),
        "memory": array("d", gpus * 60.0),
        "hold_cpus": array("d", rng.choice([2.0, 3.0, 9.0], size["C"])),
        "hold_memory": array("d", rng.choice([20.0, 60.0, 150.0], size["C"])),
        "sizes": sizes,
        "task_of": np.empty(most, dtype=np.int64),
        "config_of": np.empty(most, dtype=np.int64),
        "start_of": np.zeros(most + 1, dtype=np.int64),
        "server_of": np.empty(most + 1, dtype=np.int64),
        "part_of": np.empty(most + 1, dtype=np.int64),
        "stay_start": np.arange(stays + 1),
        "stay_server": rng.permutation(servers)[:stays],
        "stay_part": np.full(stays, 2),
        "at": 0,
        "rows": 0,
        "free": most,
        "fair_cpus": 3.0,
        "fair_memory": 60.0,
        "squeezes": bool(rng.integers(2)),
    }


def _special(name: str, size: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Arguments of which more is asked than a signature says."""
    active = np.sort(rng.choice(1000, size["J"], replace=False))
    by_speed = rng.random((size["C"], size["E"], size["T"]))
    order = rng.permutation(size["T"])
    known: dict[str, dict[str, Callable[[], Any]]] = {
        "without": {"gone": lambda: np.sort(rng.permutation(size["B"])[: size["G"]])},
        "seat": {
            "jobs": lambda: active,
            "first": lambda: rng.permutation(active)[: size["K"]],
            "types": lambda: 99,
            "group": lambda: rng.integers(0, size["C"], size["J"]),
        },
        "look_up": {"jobs": lambda: active, "first": lambda: rng.choice(active, size["K"])},
        "arrange": {
            "rows": lambda: rng.permutation(size["J"])[: size["N"]],
            "put": lambda: rng.permutation(size["N"])[: size["K"]],
        },
        "by_speed": {"value": lambda: by_speed, "wish": lambda: np.tile(order, (size["C"], 1))},
        "queue_up": {
            "order": lambda: rng.permutation(size["J"]),
            "workers": lambda: rng.integers(0, 3, size["T"]) + np.eye(1, size["T"], dtype=np.int64)[0],
        },
        "walk": {key: lambda value=value: value for key, value in _walk(rng, size).items()},
    }
    return {key: make() for key, make in known.get(name, {}).items()}


def sound(name: str, rng: np.random.Generator) -> list[Any]:
    """Arguments with which a kernel can be called."""
    size = _dimensions(name, rng)
    special = _special(name, size, rng)
    parameters = _compiled.SIGNATURES[name]
    if name == "append":
        parameters = parameters[: 5 + size["G"]]
    arguments: list[Any] = []
    for parameter in parameters:
        argument, kind, shape, *_ = parameter
        if argument in special:
            arguments.append(special[argument])
        elif kind == "n":
            arguments.append(size[shape] if shape else int(rng.integers(0, 8)))
        elif kind == "f":
            arguments.append(float(rng.random() * 360))
        elif kind == "t":
            arguments.append(bool(rng.integers(2)))
        else:
            arguments.append(_array(parameter, size, rng))
    return arguments


def call(name: str, arguments: list[Any]) -> Any:
    """Call a kernel."""
    return getattr(_compiled, name)(*arguments)


# Ways of making an argument wrong. Each takes an array and returns another.


def _misaligned(values: np.ndarray) -> np.ndarray:
    memory = np.zeros(values.nbytes + 8, dtype=np.uint8)
    moved = memory[1 : 1 + values.nbytes].view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


def _frozen(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.setflags(write=False)
    return values


def _scattered(values: np.ndarray) -> np.ndarray:
    return np.repeat(values, 2, axis=-1)[..., ::2]


TYPES: dict[str, Callable[[np.ndarray], Any]] = {
    "int32": lambda a: a.astype(np.int32),
    "float32": lambda a: a.astype(np.float32),
    "uint64": lambda a: a.astype(np.uint64),
    "complex128": lambda a: a.astype(np.complex128),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")) if a.dtype.itemsize > 1 else a.astype(">i2"),
    "object": lambda a: a.astype(object),
    "bytes": lambda a: a.tobytes(),
    "list": lambda a: a.tolist(),
    "None": lambda _: None,
    "a number": lambda _: 7,
}
"""Never an array of the right type."""

FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "another axis": lambda a: a[None, None],
    "no axis": lambda a: a.dtype.type(1) + np.zeros((), dtype=a.dtype),
    "shorter": lambda a: a[..., :-1].copy(),
    "longer": lambda a: np.concatenate([a, a[..., :1]], axis=-1),
    "empty": lambda a: a[..., :0].copy(),
    "twice": lambda a: np.concatenate([a, a]),
}
MEMORY: dict[str, Callable[[np.ndarray], Any]] = {
    "read-only": _frozen,
    "scattered": _scattered,
    "misaligned": _misaligned,
    "a view": memoryview,
}
OTHER_NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 5, 6, 100, 2**31, 2**40, 2**62, 2**63 - 1)
OTHER_FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e308, -1e308, 1e-320)
OTHER_SCALARS = (None, "x", [], -1, 2**70, -(2**70), float("nan"), 1e300, object(), 2**62, -(2**63))


def spoil(arguments: list[Any], rng: random.Random) -> None:
    """Make one argument wrong, or perhaps only unusual."""
    at = rng.randrange(len(arguments))
    value = arguments[at]
    if isinstance(value, array):
        value = np.array(value)
    if not isinstance(value, np.ndarray) or value.dtype not in (np.int64, np.float64, np.bool_):
        arguments[at] = rng.choice(OTHER_SCALARS)
        return
    how = rng.random()
    if how < 0.5 and value.size:
        changed = value.copy()
        numbers = OTHER_FLOATS if value.dtype.kind == "f" else OTHER_NUMBERS
        for _ in range(rng.choice((1, 1, 3))):
            changed.flat[rng.randrange(value.size)] = (
                bool(rng.randrange(2)) if value.dtype.kind == "b" else rng.choice(numbers)
            )
        arguments[at] = changed
    elif how < 0.6:
        arguments[at] = arguments[rng.randrange(len(arguments))]  # memory of another
    else:
        ways = rng.choice((FORMS, FORMS, MEMORY, TYPES))
        with np.errstate(all="ignore"):
            arguments[at] = ways[rng.choice(sorted(ways))](value)


def wrong_calls(count: int, seed: int) -> tuple[int, int]:
    """So many calls with wrong arguments; how many returned and how many were refused."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    names = sorted(_compiled.SIGNATURES)
    refused = 0
    for _ in range(count):
        name = rng.choice(names)
        arguments = sound(name, numbers)
        for _ in range(rng.choice((1, 1, 2, 3))):
            spoil(arguments, rng)
        if rng.random() < 0.02:
            arguments = arguments[: rng.randrange(len(arguments))] if rng.random() < 0.5 else [*arguments, 0]
        try:
            call(name, arguments)
        except REFUSALS:
            refused += 1
    return count - refused, refused


def _write_outside() -> None:
    """What no kernel does: write behind the end of memory."""
    import ctypes

    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    library.memset(library.malloc(ctypes.c_size_t(64)), 0, 80)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prove-the-sanitizer", action="store_true", help="write outside of memory, to see it notice")
    asked = parser.parse_args()
    if asked.prove_the_sanitizer:
        _write_outside()
    returned, refused = wrong_calls(asked.calls, asked.seed)
    sys.stdout.write(f"{refused} wrong calls of kernels refused, {returned} returned\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
