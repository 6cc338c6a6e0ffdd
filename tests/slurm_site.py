"""A scheduler beside a real Slurm, and pools of pilots, all as processes of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from live import environment, until
from real_slurm import as_user, free_ports
from rota.deploy.control import Client
from rota.deploy.local.certificates import secure

SOURCE = str(Path(__file__).parents[1] / "src")
FAST = ("--policy", "fifo", "--time-scale", "120", "--round", "60", "--heartbeat", "0.5", "--dead-after", "3")
"""A round every half second."""


class SlurmSite:
    """A folder with certificates, a scheduler that signs joins, and keepers of pools."""

    def __init__(self, folder, slurm, *serve, user=None, python_for=None):
        """`user`: number of the user as whom everything but Slurm runs. `python_for`: one who runs our interpreter."""
        self.folder = Path(folder)
        self.slurm = slurm
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.processes = {}
        self.work = slurm.folder / "work"  # short, as names of sockets have to be, and removed at the end
        self.work.mkdir(exist_ok=True)
        self.work.chmod(0o1777)
        self.serve_options = serve or FAST
        secure(self.folder, [])
        runs_it = user or python_for
        self.python, self.path = (sys.executable, "") if runs_it is None else python_of(runs_it)
        self.rota = (*as_user(user), self.python, "-m", "rota.cli")
        for path in [] if user is None else [self.folder, *self.folder.rglob("*")]:
            os.chown(path, user, user)

    def __enter__(self):
        self.serve()
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.end(name)
        self.slurm.run("scancel", "--user=root", code=None)

    @property
    def env(self):
        path = {"PYTHONPATH": self.path, "PYTHONDONTWRITEBYTECODE": "1"} if self.path else {}
        return {**environment(self.folder), **path, "SLURM_CONF": str(self.slurm.conf)}

    @property
    def connection(self):
        return (
            "--scheduler", self.address, "--certs", str(self.folder / "certs"),
            "--token-file", str(self.folder / "token"),
        )  # fmt: skip

    def client(self, tenant=None):
        """A user of a tenant (`tenant` has made its token), else the administrator."""
        name = "token" if tenant is None else f"{tenant}.token"
        return Client(self.address, certs=self.folder / "certs", token_file=self.folder / name)

    def tenant(self, name):
        """Make the token of a tenant."""
        out = self.folder / f"{name}.token"
        self.run("tokens", "create", "--tenant", name, "--dir", str(self.folder / "certs"), "--out", str(out))

    def start(self, name, *arguments):
        """A verb that stays; its first line, as JSON."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.rota, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=log, text=True,
                env=self.env, cwd=self.folder,
            )  # fmt: skip
        self.processes[name] = process
        line = process.stdout.readline()
        assert line, (self.folder / f"{name}.log").read_text()
        return json.loads(line)

    def serve(self):
        self.start(
            "serve", "serve", "--state", str(self.folder / "state.db"), "--listen", self.address, "--certs",
            str(self.folder / "certs"), "--sign-joins", "--checkpoints", str(self.folder / "checkpoints"), "--json",
            *self.serve_options,
        )  # fmt: skip

    def pool(self, *arguments, name="gpu", notice=10, tenants="--trust-tenants"):
        """Start a keeper of a pool."""
        return self.start(
            f"pool-{name}", "pilots", "start", "--slurm", "--pool", name, "--partition", "gpu", "--json", "--every",
            "0.5", "--notice", str(notice), tenants, "--emulate", "--folder", str(self.folder / "pools"),
            "--work-dir", str(self.work), *self.connection, *arguments,
        )  # fmt: skip

    def run(self, *arguments, code=0, timeout=120):
        done = subprocess.run(
            [*self.rota, *arguments], check=False, capture_output=True, text=True,
            timeout=timeout, cwd=self.folder,
            env=self.env,
        )  # fmt: skip
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def pilots(self):
        """{name: row} of all pilots."""
        listed = self.run("pilots", "--json", "--folder", str(self.folder / "pools"), *self.connection)
        return {row["pilot"]: row for row in json.loads(listed)}

    def up(self):
        """Names of nodes that are up."""
        with self.client() as client:
            return sorted(node.node for node in client.nodes() if node.state == "up")

    def until_up(self, count, seconds=150.0):
        """Wait for nodes; on a busy machine a pilot needs half a minute to come."""
        with self.client() as client:

            def names():
                found = sorted(node.node for node in client.nodes() if node.state == "up")
                return found if len(found) == count else None

            return until(names, seconds, f"{count} pilots are up")

    def end(self, name, number=signal.SIGTERM):
        process = self.processes.pop(name)
        process.send_signal(number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def kill(self, name):
        self.end(name, signal.SIGKILL)


def python_of(user):
    """An interpreter that another user may run, and where it finds our packages; skips if there is none."""
    ours = os.pathsep.join(path for path in sys.path if path.endswith("site-packages") or path == SOURCE)
    paths = os.pathsep.join(dict.fromkeys([SOURCE, *ours.split(os.pathsep)]))
    for program in (sys.executable, "/usr/bin/python3"):
        if not all(folder.stat().st_mode & 0o001 for folder in Path(program).resolve().parents):
            continue  # a batch job of that user could not start it
        look = [*as_user(user), program, "-c", "import grpc, numpy, rota.deploy.control"]
        with contextlib.suppress(OSError):
            env = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
            if subprocess.run(look, check=False, capture_output=True, cwd="/", env=env).returncode == 0:
                return program, paths
    return pytest.skip("another user can run no interpreter that has our packages")


def processes_of_job(slurm, number):
    """[(number, command line)] of the processes of a batch job. Other clusters may run on this machine."""
    return processes_with(f"SLURM_JOB_ID={number}", f"SLURM_CLUSTER_NAME={slurm.cluster}")


def processes_with(*entries):
    """Processes with all these `NAME=value` in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit():
                continue
            environ = (entry / "environ").read_bytes().split(b"\0")
            if all(wanted.encode() in environ for wanted in entries):
                found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:900]))
    return [(number, words) for number, words in found if number != os.getpid()]
