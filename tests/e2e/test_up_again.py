"""Stopping a cluster and starting it again; schedulers and agents by hand."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from live import FAST, ROTA, Live, alive, environment, until

PRIORITY = "import sys; from rota.emulate.priority import realtime; sys.exit(not realtime())"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_the_end_and_the_queue_goes_on(tmp_path, number):
    live = Live(tmp_path).up("--server", "v100=1", *FAST)
    first, second = live.submit(steps=6000), live.submit(steps=100)
    until(lambda: live.phase(first) == "running")
    before = list(live.processes.values())

    said = live.down(number)

    assert live.process.returncode == 0
    assert "2 jobs unfinished; `rota up` goes on from .rota" in said
    assert [n for n in before if alive(n)] == []
    assert "nothing listens on" in live.run("jobs", code=2)
    assert "cannot change" in live.run("up", "--time-scale", "7", code=2)

    live.up()
    try:
        assert sorted(j["job"] for j in live.ask("jobs", "--all")) == [first, second]
        until(lambda: live.phase(second) == "finished", 30)
        assert live.phase(first) == "finished"
    finally:
        live.down()


def test_processes_end_when_up_is_killed(tmp_path):
    live = Live(tmp_path).up("--server", "v100=1", *FAST)

    live.process.kill()
    live.process.communicate()

    until(lambda: not any(alive(n) for n in live.processes.values()), 15)


def test_agents_that_share_a_process_are_servers_of_their_own_and_come_back_together(tmp_path):
    live = Live(tmp_path).up("--server", "v100=3/1", "--per-process", "2", *FAST)
    try:
        assert sorted(live.processes) == ["agent v100-2", "agents v100-0 to v100-1", "the scheduler"]
        assert {node["node"]: node["gpus"] for node in live.ask("nodes")} == {"v100-0": 1, "v100-1": 1, "v100-2": 1}
        assert sorted(path.name for path in (tmp_path / ".rota/agents").iterdir()) == ["v100-0", "v100-1", "v100-2"]
        jobs = [live.submit(steps=6000) for _ in range(3)]
        until(lambda: all(live.phase(job) == "running" for job in jobs))

        os.kill(live.processes["agents v100-0 to v100-1"], signal.SIGKILL)

        until(lambda: all(live.phase(job) == "finished" for job in jobs), 60)
        infos = [live.ask("jobs", str(job)) for job in jobs]
        assert [info["saved_step"] for info in infos] == [6000, 6000, 6000]
    finally:
        live.down()


@pytest.mark.skipif(sys.platform != "linux", reason="real-time priority is known on Linux only")
def test_emulated_gpus_get_real_time_priority_or_the_agent_says_why_not(tmp_path):
    asked = ("--server", "v100=1", "--realtime", *FAST)
    if subprocess.run([sys.executable, "-c", PRIORITY], check=False).returncode:
        assert "CAP_SYS_NICE" in Live(tmp_path).run("up", *asked, code=2)
        return
    live = Live(tmp_path).up(*asked)
    try:
        policies = {name: os.sched_getscheduler(number) & 0xFF for name, number in live.processes.items()}
        assert policies == {"agent v100-0": os.SCHED_FIFO, "the scheduler": os.SCHED_OTHER}
        live.finished(steps=100)
    finally:
        live.down()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--gpus", "v100=1", "--name", "a", "--name", "b"), "only for emulated servers"),
        (("--gpus", "emulate:v100=1", "--name", "a", "--name", "a"), "a name of its own"),
    ],
)
def test_several_names_that_make_no_sense_are_refused(tmp_path, arguments, said):
    assert said in Live(tmp_path).run("agent", "--scheduler", "127.0.0.1:1", "--insecure", *arguments, code=2)


def test_a_scheduler_that_is_not_there_is_named(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    said = Live(tmp_path).run("jobs", "--scheduler", address, "--insecure", code=2)

    assert f"nothing listens on 127.0.0.1 port {address.rpartition(':')[2]}" in said
    assert "no scheduler is named" in Live(tmp_path).run("jobs", code=2)


def _ended(process):
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(15)
    finally:
        process.kill()
        process.communicate()


def _started(tmp_path, *arguments):
    return subprocess.Popen(
        [*ROTA, *arguments, "--json"], cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def test_scheduler_and_agent_by_hand(tmp_path):
    live = Live(tmp_path)
    (tmp_path / "lab.toml").write_text('[[server]]\ntype = "v100"\ngpus = 2\n')
    serve = _started(
        tmp_path, "serve", "--state", "s.db", "--listen", "127.0.0.1:0", "--insecure", "--cluster", "v100=2/2",
        "--policy", "fifo", "--time-scale", "120", "--round", "60", "--checkpoints", "kept",
    )  # fmt: skip
    try:
        address = json.loads(serve.stdout.readline())["address"]
        link = ("--scheduler", address, "--insecure")
        strange = live.run(
            "agent", *link, "--trust-tenants", "--gpus", "emulate:v100=2", "--name", "other", "--folder", "x", code=2
        )
        assert "the cluster file has no server 'other'" in strange
        agent = _started(
            tmp_path,
            "agent",
            *link,
            "--trust-tenants",
            "--gpus",
            "emulate:v100=2",
            "--name",
            "v100-0",
            "--folder",
            "agent",
        )
        try:
            assert json.loads(agent.stdout.readline()) == {"node": "v100-0", "scheduler": address}
            done = live.ask("submit", *link, "--emulated", "--profile", "A3C", "--steps", "50", "--wait")
            assert done["phases"] == ["finished"]
            asked = (
                "submit",
                *link,
                "--max-restarts",
                "0",
                "--wait",
                "--json",
                "--",
                "sh",
                "-c",
                "echo $ROTA_CHECKPOINTS",
            )
            job = json.loads(live.run(*asked))["jobs"][0]
            assert live.run("logs", *link, str(job)).strip() == str(tmp_path / "kept" / "1" / "1")
        finally:
            assert _ended(agent) == 0
    finally:
        assert _ended(serve) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--state", "s.db", "--insecure", "--listen", "0.0.0.0:7070"], "0.0.0.0:7070"),
        (["serve", "--state", "s.db", "--certs", "nowhere"], "ca.pem does not exist"),
        (["serve", "--state", "s.db", "--insecure", "--listen", "here"], "is not an address"),
        (["serve", "--state", "s.db", "--insecure", "--mechanism", "ideal"], "can only be simulated"),
        (["agent", "--scheduler", "127.0.0.1:1", "--insecure", "--gpus", "v100"], "emulate:TYPE=N"),
        (
            ["agent", "--scheduler", "127.0.0.1:1", "--insecure", "--gpus", "v100=1", "--realtime"],
            "is for emulated GPUs",
        ),
        (["up"], "a cluster needs servers"),
        (["up", "--server", "v100=x"], "not a number of GPUs"),
        (["up", "--server", "v100=1", "--emulate", "--policy", "nonsense"], "unknown policy 'nonsense'"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path, arguments, message):
    assert message in Live(tmp_path).run(*arguments, code=2)
