import pytest

from rota.clusters import load
from rota.core.cluster import cluster_fields
from rota.core.errors import ConfigError
from rota.deploy.exports import on_one_cluster


def planned(at, types, servers, **more):
    n = len(types)
    return {
        "event": "Planned", "at": at, "round": int(at), "first": list(range(n)), "second": [-1] * n, "type": types,
        "gpus": [1] * n, "slot_start": list(range(n + 1)), "slot_server": servers, "slot_gpus": [1] * n,
        "kept": [0] * n, **more,
    }  # fmt: skip


def a_log():
    return [
        {"event": "RunStarted", "at": 0.0, "config": {"cluster": cluster_fields(load("v100=2/2"))}},
        planned(0.0, [0], [0]),
        {"event": "ClusterChanged", "at": 60.0, "cluster": cluster_fields(load("k80=2/2,v100=4/2"))},
        planned(60.0, [1], [2]),
        {"event": "Planned", "at": 120.0, "round": 2, "same": True},
    ]


def test_servers_and_types_keep_their_numbers_when_others_come():
    started, capacity, first, changed, second, third, ended = on_one_cluster(a_log())

    assert [server[0] for server in started["config"]["cluster"]["servers"]] == ["v100-0", "k80-0", "v100-1"]
    assert (capacity["capacity"], changed["capacity"]) == ([0, 2], [2, 4])
    assert (first["type"], first["slot_server"]) == ([1], [1])
    assert (second["type"], second["slot_server"]) == ([1], [2])
    assert (third["slot_server"], third["kept"], third["round"], third["at"]) == ([2], [1], 2, 120.0)
    assert (ended["event"], ended["at"]) == ("RunEnded", 120.0)


def ran(start, *seconds):
    return {
        "event": "RoundsRan", "at": start + 60, "start": start, "rounds": 1, "steps": [0.0] * len(seconds),
        "seconds": list(seconds),
    }  # fmt: skip


def test_a_round_without_the_jobs_that_left_is_told_as_a_plan():
    log = [
        {"event": "RunStarted", "at": 0.0, "config": {"cluster": cluster_fields(load("v100=4/2"))}},
        {"event": "JobsDropped", "at": 0.0, "jobs": [9], "reason": "before any plan"},
        planned(0.0, [0, 0, 0], [0, 0, 1], second=[7, -1, -1]),
        ran(0.0, 60.0, 60.0, 60.0),
        {"event": "JobsFinished", "at": 60.0, "jobs": [0, 1], "finished_at": [30.0, 50.0]},
        ran(60.0, 60.0, 60.0),
        ran(120.0, 60.0, 60.0),
        {"event": "JobsParked", "at": 180.0, "jobs": [5], "reason": "is in no plan"},
        ran(180.0, 60.0, 60.0),
        {"event": "ClusterChanged", "at": 240.0, "cluster": cluster_fields(load("v100=2/2"))},
        ran(240.0, 60.0),
    ]

    plans = [event for event in on_one_cluster(log) if event["event"] == "Planned"]
    kinds = [event["event"] for event in on_one_cluster(log)]

    assert [(plan["first"], plan["second"]) for plan in plans] == [
        ([0, 1, 2], [7, -1, -1]), ([7, 2], [-1, -1]), ([7], [-1]),
    ]  # fmt: skip
    assert [(plan["round"], plan["at"], plan["slot_server"]) for plan in plans[1:]] == [
        (1, 60.0, [0, 1]),
        (4, 240.0, [0]),
    ]
    assert plans[1]["kept"] == [1, 1]
    assert all(kinds[i + 1] == "RoundsRan" for i, kind in enumerate(kinds) if kind == "Planned")


def test_a_log_without_a_run_says_why():
    with pytest.raises(ConfigError, match="no server has come yet, or the token"):
        list(on_one_cluster([]))
