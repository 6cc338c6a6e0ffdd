"""The picture of a cluster: squares of GPUs, a sentence about its health, pages of the table, what a viewer is told."""

import json
from dataclasses import replace

import pytest

from rota.dashboard.differences import Viewer
from rota.dashboard.picture import (
    IDLE,
    OTHERS,
    Eta,
    JobRow,
    NodeRow,
    Picture,
    TableQuery,
    cells,
    etas_of,
    health,
    job_row,
    table,
)
from rota.rpc import rota_pb2 as pb

STATUS = {
    "policy": "las", "mechanism": "proportional", "round_s": 60.0, "now_s": 600.0, "rounds": 10, "tenant": "a",
    "admin": True, "failed_decisions": 0, "last_failed_decision_s": 0.0, "last_decision_s": 0.01, "late_solves": 0,
}  # fmt: skip


def a_job(number, **fields):
    usual = {
        "job": number, "name": f"job-{number}", "tenant": "a", "phase": "queued", "gpus": 1, "profile": "P",
        "done": None, "submitted_at": 1000.0 + number, "ended_at": 0.0, "code": "outranked", "reason": "outranked: x",
        "parts": (),
    }  # fmt: skip
    return JobRow(**{**usual, **fields})


def running(number, node, *devices, **fields):
    return a_job(number, phase="running", code="", reason="", parts=((node, devices),), done=0.5, **fields)


def a_node(name, **fields):
    usual = {"type": "v100", "gpus": 4, "busy": 0, "state": "up", "cpus": 16.0, "memory_gb": 100.0, "silent_s": 0.1}
    texts = {"remark": "", "emulated": True, "limits": "", "host": ""}
    return NodeRow(node=name, **{**usual, **texts, **fields})


def a_picture(*jobs, nodes=(), **fields):
    rows = {job.job: job for job in jobs}
    servers = {node.node: node for node in nodes}
    return Picture(version=1, away="", status=STATUS, jobs=rows, nodes=servers, **fields)


@pytest.mark.parametrize(
    ("held", "busy", "row"),
    [
        ({}, 0, [IDLE] * 4),
        ({"gpu2": [7]}, 1, [IDLE, IDLE, 7, IDLE]),
        ({"gpu2": [7]}, 3, [OTHERS, OTHERS, 7, IDLE]),
        ({"GPU-a": [1], "GPU-b": [2]}, 2, [1, 2, IDLE, IDLE]),
        ({"gpu9": [1]}, 1, [1, IDLE, IDLE, IDLE]),
        ({"gpu0": [1, 2]}, 1, [1, IDLE, IDLE, IDLE]),
        ({"a0": [1], "b0": [2]}, 9, [1, 2, OTHERS, OTHERS]),
    ],
)
def test_every_gpu_has_a_square(held, busy, row):
    assert cells(4, held, busy) == row


def test_the_sentence_says_what_is_wrong_first():
    fine = a_picture(running(1, "n0", "gpu0"), nodes=[a_node("n0", busy=1)])
    assert health(fine).level == "good"
    assert health(fine).sentence == "1 of 1 servers are up, 1 of 4 GPUs busy; 1 jobs run and none wait."

    lost = a_picture(a_job(2), nodes=[a_node("n0"), a_node("n1", state="lost"), a_node("n2", remark="disk full")])
    assert health(lost).level == "warn"
    assert health(lost).sentence.startswith("server n1 is lost; server n2 is in trouble; 2 of 3 servers are up")
    assert "1 wait, 1 of them outranked" in health(lost).sentence

    failed = replace(fine, status={**STATUS, "failed_decisions": 3, "last_failed_decision_s": 590.0})
    assert "the last decision failed" in health(failed).sentence
    long_ago = replace(fine, status={**STATUS, "failed_decisions": 3, "last_failed_decision_s": 0.0, "now_s": 9e5})
    assert health(long_ago).level == "good"
    away = health(replace(fine, away="nothing listens"))
    assert (away.level, away.sentence) == ("bad", "The scheduler does not answer: nothing listens")
    assert "no server has joined" in health(a_picture()).sentence


