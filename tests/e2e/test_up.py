"""A whole cluster on this machine, by the real commands."""

import gzip
import json
import os
import signal
import sys
from pathlib import Path

import pytest

import rota
from live import FAST, Live, until
from rota.core.errors import ConfigError


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("up"))
    cluster.up("--server", "v100=2", "--server", "k80=2:cpus=6:memory=64", *FAST)
    yield cluster
    cluster.down()


def test_an_emulated_job_runs_to_its_end(live):
    told = live.ask("submit", "--emulated", "--gpus", "2", "--profile", "resnet18-32", "--steps", "500", "--wait")

    assert told["phases"] == ["finished"]
    info = live.ask("jobs", str(told["jobs"][0]))
    assert (info["saved_step"], info["profile"], info["tenant"]) == (500, "ResNet-18 (batch size 32)", "default")


TRAINING = (sys.executable, "-m", "rota.emulate.job", "--model", "resnet50")
OURS = ("--env", f"PYTHONPATH={Path(rota.__file__).parents[1]}")


@pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux to run processes")
def test_a_training_process_runs_on_emulated_devices(live):
    asked = ("submit", "--gpus", "2", "--steps", "500", *OURS, "--wait", "--json")
    told = json.loads(live.run(*asked, "--", *TRAINING, "--batch", "64"))

    assert told["phases"] == ["finished"]
    said = json.loads(live.run("logs", str(told["jobs"][0])))
    assert (said["step"], said["stopped"]) == (500, "done")


@pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux to run processes")
def test_a_script_is_found_in_the_folder_it_is_submitted_from(live):
    (live.folder / "train.py").write_text("print('trained')")

    number = live.run("submit", "--wait", "--max-restarts", "0", "--", sys.executable, "train.py").strip()

    assert live.run("logs", number) == "trained\n"


@pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux to run processes")
def test_out_of_device_memory_is_told_with_what_was_asked_and_free(live):
    asked = ("submit", "--steps", "9", "--max-restarts", "0", *OURS, "--wait")
    live.run(*asked, "--", *TRAINING, "--batch", "4000", code=1)
    live.run("submit", "--emulated", "--model", "resnet50", "--batch", "4000", "--steps", "9", "--max-restarts", "0",
             "--wait", code=1)  # fmt: skip

    for job in live.ask("jobs", "--all")[:2]:
        shown = " ".join(live.run("jobs", str(job["job"])).split())
        assert "out-of-device-memory" in shown
        assert "MiB are free" in shown


def test_servers_are_what_was_asked_for(live):
    nodes = {node["node"]: node for node in live.ask("nodes")}

    assert {name: (n["type"], n["gpus"], n["cpus"], n["memory_gb"]) for name, n in nodes.items()} == {
        "v100-0": ("v100", 2, 6.0, 125.0),
        "k80-0": ("k80", 2, 6.0, 64.0),
    }
    assert all(node["emulated"] for node in nodes.values())


def test_tables_in_a_pipe_have_a_line_per_row_and_whole_names(live):
    name = "a-job-with-quite-a-long-name-that-nobody-may-cut"
    job = live.submit(name=name, profile="recommendation-8192")
    until(lambda: live.phase(job) == "running")

    head, row = live.run("jobs").splitlines()
    assert name in row
    assert "Recommendation (batch size 8192)" in row
    assert head.index("reason") == row.rindex("-")  # the same columns
    live.run("cancel", str(job))


def test_a_cancelled_job_ends_and_a_second_time_is_over(live):
    job = live.submit()
    until(lambda: live.phase(job) == "running")

    assert live.ask("cancel", str(job)) == {"cancelled": [job], "over": []}
    until(lambda: live.phase(job) == "cancelled")
    assert live.ask("cancel", str(job)) == {"cancelled": [], "over": [job]}
    assert "no jobs" in live.run("jobs")


def test_a_drained_server_loses_its_jobs_to_others(live):
    job = live.submit(gpus=2)
    node = until(lambda: list(live.job(job).parts))[0].node

    live.run("drain", node)

    def moved():
        parts = list(live.job(job).parts)
        return parts and parts[0].node != node

    until(moved)
    until(lambda: live.nodes()[node].state == "drained")
    assert live.run("drain", node, "--undo").strip() == f"{node} is up"
    live.run("cancel", str(job))


def test_no_restarts_are_no_restarts(live):
    live.run("submit", "--max-restarts", "0", "--wait", "--", "false", code=1)

    assert live.ask("jobs", "--all")[0]["reason"] == "failed (exit code 1); 1 failed attempts"


def test_jobs_from_a_file(live):
    (live.folder / "jobs.toml").write_text(
        '[[job]]\nname = "x"\ncount = 2\nprofile = "a3c"\nsteps = 100\nemulated = true\n'
    )

    assert live.ask("submit", "--file", "jobs.toml", "--wait")["phases"] == ["finished", "finished"]


def test_a_trace_is_submitted_at_its_arrivals_and_timed(live):
    (live.folder / "t.csv").write_text(
        "arrival_s,profile,gpus,steps\n0,A3C,1,100\n60,A3C,1,100\n240,ResNet-18 (batch size 32),2,100\n"
    )

    told = live.ask("submit-trace", "t.csv", "--time-scale", "120", "--wait", "--jobs-csv", "jobs.csv")

    assert (told["jobs_finished"], len(told["jobs"])) == (3, 3)
    assert 0 < told["p50_jct_s"] <= told["p99_jct_s"] < 3600
    first, last = (live.ask("jobs", str(told["jobs"][i]))["submitted_s"] for i in (0, -1))
    assert 200 < last - first < 600
    lines = (live.folder / "jobs.csv").read_text().splitlines()
    assert lines[0].startswith("job_id,arrival_s,finish_s,jct_s,profile,gpus")
    assert [line.split(",")[1] for line in lines[1:]] == ["0.0", "60.0", "240.0"]
    assert "runs with 120" in live.run("submit-trace", "t.csv", "--time-scale", "60", code=2)


