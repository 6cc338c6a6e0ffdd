"""Ctrl-C: what was done so far is told, and can be gone on with."""

import json
import signal
import subprocess
import sys
import time

import pytest

from builders import command, comparable, started, summary_of, wait_for

LONG = [
    *("--workload", "gavel-continuous", "--set", "interarrival_s=600", "--set", "jobs=2500"),
    *("--cluster", "v100=24,p100=24,k80=24", "--policy", "isolated", "--rules", "gavel-artifact"),
]


def interrupted(folder, *arguments):
    """A run that gets Ctrl-C after its first checkpoint."""
    process = started("simulate", *LONG, "--checkpoint", "c", "--checkpoint-every", "20000", *arguments, cwd=folder)
    wait_for(folder / "c", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_the_summary_is_printed_and_the_checkpoint_goes_on_to_the_same_end(tmp_path):
    whole = summary_of("simulate", *LONG, cwd=tmp_path)

    code, out, err = interrupted(tmp_path, "--json", "--jobs-csv", "jobs.csv", "--events", "run.jsonl")
    so_far = json.loads(out)
    resumed = summary_of("simulate", *LONG, "--resume", "c", cwd=tmp_path)

    assert code == 130, err
    assert so_far["interrupted"]
    assert 0 < so_far["jobs_finished"] < 2500
    assert resumed == whole
    assert "Traceback" not in err
    replayed = summary_of("replay", "run.jsonl", cwd=tmp_path)
    assert {**replayed, "interrupted": True} == comparable(so_far)
    assert len((tmp_path / "jobs.csv").read_text().splitlines()) == so_far["jobs_submitted"] + 1


def test_a_reader_is_told_that_the_run_was_interrupted(tmp_path):
    code, out, err = interrupted(tmp_path)

    assert code == 130, err
    assert "interrupted" in out
    assert "mean" in out.lower()


def test_ctrl_c_before_the_run_is_no_traceback(tmp_path):
    process = started("simulate", *LONG, cwd=tmp_path)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert process.returncode in {130, -signal.SIGINT}
    assert "rota" not in err or process.returncode == 130
    assert command("--version").returncode == 0


ENDLESS = """
import json, pathlib, time
import rota
from rota.policies.registry import policies

class Endless:
    def __init__(self):
        self._inner = policies.create("max-min-fairness-perf")

    def allocate(self, view):
        if view.now > 100_000:
            pathlib.Path("solving").touch()
            {wait}
        return self._inner.allocate(view)

result = rota.simulate(workload="gavel-continuous", settings={{"interarrival_s": 900, "jobs": 400}}, policy=Endless(),
                       cluster="v100=12,p100=12", events="run.jsonl")
print(json.dumps([result.interrupted, result.summary["jobs_finished"]]))
"""


@pytest.mark.parametrize("wait", ["time.sleep(60)", "while True: pass"], ids=["in a solver", "in Python"])
def test_a_decision_without_end_is_given_up_and_what_was_done_is_told(wait, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS.format(wait=wait))
    process = subprocess.Popen([sys.executable, script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    wait_for(tmp_path / "solving", process)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)

    was_interrupted, finished = json.loads(out)
    assert was_interrupted
    assert time.monotonic() - start < 10  # about 0.6 s on a machine that is not busy
    assert summary_of("replay", "run.jsonl", cwd=tmp_path)["jobs_finished"] == finished > 0


def test_drawing_a_million_jobs_ends_too(tmp_path):
    million = ("--workload", "gavel-static", "--set", "jobs=30000000", "--cluster", "v100=4", "--policy", "fifo")
    process = started("simulate", *million, "--events", "run.jsonl", cwd=tmp_path)
    while not list(tmp_path.iterdir()) and process.poll() is None:  # the log is begun right before the run
        time.sleep(0.05)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    # An interrupt within an import may make CPython end by the signal although it was handled: a shell says 130, too.
    assert process.returncode in (130, -signal.SIGINT)
    assert err.strip().endswith("interrupted")
    assert time.monotonic() - start < 10


MOMENTS = """
import atexit, os, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from rota.cli import __main__ as process
from rota.cli.main import main

words = ["simulate", "--workload", "gavel-continuous", "--set", "interarrival_s=600", "--set", "jobs=5",
         "--cluster", "v100=4,p100=4,k80=4", "--policy", "fifo"]
main([*words, "--json"])  # everything is imported, so that each of the others is short

def child(number, moment):
    calls = 0
    def count(frame, event, what):
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls == moment:
            os.kill(os.getpid(), signal.SIGINT)
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}-{number}", os.O_CREAT | os.O_WRONLY), stream)
    if not moment:
        atexit.register(lambda: pathlib.Path("total").write_text(str(calls)))
    sys.argv = ["rota", *words]
    sys.setprofile(count)
    process.run()

def ends(number, moment):
    pid = os.fork()
    if not pid:
        child(number, moment)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

assert ends(0, 0) == 0
total = int(pathlib.Path("total").read_text())
spread = [total * part // 16 for part in range(1, 16)]
late = [total - back for back in (600, 300, 200, 150, 120, 100, 80, 60, 50, 40, 30, 25, 20, 15, 10, 5)]
codes = [ends(number, moment) for number, moment in enumerate(spread + late, 1)]
pathlib.Path("codes").write_text(" ".join(map(str, codes)))
"""


def test_ctrl_c_at_any_moment_is_no_traceback_and_no_other_exit_code(tmp_path):
    script = tmp_path / "moments.py"
    script.write_text(MOMENTS)
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL, timeout=300)
    codes = [int(code) for code in (tmp_path / "codes").read_text().split()]
    said = "".join(path.read_text() for path in tmp_path.glob("err-*"))

    assert len(codes) == 31
    assert set(codes[:15]) == {130}
    assert set(codes) <= {0, 130}  # at the very end everything is done
    assert "Traceback" not in said
    assert "ignored" not in said