def test_a_table_is_searched_sorted_and_cut():
    jobs = [a_job(i, gpus=i % 3, tenant="ab"[i % 2], name="Große" if i == 5 else f"n{i}") for i in range(120)]
    picture = a_picture(*jobs, running(500, "node-7", "gpu0"), a_job(501, phase="failed", ended_at=2000.0))

    first, total = table(picture, TableQuery())
    assert ([row.job for row in first], total) == (list(range(50)), 120)
    assert [row.job for row in table(picture, TableQuery(page=2))[0]] == list(range(100, 120))
    assert table(picture, TableQuery(page=99)) == ([], 120)
    assert [row.job for row in table(picture, TableQuery(show="all", search="NODE-7"))[0]] == [500]
    assert [row.job for row in table(picture, TableQuery(search="GROSSE"))[0]] == [5]
    assert 17 in [row.job for row in table(picture, TableQuery(search="17"))[0]]
    assert table(picture, TableQuery(sort="gpus", down=True))[0][0].job == 119
    assert [row.job for row in table(picture, TableQuery(show="over"))[0]] == [501]


def test_jobs_of_which_nobody_knows_when_they_start_come_last():
    etas = {1: Eta(at=50.0, low=None, high=None), 2: Eta(at=None, low=None, high=None, unknown="?")}
    picture = a_picture(a_job(1), a_job(2), a_job(3), a_job(4), etas={**etas, 4: Eta(at=9.0, low=1.0, high=20.0)})

    assert [row.job for row in table(picture, TableQuery(sort="eta"))[0]] == [4, 1, 2, 3]


def test_estimates_are_moments_of_the_wall_clock():
    job = {"job": 3, "running": False, "start_in_s": 60.0, "start_band_s": {"p10": 30.0, "p90": None}, "unknown": ""}
    runs = {**job, "job": 4, "running": True}
    none = {**job, "job": 5, "start_in_s": None, "start_band_s": None, "unknown": "why"}

    found = etas_of({"time_scale": 10.0, "jobs": [job, runs, none]}, now=1000.0)

    assert found[3] == Eta(at=1006.0, low=1003.0, high=None)
    assert found[5] == Eta(at=None, low=None, high=None, unknown="why")
    assert 4 not in found


@pytest.mark.parametrize(
    ("phase", "step", "done"),
    [("queued", 0, None), ("queued", 50, 0.25), ("running", 0, 0.0), ("waiting", 50, 0.25), ("finished", 200, 1.0)],
)
def test_a_preempted_job_keeps_its_progress_in_the_table(phase, step, done):
    info = pb.JobInfo(job=3, phase=phase, step=step, spec=pb.JobSpec(gpus=1, steps=200))

    assert job_row(info).done == done


def test_a_viewer_is_told_everything_once_and_then_what_changed():
    nodes = [a_node(f"n{i}", busy=1) for i in range(100)]
    jobs = [running(i, f"n{i}", "gpu0") for i in range(100)]
    picture = a_picture(*jobs, nodes=nodes, decisions=((60.0, 0.1, 0.0),))
    viewer = Viewer(TableQuery(show="running"))
    first = viewer.news(picture)

    assert {message["kind"] for message in first} == {"status", "nodes", "rows", "decisions", "usage"}
    assert viewer.news(picture) == []
    moved = {**picture.jobs, 7: running(7, "n7", "gpu1")}
    later = viewer.news(replace(picture, jobs=moved, decisions=((60.0, 0.1, 0.0), (120.0, 0.2, 0.1))))
    assert [message["kind"] for message in later] == ["nodes", "decisions"]  # its row looks as before
    assert list(later[0]["set"]) == ["n7"]
    assert later[1]["add"] == [(120.0, 0.2, 0.1)]
    grown = {**moved, 8: replace(moved[8], done=0.75)}
    (rows,) = viewer.news(replace(picture, jobs=grown, decisions=((120.0, 0.2, 0.1),)))
    assert [row[0] for row in rows["set"]] == [8]
    assert "order" not in rows
    assert len(json.dumps(rows)) < 400


def test_a_viewer_hears_of_a_server_that_is_gone_and_of_a_scheduler_that_is_away():
    picture = a_picture(nodes=[a_node("n0"), a_node("n1")])
    viewer = Viewer(TableQuery())
    viewer.news(picture)

    (gone,) = [m for m in viewer.news(replace(picture, nodes={"n0": a_node("n0")})) if m["kind"] == "nodes"]
    assert gone == {"kind": "nodes", "set": {}, "gone": ["n1"]}
    messages = viewer.news(replace(picture, nodes={"n0": a_node("n0")}, away="it is gone", away_since=5.0))
    assert messages[0]["away"] == "it is gone"
