"""`rota profile` with real processes under real limits, and what it says about jobs that cannot be profiled."""

import contextlib
import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rota import profiles
from rota.cli.main import main
from rota.deploy.worker.limits import pick

pytestmark = pytest.mark.skipif(
    "cpu" not in pick(folder="rota-profile").bases, reason="no control groups that may be written"
)
STEPS = """
import time
for step in range(1, 10**6):
    time.sleep(0.02)
    print("step", step)
"""
REGEX = r"step (?P<step>\d+)"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(folder, text):
    (folder / "job.py").write_text(textwrap.dedent(text))
    return [sys.executable, "job.py"]


def profile(*words, argv, cpus="1"):
    return main(["profile", "--job-name", "j", "--cpu", cpus, "--memory", "0.5", *words, "--", *argv])


def refused(here, capsys, text, *words):
    """The message about a job that cannot be profiled; nothing may be left of it."""
    assert profile("--patience", "2", *words, argv=script(here, text)) == 1

    left = sorted(path.name for path in here.iterdir() if path.name != "__pycache__")
    assert left == ["job.py"], left
    lines = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(lines) == 1
    return lines[0]


def test_a_command_that_prints_its_steps_is_profiled_and_goes_on_where_it_stopped(here, capsys):
    making = "import pathlib, tempfile\npathlib.Path('made').write_text(tempfile.mkdtemp())\n"
    argv = script(here, making + STEPS)

    assert profile("--max-runs", "1", "--steps-regex", REGEX, argv=argv) == 0

    made = Path((here / "made").read_text())
    assert made.parent.parent.name.startswith("rota-profile-")
    assert not made.parent.parent.exists(), "temporary files are gone with their run"
    rate = profiles.load(here / "j.toml").rate("j", 1, "cpu")
    assert 40.0 < rate < 50.0
    assert not list(here.glob(".*")), "nothing is left beside the profile and its runs"
    assert "page cache" in capsys.readouterr().err

    assert profile("--max-runs", "2", "--steps-regex", REGEX, "--json", argv=argv) == 0
    told = capsys.readouterr()
    shown = json.loads(told.out)
    assert "going on after 1 runs" in told.err
    assert len(shown["runs"]) == 2
    assert shown["models"][0]["pipeline"]["cpu_s"] < 0.01
    assert main(["profiles", "j.toml"]) == 0
    assert " p" in capsys.readouterr().out

    assert profile("--max-runs", "2", "--steps-regex", "other (.*)", argv=argv) == 2
    assert "another steps_regex; give the same options to go on, or --again" in capsys.readouterr().err


def test_a_profiler_that_is_stopped_leaves_no_process_and_no_half_profile(here):
    argv = script(here, "import time\nprint('pid', __import__('os').getpid(), flush=True)\n" + STEPS)
    words = ["profile", "--job-name", "j", "--cpu", "1", "--memory", "0.5", "--steps-regex", REGEX]
    command = [sys.executable, "-m", "rota.cli", *words, "--", *argv]
    profiler = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=here)
    deadline = time.monotonic() + 60
    while not any(_runs(here)) and time.monotonic() < deadline:
        time.sleep(0.05)

    profiler.send_signal(signal.SIGTERM)
    _, told = profiler.communicate(timeout=30)

    assert profiler.returncode == 130
    assert "the same command goes on" in told
    assert not any(_runs(here))
    assert sorted(path.name for path in here.iterdir()) == ["j.runs.jsonl", "job.py"]


def _runs(folder):
    """Processes of the job in this folder."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"job.py" in words and b"--job-name" not in words:
                    yield int(entry.name)


def test_a_script_that_ends_at_once_is_shown_with_its_last_line(here, capsys):
    told = refused(here, capsys, "raise SystemExit('no data set here')")

    assert "failed with exit code 1" in told
    assert "no data set here" in told


def test_a_script_that_prints_nothing_is_told_what_to_do(here, capsys):
    told = refused(here, capsys, "import time\ntime.sleep(100)")

    assert "it printed nothing" in told
    assert "--steps-regex" in told


def test_output_that_the_expression_does_not_match_is_counted(here, capsys):
    told = refused(here, capsys, STEPS, "--steps-regex", r"iteration (\d+)")

    assert "none that --steps-regex matches" in told


def test_a_script_that_needs_more_memory_than_there_is_is_named_so(here, capsys):
    told = refused(here, capsys, "x = []\nwhile True:\n    x.append(bytearray(1 << 24))")

    assert "out of memory" in told


def test_a_script_that_forks_and_leaves_is_found_out(here, capsys):
    text = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(100)\n"

    told = refused(here, capsys, text)

    assert "the command must stay until its job is done: what it leaves running is ended with it" in told
    assert not any(_runs(here))


def test_a_script_that_writes_to_a_full_disk_is_shown_with_its_error(here, capsys):
    told = refused(here, capsys, "with open('/dev/full', 'w') as file:\n    file.write('x' * 10**6)\n")

    assert "No space left on device" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nnodes", "2"], "--nnodes 2"),
        (["--container-mnt", "/data"], "--docker-img"),
        (["--docker-img", "x", "--container-mnt", "/a:/b"], "under its own path"),
        (["--cpu", "4096"], "--cpu 4096"),
        (["--memory", "1e6"], "--memory 1e+06"),
        (["--num-gpus", "2"], "--num-gpus 2"),
        (["--steps-regex", "("], "no regular expression"),
        (["--steps-regex", "step"], "no group that says steps"),
        (["--device", "tpu"], "--device 'tpu'"),
        (["--storage", "0"], "'0' in '0'"),
        (["--check", "missing.toml"], "missing.toml"),
        (["--job-name", "a/b"], "--job-name 'a/b'"),
        (["-o", "no/such/folder/j.toml"], "no/such/folder"),
        (["-o", "j.json"], "'j.json' does not end in .toml"),
        (["--cpu", "nan"], "'--cpu': nan"),
        (["--cpu", "-1"], "'--cpu': -1.0"),
        (["--memory", "-inf"], "'--memory': -inf"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_name(here, capsys, words, said):
    assert main(["profile", "--job-name", "j", "--device", "cpu", *words, "--", "true"]) == 2

    assert said in capsys.readouterr().err
    assert not list(here.iterdir())


def test_an_option_of_the_command_is_not_taken_for_one_of_ours(here, capsys):
    text = "import sys\nraise SystemExit(' '.join(sys.argv[1:]))"
    argv = [*script(here, text), "--cpu", "7", "-b", "3", "--", "--json"]

    assert profile(argv=argv) == 1

    assert "--cpu 7 -b 3 -- --json" in capsys.readouterr().err
