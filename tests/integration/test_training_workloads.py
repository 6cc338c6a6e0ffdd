"""The training workloads of `rota workloads train`: found by name, refused in one line, really learning, moved at will.

With PyTorch one of them is stopped and moved here; all of them learn and are moved with `make workloads`.
"""

import asyncio
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from training import end_of, listening, process, surroundings

from rota.client import latest
from rota.deploy.worker.ranks import AttemptId
from rota.workloads import training

EXAMPLES = Path(__file__).parents[2] / "examples"
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch is not installed (pip install '.[examples]')",
)
LONG_S = 900
"""On a machine that is busy with other things."""
ON_TWO_CORES_S = 90
"""In which a workload learns what it states, if the cores are its own."""


def rota(*arguments, cwd, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    return subprocess.run(
        [sys.executable, "-m", "rota.cli", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**clean, **environment},
    )


def moved(from_folder, to_folder):
    """Another folder with nothing but the checkpoints; the first one is gone."""
    to_folder.mkdir()
    shutil.copytree(from_folder / "checkpoints", to_folder / "checkpoints")
    shutil.rmtree(from_folder)
    return to_folder


async def attempts(name, steps, stops, folder, weights):
    """Run a workload, slowly, stop it after some steps; each attempt is elsewhere, with its own data and workers."""
    reached = []
    for number, stop in enumerate([*stops, None]):
        task = AttemptId("7", number)
        (folder / "checkpoints").mkdir(exist_ok=True)
        found = latest(folder / "checkpoints")
        where = surroundings(folder, task, resume=found and found.path, ROTA_STEPS=steps)
        arguments = ["--data", folder / "data", "--workers", number % 3, "--device-ms", 10, "--out", weights]
        async with listening(folder / "agent" / "socket") as endpoint:
            endpoint.expect(task)
            async with process(str(training.script(name)), *arguments, environment=where) as job:
                if stop is not None:
                    target = max([stop, *(step + 1 for step in reached)])
                    assert await endpoint.wait_for(lambda: endpoint.ranks(task)[0].step >= target, LONG_S)  # noqa: B023
                    endpoint.stop(task)
                await end_of(job, LONG_S)
            assert await endpoint.wait_for(lambda: all(rank.over for rank in endpoint.ranks(task)), 10)  # noqa: B023
            reached.append(endpoint.ranks(task)[0].step)
        if stop is not None:
            folder = moved(folder, folder.with_name(f"elsewhere-{number}"))
    return reached


def assert_same_weights(one, two):
    import torch

    def values(part):
        if isinstance(part, torch.Tensor):
            return [part]
        inside = part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else []
        return [value for item in inside for value in values(item)]

    first, second = (values(torch.load(path, weights_only=True)) for path in (one, two))
    assert len(first) == len(second) > 5
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def stopped_and_moved(name, steps, stops, folder):
    start = folder / "start"
    start.mkdir()
    reached = asyncio.run(attempts(name, steps, stops, start, folder / "moved.pt"))

    assert reached[-1] == steps
    assert reached == sorted(set(reached))
    assert_same_weights(folder / "alone.pt", folder / "moved.pt")
    return reached


@needs_torch
def test_a_workload_that_is_stopped_and_moved_ends_with_the_same_weights(tmp_path):
    done = rota("workloads", "train", "recommendation", "--steps", 120, "--out", tmp_path / "alone.pt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    stopped_and_moved("recommendation", 120, [20], tmp_path)


@needs_torch
@pytest.mark.long
@pytest.mark.parametrize("name", training.names())
def test_it_learns_what_it_states_and_ends_with_the_same_weights_after_three_moves(name, tmp_path):
    began = time.monotonic()
    before = os.times()
    done = rota("workloads", "train", name, "--check", "--out", tmp_path / "alone.pt", cwd=tmp_path)
    seconds = time.monotonic() - began
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system

    assert done.returncode == 0, done.stdout + done.stderr
    steps = int(done.stdout.rsplit("after ", 1)[1].split()[0])
    stops = sorted(random.Random(name).sample(range(1, steps * 3 // 4), 3))
    reached = stopped_and_moved(name, steps, stops, tmp_path)
    learned = done.stdout.splitlines()[-1]
    sys.stdout.write(f"\n{name}: {learned}; {seconds:.0f} s, {cpu_s:.0f} CPU s; stopped at {reached[:-1]}\n")
    assert seconds < ON_TWO_CORES_S or cpu_s < ON_TWO_CORES_S / 2, "it learned, but not within 90 s on two cores"


@pytest.mark.parametrize("name", training.names())
def test_a_workload_is_one_short_file_that_says_what_it_learns(name):
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")

    assert len(text.splitlines()) <= 150
    assert "GOAL = example_job.Goal(" in text
    assert training.script(name) == EXAMPLES / f"{name}.py"
    assert training.summary(name).endswith(".")


def test_without_pytorch_a_workload_says_in_one_line_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('none', name='torch')\n")

    done = rota("workloads", "train", "cifar", "--steps", 5, cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "cifar.py: torch is not installed; pip install '.[examples]' in a checkout of Rota"
    ]


def test_training_workloads_are_listed(tmp_path):
    text = rota("workloads", "train", cwd=tmp_path).stdout
    listed = json.loads(rota("workloads", "train", "--json", cwd=tmp_path).stdout)

    assert [entry["name"] for entry in listed] == training.names()
    assert all(name in text for name in training.names())
    assert all(Path(entry["file"]).is_file() for entry in listed)


def test_a_generator_is_explained_wherever_json_stands(tmp_path):
    after = rota("workloads", "gavel-static", "--json", cwd=tmp_path)
    before = rota("workloads", "--json", "gavel-static", cwd=tmp_path)

    assert json.loads(after.stdout) == json.loads(before.stdout)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["imagenett"], "unknown training workload 'imagenett'; did you mean 'imagenet'?"),
        (["cifar", "--steps", "0"], "0 is not in the range"),
        (["cifar", "--steps", "nan"], "'nan' is not a whole number"),
        (["cifar", "--workers", "-1"], "-1 is not in the range"),
        (["cifar", "-b", str(10**12)], "is not in the range"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(arguments, complaint, tmp_path):
    done = rota("workloads", "train", *arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out", "nowhere/weights.pt"], "there is no folder nowhere; make it first"),
        (["--data", "/proc/none"], "/proc/none"),
        (["--data", "a-file/below"], "a-file"),
    ],
)
def test_folders_that_cannot_be_used_are_refused_in_one_line(arguments, complaint, tmp_path):
    (tmp_path / "a-file").write_text("")

    done = rota("workloads", "train", "recommendation", "--steps", 3, *arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@needs_torch
def test_data_that_do_not_fit_on_the_disk_are_removed_again_and_it_is_said_in_one_line(tmp_path):
    limited = f"ulimit -f 1; exec {sys.executable} {training.script('imagenet')} --steps 1 --data {tmp_path}"
    done = subprocess.run(["sh", "-c", limited], check=False, capture_output=True, text=True)  # files of 512 bytes

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "name another folder with --data" in done.stderr
    assert list(tmp_path.iterdir()) == []


@needs_torch
def test_data_of_which_a_file_is_gone_are_refused_with_what_to_do(tmp_path):
    whole = rota("workloads", "train", "cyclegan", "--steps", 1, cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    (tmp_path / "example-data" / "cyclegan-1000" / "00007").unlink()

    done = rota("workloads", "train", "cyclegan", "--steps", 1, cwd=tmp_path)

    assert done.returncode == 2
    assert "00007" in done.stderr
    assert "remove this one, and it is made again" in done.stderr


@needs_torch
def test_a_workload_that_is_killed_while_it_makes_its_data_leaves_none_that_look_whole(tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    command = [sys.executable, str(training.script("cifar")), "--data", str(tmp_path), "--steps", "1"]
    with subprocess.Popen(command, env=clean, stdout=subprocess.DEVNULL) as running:
        while not any(len(list(folder.iterdir())) > 20 for folder in tmp_path.iterdir()):
            assert running.poll() is None
        running.kill()

    assert not (tmp_path / "cifar-4000").exists()
