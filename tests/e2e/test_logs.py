"""Output of jobs, read while scheduler, agents and jobs come and go; all of them are real processes."""

import json
import os
import pty
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone

import grpc
import pytest

from faults import Site, until
from rota.core.errors import ConfigError, RotaError
from rota.deploy.control import Client
from rota.deploy.log_feed import LogQuery, Missing, Output
from rota.deploy.worker.frames import segments_in
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

ROTA = [sys.executable, "-m", "rota.cli"]
COUNT = "i=0; while [ $i -lt {n} ]; do i=$((i+1)); echo $ROTA_EPOCH.$i; sleep {pause}; done"


def sh(text):
    return {"argv": ["sh", "-c", text], "env": {}}


def rota(site, *words, code=0):
    """A verb; what it printed."""
    command = [*ROTA, *words, "--scheduler", site.address, "--insecure"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return (done.stdout if code in (0, 1) else done.stderr).decode()


class Follower:
    """`rota logs -f` as a process."""

    def __init__(self, site, *words):
        command = [*ROTA, "logs", "-f", *words, "--scheduler", site.address, "--insecure"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip("\n"))

    def ends(self, seconds=60.0):
        """Its exit code, once it has ended; what it said is complete then."""
        try:
            code = self.process.wait(seconds)
        finally:
            self.process.kill()
        self._reader.join(10)
        self.said = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def output(self):
        return [line for line in self.lines if not line.startswith(("==> ", "<== "))]


LIMITS = {"log_segment": "2KB", "keep_job_logs": "2MB"}


@pytest.fixture
def own_site(tmp_path):
    """A scheduler of its own, for tests that end processes; its leases outlast them on a slow machine."""
    with Site(tmp_path, **LIMITS, lease=90, dead_after=60) as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A scheduler and two servers of two GPUs, for all tests that leave them as they are."""
    with Site(tmp_path_factory.mktemp("site"), **LIMITS) as found:
        for node in ("n0", "n1"):
            found.agent(node, "emulate:v100=2")
        yield found


def spool(site, *nodes):
    """What is left on the disks of agents."""
    return [path.name for node in nodes for path in (site.folder / node / "logs").glob("*")]


def test_a_follower_goes_on_across_moves_and_segments_until_the_job_is_over(own_site):
    site = own_site
    for node in ("n0", "n1"):
        site.agent(node)
    count = COUNT.format(n="$((ROTA_EPOCH * 300))", pause=0.01)
    number = site.submit(**sh("exec 2>/dev/null; trap 'exit 143' TERM; " + count))
    follower = Follower(site, str(number))
    until(lambda: len(follower.lines) > 20, 30, "output")
    home = site.job(number).parts[0].node
    site.client.drain(home)

    (job,) = site.done(number)
    assert follower.ends() == 0

    first, second = follower.lines.index("1.1"), follower.lines.index("2.1")
    told = follower.lines[second - 2 : second]
    assert first == 0
    assert told[0].startswith("<== attempt 1 stopped (")
    assert told[1].startswith(f"==> job {number}, attempt 2, rank 0 on {({'n0', 'n1'} - {home}).pop()}, started ")
    assert follower.output()[-600:] == [f"2.{i}" for i in range(1, 601)]  # more than a segment of 2 KB
    ran = len(follower.output()) - 600
    assert follower.output()[:ran] == [f"1.{i}" for i in range(1, ran + 1)]
    assert f"job {number} finished" in follower.said
    assert (job.phase, job.preemptions) == ("finished", 1)


def test_all_attempts_of_a_job_that_failed_are_there_with_how_they_ended(site):
    number = site.submit(max_restarts=1, **sh("echo try $ROTA_EPOCH; echo bad >&2; exit 3"))
    follower = Follower(site, str(number))

    site.done(number)
    assert follower.ends() == 1
    lines = rota(site, "logs", str(number)).splitlines()

    assert follower.lines[:2] == ["try 1", "bad"]
    assert f"job {number} failed: failed (exit code 3); 2 failed attempts" in follower.said
    assert [line.partition(", started")[0].partition(" after")[0] for line in lines] == [
        f"==> job {number}, attempt 1, rank 0 on n0", "try 1", "bad", "<== attempt 1 failed, exit code 3",
        f"==> job {number}, attempt 2, rank 0 on n0", "try 2", "bad", "<== attempt 2 failed, exit code 3",
    ]  # fmt: skip
    assert rota(site, "logs", str(number), "--attempt", "2") == "try 2\nbad\n"
    assert rota(site, "logs", str(number), "--no-headings", "--stderr") == "bad\nbad\n"
    assert rota(site, "logs", str(number), "--tail", "1", "--no-headings") == "bad\n"
    told = json.loads(rota(site, "logs", str(number), "--json"))
    assert [(a["attempt"], a["outcome"], a["exit_code"], a["places"][0]["node"]) for a in told["attempts"]] == [
        (1, "failed", 3, "n0"), (2, "failed", 3, "n0"),
    ]  # fmt: skip


def test_both_streams_come_in_order_and_lines_have_their_times(site):
    began = time.time()
    turns = "for i in 1 2 3 4 5; do echo out $i; sleep 0.1; echo err $i >&2; sleep 0.1; done"
    number = site.submit(**sh(turns))
    site.done(number)

    assert rota(site, "logs", str(number)).split("\n")[:-1] == [f"{s} {i}" for i in range(1, 6) for s in ("out", "err")]
    items = list(site.client.log_items(LogQuery(job=number)))
    times = [item.at for item in items if isinstance(item, Output)]
    assert began < times[0] < times[-1] < time.time()
    assert times == sorted(times)
    stamped = rota(site, "logs", str(number), "--timestamps", "--stdout").splitlines()
    assert [line.split(" ", 1)[1] for line in stamped] == [f"out {i}" for i in range(1, 6)]
    assert all(line.startswith("20") and line[10] == "T" and line[23] == " " for line in stamped)
    since = datetime.fromtimestamp(times[5] - 0.01, tz=timezone.utc).isoformat()
    assert rota(site, "logs", str(number), "--since", since).split("\n")[:2] == ["err 3", "out 4"]


def test_rank_2_of_a_gang_is_on_the_second_server(site):
    number = site.submit(gpus=4, ranks="gpu", **sh("echo i am $RANK; sleep 0.2"))
    site.done(number)

    place = site.events("AttemptStarted", job=number)[0]["parts"][1]["node"]
    assert rota(site, "logs", str(number), "--rank", "2") == "i am 2\n"
    told = json.loads(rota(site, "logs", str(number), "--rank", "2", "--json"))
    assert told["attempts"][0]["places"][1] == {"node": place, "first_rank": 2, "ranks": 2}
    every = rota(site, "logs", str(number), "--all-ranks").splitlines()
    assert sorted(every) == [f"{rank}: i am {rank}" for rank in range(4)]
    refused = rota(site, "logs", str(number), "--rank", "4", code=2)
    assert f"job {number} has no rank 4; it has ranks 0 to 3" in refused


def test_output_is_there_when_the_agent_is_not_and_its_disk_is_clean(own_site):
    site = own_site
    site.agent("n0")
    number = site.submit(**sh("seq 1000"))
    site.done(number)
    until(lambda: not spool(site, "n0"), 20, "a clean disk")
    site.stop("n0")

    assert rota(site, "logs", str(number)) == "".join(f"{i}\n" for i in range(1, 1001))
    assert rota(site, "logs", str(number), "--tail", "3") == "998\n999\n1000\n"
    site.kill("scheduler")
    site.serve()
    assert rota(site, "logs", str(number), "--tail", "3") == "998\n999\n1000\n"


def test_a_follower_and_its_output_outlast_kills_of_agent_and_scheduler(own_site):
    site = own_site
    site.agent("n0")
    number = site.submit(**sh(COUNT.format(n=200, pause=0.03)))
    follower = Follower(site, str(number))
    until(lambda: len(follower.lines) > 10, 30, "output")

    site.kill("n0")
    site.kill("scheduler")
    time.sleep(0.5)
    site.serve()
    site.agent("n0", wait=False)
    site.done(number)

    assert follower.ends() == 0
    assert follower.lines == [f"1.{i}" for i in range(1, 201)]
    until(lambda: not spool(site, "n0"), 20, "a clean disk")


def test_output_beyond_what_is_kept_is_counted(site):
    program = "import sys\nfor i in range(100000): sys.stdout.write(f'{i:099}\\n')"
    number = site.submit(argv=[sys.executable, "-c", program], env={})
    site.done(number)
    until(lambda: not spool(site, "n0", "n1"), 30, "the end of the upload")

    items = list(site.client.log_items(LogQuery(job=number)))

    kept = sum(len(item.data) for item in items if isinstance(item, Output))
    missing = sum(item.size for item in items if isinstance(item, Missing))
    assert 1_000_000 < kept <= 2_200_000
    assert kept + missing == 10_000_000
    assert b"".join(item.data for item in items if isinstance(item, Output)).endswith(b"0099999\n")
    archive = site.folder / "state.db.logs" / str(number) / "1.0"
    assert sum((archive / s.name).stat().st_size for s in segments_in(archive)) <= 2_200_000


def refused(call):
    with pytest.raises(ConfigError) as caught:
        call()
    return str(caught.value)


def test_requests_that_make_no_sense_are_answered_at_once(site):
    number = site.submit(**sh("echo hello; sleep 30"))
    until(lambda: site.job(number).phase == "running", 30, "a start")

    def ask(**fields):
        request = pb.LogsRequest(**{"job": number, **fields})
        began = time.monotonic()
        with site.client._explained():
            chunks = list(site.client._stub.Logs(request))
        assert time.monotonic() - began < 10
        return chunks

    for fields, message in (
        ({"tail": -(2**63), "follow": True}, "tail is -9223372036854775808; give a whole number from 0"),
        ({"tail": 2**63 - 1, "follow": True}, "tail is 9223372036854775807; give a whole number from 0"),
        ({"rank": 10**9, "follow": True}, f"job {number} has no rank 1000000000; it has one process, rank 0"),
        ({"rank": -(2**31)}, "rank is -2147483648"),
        ({"attempt": -1, "follow": True}, "attempt is -1"),
        ({"attempt": 2**62}, "attempt is 4611686018427387904"),
        ({"attempt": 7}, f"job {number} has no attempt 7"),
        ({"since": float("nan")}, "since is nan"),
        ({"since": -1.0}, "since is -1.0"),
        ({"after": [pb.LogPosition(offset=-1)]}, "offset of a position is -1"),
        ({"after": [pb.LogPosition()] * 10_001}, "number of positions is 10001"),
        ({"job": -(2**63)}, "there is no job -9223372036854775808"),
        ({"job": 2**63 - 1}, "there is no job 9223372036854775807"),
    ):
        began = time.monotonic()
        assert message in refused(lambda fields=fields: ask(**fields))
        assert time.monotonic() - began < 5
    odd = {"after": [pb.LogPosition(attempt=2**40, rank=3, segment=2**60, offset=2**60)]}
    assert all(not chunk.data for chunk in ask(**odd))  # it has all of that already
    assert site.job(number).phase == "running"
    site.client.cancel([number])
    site.done(number)


def test_a_flood_and_its_slow_followers_keep_nobody_from_living(tmp_path):
    """The lease is 6 s: who cannot report for so long dies."""
    with Site(tmp_path, **LIMITS) as site:
        flood(site)


def flood(site):
    site.agent("n0", "emulate:v100=2")
    stop = site.folder / "stop"
    program = (
        "import sys, time\nfor i in range(100):\n  sys.stdout.write(('y' * 99 + '\\n') * 5000)\n  time.sleep(0.1)\n"
    )
    loud = site.submit(argv=[sys.executable, "-c", program], env={})  # 50 MB
    quiet = site.submit(**sh(f"i=0; while [ ! -e {stop} ]; do i=$((i+1)); echo line $i; sleep 0.1; done"))
    slow = [site.client.log_items(LogQuery(job=loud, follow=True)) for _ in range(3)]
    for items in slow:
        next(items)  # and never again
    followers = [Follower(site, str(quiet)) for _ in range(3)]
    for follower in followers:  # while the other floods
        until(lambda follower=follower: len(follower.lines) > 5, 60, "lines as they are written")
    site.done(loud, seconds=90)
    stop.touch()
    site.done(quiet)

    assert [follower.ends() for follower in followers] == [0, 0, 0]
    said = followers[0].lines
    assert said == [f"line {i}" for i in range(1, len(said) + 1)]
    assert all(follower.lines == said for follower in followers)
    assert (site.job(quiet).epoch, site.job(loud).epoch) == (1, 1), "a lease ended"
    for items in slow:
        items.close()


def test_a_terminal_is_shown_control_characters_and_does_not_obey_them(site):
    number = site.submit(**sh(r"printf 'red \033[31m \a \033]0;title\007 \r end\tok \302\233 \n'"))
    site.done(number)

    def on_terminal(*words):
        leader, other = pty.openpty()
        command = [*ROTA, "logs", str(number), *words, "--scheduler", site.address, "--insecure"]
        done = subprocess.run(command, check=False, stdout=other, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 0
        said = os.read(leader, 65536)  # all of it: it is short
        os.close(leader)
        os.close(other)
        return said

    assert on_terminal() == b"red \033[31m ^G ^[]0;title^G ^M end\tok <U+009B> \r\n\033[0m"
    assert b"\033]0;title" in on_terminal("--raw")
    piped = subprocess.run(
        [*ROTA, "logs", str(number), "--scheduler", site.address, "--insecure"], check=True, capture_output=True,
        timeout=60,
    )  # fmt: skip
    assert piped.stdout.startswith(b"red \033[31m \a")


def test_events_of_a_job_are_its_own_and_say_where_and_why(site):
    other = site.submit(**sh("true"))
    number = site.submit(max_restarts=0, **sh("exit 5"))
    site.done(other, number)
    until(lambda: any(e["event"] == "JobsDropped" for e in site.events()), 20, "the end of the round")

    told = [json.loads(line) for line in rota(site, "events", "--job", str(number), "--json").splitlines()]
    text = rota(site, "events", "--job", str(number))

    assert {event.get("job") for event in told} == {number}
    assert all(event.get("jobs", [number]) == [number] for event in told)
    kinds = [event["event"] for event in told]
    assert kinds[0] == "JobAccepted"
    assert {"AttemptStarted", "AttemptEnded", "JobGivenUp", "JobsDropped"} <= set(kinds)
    assert f"job {number} attempt 1 starts on 1 GPUs of n0" in text
    assert f"job {number} attempt 1 failed, exit code 5" in text
    assert f"there is no job {number + 5}" in rota(site, "events", "--job", str(number + 5), code=2)


def test_a_follower_of_a_job_that_waits_waits_too(own_site):
    site = own_site
    number = site.submit(**sh("echo now"))
    assert "has not run yet (queued)" in rota(site, "logs", str(number), code=2)
    follower = Follower(site, str(number))
    site.agent("n0")

    assert follower.ends() == 0
    assert follower.lines == ["now"]


def test_a_link_among_the_segments_is_not_read(site):
    """A job may write to its own folder; what it links to is not its output."""
    secret = site.folder / "secret"
    secret.write_text("0000000000000o00006secret")
    link = f"cd $ROTA_LOGS; ln -s {secret} 000007-0; mkfifo 000008-0; mkdir 000009-0; echo forged > 000010-0"
    number = site.submit(**sh(f"echo mine; sleep 1; {link}; sleep 1; ln -s {secret} 000011-0"))
    honest = site.submit(**sh("sleep 2; echo honest"))
    site.done(number, honest)

    assert rota(site, "logs", str(number)).splitlines()[0] == "mine"
    assert "secret" not in rota(site, "logs", str(number))
    assert rota(site, "logs", str(honest)) == "honest\n"
    until(lambda: not spool(site, "n0"), 20, "a clean disk")


def test_another_scheduler_is_not_waited_for_for_ever(site):
    with Client("127.0.0.1:1", insecure=True) as nobody, pytest.raises(RotaError):
        list(nobody.log_items(LogQuery(job=0)))


def test_a_server_sends_output_of_its_own_ranks_and_of_no_others(site):
    number = site.submit(**sh("echo mine"))
    site.done(number)
    until(lambda: not spool(site, "n0", "n1"), 30, "the end of the upload")
    home = site.events("AttemptStarted", job=number)[0]["parts"][0]["node"]
    other = ({"n0", "n1"} - {home}).pop()
    forged = b"0000000000000o00006forged"

    with grpc.insecure_channel(site.address) as channel:
        fleet = stubs.FleetStub(channel)

        def upload(node, **fields):
            piece = pb.LogPiece(**{"job": number, "epoch": 1, "segment": 9, "before": 5, "data": forged, **fields})
            return fleet.UploadLogs(pb.LogUpload(node=node, pieces=[piece]), timeout=10).stored[0].refused

        assert upload(other) == f"attempt 1 of job {number} did not run on {other}"
        assert upload(home, epoch=2) == f"attempt 2 of job {number} did not run on {home}"
        assert upload(home, job=10**12) == f"attempt 1 of job {10**12} did not run on {home}"
        assert upload(home, rank=1) == f"rank 1 of job {number} does not run on {home}"
        assert upload(home, rank=-1) == f"rank -1 of job {number} does not run on {home}"
        assert upload(home, segment=-5) == ""
        with pytest.raises(grpc.RpcError, match="257 pieces in one upload"):
            fleet.UploadLogs(pb.LogUpload(node=home, pieces=[pb.LogPiece()] * 257), timeout=10)

    assert rota(site, "logs", str(number)) == "mine\n"
