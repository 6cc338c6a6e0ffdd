"""The line between scheduler and agent is cut and healed: a network namespace and certificates, as on two machines."""

import datetime as dt
import os
import shutil
import subprocess
import time

import pytest

from faults import Site, results, until
from live import alive
from rota.deploy.control import Client
from rota.deploy.security import certs
from rota.deploy.security.places import tokens_file
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile

NAME = f"rota{os.getpid() % 100000}"
NET = f"198.18.{os.getpid() % 250}"


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True, timeout=20)


@pytest.fixture(scope="module")
def wire():
    """A function that cuts or heals the link into another network namespace."""
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("nsenter")):
        pytest.skip("needs root, ip (iproute2) and nsenter to make a network namespace")
    made = ip("netns", "add", NAME, check=False)
    if made.returncode:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
    try:
        made = ip("link", "add", f"{NAME}h", "type", "veth", "peer", "name", f"{NAME}n", "netns", NAME, check=False)
        if made.returncode:
            pytest.skip(f"no veth pair can be made here: {made.stderr.strip()}")
        ip("addr", "add", f"{NET}.1/30", "dev", f"{NAME}h")
        ip("link", "set", f"{NAME}h", "up")
        ip("-n", NAME, "addr", "add", f"{NET}.2/30", "dev", f"{NAME}n")
        ip("-n", NAME, "link", "set", f"{NAME}n", "up")
        yield lambda up: ip("-n", NAME, "link", "set", f"{NAME}n", "up" if up else "down")
    finally:
        ip("link", "del", f"{NAME}h", check=False)
        ip("netns", "del", NAME, check=False)


@pytest.fixture
def site(tmp_path, wire):
    wire(True)
    folder, now = tmp_path / "certs", dt.datetime.now(dt.timezone.utc)
    certs.create_authority(folder, now)
    certs.issue(folder, Subject(Role.SCHEDULER, "scheduler"), now, hosts=[f"{NET}.1"], out=folder)
    certs.issue(folder, Subject(Role.CLIENT, "admin"), now, out=folder)
    for name in ("near", "far"):
        certs.issue(folder, Subject(Role.AGENT, name), now, out=tmp_path / f"for-{name}")
    token = tmp_path / "token"
    token.write_text(TokenFile(tokens_file(folder)).add("lab", admin=True)[1])
    token.chmod(0o600)
    with Site(tmp_path, certs=folder, host=f"{NET}.1", dead_after=2, lease=4) as found:
        found.client = Client(found.address, certs=folder, token_file=token)
        until(found._answers, 30, "the scheduler's answer")
        found.agent("near", "emulate:v100=2", certs=tmp_path / "for-near")
        found.agent("far", "emulate:v100=2", certs=tmp_path / "for-far", prefix=["nsenter", f"--net=/run/netns/{NAME}"])
        yield found


def on_far(site, *jobs):
    """Submit jobs to the server behind the link."""
    site.client.drain("near")
    numbers = [site.submit(**job) for job in jobs]
    until(lambda: all(site.job(n).phase == "running" and site.job(n).saved_step > 0 for n in numbers), 30, "a save")
    assert {part.node for n in numbers for part in site.job(n).parts} == {"far"}
    site.client.drain("near", undo=True)
    return numbers


def test_a_cut_shorter_than_the_lease_restarts_nothing(site, wire):
    numbers = on_far(site, {"steps": 160, "hung_after_s": 1.5}, {"steps": 240, "emulated": True})

    wire(False)
    time.sleep(2.5)
    wire(True)
    over = site.done(*numbers, seconds=60)

    assert [(job.phase, job.epoch, job.restarts) for job in over] == [("finished", 1, 0)] * 2
    assert site.events("NodeLost") == []
    assert [s[1] for s in site.steps(numbers[0])] == list(range(160))
    until(lambda: site.busy() == {"near": 0, "far": 0})


def test_after_a_long_cut_jobs_go_on_elsewhere_and_the_zombie_ends_by_itself(site, wire):
    real, emulated = on_far(site, {"steps": 260}, {"steps": 600, "emulated": True})
    before = site.job(real).saved_step
    first = site.steps(real)[0][3]

    wire(False)
    cut = time.time()
    until(lambda: site.job(real).epoch == 2 and site.job(real).phase == "running", 30, "a second attempt")
    assert not alive(first)
    until(lambda: any(s[0] == 2 for s in site.steps(real)), 20, "a step of the second attempt")
    wire(True)
    until(lambda: site.node("far") == "up", 30, "the return of the server")
    over = site.done(real, emulated, seconds=90)

    assert [(job.phase, job.epoch, job.saved_step) for job in over] == [("finished", 2, 260), ("finished", 2, 600)]
    steps = site.steps(real)
    old, new = [s for s in steps if s[0] == 1], [s for s in steps if s[0] == 2]
    assert old[-1][2] < new[0][2], "both attempts ran at the same time"
    assert old[-1][2] > cut
    assert new[0][1] >= before
    assert [s[1] for s in new] == list(range(new[0][1], 260))
    assert new[-1][4] == results(260)[-1]
    for job in (real, emulated):
        ended = site.events("AttemptEnded", job=job)
        assert (ended[0]["outcome"], ended[-1]["outcome"]) == ("lost", "completed")
        assert site.credited_in_order(job)[-1] == over[[real, emulated].index(job)].saved_step
    lost = site.events("NodeLost")
    assert [e["node"] for e in lost] == ["far"]
    until(lambda: site.busy() == {"near": 0, "far": 0})
    assert site.tasks() == []


@pytest.mark.long
def test_a_gang_with_one_server_behind_the_cut_waits_and_goes_on_together(site, wire):
    gang = site.submit(gpus=3, ranks="gpu", steps=200)
    until(lambda: site.job(gang).saved_step > 0, 30, "a save")
    assert {part.node for part in site.job(gang).parts} == {"near", "far"}

    wire(False)
    until(lambda: site.node("far") == "lost" and site.busy()["near"] == 0, 30, "the end on both servers")
    other = site.submit(steps=5)
    assert site.done(other, seconds=20)[0].phase == "finished"
    wire(True)
    (job,) = site.done(gang, seconds=90)

    assert (job.phase, job.saved_step, job.epoch, job.restarts) == ("finished", 200, 2, 0)
    assert site.events("AttemptEnded", job=gang)[0]["outcome"] == "lost"
    for rank in range(3):
        steps = site.steps(gang, rank)
        old, new = [s for s in steps if s[0] == 1], [s for s in steps if s[0] == 2]
        assert old[-1][2] < new[0][2]
        assert [s[1] for s in new] == list(range(new[0][1], 200))
    until(lambda: site.busy() == {"near": 0, "far": 0} and site.tasks() == [], 30, "free devices")
