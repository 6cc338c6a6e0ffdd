"""Runs that find out by themselves which of their jobs count."""

from builders import summary_of


def test_a_run_finds_its_own_window_and_a_replay_the_same(tmp_path):
    run = ["--workload", "gavel-continuous", "--set", "interarrival_s=9000", "--cluster", "v100=8,k80=8"]

    live = summary_of("simulate", *run, "--policy", "las", "--measure", "auto", "--events", "l.jsonl.gz", cwd=tmp_path)
    again = summary_of("replay", "l.jsonl.gz", cwd=tmp_path)

    assert live["steady"] is True
    assert 0 <= live["measured_from"] <= 500
    assert live["measured_to"] == 1000
    assert live["jobs_measured"] == 1000 - live["measured_from"]
    assert any(note.startswith(f"measured jobs {live['measured_from']}:1000") for note in live["notes"])
    assert again == live


def test_overload_ends_a_run_that_waits_for_a_steady_state(tmp_path):
    run = ["--workload", "gavel-continuous", "--set", "interarrival_s=600", "--cluster", "v100=4", "--policy", "fifo"]

    found = summary_of("simulate", *run, "--measure", "auto", cwd=tmp_path)

    assert found["steady"] is False
    assert any("no steady state" in note for note in found["notes"])
    assert any("overload" in note for note in found["notes"])


def test_a_checkpoint_keeps_the_window_that_was_chosen(tmp_path):
    run = ["simulate", "--workload", "gavel-continuous", "--set", "interarrival_s=9000", "--cluster", "v100=8,k80=8"]
    run += ["--policy", "fifo", "--measure", "auto"]
    whole = summary_of(*run, cwd=tmp_path)
    summary_of(*run, "--checkpoint", "c", "--checkpoint-every", 0.45 * whole["makespan_s"], cwd=tmp_path)

    assert summary_of(*run, "--resume", "c", cwd=tmp_path) == whole
