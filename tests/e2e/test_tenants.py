"""Tenants on a real scheduler with emulated agents: equal parts whatever they submit, and weights as far as allowed."""

import pytest

from live import Live, until

ROUNDS = ("--emulate", "--time-scale", "120", "--round", "120", "--heartbeat", "0.5")
"""A round every second, and the policy of a deployment that is told nothing else."""
LONG = {"emulated": True, "profile": "resnet18-32", "steps": 10**9}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("tenants"))
    text = "[tenants.vision]\nweight = 3\nmax_job_weight = 4\n"
    (cluster.folder / "tenants.toml").write_text(text, encoding="utf-8")
    cluster.up("--server", "v100=4", *ROUNDS, "--tenants", "tenants.toml")
    for tenant in ("vision", "speech"):
        cluster.run("tokens", "create", "--tenant", tenant, "--dir", ".rota/certs", "--out", f"{tenant}.token")
    yield cluster
    cluster.down()


def gpu_seconds(client, jobs, after):
    """Time that attempts of some jobs held GPUs, times GPUs, in engine seconds after a moment."""
    now = client.status().now_s
    held = {}
    total = 0.0
    for _, event in client.events():
        key = (event.get("job"), event.get("epoch"))
        if event["event"] == "AttemptStarted" and event["job"] in jobs:
            held[key] = (event["at"], sum(len(part["devices"]) for part in event["parts"]))
        elif event["event"] == "AttemptEnded" and key in held:
            began, gpus = held.pop(key)
            total += max(0.0, event["at"] - max(began, after)) * gpus
    return total + sum((now - max(began, after)) * gpus for began, gpus in held.values())


def parts_of(live, first, second, rounds):
    """The part of all GPU time that the first jobs had against the second, over some rounds."""
    with live.client() as client:
        ones = client.submit([{**LONG, **job} for job in first])
        others = client.submit([{**LONG, **job} for job in second])
        until(lambda: any(client.job(number).phase == "running" for number in others), 30.0, "all begin")
        until(lambda: any(client.job(number).phase == "running" for number in ones), 30.0, "all begin")
        began = client.status().now_s
        until(lambda: client.status().now_s >= began + rounds * 120.0, 30.0 + 3 * rounds, f"{rounds} rounds")
        mine = gpu_seconds(client, ones, began)
        theirs = gpu_seconds(client, others, began)
        client.cancel([*ones, *others])
        until(lambda: client.status().running == 0, 30.0, "all end")
    return mine / (mine + theirs)


def test_a_tenant_with_one_job_has_as_much_as_one_with_twenty(live):
    part = parts_of(live, [{"tenant": "one", "gpus": 2}], [{"tenant": "many"}] * 20, 12)

    assert part == pytest.approx(0.5, rel=0.1)


def test_a_tenant_has_its_weight(live):
    part = parts_of(live, [{"tenant": "vision"}] * 3, [{"tenant": "speech"}] * 10, 12)

    assert part == pytest.approx(0.75, rel=0.1)


def test_a_tenant_gives_its_jobs_no_more_weight_than_it_may(live):
    submit = ("submit", "--emulated", "--profile", "a3c", "--steps", "10", "--name", "greedy")

    said = live.run(*submit, "--weight", "1000000", "--token-file", "speech.token", code=2)
    above = live.run(*submit, "--weight", "4.5", "--token-file", "vision.token", code=2)
    allowed = live.run(*submit, "--weight", "4", "--token-file", "vision.token")
    by_admin = live.run(*submit, "--weight", "50", "--tenant", "speech")

    assert "job 'greedy': weight 1e+06 is above 1, the most for jobs of tenant 'speech'" in said
    assert "ask whoever runs the scheduler for a larger max_job_weight" in said
    assert "weight 4.5 is above 4" in above
    assert live.job(int(allowed)).spec.weight == 4
    assert live.job(int(by_admin)).spec.weight == 50
    live.run("cancel", allowed.strip(), by_admin.strip())


def test_a_file_of_tenants_that_cannot_be_read_is_one_message(live):
    (live.folder / "bad.toml").write_text("[tenants.a]\nwieght = 2\n", encoding="utf-8")

    said = live.run("serve", "--state", "x.db", "--insecure", "--tenants", "bad.toml", code=2)

    assert "there is no 'wieght'; did you mean 'weight'?" in said
    assert "Traceback" not in said
