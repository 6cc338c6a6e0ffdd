"""What a user reads about jobs, by the real commands: reasons at once, words that can be, many jobs in little time."""

import json
import os
import resource
import subprocess

import pytest

from live import FAST, ROTA, Live, environment, until


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("words"))
    cluster.up("--server", "v100=2", "--server", "k80=1", *FAST)
    yield cluster
    cluster.down()


def line_of(text, number):
    """The line of a job in a table."""
    return next(line for line in text.splitlines() if line.split()[0] == str(number))


def test_a_job_for_which_no_server_is_large_enough_waits_with_that_reason(live):
    number = live.submit(gpus=8)

    info = live.ask("jobs", str(number))
    table = live.run("jobs")

    reason = "no-server-fits: asks for 8 GPUs; the largest number of one type that is up is 2 (v100)"
    assert (info["phase"], info["reason"], info["reason_code"]) == ("waiting", reason, "no-server-fits")
    assert line_of(table, number).endswith(reason)
    assert "waiting" in line_of(table, number)
    assert reason in live.run("jobs", str(number))
    assert number in [job["job"] for job in live.ask("jobs", "--phase", "waiting")]
    assert number not in [job["job"] for job in live.ask("jobs", "--phase", "queued")]
    with live.client() as client:
        assert client.job(number).reason_code == "no-server-fits"
    live.run("cancel", str(number))
    assert live.phase(number) == "cancelled"


def test_a_full_cluster_and_a_failure_are_reasons_too(live):
    with live.client() as client:
        busy = client.submit([{"emulated": True, "profile": "a3c", "steps": 10**8} for _ in range(3)])
        until(lambda: {client.job(number).phase for number in busy} == {"running"}, what="three jobs run")
        late = client.submit([{"emulated": True, "profile": "resnet18-32", "steps": 10**8, "gpus": 2}] * 2)
        reasons = [client.job(number).reason for number in late]
        client.cancel([*busy, *late])

        fails = client.submit([{"argv": ["sh", "-c", "exit 3"], "max_restarts": 5}])[0]
        told = until(lambda: next(iter([i for i in [client.job(fails)] if i.phase == "waiting"]), None), 30.0)
        client.cancel([fails])

    assert "are busy; 3 jobs running, 0 jobs before it" in reasons[0] or "GPU free" in reasons[0]
    assert "1 job before it" in reasons[1]
    assert told.reason_code == "back-off"
    assert "exit code 3" in told.reason
    assert " s after failed" in told.reason


def test_a_table_in_a_pipe_is_plain_lines_with_the_same_columns(live):
    name = "a-name-that-is-much-longer-than-a-column-of-a-terminal-" + "x" * 60
    number = live.submit(gpus=8, name=name)

    lines = live.run("jobs", "--all").splitlines()
    live.run("cancel", str(number))

    at = lines[0].index("phase")
    assert lines[0].split() == ["job", "name", "tenant", "phase", "profile", "where", "GPUs", "done", "time", "reason"]
    assert any(name in line for line in lines)
    assert all(line[at:].split()[0] in PHASES for line in lines[1:])
    assert "\n".join(lines).isascii()


PHASES = ("queued", "waiting", "running", "stopping", "finished", "failed", "cancelled")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """A scheduler with 20,000 jobs and no server."""
    folder = tmp_path_factory.mktemp("crowded")
    command = [*ROTA, "serve", "--state", str(folder / "s.db"), "--insecure", "--listen", "127.0.0.1:0", "--json"]
    process = subprocess.Popen(
        [*command, "--log-level", "error"], cwd=folder, env=environment(folder), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    address = json.loads(process.stdout.readline())["address"]
    from rota.deploy.control import Client

    with Client(address, insecure=True) as client:
        jobs = [{"emulated": True, "profile": "resnet18-32", "steps": 10, "name": f"n{i}"} for i in range(4000)]
        for _ in range(5):
            client.submit(jobs)
    yield folder, address
    process.terminate()
    process.wait(30)
    process.stdout.close()


def timed(crowded, *arguments):
    """Processor seconds of a verb, its output, and what it said beside it."""
    folder, address = crowded
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*ROTA, *arguments, "--scheduler", address, "--insecure"], check=True, capture_output=True, text=True,
        timeout=120, cwd=folder, env=environment(folder),
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return used, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", [("jobs",), ("jobs", "--json")])
def test_a_list_of_20000_jobs_costs_little_more_than_a_question(crowded, arguments):
    least = min(timed(crowded, "status")[0] for _ in range(3))
    runs = [timed(crowded, *arguments) for _ in range(3)]

    used, text, beside = min(runs)
    shown = len(json.loads(text)) if "--json" in arguments else len(text.splitlines()) - 1
    assert shown == 1000
    assert "19,000 more" in beside
    assert used < least + 0.25, f"{used:.2f} s of processor time; {least:.2f} s of them to start"


def test_all_of_20000_jobs_can_be_listed_and_each_has_a_reason(crowded):
    _, text, beside = timed(crowded, "jobs", "--limit", "0")

    lines = text.splitlines()
    assert len(lines) == 20_001
    assert beside == ""
    assert all(line.endswith("no-servers: no server is up") for line in lines[1:])
    assert os.linesep.join(lines[:2]).split()[10] == "19999"
