"""The training iterator and the endpoint of the agent, with real processes between them."""

import asyncio
import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time

import pytest
from training import JOB, ONE, RANK, end_of, listening, process, result, surroundings

from rota.client import latest
from rota.client.wire import encode
from rota.core.errors import ConfigError
from rota.deploy.worker.endpoint import Endpoint
from rota.deploy.worker.ranks import AttemptId


def expected(steps):
    """What an uninterrupted run sees: ten items per epoch, in order."""
    return list(range(steps))


@pytest.fixture
def socket_path(tmp_path):
    return tmp_path / "agent" / "socket"


def only(endpoint, task=ONE):
    return endpoint.ranks(task)[0]


def test_a_job_runs_to_its_end_saves_and_reports_it(tmp_path, socket_path):
    async def run():
        async with listening(socket_path) as endpoint:
            endpoint.expect(ONE)
            endpoint.set_lease(ONE, 60)
            async with process(JOB, 0, tmp_path / "out", environment=surroundings(tmp_path, ROTA_STEPS=25)) as job:
                await end_of(job)
            assert await endpoint.wait_for(lambda: only(endpoint).phase == "done" and not only(endpoint).connected, 5)
            return only(endpoint)

    rank = asyncio.run(run())

    assert (rank.step, rank.saved, rank.saved_path) == (25, 25, "step-000025")
    assert result(tmp_path / "out") == {"first": 0, "step": 25, "stopped": "done", "seen": expected(25)}
    assert latest(tmp_path / "checkpoints").step == 25


@pytest.mark.parametrize("step_s", [30.0, 0.002])
def test_a_stop_takes_less_than_a_tenth_of_a_second(tmp_path, socket_path, step_s):
    """From the order to the report that the checkpoint is safe, in an idle step and between short steps."""

    async def run():
        async with listening(socket_path) as endpoint:
            endpoint.expect(ONE)
            async with process(JOB, step_s, tmp_path / "out", environment=surroundings(tmp_path)) as job:
                assert await endpoint.wait_for(lambda: only(endpoint).phase == "running", 20)
                await asyncio.sleep(0.3)
                ordered = time.monotonic()
                endpoint.stop(ONE)
                assert await endpoint.wait_for(lambda: only(endpoint).phase == "stopped", 20)
                took = time.monotonic() - ordered
                await end_of(job)
            return took, only(endpoint)

    # The machine may be busy with other things, so the best of three counts.
    tries = []
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        tmp_path, socket_path = folder, folder / "agent" / "socket"
        took, rank = asyncio.run(run())
        tries.append(took)
        done = result(folder / "out")
        assert done["stopped"] == "lease"
        assert done["step"] == rank.step == rank.saved == len(done["seen"])
    assert min(tries) < 0.1, tries


def test_a_lease_that_is_not_renewed_ends_the_job_without_the_agent(tmp_path, socket_path):
    async def run():
        async with process(JOB, 0.01, tmp_path / "out", environment=surroundings(tmp_path)) as job:
            async with listening(socket_path) as endpoint:
                endpoint.expect(ONE)
                endpoint.set_lease(ONE, 1.0)
                assert await endpoint.wait_for(lambda: only(endpoint).phase == "running", 20)
                told = time.monotonic()
            await end_of(job)
            return time.monotonic() - told

    took = asyncio.run(run())

    done = result(tmp_path / "out")
    assert done["stopped"] == "lease"
    assert latest(tmp_path / "checkpoints").step == done["step"] == len(done["seen"]) > 10
    assert 0.5 < took < 10  # the end of the lease, the last words to nobody (2 s), and a busy machine


def test_a_renewed_lease_keeps_the_job_going_past_the_first_one(tmp_path, socket_path):
    async def run():
        async with listening(socket_path) as endpoint:
            endpoint.expect(ONE)
            endpoint.set_lease(ONE, 20)
            async with process(JOB, 0.01, tmp_path / "out", environment=surroundings(tmp_path)) as job:
                assert await endpoint.wait_for(lambda: only(endpoint).phase == "running", 20)
                endpoint.set_lease(ONE, 0.6)
                for _ in range(6):
                    await asyncio.sleep(0.2)
                    endpoint.set_lease(ONE, 0.6)
                assert only(endpoint).phase == "running"
                await end_of(job)
            return only(endpoint)

    rank = asyncio.run(run())

    assert rank.phase == "stopped"
    assert rank.saved == rank.step


