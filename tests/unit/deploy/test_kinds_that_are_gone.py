"""Kinds of jobs that users make up: what is remembered of them does not outlive their jobs."""

from questions_harness import PROFILE, AskedHarness

from rota.deploy.scheduler import round_report


def test_what_fits_is_not_remembered_of_kinds_without_jobs(monkeypatch):
    monkeypatch.setattr(round_report, "_MOST_KINDS", 50, raising=False)
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=1)
    stays = harness.submit(profile=PROFILE, steps=10**9)
    for at in range(200):
        gone = harness.submit(profile=PROFILE, steps=10, labels=(f"rack={at}",))
        harness.round()
        harness.cancel(gone)
    harness.round()

    assert len(harness.report_to_engine._fit) <= 51
    assert harness.phase(stays).value == "running"
