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


def test_a_log_without_a_run_says_why():
    with pytest.raises(ConfigError, match="no server has come yet, or the token"):
        list(on_one_cluster([]))
