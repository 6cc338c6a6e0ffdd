"""A second scheduler has the journal as it is written, and takes over when the first one's machine is gone."""

import contextlib
import datetime as dt
import json
import shutil
import signal
import sqlite3
import time

import pytest
from test_network_cut import NAME, NET, wire  # noqa: F401 - a fixture

from chaos import free_port
from faults import Site, results, until
from rota.core.errors import RotaError
from rota.deploy.control import Client
from rota.deploy.security import certs
from rota.deploy.security.places import tokens_file
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile


class Pair:
    """A site with a standby; agents and the client know both addresses."""

    def __init__(self, site, standby_host="127.0.0.1", *, token=None, prefix=(), more=(), certs=None):
        self.site = site
        self.certs = certs
        """The standby's own folder of certificates, if it is not the same."""
        self.first = site.address
        self.second = f"{standby_host}:{free_port()}"
        self.token = token
        self.prefix = prefix
        self.more = more
        self.stand_by("standby", self.second, self.first, "standby.db")
        site.address = f"{self.first},{self.second}"

    def stand_by(self, name, address, of, state):
        arguments = list(self.site._serve)
        for option, value in (("--state", f"{self.site.folder}/{state}"), ("--listen", address)):
            arguments[arguments.index(option) + 1] = value
        if self.certs is not None:
            arguments[arguments.index("--certs") + 1] = str(self.certs)
        arguments += ["--standby-of", of, *self.more]
        arguments += [] if self.token is None else ["--standby-token-file", str(self.token)]
        self.site._start(name, arguments, list(self.prefix))

    def client(self, address=None, *, token=None):
        token = token or self.token
        security = {"insecure": True} if token is None else {"certs": self.site.certs, "token_file": token}
        return Client(address or self.site.address, **security)

    def in_step(self, client):
        with contextlib.suppress(RotaError):
            return client.status().standby_in_step
        return False

    def events(self, state, kind):
        with contextlib.closing(sqlite3.connect(self.site.folder / state)) as db:
            rows = db.execute("SELECT body FROM events WHERE kind = ? ORDER BY seq", (kind,)).fetchall()
        return [json.loads(body) for (body,) in rows]


def killed(pair, site, *, token=None):
    """Seconds from the end of the scheduler to the first answer of the standby."""
    began = time.monotonic()
    site.kill("scheduler")
    site.client.close()
    site.client = pair.client(token=token)
    status = site.client.status()
    assert (status.term, status.standby) == (1, "")
    return time.monotonic() - began


def test_a_standby_takes_over_within_ten_seconds_when_the_scheduler_is_killed(tmp_path):
    synchronous = Site(tmp_path, dead_after=8, lease=20)
    synchronous._serve.append("--standby-sync")
    with synchronous as site:
        pair = Pair(site)
        for name in ("n0", "n1"):
            site.agent(name, "emulate:v100=2")
        jobs = [site.submit(steps=400), site.submit(steps=400)]
        until(lambda: all(site.job(job).saved_step > 0 for job in jobs), 30, "a save")

        until(lambda: pair.in_step(site.client), 20, "a standby in step")
        many = [site.submit(emulated=True, profile="unprofiled", steps=1) for _ in range(20)]
        took_s = killed(pair, site)
        assert [site.job(number).job for number in many] == many  # what was acknowledged is not lost
        (node,) = [part.node for part in site.job(jobs[0]).parts]
        site.client.drain(node)
        new = site.submit(steps=5)
        over = site.done(*jobs, new, seconds=90)

        assert took_s < 10.0
        assert [job.phase for job in over] == ["finished"] * 3
        assert over[0].epoch > 1000  # no number of the first scheduler is given again, and its variables are known
        assert new > 100_000
        for job in jobs:
            assert {row[1]: row[4] for row in site.steps(job)} == dict(enumerate(results(400)))


