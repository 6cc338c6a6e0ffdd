"""Texts of a tenant or an agent on somebody else's terminal are shown, not obeyed: a real scheduler, a real pty."""

import contextlib
import os
import pty
import re
import subprocess
import sys

import grpc
import pytest

from faults import Site, until
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

TITLE = "\x1b]0;owned\x07"
CLEAR = "\x1b[2J"
COLOUR = re.compile("\x1b\\[[0-9;]*m")
OUTPUT = "printf '\\033]0;owned\\007\\033[2J\\033[31mred\\033[0m\\tplain\\n'; exit 3"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with Site(tmp_path_factory.mktemp("terminal")) as one:
        one.agent("n0", "emulate:v100=1")
        yield one


@pytest.fixture(scope="module")
def job(site):
    number = site.submit(argv=["sh", "-c", OUTPUT, f"{TITLE}{CLEAR}"], env={}, max_restarts=0)
    assert site.done(number)[0].phase == "failed"
    return number


def on_a_terminal(site, verb, *words):
    """What a verb writes to a terminal, both streams."""
    ours, theirs = pty.openpty()
    scheduler = ("--scheduler", site.address, "--insecure")
    command = [sys.executable, "-m", "rota.cli", verb, *scheduler, *map(str, words)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        pieces = []
        with contextlib.suppress(OSError):  # how the end of a terminal is told
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        process.wait(30)
    os.close(ours)
    return b"".join(pieces).decode()


def obeyed(text):
    """What a terminal would obey, but for colours and ends of lines."""
    rest = COLOUR.sub("", text).replace("\r\n", "\n")
    return [character for character in rest if not character.isprintable() and character not in "\n\t"]


@pytest.mark.parametrize(
    "words", [("jobs", "--all"), ("jobs", 0), ("events",), ("status",), ("nodes",), ("logs", 0), ("logs", 0, "-f")]
)
def test_no_verb_passes_on_what_drives_a_terminal(site, job, words):
    assert job == 0

    text = on_a_terminal(site, *words)

    assert obeyed(text) == []
    assert text.strip()


def test_escapes_are_shown_and_colours_of_output_stay(site, job):
    logs = on_a_terminal(site, "logs", job)
    raw = on_a_terminal(site, "logs", job, "--raw")

    assert "^[]0;owned^G^[[2J\x1b[31mred\x1b[0m\tplain" in logs
    assert logs.endswith("\x1b[0m"), "no colour is left behind"
    assert f"{TITLE}{CLEAR}\x1b[31mred" in raw
    assert "^[]0;owned^G" in on_a_terminal(site, "jobs", job)


def test_words_of_an_agent_and_errors_are_shown_too(site):
    who = (("rota-role", "agent"), ("rota-name", "evil"))
    with grpc.insecure_channel(site.address) as channel:
        fleet = stubs.FleetStub(channel)
        device = pb.Device(id="gpu0", memory_mib=1.0)
        offer = pb.RegisterRequest(node="evil", type="v100", devices=[device], cpus=1, memory_gb=1, host="localhost")
        session = fleet.Register(offer, metadata=who).session
        report = pb.Observed(node="evil", session=session, sequence=1, trouble=f"no room {TITLE}")
        assert fleet.Report(report, metadata=who).known

        until(lambda: "no room" in site.client.nodes()[0].remark, 10, "the trouble")
        nodes = on_a_terminal(site, "nodes")
        events = on_a_terminal(site, "events")
    refusal = on_a_terminal(site, "submit", "--name", TITLE, "--", "true")

    assert [obeyed(text) for text in (nodes, events, refusal)] == [[], [], []]
    assert "no room ^[]0;owned^G" in nodes
    assert "no room ^[]0;owned^G" in events
    assert "control characters" in refusal
