"""A tenant with bad intentions, against real servers: nobody else notices."""

import json
import subprocess
import sys
import time

import grpc
import pytest

from faults import Site, until
from rota.core.errors import ConfigError
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

IMPOSTOR = """
import json, os, socket, sys, time
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["ROTA_SOCKET"])
me = {"job": sys.argv[1], "epoch": 1, "rank": 0, "pid": 1, "saves": True}
for key in ({}, {"key": "0" * 64}, {"key": os.environ["ROTA_TASK_KEY"]}, {"key": "\\ud800"}, {"key": 7}):
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ["ROTA_SOCKET"])
    for message in (
        {"op": "hello", **me, **key, "step": 10**12},
        {"op": "progress", "step": 10**12},
        {"op": "saved", "step": 10**12, "path": "step-1"},
        {"op": "done", "step": 10**12},
    ):
        try:
            line.sendall(json.dumps(message).encode() + b"\\n")
        except OSError:
            break
    time.sleep(0.2)
print("said it", flush=True)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with Site(tmp_path_factory.mktemp("attacked")) as one:
        one.agent("n0", "emulate:v100=3")
        yield one


@pytest.fixture(scope="module")
def control(site):
    with grpc.insecure_channel(site.address) as channel:
        yield stubs.ControlStub(channel)


def refused(call, message):
    """What the scheduler says to a request that it does not take."""
    with pytest.raises(grpc.RpcError) as error:
        call(message)
    return error.value.code().name, error.value.details()


def test_a_job_cannot_speak_for_another_one(site):
    victim = site.submit(steps=10**6)
    until(lambda: len(site.steps(victim)) > 5, 30, "steps of the victim")
    attacker = site.submit(argv=[sys.executable, "-c", IMPOSTOR, str(victim)], env={})
    assert site.done(attacker)[0].phase == "finished"
    assert b"said it" in b"".join(site.client.logs(attacker))
    before = site.job(victim).saved_step

    until(lambda: site.job(victim).saved_step > before, 30, "an honest save")
    job = site.job(victim)
    assert (job.phase, job.epoch, job.restarts) == ("running", 1, 0)
    assert job.step < 10**6
    assert job.saved_step <= len(site.steps(victim))
    site.client.cancel([victim])
    site.done(victim)


def test_texts_without_end_are_refused_and_nobody_else_waits(site, control):
    long = pb.JobSpec(name="n" * 9_000_000, argv=["true"], gpus=1)
    profile = pb.JobSpec(profile="p" * 15_000_000, argv=["true"], gpus=1)

    began = time.monotonic()
    answers = [refused(control.Submit, pb.SubmitRequest(jobs=[job])) for job in (long, profile)]

    assert time.monotonic() - began < 5.0
    assert [code for code, _ in answers] == ["INVALID_ARGUMENT"] * 2
    assert "jobs[0].name is longer than 256 bytes" in answers[0][1]
    assert site.done(site.submit(argv=["true"], env={}))[0].phase == "finished"


def test_a_million_jobs_in_one_request_are_refused(site, control):
    before = len(site.client.jobs())
    code, why = refused(control.Submit, pb.SubmitRequest(jobs=[pb.JobSpec(emulated=True, steps=1, gpus=1)] * 1_000_000))

    assert (code, "1,000,000 entries; at most 10,000" in why) == ("INVALID_ARGUMENT", True)
    assert len(site.client.jobs()) == before


def test_numbers_that_are_none_and_ids_over_and_over_are_harmless(site, control):
    job = site.submit(emulated=True, steps=10**7)
    began = time.monotonic()
    for weight in (float("nan"), float("inf"), -1.0):
        code, _ = refused(control.Submit, pb.SubmitRequest(jobs=[pb.JobSpec(argv=["true"], gpus=1, weight=weight)]))
        assert code == "INVALID_ARGUMENT"
    assert refused(control.Cancel, pb.CancelRequest(jobs=[job] * 120_000))[0] == "INVALID_ARGUMENT"
    reply = control.Cancel(pb.CancelRequest(jobs=[job] * 10_000))

    assert time.monotonic() - began < 5.0
    assert set(reply.cancelled) == {job}
    assert len(site.events("CancelAsked", job=job)) == 1


def test_a_name_that_a_terminal_would_obey_is_refused_and_told_harmlessly(site):
    with pytest.raises(ConfigError, match="control characters"):
        site.submit(argv=["true"], env={}, name="\x1b]0;owned\x07")
    words = [sys.executable, "-m", "rota.cli", "submit", "--scheduler", site.address, "--insecure"]
    done = subprocess.run([*words, "--name", "\x1b[31mred", "--", "true"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "control characters" in done.stderr


def test_answers_about_a_log_that_cannot_be_are_refused(site, control):
    job = site.submit(argv=["echo", "hello"], env={})
    site.done(job)
    began = time.monotonic()
    for request in (
        pb.LogsRequest(job=job, tail=-(2**63), follow=True),
        pb.LogsRequest(job=job, rank=-1),
        pb.LogsRequest(job=-1),
        pb.LogsRequest(job=2**62),
        pb.LogsRequest(job=job, attempt=-5),
    ):
        with pytest.raises(grpc.RpcError) as error:
            list(control.Logs(request, timeout=10))
        assert error.value.code().name in ("INVALID_ARGUMENT", "NOT_FOUND"), request
    assert time.monotonic() - began < 5.0
    assert json.loads(json.dumps(site.busy())) == {"n0": 0}


def test_programs_with_names_without_end_fail_and_hold_up_no_start(site):
    """Their complaint once filled a pipe that nobody read, and six of them kept an agent from starting anything."""
    long = [site.submit(argv=["x" * 70_000], env={}, max_restarts=0) for _ in range(7)]
    jobs = site.done(*long)
    after = site.done(site.submit(argv=["true"], env={}))

    assert {job.phase for job in jobs} == {"failed"}
    assert all(len(job.reason) < 1000 and "File name too long" in job.reason for job in jobs)
    assert after[0].phase == "finished"


@pytest.mark.parametrize("fields", [{"weight": 1e-309}, {"weight": 1e300}, {"tenant": "../../x"}, {"tenant": "a b"}])
def test_weights_and_tenants_that_cannot_be_are_refused_by_name(site, fields):
    with pytest.raises(ConfigError, match=r"weight is|cannot be the name of a tenant"):
        site.submit(argv=["true"], env={}, **fields)


def test_bytes_that_are_no_text_are_refused_in_one_message(site):
    for fields in ({"argv": ["echo", "\udcff"]}, {"name": "\udcff"}, {"env": {"X": "\udcff"}}, {"cwd": "/\udcff"}):
        with pytest.raises(ConfigError, match=r"job"):
            site.submit(**{"argv": ["true"], "env": {}, **fields})


def test_options_behind_the_command_are_the_commands_own(site):
    words = [sys.executable, "-m", "rota.cli", "submit", "--scheduler", site.address, "--insecure", "--name", "mine"]
    done = subprocess.run([*words, "echo", "--name", "yours", "-c"], capture_output=True, text=True, check=True)
    (job,) = site.done(int(done.stdout))

    assert (list(job.spec.argv), job.spec.name) == (["echo", "--name", "yours", "-c"], "mine")
