"""Ctrl-C: what was done so far is told, and can be gone on with."""

import json
import signal

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