@pytest.mark.long
def test_the_first_scheduler_comes_back_as_the_standby_of_the_second(tmp_path):
    with Site(tmp_path, dead_after=8, lease=20) as site:
        pair = Pair(site)
        site.agent("n0", "emulate:v100=1")
        job = site.submit(steps=400)
        until(lambda: site.steps(job) and pair.in_step(site.client), 30)
        killed(pair, site)

        site._start("scheduler", site._serve, [])
        with pair.client(pair.first) as old:
            until(lambda: "not in charge" in refusal(old), 30, "a refusal")
        site.kill("scheduler")
        pair.stand_by("back", pair.first, pair.second, "state.db")
        until(lambda: pair.in_step(site.client), 30, "the first one as a standby")
        again = site.programs.pop("standby")
        again.kill()
        again.wait()
        until(lambda: term_of(site.client) == 2, 30, "a second takeover")
        (done,) = site.done(job, seconds=60)

        assert (tmp_path / "state.db.other-1").exists()
        assert (done.phase, done.epoch) == ("finished", 1)
        assert {row[1]: row[4] for row in site.steps(job)} == dict(enumerate(results(400)))


COUNT = "i=0; while [ $i -lt {n} ]; do i=$((i+1)); echo $i of {n}; sleep {pause}; done"


def printed(client, job):
    """Lines of output of a job, as `rota logs` has them."""
    return b"".join(client.logs(job)).decode().splitlines()


def whole(count):
    return [f"{number} of {count}" for number in range(1, count + 1)]


def test_output_and_tokens_are_there_after_a_takeover(tmp_path, keys):
    folder, token = keys
    with Site(tmp_path, certs=folder, dead_after=8, lease=20, log_segment="2KB", keep_job_logs="2MB") as site:
        site.client = Client(site.address, certs=folder, token_file=token)
        until(site._answers, 30, "the scheduler's answer")
        second = tmp_path / "second"  # the folder of certificates as it was copied to the other machine
        shutil.copytree(folder, second)
        pair = Pair(site, token=token, certs=second)
        for name in ("n0", "n1"):
            site.agent(name, "emulate:v100=1", certs=tmp_path / f"for-{name}")
        tokens = TokenFile(tokens_file(folder))
        gone, shut = tokens.add("lab")
        tokens.revoke(gone)
        late = tmp_path / "late"
        late.write_text(tokens.add("lab", admin=True)[1])
        late.chmod(0o600)
        (tmp_path / "shut").write_text(shut)
        (tmp_path / "shut").chmod(0o600)
        done = site.submit(argv=["sh", "-c", COUNT.format(n=300, pause=0)], env={})
        runs = site.submit(argv=["sh", "-c", COUNT.format(n=900, pause=0.02)], env={})
        site.done(done)
        until(lambda: len(printed(site.client, runs)) > 100 and pair.in_step(site.client), 30, "output")
        until(lambda: "tokens and revocations are here" in site.log("standby"), 20, "files on the standby")

        before = printed(site.client, runs)
        killed(pair, site, token=late)
        after = printed(site.client, runs)  # what was shipped, in the background
        finished = printed(site.client, done)
        again = until(lambda: (read := printed(site.client, runs))[: len(before)] == before and read, 20, "the rest")
        with (
            pair.client(pair.second, token=tmp_path / "shut") as other,
            pytest.raises(RotaError, match="unknown, revoked or has ended"),
        ):
            other.status()
        (job,) = site.done(runs, seconds=60)

        assert finished == whole(300)
        assert len(after) > 50
        assert again[: len(after)] == after
        assert printed(site.client, runs) == whole(900)
        assert (job.phase, job.epoch) == ("finished", 1)
        assert oct(tokens_file(second).stat().st_mode)[-3:] == "600"


def test_a_commit_waits_for_a_standby_that_hangs_but_not_for_ever(tmp_path):
    synchronous = Site(tmp_path)
    synchronous._serve.append("--standby-sync")
    with synchronous as site:
        pair = Pair(site)
        until(lambda: pair.in_step(site.client), 20, "a standby in step")
        standby = site.programs["standby"]
        standby.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        first = site.submit(emulated=True, profile="unprofiled", steps=1)
        waited_s = time.monotonic() - began
        began = time.monotonic()
        site.submit(emulated=True, profile="unprofiled", steps=1)
        again_s = time.monotonic() - began
        behind = site.client.status()
        standby.send_signal(signal.SIGCONT)
        until(lambda: pair.in_step(site.client), 20, "a standby in step again")
        until(lambda: len(pair.events("standby.db", "JobAccepted")) == 2, 10)

        assert waited_s > 1.0
        assert again_s < 1.0
        assert not behind.standby_in_step
        assert behind.standby_behind > 0
        assert pair.events("standby.db", "JobAccepted")[0]["job"] == first
        assert "commits are on this disk only" in site.log("scheduler")


