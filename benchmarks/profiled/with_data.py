"""A job with rota.data: files read past the page cache, decoded by forked workers, computed on a device that sleeps."""

import argparse
import multiprocessing
import os
import time
from pathlib import Path

import rota.client
from rota.data import Batches, CachedDataset, Files, Sampler


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--item-bytes", type=int, default=100_000)
    parser.add_argument("--cpu-ms", type=float, default=1.0)
    parser.add_argument("--device-ms", type=float, default=3.0)
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def files(args):
    args.data.mkdir(parents=True, exist_ok=True)
    paths = [args.data / f"{number:05}" for number in range(args.items)]
    for path in paths:
        if not path.exists():
            path.write_bytes(os.urandom(args.item_bytes))
    return paths


class Workers:
    """Item i is made by worker i mod n, each up to two ahead; they come out in order."""

    def __init__(self, data, count):
        self.data = data
        self.sampler = Sampler(data, seed=1)
        self.ready = [multiprocessing.Queue(2) for _ in range(count)]
        self.orders = [multiprocessing.Queue() for _ in range(count)]
        for number in range(count):
            multiprocessing.Process(target=self.work, args=(number,), daemon=True).start()

    def work(self, number):
        while True:
            for item in self.orders[number].get():
                self.ready[number].put(self.data[item])

    def __iter__(self):
        order = list(self.sampler)
        for number, orders in enumerate(self.orders):
            orders.put(order[number :: len(self.orders)])
        for place in range(len(order)):
            yield self.ready[place % len(self.ready)].get()


def main():
    args = options()

    def decode(_raw, index):
        end = time.thread_time() + args.cpu_ms / 1000
        while time.thread_time() < end:
            pass
        return index

    data = CachedDataset(Files(files(args), cold=True), decode)
    loader = Workers(data, args.workers) if args.workers else Batches(data, Sampler(data, seed=1))
    for _ in rota.client.Iterator(loader):
        time.sleep(args.device_ms / 1000)


if __name__ == "__main__":
    main()
