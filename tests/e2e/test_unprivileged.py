"""The whole way of a job as a user who may nothing: no root, no control groups to write to."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
READING = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""Lets a user read an interpreter that lies in root's home; it allows no writing."""

LOOK = "import grpc, rota, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
RUN = """
import os, sys
sys.path.insert(0, sys.argv[2])
from faults import Site
assert os.geteuid() == 65534
with Site(sys.argv[1]) as site:
    site.agent("n0", "emulate:v100=2")
    real, emulated = site.submit(steps=40), site.submit(steps=60, emulated=True)
    over = site.done(real, emulated, seconds=90)
    (node,) = site.client.nodes()
    assert [job.phase for job in over] == ["finished", "finished"], over
    assert len(site.steps(real)) == 40
    print(node.limits)
"""


def as_nobody(home, *arguments):
    """Run Python as another user; the interpreter may have to be made readable for it."""
    env = {**os.environ, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    for prefix in (NOBODY, (*NOBODY, *READING)):
        look = [*prefix, sys.executable, "-c", LOOK]
        if subprocess.run(look, check=False, capture_output=True, cwd=home, env=env, timeout=60).returncode == 0:
            run = [*prefix, sys.executable, *arguments]
            return subprocess.run(run, check=False, capture_output=True, text=True, cwd=home, env=env, timeout=150)
    pytest.skip("another user cannot read this interpreter")
    return None


def test_a_deployment_runs_without_root_and_says_how_limits_are_kept():
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv to become another user; without root all tests are this one")
    home = Path(tempfile.mkdtemp(prefix="rota-nobody-"))  # pytest's own folders are closed to others
    try:
        os.chown(home, 65534, 65534)
        done = as_nobody(home, "-c", RUN, str(home), str(TESTS))
    finally:
        shutil.rmtree(home)

    assert done.returncode == 0, done.stderr
    assert "affinity and rlimits: CPUs pinned" in done.stdout
    assert "memory by RLIMIT_DATA per process (" in done.stdout
