"""Questions to a real scheduler: answered by a process of its own, within a budget, and the journal knows nothing."""

import hashlib
import json
import os
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from live import Live, alive, until
from rota.core.errors import ConfigError
from rota.deploy.control import Client

WORDS = ("their-name", "rivals")


def digest(folder):
    """Of every row of the state file."""
    db = sqlite3.connect(f"file:{folder}/.rota/state.db?mode=ro", uri=True)
    whole = hashlib.sha256()
    for table in ("events", "snapshots", "finished_jobs", "meta"):
        for row in db.execute(f"SELECT * FROM {table} ORDER BY 1"):  # noqa: S608 - names from above
            whole.update(repr(row).encode())
    db.close()
    return whole.hexdigest()


def worker_of(live):
    """Numbers of the processes that answer questions."""
    scheduler = live.processes["the scheduler"]
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            parent = next(line for line in status.read_text().splitlines() if line.startswith("PPid"))
        except (OSError, StopIteration):
            continue
        if int(parent.split()[1]) == scheduler:
            found.append(int(status.parent.name))
    return found


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("questions")).up(
        "--server", "v100=2", "--emulate", "--policy", "fifo", "--time-scale", "60", "--round", "60"
    )
    certs = cluster.folder / ".rota" / "certs"
    for tenant in ("mine", "rivals"):
        cluster.run("tokens", "create", "--tenant", tenant, "--dir", str(certs), "--out", f"{tenant}.token")
    yield cluster
    cluster.down()


def client(live, tenant):
    return Client(live.address, certs=live.folder / ".rota" / "certs", token_file=live.folder / f"{tenant}.token")


def a_job(**fields):
    return {"emulated": True, "profile": "resnet18-32", "steps": 400_000, "gpus": 1, **fields}


def test_a_quiet_journal_is_the_same_to_the_byte_after_many_questions(live):
    with live.client() as admin:
        job = admin.submit([a_job(steps=100)])[0]
        admin.wait([job], 30)
        until(lambda: digest(live.folder) == (time.sleep(0.4), digest(live.folder))[1], what="a quiet journal")
        before = digest(live.folder)
        for _ in range(10):
            assert admin.eta()["jobs"] == []
            admin.ledger()
            admin.usage(points=3)
            admin.occupancy()
        with pytest.raises(ConfigError, match="is over"):
            admin.why(job)
        with pytest.raises(ConfigError, match="no job 99"):
            admin.why(99)
    assert digest(live.folder) == before


def test_a_tenant_learns_nothing_of_others_but_sums(live):
    with client(live, "rivals") as rivals, client(live, "mine") as mine, live.client() as admin:
        theirs = rivals.submit([a_job(gpus=2, name="their-name"), a_job(gpus=2, name="their-name")])
        own = mine.submit([a_job(), a_job(gpus=2)])
        until(lambda: admin.job(theirs[0]).phase == "running")
        why = mine.why(own[0])
        eta = mine.eta()
        what_if = mine.what_if(_request(add_server=("v100", 2)))
        ledger = mine.ledger()

        for answer in (why, eta, what_if, ledger):
            assert not any(word in json.dumps(answer) for word in WORDS)
        assert {job["job"] for job in eta["jobs"]} == set(own)
        assert [row["tenant"] for row in what_if["tenants"]] == ["mine", "others"]
        assert why["code"] == "outranked"
        for question in (lambda: mine.why(theirs[0]), lambda: mine.eta(theirs)):
            with pytest.raises(ConfigError, match=f"there is no job {theirs[0]}"):
                question()
        with pytest.raises(ConfigError, match="does not come with Rota"):
            mine.what_if(_request(policy="own.py:Policy"))
        with pytest.raises(ConfigError, match="no job"):
            mine.what_if(_request(cancel=theirs))
        with pytest.raises(ConfigError, match="business of others"):
            mine.what_if(_request(setting=("rivals", "quota", 1)))
        assert mine.what_if(_request(setting=("", "quota", 1)))["what"] == "give tenant 'mine' quota = 1"
        assert {job["job"] for job in admin.eta(futures=0)["jobs"]} >= {*own, theirs[1]}
        admin.cancel([*theirs, *own])


def _request(*, add_server=None, policy="", cancel=(), setting=None):
    from rota.rpc import rota_pb2 as pb

    servers = [pb.AddedServer(type=add_server[0], gpus=add_server[1])] if add_server else []
    limits = [pb.TenantSetting(tenant=setting[0], name=setting[1], number=setting[2])] if setting else []
    return pb.WhatIfRequest(add_servers=servers, policy=policy, cancel=cancel, tenant_settings=limits)


def test_an_estimate_is_scored_when_its_job_has_started(live):
    with client(live, "mine") as mine:
        before = mine.eta_accuracy()["forecasts"]
        first, second = mine.submit([a_job(gpus=2, steps=12_000), a_job(gpus=2, steps=2000)])
        until(lambda: mine.job(first).phase == "running")
        (said,) = mine.eta([second])["jobs"]
        assert said["start_in_s"] > 0
        assert said["end_in_s"] > said["start_in_s"]
        mine.wait([first, second], 60)
        scored = mine.eta_accuracy()
    assert scored["forecasts"] > before
    assert scored["start_error_s"] < 60.0