def test_the_agent_may_restart_while_the_job_goes_on(tmp_path, socket_path):
    async def run():
        async with process(JOB, 0.01, tmp_path / "out", environment=surroundings(tmp_path)) as job:
            async with listening(socket_path) as endpoint:
                endpoint.expect(ONE)
                endpoint.set_lease(ONE, 60)
                assert await endpoint.wait_for(lambda: only(endpoint).step > 0, 20)
                before = only(endpoint)
            await asyncio.sleep(0.3)
            async with listening(socket_path) as endpoint:
                endpoint.expect(ONE)
                assert await endpoint.wait_for(lambda: only(endpoint).connected, 20)
                again = only(endpoint)
                endpoint.stop(ONE)
                assert await endpoint.wait_for(lambda: only(endpoint).phase == "stopped", 20)
                await end_of(job)
            return before, again

    before, again = asyncio.run(run())

    assert again.pid == before.pid
    assert again.step > before.step


def test_kill_9_loses_at_most_one_checkpoint_interval_and_no_item(tmp_path, socket_path):
    """Killed several times at random; the items seen in the end are those of a run that nobody interrupted."""
    interval, total, chance = 0.15, 800, random.Random(11)

    async def attempt(endpoint, number, kill_after):
        task = AttemptId("7", number)
        found = latest(tmp_path / "checkpoints")
        endpoint.expect(task)
        more = {"ROTA_STEPS": total, "ROTA_CHECKPOINT_EVERY_S": interval}
        where = surroundings(tmp_path, task, resume=found and found.path, **more)
        async with process(JOB, 0.005, tmp_path / "out", environment=where) as job:
            if kill_after is not None:
                assert await endpoint.wait_for(lambda: only(endpoint, task).saved is not None, 30)
                await asyncio.sleep(kill_after)
                job.send_signal(signal.SIGKILL)
                await job.wait()
            else:
                await end_of(job, 60)
        return only(endpoint, task)

    async def run():
        async with listening(socket_path) as endpoint:
            for number in range(4):
                rank = await attempt(endpoint, number, chance.uniform(0.0, 0.4))
                kept = latest(tmp_path / "checkpoints")
                assert kept is not None
                # A step takes at least 5 ms; an interval holds 30 of them, and one more may be under way.
                assert rank.step - kept.step <= interval / 0.005 + 1
                assert len(list((tmp_path / "checkpoints").glob("step-??????"))) <= 3
            return await attempt(endpoint, 9, None)

    rank = asyncio.run(run())

    done = result(tmp_path / "out")
    assert done["first"] > 0
    assert (rank.phase, rank.step, done["step"]) == ("done", total, total)
    assert done["seen"] == expected(total)
    assert list((tmp_path / "checkpoints").glob("*.tmp")) == []


def pipes_for(size, folder):
    folder.mkdir()
    for a in range(size):
        for b in range(size):
            if a != b:
                os.mkfifo(folder / f"{a}-{b}")
    return folder


async def gang_of(size, folder, pause):
    pipes = pipes_for(size, folder / "pipes")
    return [
        process(RANK, pipes, folder / f"out{rank}", pause, environment=surroundings(folder, ONE, rank, size))
        for rank in range(size)
    ]


def test_four_ranks_stop_on_the_same_step_twenty_times(tmp_path):
    chance = random.Random(5)

    async def once(folder):
        async with listening(folder / "agent" / "socket") as endpoint, contextlib.AsyncExitStack() as stack:
            endpoint.expect(ONE, range(4))
            jobs = [
                await stack.enter_async_context(p) for p in await gang_of(4, folder, chance.choice([0, 0.001, 0.02]))
            ]
            assert await endpoint.wait_for(lambda: all(r.phase == "running" for r in endpoint.ranks(ONE)), 30)
            await asyncio.sleep(chance.uniform(0, 0.1))
            endpoint.stop(ONE)
            assert await endpoint.wait_for(lambda: all(r.phase == "stopped" for r in endpoint.ranks(ONE)), 30)
            await asyncio.gather(*(end_of(job) for job in jobs))
            return endpoint.ranks(ONE)

    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        ranks = asyncio.run(once(folder))
        steps = {rank.step for rank in ranks} | {result(folder / f"out{rank}")["step"] for rank in range(4)}
        assert len(steps) == 1
        assert [rank.saved for rank in ranks] == [*steps, None, None, None] or steps == {0}


def test_the_death_of_one_rank_is_told_and_breaks_the_stop(tmp_path, socket_path):
    broken = []

    async def run():
        callbacks = {"on_broken": lambda task, reason: broken.append((task, reason))}
        async with listening(socket_path, **callbacks) as endpoint, contextlib.AsyncExitStack() as stack:
            endpoint.expect(ONE, range(3))
            jobs = [await stack.enter_async_context(p) for p in await gang_of(3, tmp_path, 0.01)]
            assert await endpoint.wait_for(lambda: all(r.phase == "running" for r in endpoint.ranks(ONE)), 30)
            jobs[1].kill()
            await jobs[1].wait()
            assert await endpoint.wait_for(lambda: not endpoint.ranks(ONE)[1].connected, 5)
            endpoint.stop(ONE)
            endpoint.lost(ONE, 1)

    asyncio.run(run())

    assert broken == [(ONE, "rank 1 died or failed")]


