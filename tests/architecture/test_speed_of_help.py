import os
import resource
import subprocess
import sys

import pytest


def cpu_of(arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, capture_output=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--help"], ["--version"]])
def test_help_answers_within_three_tenths_of_a_second_of_cpu(arguments):
    command = [sys.executable, "-m", "rota.cli", *arguments]

    assert min(cpu_of(command) for _ in range(3)) < 0.3


def test_importing_rota_is_cheap():
    script = "import sys, rota; sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
