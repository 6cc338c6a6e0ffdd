"""Who an agent is, and what it says when it cannot work: one certificate for two, wrong ways, nodes that are gone."""

import shutil
import socket
import subprocess
import sys
import time

import pytest

from faults import Site, until
from rota.core.errors import ConfigError
from rota.deploy.agent.own_address import own_address
from rota.deploy.control import Client
from rota.deploy.security import certs
from rota.deploy.security.places import tokens_file
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile
from secure import NOW, a_site

SAYS_WITHIN_S = 15.0
"""Five seconds are promised; the rest is for a loaded machine and the start of Python."""


def second_agent(site, name, folder, gpus="emulate:v100=1"):
    """Another agent that says to be the same node, in a folder of its own."""
    arguments = [
        "agent",
        "--scheduler",
        site.address,
        *site.security,
        "--trust-tenants",
        "--gpus",
        gpus,
        "--name",
        name,
    ]
    site._start("twin", [*arguments, "--folder", str(folder)], [])


def test_a_second_agent_with_the_same_name_is_refused_and_the_first_runs_on(tmp_path):
    with Site(tmp_path, lease=20) as site:
        site.agent("n0")
        number = site.submit(steps=10**6)
        until(lambda: site.job(number).saved_step > 0, what="a save")

        second_agent(site, "n0", tmp_path / "another")
        until(lambda: "in use by another agent" in site.log("twin"), SAYS_WITHIN_S, "the refusal")
        before = site.job(number).saved_step
        until(lambda: site.job(number).saved_step > before + 40, what="steps beside the second agent")

        assert site.job(number).epoch == 1
        assert len(site.events("NodeJoined")) == 1
        assert site.log("twin").count("in use by another agent") <= 3, "it is repeated at growing intervals"
        assert f"{socket.gethostname()}:{tmp_path}/n0, process " in site.log("twin")
        (audited, *_) = site.events("Audited")
        assert f"{tmp_path}/another" in audited["what"]
        assert "certificate-in-use" in audited["what"]
        site.kill("n0")
        until(lambda: len(site.events("NodeJoined")) == 2, 30, "the second agent, once the first is silent")
        until(lambda: site.job(number).epoch == 2, 60, "a second attempt")
        assert site.events("AttemptEnded")[0]["outcome"] == "lost"
        site.client.cancel([number])
        site.done(number)


def test_a_copy_of_an_agents_folder_is_no_restart_of_it(tmp_path):
    with Site(tmp_path) as site:
        site.agent("n0")
        shutil.copytree(tmp_path / "n0", tmp_path / "copy", ignore=shutil.ignore_patterns("*.sock"))

        second_agent(site, "n0", tmp_path / "copy")
        until(lambda: "in use by another agent" in site.log("twin"), SAYS_WITHIN_S, "the refusal")

        assert len(site.events("NodeJoined")) == 1


def test_an_agent_that_is_started_again_in_its_folder_is_let_in_at_once(tmp_path):
    with Site(tmp_path, dead_after=60) as site:
        site.agent("n0")
        number = site.submit(steps=10**6)
        until(lambda: site.job(number).saved_step > 0, what="a save")
        for times in (2, 3):
            site.kill("n0")
            site.agent("n0", wait=False)
            until(lambda times=times: len(site.events("NodeJoined")) == times, 30, "the agent's return")

        assert site.job(number).epoch == 1
        assert "in use" not in site.log("n0")
        site.client.cancel([number])
        site.done(number)


def test_a_lost_node_is_removed_by_an_administrator_and_may_join_again(tmp_path):
    with Site(tmp_path, dead_after=1) as site:
        site.agent("n0")
        with pytest.raises(ConfigError, match="only a lost one can be removed"):
            site.client.remove_node("n0")
        site.kill("n0")
        until(lambda: site.node("n0") == "lost", 30, "the loss")

        words = ["nodes", "remove", "n0", "--scheduler", site.address, "--insecure"]
        done = subprocess.run([sys.executable, "-m", "rota.cli", *words], check=True, capture_output=True, text=True)
        assert done.stdout == "n0 is removed\n"
        assert site.client.nodes() == []
        assert site.events("NodeRemoved")[0]["node"] == "n0"
        site.agent("n0")

        assert site.node("n0") == "up"


def test_a_type_nobody_knows_is_a_warning_with_the_nearest_name(tmp_path):
    with Site(tmp_path) as site:
        site.agent("n0", "emulate:v1000=1")
        site.agent("n1", "emulate:v100=1")

        remarks = {node.node: node.remark for node in site.client.nodes()}
        assert remarks == {"n0": "accelerator type 'v1000' is not known; did you mean v100 or p100?", "n1": ""}
        assert "accelerator type 'v1000' is not known" in site.log("scheduler")


# What an agent says about its line


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """Certificates of the site, and of somebody else."""
    mine = a_site(tmp_path_factory.mktemp("mine"))
    theirs = a_site(tmp_path_factory.mktemp("theirs"))
    for folder in (mine, theirs):
        certs.issue(folder, Subject(Role.AGENT, "node1"), NOW, out=folder / "out", force=True)
    return mine, theirs


