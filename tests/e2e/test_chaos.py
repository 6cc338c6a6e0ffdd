"""Kill -9 under a running trace; the long form is `make chaos`."""

import chaos


def test_kills_lose_nothing_and_restart_no_job(tmp_path):
    report = chaos.run(
        tmp_path, emulated=10, real=4, steps=120, scheduler_kills=5, agent_kills=3, jolts=5, agents=3, limit_s=150.0
    )

    assert report.problems == []
    assert (report.finished, report.attempts) == (14, 14)
    assert report.jolts.total() == 5
    assert (report.scheduler_kills, report.agent_kills) == (5, 3)
