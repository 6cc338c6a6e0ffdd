import pytest

from rota.core.errors import ConfigError
from rota.deploy.local.cluster import _lines
from rota.deploy.local.settings import (
    UpSettings,
    merged,
    merged_options,
    servers_of,
    taken_from_before,
    together,
    without_options,
)


def sizes(*texts):
    return [(s.id, s.capacity.gpus, s.capacity.cpus) for s in servers_of(texts)]


def test_a_type_is_one_server_unless_it_says_how_many_gpus_each_has():
    assert sizes("v100=1") == [("v100-0", 1, 0.0)]
    assert sizes("v100=6:cpus=24:memory=500") == [("v100-0", 6, 24.0)]
    assert sizes("k80=10/4:cpus=8") == [("k80-0", 4, 8.0), ("k80-1", 4, 8.0), ("k80-2", 2, 8.0)]


def test_servers_of_one_type_are_numbered_through():
    assert [name for name, *_ in sizes("v100=4", "k80=2", "v100=8")] == ["v100-0", "k80-0", "v100-1"]


@pytest.mark.parametrize("text", ["v100", "v100=x", "v100=4,k80=4", "=4", "v100=0", "v 100=4", "v100=4:gpus=3"])
def test_what_is_no_server_is_refused(text):
    with pytest.raises(ConfigError):
        servers_of([text])


def test_what_is_not_said_is_as_the_last_time():
    before = UpSettings(servers=("v100=4",), emulate=True, time_scale=60.0, serve=("--policy", "las"), realtime=True)

    assert merged({}, before) == before
    again = merged({"servers": ("k80=4",), "serve": ["--policy", "fifo"]}, before)
    assert (again.servers, again.emulate, again.time_scale, again.serve) == (
        ("k80=4",),
        False,
        60.0,
        ("--policy", "fifo"),
    )
    assert not again.realtime


def test_options_that_are_not_given_again_stay_as_they_were():
    before = ("--policy", "las", "--set-policy", "a=1", "--round", "60.0", "--set-rules", "stay_rounds=2")

    assert merged_options(before, ("--metrics", "127.0.0.1:0")) == (*before, "--metrics", "127.0.0.1:0")
    assert merged_options(before, ("--round", "30.0"))[-2:] == ("--round", "30.0")
    assert merged_options(before, ("--set-policy", "b=2")) == (*before, "--set-policy", "b=2")
    assert "a=1" not in merged_options(before, ("--policy", "srtf"))
    assert merged_options((*before, "--metrics-public"), ())[-1] == "--metrics-public"


def test_what_is_taken_from_before_is_told_and_can_be_left():
    before = UpSettings(servers=("v100=4",), time_scale=60.0, serve=("--policy", "las", "--round", "60.0"))
    given = {"servers": ("v100=4",), "serve": ["--round", "30.0"]}

    assert taken_from_before(given, merged(given, before)) == ("--policy", "las")
    anew = merged(given, without_options(before))
    assert (anew.serve, anew.time_scale) == (("--round", "30.0"), 60.0)


def test_each_server_gets_a_line_of_the_connection_file(tmp_path):
    path = tmp_path / "connections.csv"
    path.write_text("127.0.0.1,9001,0,0,0\n127.0.0.1,9002,4,12,0\n")
    lines = _lines(str(path), 2)

    assert [line[-1] for line in lines] == ["127.0.0.1:9001", "127.0.0.1:9002"]
    assert _lines("", 2) == [[], []]
    with pytest.raises(ConfigError, match="has 2 lines for 3 servers"):
        _lines(str(path), 3)


def test_only_neighbours_that_are_alike_share_a_process():
    groups = together(servers_of(["v100=10/4", "k80=4/2", "v100=4"]), 2)

    assert [[server.id for server in group] for group in groups] == [
        ["v100-0", "v100-1"],
        ["v100-2"],
        ["k80-0", "k80-1"],
        ["v100-3"],
    ]
    assert all(len(group) == 1 for group in together(servers_of(["v100=8/1"]), 1))
