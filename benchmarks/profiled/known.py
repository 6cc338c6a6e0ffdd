"""A job whose speed is known: 10 ms of CPU time per item in one loader process, 20 ms on the device, batch 1.

It needs half a CPU: with more it makes just under 50 steps/s, with c below that 100 c.
"""

import argparse
import multiprocessing
import time

import rota.client


def load(ready, cpu_s):
    while True:
        end = time.thread_time() + cpu_s
        while time.thread_time() < end:
            pass
        ready.put(1)


class Items:
    def __init__(self, cpu_s):
        self.ready = multiprocessing.Queue(2)
        multiprocessing.Process(target=load, args=(self.ready, cpu_s), daemon=True).start()

    def __iter__(self):
        while True:
            yield self.ready.get()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu-ms", type=float, default=10.0)
    parser.add_argument("--device-ms", type=float, default=20.0)
    args = parser.parse_args()
    for _ in rota.client.Iterator(Items(args.cpu_ms / 1000)):
        time.sleep(args.device_ms / 1000)


if __name__ == "__main__":
    main()
