"""Arrays, jobs after others, holds, time limits and dry runs on a real cluster behind certificates, by the verbs."""

import itertools
import json
import os
import signal
import sys

import pytest

from live import Live, alive, until
from rota.core.errors import ConfigError
from rota.deploy.control import Client

TENANTS = ("mine", "theirs")
SHORT = {"emulated": True, "profile": "resnet18-32", "steps": 100}
LONG = {**SHORT, "steps": 10**8}
SAY = (
    "import os; print('index', os.environ['ROTA_ARRAY_INDEX'], 'of', os.environ['ROTA_ARRAY_SIZE'], 'in',"
    " os.environ['ROTA_ARRAY_JOB'], 'left', os.environ['ROTA_TIME_LEFT_S'])"
)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("queueing"))
    cluster.up("--server", "v100=4", "--emulate", "--policy", "fifo", "--time-scale", "120", "--round", "60",
               "--heartbeat", "0.5")  # fmt: skip
    for name in TENANTS:
        cluster.run("tokens", "create", "--tenant", name, "--dir", ".rota/certs", "--out", f"{name}.token")
    yield cluster
    cluster.down()


def client_of(live, tenant):
    return Client(live.address, certs=live.folder / ".rota" / "certs", token_file=live.folder / f"{tenant}.token")


def test_an_array_of_commands_finds_its_indices_and_a_job_after_it_runs_last(live):
    options = ("--json", "--array", "3-7:2%1", "--time-limit", "2h")
    said = json.loads(live.run("submit", *options, "--", sys.executable, "-c", SAY))
    first = said["arrays"][0]
    assert said["jobs"] == [first, first + 1, first + 2]
    last = live.run("submit", "--after", str(first), "--", sys.executable, "-c", "print('all done')").split()[0]

    with live.client() as client:
        infos = client.wait([*said["jobs"], int(last)], 40, every_s=0.1)

    assert [info.phase for info in infos] == ["finished"] * 4
    for index, number in zip((3, 5, 7), said["jobs"], strict=True):
        assert f"index {index} of 3 in {first} left 60.0" in live.run("logs", str(number))
    spans = sorted((info.started_at, info.ended_at) for info in infos)
    assert all(one[1] <= two[0] + 0.01 for one, two in itertools.pairwise(spans))


def test_a_held_job_saves_stops_and_goes_on_and_nothing_is_lost_by_a_kill_in_between(live):
    with live.client() as client:
        (job,) = client.submit([{**LONG, "checkpoint_every_s": 0.2}])
        (behind,) = client.submit([{**SHORT, "after_any": [job]}])
        until(lambda: client.job(job).saved_step > 0, what="a checkpoint")
        assert "is held" in live.run("hold", str(job))
        held = until(lambda: (info := client.job(job)).reason_code == "held" and info, what="the stop")
        assert held.saved_step > 0
        assert held.preemptions == 1

        scheduler = live.processes["the scheduler"]
        os.kill(scheduler, signal.SIGKILL)
        until(lambda: not alive(scheduler), what="the end of the scheduler")

    def reason(number):
        try:
            with live.client() as again:
                return again.job(number).reason_code
        except ConfigError:
            return ""

    assert until(lambda: reason(job), 30) == "held"
    assert reason(behind) == "dependency"
    with live.client() as client:
        live.run("release", str(job))
        until(lambda: client.job(job).phase == "running", what="the release")
        assert client.job(job).saved_step >= held.saved_step
        client.cancel([job])
        assert client.wait([behind], 30, every_s=0.1)[0].phase == "finished"


def test_a_job_whose_time_is_up_has_saved_and_those_after_it_are_cancelled(live):
    with live.client() as client:
        (job,) = client.submit([{**LONG, "time_limit_s": 240.0, "checkpoint_every_s": 100.0}])
        after = client.submit([{**SHORT, "after": [job]}, {**SHORT, "after": [-1]}])
        infos = client.wait([job, *after], 40, every_s=0.1)

        assert [info.phase for info in infos] == ["failed", "cancelled", "cancelled"]
        assert infos[0].reason_code == "time-limit"
        assert infos[0].saved_step > 0  # its only checkpoint is the one that it made when it was stopped
        assert 240.0 <= infos[0].ran_s < 240.0 + 360.0
        assert infos[1].reason == f"cancelled: it comes after job {job}, which failed (--after)"
        events = [event["event"] for _, event in client.events(job=job)]
        assert "TimeLimitNear" in events


