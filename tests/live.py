"""A real `rota up` for tests, and the other verbs against it, all as processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rota.deploy.control import Client

ROTA = (sys.executable, "-m", "rota.cli")
HIDDEN = ("ROTA_SCHEDULER", "ROTA_CERTS", "ROTA_TOKEN", "ROTA_TOKEN_FILE", "XDG_CONFIG_HOME")


def environment(home):
    return {**{k: v for k, v in os.environ.items() if k not in HIDDEN}, "HOME": str(home)}


def until(holds, seconds=20.0, what="it"):
    """Wait for something that is about to happen; its value."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)
    return found


def alive(number):
    """Whether a process is there and not only its exit code."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class Live:
    """A cluster in a folder."""

    def __init__(self, folder):
        self.folder, self.process, self.address, self.processes = Path(folder), None, "", {}

    def up(self, *arguments):
        command = [*ROTA, "up", "--json", *arguments]
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=environment(self.folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate(timeout=30)[1])
        told = json.loads(line)
        self.address, self.processes = told["address"], told["processes"]
        return self

    def down(self, number=signal.SIGINT):
        """Stop it; what it said."""
        self.process.send_signal(number)
        try:
            _, said = self.process.communicate(timeout=25)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.communicate()
        return said

    def run(self, *arguments, code=0, cwd=None, timeout=60):
        """A verb; its output, or its message if it is to fail."""
        done = subprocess.run(
            [*ROTA, *arguments], check=False, capture_output=True, text=True, timeout=timeout, cwd=cwd or self.folder,
            env=environment(self.folder),
        )  # fmt: skip
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def ask(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))

    def client(self):
        """The same in this process, which asks faster."""
        place = self.folder / ".rota"
        return Client(self.address, certs=place / "certs", token_file=place / "token")

    def submit(self, steps=100000, profile="resnet18-32", **fields):
        """An emulated job; its number."""
        with self.client() as client:
            return client.submit([{"emulated": True, "profile": profile, "steps": steps, **fields}])[0]

    def finished(self, **fields):
        """The number of a short job that is over."""
        job = self.submit(**{"steps": 100, **fields})
        with self.client() as client:
            assert client.wait([job], 30, every_s=0.1)[0].phase == "finished"
        return job

    def job(self, number):
        with self.client() as client:
            return client.job(number)

    def phase(self, number):
        return self.job(number).phase

    def nodes(self):
        with self.client() as client:
            return {node.node: node for node in client.nodes()}


FAST = ("--emulate", "--policy", "fifo", "--time-scale", "120", "--round", "60", "--heartbeat", "0.5")
"""A round every half second."""