def test_estimates_are_answered_though_their_file_is_damaged(live):
    file = live.folder / ".rota" / "state.db.forecasts"
    with client(live, "mine") as mine:
        jobs = mine.submit([a_job(gpus=2), a_job(gpus=2)])
        until(lambda: mine.job(jobs[0]).phase == "running")
        kept = file.read_bytes() if file.exists() else b""
        file.write_bytes(b"no database" * 1000)
        (said,) = mine.eta([jobs[1]])["jobs"]
        with pytest.raises(ConfigError, match=r"state\.db\.forecasts cannot be used .* or the file is removed"):
            mine.eta_accuracy()
        file.write_bytes(kept)
        mine.eta_accuracy()
        mine.cancel(jobs)
    assert said["start_in_s"] > 0


def test_questions_of_a_tenant_wait_for_each_other_and_only_so_many_are_answered(live):
    with client(live, "rivals") as rivals, ThreadPoolExecutor(16) as many:
        two = [many.submit(rivals.ledger) for _ in range(2)]
        assert [answer.exception() for answer in two] == [None, None]
        answers = [many.submit(rivals.ledger) for _ in range(16)]
        refused = [str(answer.exception()) for answer in answers if answer.exception()]
        assert 0 < len(refused) < 16
        assert all("wait for one of them" in reason for reason in refused)
        with pytest.raises(ConfigError, match="questions a minute"):
            _ask_often(rivals, 70)


def _ask_often(somebody, times):
    for _ in range(times):
        somebody.ledger()


def test_the_process_that_answers_may_die(live):
    with client(live, "mine") as mine:
        assert mine.ledger()["capacity_gpu_h"] > 0
        (worker,) = worker_of(live)
        assert os.getpriority(os.PRIO_PROCESS, worker) >= 10
        os.kill(worker, signal.SIGKILL)
        until(lambda: not alive(worker), what="its end")
        answer = until(lambda: _asked_again(mine))
        assert answer["capacity_gpu_h"] > 0
        assert worker_of(live) != [worker]


def test_a_question_that_is_cancelled_leaves_nobody_behind_and_is_charged(live):
    """As by Ctrl-C: the child that thinks ends at once, others are answered, and the budget knows."""
    with client(live, "mine") as mine:
        mine.ledger()
        (worker,) = worker_of(live)
    with live.client() as admin:
        long = admin._stub.WhatIf.future(_endless(), timeout=60)
        until(lambda: children_of(worker), what="its child")
        long.cancel()
        until(lambda: not children_of(worker), 10, what="the end of its child")
    with client(live, "mine") as mine:
        assert mine.ledger()["capacity_gpu_h"] > 0
    assert worker_of(live) == [worker]


def children_of(process):
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def _endless():
    """About thousands of jobs with very many steps."""
    from rota.rpc import rota_pb2 as pb

    job = pb.JobSpec(gpus=1, steps=10**9, profile="ResNet-18 (batch size 32)", emulated=True, array="0-9999")
    return pb.WhatIfRequest(submit=[job])


def _asked_again(mine):
    try:
        return mine.ledger()
    except ConfigError:
        return None


def test_the_verbs_say_it_in_words_and_in_json(live):
    with live.client() as admin:
        jobs = admin.submit([a_job(gpus=2), a_job(gpus=2, name="second")])
        until(lambda: admin.job(jobs[0]).phase == "running")
    said = live.run("why", str(jobs[1]))
    assert "outranked: all 2 GPUs" in said
    assert "an operator could add a server" in said
    assert live.ask("why", str(jobs[1]))["code"] == "outranked"
    assert str(jobs[1]) in live.run("eta")
    assert "gains: " in live.run("what-if", "--add-server", "v100=2")
    assert "GPU-hours in" in live.run("ledger")
    assert "sum" not in live.run("what-if", "--drain", "nowhere", code=2)
    [node] = live.nodes()
    assert f"what if: drain {node}" in live.run("drain", node, "--preview")
    assert live.ask("drain", node, "--preview", "--undo")["change"] == {"undrain": node}
    assert live.nodes()[node].state == "up"
    assert "unknown node 'nowhere'" in live.run("drain", "nowhere", "--preview", code=2)
    again = ("--memory-gb", "8", "--cpus", "2", "--priority", "-1")
    assert "with 2 CPUs and 8 GB of memory and priority -1" in live.run("what-if", "--job", str(jobs[1]), *again)
    assert "what if: give tenant 'vision' quota.v100 = 2" in live.run(
        "what-if", "--tenant-setting", "vision.quota.v100=2"
    )
    assert "needs a change" in live.run("what-if", code=2)
    assert "NUMBER" in live.run("what-if", "--tenant-setting", "weight=2", code=2)
    assert "--priority are about a job" in live.run("what-if", "--priority", "1", code=2)
    assert "TYPE=GPUS" in live.run("what-if", "--add-server", "v100", code=2)
    live.run("cancel", *map(str, jobs))
