"""A compiled module that was built from other C than is there is not called."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota import kernels

pytestmark = pytest.mark.skipif(not kernels.COMPILED, reason="the compiled kernels are not in use here")
HALF = "from rota import kernels; print(kernels.COMPILED, kernels.book.__module__, kernels.walk is None)"


@pytest.fixture
def installed(tmp_path):
    """The package once more, with what was built."""
    shutil.copytree(Path(rota.__file__).parent, tmp_path / "rota", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def half_in_use(place):
    env = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", HALF], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_what_was_built_from_the_sources_beside_it_is_used(installed):
    assert half_in_use(installed)[0] == "True"


def test_what_was_built_from_other_sources_gives_way_to_the_plain_half(installed):
    source = installed / "rota" / "kernels" / "rounds.c"
    source.write_text(source.read_text(encoding="utf-8") + "\n/* one more argument */\n", encoding="utf-8")

    assert half_in_use(installed) == ["False", "rota.kernels.plain", "True"]


def test_without_sources_what_was_built_is_used(installed):
    for path in (installed / "rota" / "kernels").glob("*.[ch]"):
        path.unlink()

    assert half_in_use(installed)[0] == "True"