def test_the_log_of_a_deployment_can_be_replayed_and_drawn(live):
    live.finished()
    live.run("events", "--export", "run.jsonl.gz")

    assert json.loads(live.run("replay", "run.jsonl.gz", "--json"))["jobs_finished"] >= 1
    with gzip.open(live.folder / "run.jsonl.gz", "rt") as log:
        kinds = {json.loads(line)["event"] for line in log}
    assert {"RunStarted", "JobsSubmitted", "JobsFinished"} <= kinds
    assert not kinds & {"JobAccepted", "NodeJoined", "AttemptStarted"}
    pytest.importorskip("matplotlib")
    live.run("plot", "gantt", "run.jsonl.gz", "-o", "gantt.png")


def test_events_are_readable_and_complete_as_json(live):
    job = live.finished(name="watched", profile="a3c")

    assert f"job {job} 'watched' accepted: 1 GPUs, A3C" in live.run("events")
    lines = [json.loads(line) for line in live.run("events", "--json").splitlines()]
    assert [line["sequence"] for line in lines] == list(range(1, len(lines) + 1))


def test_an_emulated_job_has_no_output(live):
    assert "has no output: it is an emulated job" in live.run("logs", str(live.finished()), code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["jobs", "999"], "there is no job 999"),
        (["cancel", "999"], "there is no job 999"),
        (["logs", "999"], "there is no job 999"),
        (["drain", "nowhere"], "there is no node 'nowhere'; known: k80-0, v100-0"),
        (["submit"], "nothing to run"),
        (["submit", "--emulated", "--profile", "resnet51", "--steps", "1"], "did you mean 'ResNet-50"),
        (["submit", "--emulated", "--profile", "rezzznet", "--steps", "1"], "not in catalogue 'gavel'"),
        (["submit", "--emulated", "--profile", "a3c", "--gpus", "2", "--steps", "1"], "not measured with 2 GPUs"),
        (["submit", "--emulated", "--gpus", "2"], "needs --profile and --steps"),
        (["up", "--server", "v100=1"], "is up in .rota already"),
        (["jobs", "--token-file", "nothing"], "nothing does not exist"),
    ],
)
def test_what_cannot_be_is_refused_with_one_message(live, arguments, message):
    said = live.run(*arguments, code=2)

    assert message in said
    assert said.startswith("rota: error: ")


def test_a_wrong_token_is_refused(live):
    wrong = live.folder / "wrong.token"
    wrong.write_text(f"rota_{'0' * 12}_{'0' * 64}\n")
    wrong.chmod(0o600)

    assert "the token is unknown" in live.run("jobs", "--token-file", str(wrong), code=2)


def test_another_tenant_sees_and_may_nothing_of_ours(live):
    live.run("tokens", "create", "--tenant", "vision", "--dir", ".rota/certs", "--out", "vision.token")
    job = live.submit()
    theirs = ("--token-file", "vision.token")

    assert live.ask("jobs", "--all", *theirs) == []
    assert f"there is no job {job}" in live.run("jobs", str(job), *theirs, code=2)
    assert f"there is no job {job}" in live.run("cancel", str(job), *theirs, code=2)
    assert "the scheduler refuses" in live.run("drain", "v100-0", *theirs, code=2)
    assert "not an administrator's" in live.run("events", "--export", "theirs.jsonl", *theirs, code=2)
    live.run("cancel", "--all")


def test_an_agent_cannot_speak_for_another_server(live):
    grpc = pytest.importorskip("grpc")
    from rota.deploy.security.client import connect, find_settings
    from rota.deploy.security.subjects import Role
    from rota.rpc import rota_pb2 as pb
    from rota.rpc import rota_pb2_grpc as stubs

    settings = find_settings(live.address, live.folder / ".rota/certs", role=Role.AGENT, name="v100-0", environ={})
    with connect(settings, sync=True) as channel, pytest.raises(grpc.RpcError) as refused:
        stubs.FleetStub(channel).Register(pb.RegisterRequest(node="k80-0", type="k80"))

    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_the_same_request_twice_is_one_submission(live):
    with live.client() as client:
        job = {"emulated": True, "profile": "A3C", "steps": 10}

        assert client.submit([job], "once") == client.submit([job], "once")
        with pytest.raises(ConfigError, match="nothing to run"):
            client.submit([{"profile": "A3C"}])


def test_the_scheduler_is_found_from_a_folder_below(live):
    below = live.folder / "a" / "b"
    below.mkdir(parents=True)

    assert live.address in live.run("status", cwd=below)


def test_a_process_that_dies_is_started_again(live):
    os.kill(live.processes["agent k80-0"], signal.SIGKILL)
    os.kill(live.processes["the scheduler"], signal.SIGKILL)

    def answers():
        try:
            return live.finished(gpus=2) >= 0
        except ConfigError:  # it is not there yet
            return False

    until(answers, 30)
    log = live.folder / ".rota/logs/k80-0.log"
    until(lambda: log.read_text().count("agent k80-0 offers") == 2)
