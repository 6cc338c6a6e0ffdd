"""With rounds of six minutes, the default: whatever happens between two of them is acted on at once."""

import sys
import time

import pytest

from live import Live, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux to run processes")

SOON_S = 15.0
"""Far below a round, and enough for a busy machine; on a quiet one it takes less than a second."""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("at-once"))
    cluster.up("--server", "v100=1", "--emulate", "--heartbeat", "0.5")
    yield cluster
    cluster.down()


def sleeper(seconds):
    return {"argv": ["sleep", str(seconds)]}


def test_a_command_on_an_idle_cluster_runs_and_is_over_at_once(live):
    began = time.monotonic()

    live.run("submit", "--wait", "--", "true")

    assert time.monotonic() - began < SOON_S


def test_the_gpu_of_a_job_that_ended_goes_to_the_next_one_at_once(live):
    with live.client() as client:
        first, second = client.submit([sleeper(1), sleeper(1)])
        done = client.wait([first, second], 2 * SOON_S, every_s=0.1)

    assert [info.phase for info in done] == ["finished", "finished"]
    assert 1.0 <= done[1].ended_s - done[0].ended_s < SOON_S  # one after the other on one GPU


def test_a_cancelled_job_makes_room_at_once(live):
    with live.client() as client:
        long, short = client.submit([sleeper(600), sleeper(0.1)])
        until(lambda: client.job(long).phase == "running", SOON_S, "the first job")
        client.cancel([long])

        assert client.wait([short], SOON_S, every_s=0.1)[0].phase == "finished"
        assert client.job(long).phase == "cancelled"


def test_a_failed_attempt_is_tried_again_after_its_pause_and_not_after_the_round(live):
    with live.client() as client:
        job = client.submit([{"argv": ["false"], "max_restarts": 1}])[0]
        info = client.wait([job], 2 * SOON_S, every_s=0.1)[0]

    assert (info.phase, info.restarts) == ("failed", 2)


def test_the_end_of_a_job_is_shown_when_it_ends(live):
    with live.client() as client:
        job = client.submit([sleeper(0.5)])[0]
        began = time.monotonic()
        client.wait([job], SOON_S, every_s=0.05)
        info = client.job(job)

    assert info.phase == "finished"
    assert info.ended_s - info.submitted_s < SOON_S
    assert time.monotonic() - began < SOON_S