def test_a_dry_run_says_where_and_when_and_submits_nothing(live):
    before = live.ask("status")
    shown = live.run("submit", "--dry-run", "--emulated", "--profile", "resnet18-32", "--steps", "5000", "--gpus", "2")
    answer = json.loads(
        live.run("submit", "--dry-run", "--json", "--array", "0-3", "--emulated", "--profile", "resnet18-32", "--steps",
                 "5000")
    )  # fmt: skip

    assert "2 GPUs of v100-0" in shown
    assert "nothing was submitted" in shown
    assert len(answer["submitted"]) == 4
    refused = live.run(
        "submit", "--dry-run", "--after", "9999", "--emulated", "--profile", "resnet18-32", "--steps", "5", code=2
    )
    assert "there is no job 9999" in refused
    now = live.ask("status")
    assert {name: now[name] for name in ("queued", "running")} == {name: before[name] for name in ("queued", "running")}


def test_another_tenant_learns_nothing_of_jobs_by_naming_them(live):
    with client_of(live, "theirs") as theirs, client_of(live, "mine") as mine:
        foreign = theirs.submit([{**LONG, "array": "0-1", "hold": True}])
        missing = foreign[-1] + 1000

        def words(work):
            with pytest.raises(ConfigError) as refusal:
                work()
            return str(refusal.value)

        for number in (foreign[0], missing):
            calls = (
                lambda n=number: mine.submit([{**SHORT, "after": [n]}]),
                lambda n=number: mine.submit([{**SHORT, "after_any": [n]}]),
                lambda n=number: mine.dry_run([{**SHORT, "after": [n]}]),
                lambda n=number: mine.hold([n]),
                lambda n=number: mine.release([], [n]),
                lambda n=number: mine.cancel_arrays([n]),
            )
            assert {words(call) for call in calls} == {f"there is no job {number}"}
        assert {theirs.job(number).reason_code for number in foreign} == {"held"}
        theirs.cancel_arrays(foreign[:1])


def test_bad_input_is_one_message(live):
    emulated = ("--emulated", "--profile", "resnet18-32", "--steps", "5")
    for options, words in {
        ("--array", "9-1"): "array is '9-1'; give indices",
        ("--array", "0-99999"): "an array has at most 10,000",
        ("--time-limit", "nan"): "'nan' is not a duration",
        ("--after", "-1"): "-1 is not in the range",
    }.items():
        said = live.run("submit", *options, *emulated, code=2)
        assert words in said
        assert "Traceback" not in said
    live.run("hold", code=2)


TRACE = """job_id,arrival_s,profile,gpus,steps,after,after_any,array,array_limit,time_limit_s
prepare,0,ResNet-18 (batch size 32),1,20000,,,,,
train-0,30,ResNet-18 (batch size 32),1,30000,prepare,,sweep,2,
train-1,30,ResNet-18 (batch size 32),1,30000,prepare,,sweep,2,
train-2,30,ResNet-18 (batch size 32),1,30000,prepare,,sweep,2,
train-3,30,ResNet-18 (batch size 32),1,30000,prepare,,sweep,2,
evaluate,40,ResNet-18 (batch size 32),2,20000,sweep,,,,99999
clean,50,ResNet-18 (batch size 32),1,15000,,evaluate,,,
free,50,ResNet-18 (batch size 32),1,90000,,,,,
"""


def test_a_trace_with_jobs_after_others_takes_as_long_emulated_as_simulated(tmp_path):
    (tmp_path / "t.csv").write_text(TRACE, encoding="utf-8")
    options = ("--cluster", "v100=4", "--policy", "fifo", "--round", "60", "--time-scale", "480", "--json")

    answer = json.loads(Live(tmp_path).run("fidelity", "t.csv", *options))

    assert answer["ratio_percentiles"]["p5"] > 0.95, answer  # nobody starts earlier than simulated
    assert answer["ratio_percentiles"]["p95"] < 1.3, answer  # and later by no more than a busy machine explains