def test_outside_rota_nothing_happens_but_the_loop(tmp_path):
    script = """
import os, sys, threading, rota.client
calls = []
it = rota.client.Iterator([1, 2, 3], save=calls.append, load=calls.append)
assert len(it) == 3 and [x for x in it] == [1, 2, 3] and list(it) == [1, 2, 3]
assert (it.step, it.epoch, it.rank, it.world_size, it.resumed, it.stopped) == (6, 2, 0, 1, None, None)
assert calls == [] and threading.active_count() == 1 and 'socket' not in sys.modules and os.listdir() == []
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=tmp_path, env=clean
    )

    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_reported_and_the_old_checkpoint_stays(tmp_path, socket_path):
    full = 'if it.step >= 20: Path("/dev/full").write_text("no room")'
    script = JOB.replace("    (path /", f"    {full}\n    (path /", 1)

    async def run():
        async with listening(socket_path) as endpoint:
            endpoint.expect(ONE)
            where = surroundings(tmp_path, ROTA_STEPS=200, ROTA_CHECKPOINT_EVERY_S="0")
            async with process(script, 0.001, tmp_path / "out", environment=where) as job:
                await job.wait()
            assert await endpoint.wait_for(lambda: not only(endpoint).connected and only(endpoint).over, 5)
            return only(endpoint), job.returncode

    rank, status = asyncio.run(run())

    assert (rank.phase, rank.failure, status) == ("failed", "disk-full", 1)
    assert "No space left" in rank.detail
    assert latest(tmp_path / "checkpoints").step == rank.saved == 19
    assert list((tmp_path / "checkpoints").glob("*.tmp")) == []


def test_an_error_of_the_script_is_reported_with_its_reason(tmp_path, socket_path):
    script = JOB.replace(
        "    seen.append(item)", "    class OutOfMemoryError(RuntimeError): pass\n    raise OutOfMemoryError('4 GB')"
    )

    async def run():
        async with listening(socket_path) as endpoint:
            endpoint.expect(ONE)
            async with process(script, 0, tmp_path / "out", environment=surroundings(tmp_path)) as job:
                _, errors = await job.communicate()
            assert await endpoint.wait_for(lambda: only(endpoint).over, 5)
            return only(endpoint), errors.decode()

    rank, errors = asyncio.run(run())

    assert (rank.phase, rank.failure, rank.detail) == ("failed", "out-of-device-memory", "OutOfMemoryError: 4 GB")
    assert "Traceback" in errors


def test_a_rank_that_failed_breaks_the_stop_of_its_gang(socket_path):
    broken = []

    async def run():
        async with listening(socket_path, on_broken=lambda *what: broken.append(what[1])) as endpoint:
            endpoint.expect(ONE, range(2))
            async with Peer(socket_path) as peer:
                peer.hello(rank=1)
                peer.writer.write(encode({"op": "failed", "reason": "exception", "detail": "x"}))
                assert await endpoint.wait_for(lambda: endpoint.ranks(ONE)[1].phase == "failed", 5)
                endpoint.stop(ONE)

    asyncio.run(run())

    assert broken == ["rank 1 died or failed"]


def test_a_second_iterator_in_a_job_is_refused(tmp_path):
    script = JOB.replace("first = it.step", "first = it.step\nrota.client.Iterator([1])")

    async def run():
        async with process(script, 0, tmp_path / "out", environment=surroundings(tmp_path)) as job:
            _, errors = await asyncio.wait_for(job.communicate(), 20)
        return errors.decode()

    assert "this process has an iterator of Rota already" in asyncio.run(run())


class Peer:
    """A bare connection that says what it likes."""

    def __init__(self, path):
        self.path = str(path)

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_unix_connection(self.path)
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    def hello(self, job="7", epoch=0, rank=0):
        self.writer.write(encode({"op": "hello", "job": job, "epoch": epoch, "rank": rank, "pid": 1, "step": 0}))


def test_bogus_lines_floods_and_strangers_are_counted_and_nothing_else(socket_path):
    async def run():
        async with listening(socket_path) as endpoint:
            endpoint.expect(AttemptId("7", 3))
            task = AttemptId("7", 3)
            for stranger in ({"epoch": 2}, {"job": "8", "epoch": 3}, {"epoch": 3, "rank": 1}):
                async with Peer(socket_path) as peer:
                    peer.hello(**stranger)
                    assert await asyncio.wait_for(peer.reader.read(), 5) == b""
            async with Peer(socket_path) as peer:
                peer.hello(epoch=3)
                bogus = [b"\xff\xfe\n", b"[]\n", b"{}\n", b'{"op":1}\n', b"[" * 60000 + b"\n", b"x" * 200_000 + b"\n"]
                peer.writer.write(b"".join(bogus))
                peer.writer.write(encode({"op": "dance", "step": 3}) + encode({"op": "progress", "step": -4}))
                peer.writer.write(encode({"op": "saved", "step": 3, "path": "../../etc"}))
                peer.writer.write(encode({"op": "progress", "step": 12, "colour": "blue"}))
                assert await endpoint.wait_for(lambda: only(endpoint, task).step == 12, 5)
                peer.writer.write(b"".join(encode({"op": "progress", "step": n}) for n in range(5000)))
                await peer.writer.drain()
                peer.writer.close()
                assert await endpoint.wait_for(lambda: not only(endpoint, task).connected, 5)
            return endpoint.ignored, only(endpoint, task)

    ignored, rank = asyncio.run(run())

    assert (ignored.strangers, ignored.bad_lines, ignored.unknown_operations) == (3, 6, 3)
    assert ignored.floods > 4000
    assert (rank.phase, rank.saved) == ("running", None)


def test_the_socket_is_for_its_user_only_and_its_path_may_be_long(tmp_path):
    path = tmp_path / ("a-folder-with-quite-a-long-name-" * 4) / "agent" / "socket"

    async def run():
        async with listening(path) as endpoint:
            modes = [stat.S_IMODE(p.stat().st_mode) for p in (path.parent, path)]
            endpoint.expect(ONE)
            where = {**surroundings(tmp_path, ROTA_STEPS=3), "ROTA_SOCKET": str(path)}
            async with process(JOB, 0, tmp_path / "out", environment=where) as job:
                await end_of(job)
            assert await endpoint.wait_for(lambda: only(endpoint).phase == "done", 5)
            with pytest.raises(ConfigError, match="another agent listens"):
                await Endpoint(path).start()
            return modes

    assert len(str(path)) > 108
    assert asyncio.run(run()) == [0o700, 0o600]
    assert not path.exists()


def test_a_socket_left_by_a_dead_agent_is_taken_over_but_no_open_folder(tmp_path, socket_path):
    async def run():
        first = Endpoint(socket_path)
        await first.start()
        first._servers[0].close()  # as if killed: the file stays
        async with listening(socket_path):
            pass
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o755)
        with pytest.raises(ConfigError, match="chmod 700"):
            await Endpoint(tmp_path / "open" / "socket").start()
        await first.close()

    asyncio.run(run())


def test_an_older_attempt_is_forgotten_when_a_newer_one_is_expected(socket_path):
    async def run():
        async with listening(socket_path) as endpoint:
            endpoint.expect(AttemptId("7", 0))
            async with Peer(socket_path) as peer:
                peer.hello()
                assert await endpoint.wait_for(lambda: only(endpoint).connected, 5)
                endpoint.expect(AttemptId("7", 1))
                assert await asyncio.wait_for(peer.reader.read(), 5) == b""
            assert endpoint.ranks(ONE) == []
            with pytest.raises(ConfigError, match="no such task"):
                endpoint.stop(ONE)

    asyncio.run(run())


def test_a_gang_over_several_servers_is_led_from_outside(socket_path):
    answers = []

    async def run():
        callbacks = {"on_answer": lambda task, rank, message: answers.append((task, rank, json.dumps(message)))}
        async with listening(socket_path, **callbacks) as endpoint:
            endpoint.expect(ONE, [2], world_size=4)
            with pytest.raises(ConfigError, match="1 of 4 ranks"):
                endpoint.stop(ONE)
            async with Peer(socket_path) as peer:
                peer.hello(rank=2)
                assert await endpoint.wait_for(lambda: only(endpoint).connected, 5)
                endpoint.pass_on(ONE, {"op": "where"})
                endpoint.pass_on(ONE, {"op": "stop_at", "id": 1, "step": 9}, rank=2)
                endpoint.pass_on(ONE, {"op": "commit", "id": 1})
                said = [json.loads(await asyncio.wait_for(peer.reader.readline(), 5)) for _ in range(3)]
                peer.writer.write(encode({"op": "at", "begun": 4}) + encode({"op": "progress", "step": 4}))
                assert await endpoint.wait_for(lambda: only(endpoint).step == 4, 5)
            return said

    said = asyncio.run(run())

    assert said == [{"op": "where"}, {"op": "stop_at", "id": 1, "step": 9}, {"op": "commit", "id": 1}]
    assert answers == [(ONE, 2, '{"op": "at", "begun": 4}')]