def term_of(client):
    with contextlib.suppress(RotaError):
        return client.status().term
    return -1


def refusal(client):
    try:
        client.status()
    except RotaError as error:
        return str(error)
    return ""


@pytest.fixture
def secured(tmp_path):
    """Certificates for schedulers on both sides of a cut, agents, and an administrator's token."""
    return made_keys(tmp_path, [f"{NET}.1", f"{NET}.2"])


@pytest.fixture
def keys(tmp_path):
    """The same for two schedulers on this machine."""
    return made_keys(tmp_path, ["127.0.0.1"])


def made_keys(tmp_path, hosts):
    folder, now = tmp_path / "certs", dt.datetime.now(dt.timezone.utc)
    certs.create_authority(folder, now)
    certs.issue(folder, Subject(Role.SCHEDULER, "scheduler"), now, hosts=hosts, out=folder)
    certs.issue(folder, Subject(Role.CLIENT, "admin"), now, out=folder)
    for name in ("n0", "n1"):
        certs.issue(folder, Subject(Role.AGENT, name), now, out=tmp_path / f"for-{name}")
    token = tmp_path / "token"
    token.write_text(TokenFile(tokens_file(folder)).add("lab", admin=True)[1])
    token.chmod(0o600)
    return folder, token


INSIDE = ["nsenter", f"--net=/run/netns/{NAME}"]


def agents(site, tmp_path):
    for name in ("n0", "n1"):
        site.agent(name, "emulate:v100=1", certs=tmp_path / f"for-{name}")


@pytest.mark.long
def test_a_scheduler_that_is_cut_off_ends_before_the_standby_is_in_charge(tmp_path, wire, secured):  # noqa: F811
    folder, token = secured
    wire(True)
    with Site(tmp_path, certs=folder, host=f"{NET}.2", prefix=INSIDE, dead_after=8, lease=20) as site:
        site.client = Client(site.address, certs=folder, token_file=token)
        until(site._answers, 30, "the scheduler's answer")
        pair = Pair(site, f"{NET}.1", token=token, more=["--standby-sync"])
        agents(site, tmp_path)
        until(lambda: pair.in_step(site.client), 20, "a standby in step")
        job = site.submit(steps=400)
        until(lambda: site.job(job).saved_step > 0, 30, "a save")

        wire(False)
        cut = time.time()
        until(lambda: site.programs["scheduler"].poll() is not None, 15, "the end of the first scheduler")
        ended = time.time()
        site.client.close()
        site.client = pair.client()
        assert site.client.status().term == 1
        began = pair.events("standby.db", "ServiceStarted")[-1]
        (done,) = site.done(job, seconds=90)
        wire(True)

        assert ended < began["begun"] + began["at"]
        assert began["begun"] + began["at"] - cut < 10.0
        assert "this scheduler gives way: neither standby" in site.log("scheduler")
        assert (done.phase, done.epoch) == ("finished", 1)
        assert {row[1]: row[4] for row in site.steps(job)} == dict(enumerate(results(400)))


@pytest.mark.long
def test_a_standby_that_is_cut_off_from_the_servers_does_not_take_over(tmp_path, wire, secured):  # noqa: F811
    folder, token = secured
    wire(True)
    with Site(tmp_path, certs=folder, host=f"{NET}.1", dead_after=8, lease=20) as site:
        site.client = Client(site.address, certs=folder, token_file=token)
        until(site._answers, 30, "the scheduler's answer")
        pair = Pair(site, f"{NET}.2", token=token, prefix=INSIDE, more=["--standby-sync"])
        agents(site, tmp_path)
        until(lambda: pair.in_step(site.client), 20, "a standby in step")

        wire(False)
        first = site.submit(steps=20)
        until(lambda: not pair.in_step(site.client), 15, "a standby that is behind")
        (done,) = site.done(first, seconds=60)
        time.sleep(6.0)
        status = site.client.status()
        wire(True)
        until(lambda: pair.in_step(site.client), 30, "a standby in step again")

        assert done.phase == "finished"
        assert status.term == 0
        assert status.standby_behind > 0
        assert site.programs["scheduler"].poll() is None
        assert site.programs["standby"].poll() is None
        assert "taken over" not in site.log("standby")
        last = [event["job"] for event in pair.events("standby.db", "AttemptEnded")]
        assert last == [first]
