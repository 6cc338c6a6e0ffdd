"""A journal is read back whatever servers came while it was written."""

import pytest

from deployed import PlayedAgent, a_scheduler, jobs_of, running_jobs, submit, until


@pytest.mark.parametrize("mechanism", ["tune", "greedy", "proportional", "optimal"])
def test_a_server_that_joined_under_running_jobs_does_not_keep_the_scheduler_from_starting_again(tmp_path, mechanism):
    options = {"mechanism": mechanism, "profiles": "synergy", "policy": "las"}
    scheduler = a_scheduler(tmp_path / "s.db", **options)
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "a", gpus=2)]
        (short,) = submit(scheduler, {"profile": "lstm", "steps": 200})
        (long,) = submit(scheduler, {"profile": "lstm", "gpus": 2, "steps": 10_000_000})
        until(lambda: jobs_of(scheduler)[short].over and long in running_jobs(scheduler), scheduler, agents)
        agents.append(PlayedAgent(scheduler, "0-first", gpus=2))
        rounds = scheduler.round_start
        until(lambda: scheduler.round_start > rounds + 200.0, scheduler, agents)
    finally:
        scheduler.stop()

    again = a_scheduler(tmp_path / "s.db", **options)
    again.start()
    try:
        assert again.failure is None
        assert long in running_jobs(again)
    finally:
        again.stop()