def one_agent(site, folder, address, security):
    arguments = ["agent", "--scheduler", address, *security, "--trust-tenants", "--gpus", "emulate:v100=1"]
    site._start("node1", [*arguments, "--folder", str(folder)], [])


@pytest.mark.parametrize("wrong", ["authority", "port", "name"])
def test_an_agent_says_soon_why_it_cannot_connect_and_keeps_trying(tmp_path, authorities, wrong):
    mine, theirs = authorities
    site = Site(tmp_path, certs=mine)
    host, _, port = site.address.rpartition(":")
    address = {"port": f"{host}:1", "name": f"127.0.0.2:{port}"}.get(wrong, site.address)
    if wrong == "name":
        site._serve[site._serve.index("--listen") + 1] = f"0.0.0.0:{port}"
    bundle = (theirs if wrong == "authority" else mine) / "out"
    said = {
        "authority": "certificate is not accepted here: unable to get local issuer certificate|self-signed|"
        "certificate verify failed|certificate is not accepted here",
        "port": "nothing listens on 127.0.0.1 port 1",
        "name": "mismatch|not valid for",
    }[wrong]
    with site:
        until(lambda: "scheduler listens on" in site.log("scheduler"), 30, "the scheduler")
        began = time.monotonic()
        one_agent(site, tmp_path / "agent", address, ["--certs", str(bundle)])
        until(lambda: any(words in site.log("node1") for words in said.split("|")), SAYS_WITHIN_S, "a reason")

        assert time.monotonic() - began < SAYS_WITHIN_S
        assert "trying again" in site.log("node1")
        assert site.programs["node1"].poll() is None, "it keeps trying"


def test_an_agent_that_nobody_answers_says_so_and_goes_on_once_there_is_a_scheduler(tmp_path):
    site = Site(tmp_path)
    try:
        one_agent(site, tmp_path / "agent", site.address, [*site.security, "--name", "node1"])
        until(lambda: "nothing listens on" in site.log("node1"), SAYS_WITHIN_S, "a reason")
        site.serve()
        until(lambda: site.node("node1") == "up", 30, "the agent")
        until(lambda: "the scheduler is there again" in site.log("node1"), what="the good news")
    finally:
        site.__exit__(None)


def test_an_agent_that_may_not_join_says_so_and_keeps_trying(tmp_path, authorities):
    """Its certificate was revoked."""
    mine, _ = authorities
    folder = tmp_path / "certs"
    shutil.copytree(mine, folder)
    subprocess.run(
        [sys.executable, "-m", "rota.cli", "certs", "revoke", "agent", "node1", "--dir", folder],
        check=True,
        capture_output=True,
    )
    _, token = TokenFile(tokens_file(folder)).add("ops", admin=True)
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    with Site(tmp_path, certs=folder) as site:
        one_agent(site, tmp_path / "agent", site.address, ["--certs", str(mine / "out")])
        until(lambda: "the scheduler refuses this agent" in site.log("node1"), 30, "a reason")

        assert "trying again" in site.log("node1")
        assert site.programs["node1"].poll() is None
        with Client(site.address, certs=folder, token_file=tmp_path / "token") as client:
            assert client.nodes() == []


def test_the_address_of_an_agent_is_the_one_by_which_it_reaches_the_scheduler():
    assert own_address("127.0.0.1:7070") == "127.0.0.1"
    assert own_address("localhost:7070") == "127.0.0.1"
    assert own_address("unix:/tmp/rota.sock") == "127.0.0.1"
    outside = own_address("192.0.2.1:7070")  # an address for documentation: nothing is sent there
    assert outside != "127.0.0.1"


# Jobs that fail


def test_a_job_that_cannot_find_its_checkpoint_on_another_server_says_so(tmp_path):
    """Without --checkpoints each agent has a folder of its own."""
    site = Site(tmp_path)
    at = site._serve.index("--checkpoints")
    del site._serve[at : at + 2]
    with site:
        assert "no --checkpoints: what a job saves stays on its server" in site.log("scheduler")
        site.agent("n0")
        number = site.submit(steps=10**6, max_restarts=0)
        until(lambda: site.job(number).saved_step > 0, what="a save")
        site.agent("n1")
        site.client.drain("n0")
        (job,) = site.done(number)

        assert job.phase == "failed"
        assert "is not in " in job.reason
        assert "rota serve --checkpoints DIR" in job.reason


def test_a_job_that_fails_after_new_steps_is_tried_on_and_on(tmp_path):
    """It saves two steps and then dies, again and again; `max_restarts` is about failures in a row."""
    falls = """
import rota.client
total = 0
mine = 0
def save(path): (path / "total").write_text(str(total))
def load(path):
    global total
    total = int((path / "total").read_text())
with rota.client.lease(save=save, load=load, every_steps=1, steps=8) as lease:
    while lease.next():
        total += 1
        mine += 1
        if mine == 3 and total < 8: raise SystemExit(3)
"""
    with Site(tmp_path) as site:
        site.agent("n0")
        (tmp_path / "falls.py").write_text(falls)
        number = site.submit(argv=[sys.executable, str(tmp_path / "falls.py")], steps=8, max_restarts=1)
        (job,) = site.done(number, seconds=120)

        assert job.phase == "finished", job.reason
        assert job.restarts >= 2
