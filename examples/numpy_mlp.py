"""A small neural network in NumPy that runs under Rota: stopped and resumed anywhere, it ends with the same weights.

    python examples/numpy_mlp.py --steps 2000

Alone, Rota's iterator only passes the batches through. Under Rota the number of steps comes from the job.
What makes it a job for Rota is marked with (1) to (4).
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

import rota.client  # (1)

EXAMPLES, BATCH, INPUTS, HIDDEN = 4096, 64, 16, 64


def data(seed):
    """Points in a box, and whether they are inside a ball."""
    x = np.random.default_rng(seed).uniform(-1, 1, (EXAMPLES, INPUTS))
    radius = np.sqrt((x**2).sum(axis=1))
    return x, (radius < np.median(radius)).astype(float)


class Network:
    """One hidden layer, cross entropy, momentum."""

    def __init__(self, seed):
        draw = np.random.default_rng(seed)
        self.weights = {
            "w1": draw.normal(0, INPUTS**-0.5, (INPUTS, HIDDEN)),
            "b1": np.zeros(HIDDEN),
            "w2": draw.normal(0, HIDDEN**-0.5, HIDDEN),
            "b2": np.zeros(()),
        }
        self.momentum = {name: np.zeros_like(value) for name, value in self.weights.items()}

    def train(self, x, y, rate=0.1):
        """One step of gradient descent; the loss before it."""
        w = self.weights
        h = np.maximum(x @ w["w1"] + w["b1"], 0)
        p = 1 / (1 + np.exp(-(h @ w["w2"] + w["b2"])))
        error = (p - y) / len(y)
        back = np.outer(error, w["w2"]) * (h > 0)
        gradient = {"w1": x.T @ back, "b1": back.sum(axis=0), "w2": h.T @ error, "b2": error.sum()}
        for name, value in gradient.items():
            self.momentum[name] = 0.9 * self.momentum[name] - rate * value
            w[name] = w[name] + self.momentum[name]
        return float(-np.mean(y * np.log(p + 1e-12) + (1 - y) * np.log(1 - p + 1e-12)))

    def save(self, path: Path):  # (2) write everything the next attempt needs into this folder
        """Write weights and momentum."""
        moments = {f"m_{name}": value for name, value in self.momentum.items()}
        np.savez(path / "network.npz", **self.weights, **moments)

    def load(self, path: Path):  # (3) and read it back
        """Read weights and momentum."""
        with np.load(path / "network.npz") as saved:
            self.weights = {name: saved[name] for name in self.weights}
            self.momentum = {name: saved[f"m_{name}"] for name in self.weights}


def batches(seed):
    """A function from the epoch to its batches. The order depends on the epoch only, so a resumed job sees the same."""
    x, y = data(seed)

    def of_epoch(epoch):
        order = np.random.default_rng((seed, epoch)).permutation(EXAMPLES)
        for start in range(0, EXAMPLES, BATCH):
            chosen = order[start : start + BATCH]
            yield x[chosen], y[chosen]

    return of_epoch


def main():
    """Train, and print the loss now and then."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--pause", type=float, default=0.0, help="seconds to idle in each step, to have it take longer"
    )
    options.add_argument("--out", type=Path, help="write the final weights to this file")
    chosen = options.parse_args()

    network = Network(chosen.seed)
    it = rota.client.Iterator(batches(chosen.seed), save=network.save, load=network.load, steps=chosen.steps)  # (4)
    if it.resumed:
        print(f"resumed at step {it.step} from {it.resumed.name}", flush=True)
    for x, y in it:
        loss = network.train(x, y)
        time.sleep(chosen.pause)
        if (it.step + 1) % 200 == 0:
            print(f"process {os.getpid()} step {it.step + 1} epoch {it.epoch} loss {loss:.4f}", flush=True)
    print(f"ended at step {it.step}: {it.stopped}", flush=True)
    if chosen.out is not None and it.stopped == "done":
        np.savez(chosen.out, **network.weights)


if __name__ == "__main__":
    main()
