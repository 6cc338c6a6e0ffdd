"""What a trace says about its jobs reaches the scheduler: tenants, weights, deadlines, CPUs and memory."""

import json

import pytest

from live import FAST, Live

TRACE = """\
arrival_s,profile,gpus,steps,duration_s,weight,slo,tenant,cpus,memory_gb,min_gpus,max_gpus
0,A3C,1,100,100,2,50,vision,3,10,,
0,ResNet-18 (batch size 32),2,100,100,1,,speech,,,1,4
60,A3C,1,100,100,1,,vision,0.5,,,
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("up"))
    (cluster.folder / "tenants.toml").write_text("[tenants.vision]\nmax_job_weight = 2\n", encoding="utf-8")
    cluster.up("--server", "v100=2", *FAST, "--tenants", "tenants.toml")
    (cluster.folder / "t.csv").write_text(TRACE)
    cluster.run("tokens", "create", "--tenant", "vision", "--dir", ".rota/certs", "--out", "vision.token")
    yield cluster
    cluster.down()


def accepted(live):
    """Jobs as the journal has them."""
    lines = [json.loads(line) for line in live.run("events", "--json").splitlines()]
    return {line["job"]: line["spec"] for line in lines if line["event"] == "JobAccepted"}


def test_an_administrator_submits_every_job_as_the_trace_says_it(live):
    told = live.ask("submit-trace", "t.csv", "--wait", "--jobs-csv", "jobs.csv")

    specs = [accepted(live)[number] for number in told["jobs"]]
    assert [spec["tenant"] for spec in specs] == ["vision", "speech", "vision"]
    assert [spec["weight"] for spec in specs] == [2, 1, 1]
    assert [spec.get("deadline_s") for spec in specs] == [5000, None, None]
    assert [(spec.get("cpus"), spec.get("memory_gb")) for spec in specs] == [(3, 10), (None, None), (0.5, None)]
    assert told["jobs_finished"] == 3
    shown = " ".join(live.run("jobs", str(told["jobs"][0])).split())
    assert "asks for │ 3 CPUs, 10 GB" in shown or "asks for 3 CPUs, 10 GB" in shown
    header, *rows = [line.split(",") for line in (live.folder / "jobs.csv").read_text().splitlines()]
    assert [row[header.index("tenant")] for row in rows] == ["vision", "speech", "vision"]


def test_jobs_of_other_tenants_are_refused_before_the_first_is_submitted(live):
    before = accepted(live)

    said = live.run("submit-trace", "t.csv", "--token-file", "vision.token", code=2)

    assert "tenants that this token does not speak for: 'speech'" in said
    assert "submits for 'vision' only" in said
    assert "--tenant vision" in said
    assert accepted(live) == before
    assert "does not speak for: 'speech'" in live.run(
        "submit-trace", "t.csv", "--token-file", "vision.token", "--tenant", "speech", code=2
    )


def test_a_tenant_submits_the_jobs_of_others_as_its_own(live):
    told = live.ask("submit-trace", "t.csv", "--token-file", "vision.token", "--tenant", "vision")

    assert {accepted(live)[number]["tenant"] for number in told["jobs"]} == {"vision"}
    assert live.ask("status", "--token-file", "vision.token")["tenant"] == "vision"
    assert live.ask("status", "--token-file", "vision.token")["admin"] is False
    assert live.ask("status")["admin"] is True


def test_a_trace_without_tenants_is_for_the_tenant_of_the_token(live):
    (live.folder / "plain.csv").write_text("arrival_s,profile,gpus,steps\n0,A3C,1,100\n")

    told = live.ask("submit-trace", "plain.csv", "--token-file", "vision.token")

    assert [accepted(live)[number]["tenant"] for number in told["jobs"]] == ["vision"]
