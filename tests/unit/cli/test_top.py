"""The screen of `rota top`: lines within the window, keys, texts of tenants that do not command a terminal."""

from dataclasses import replace

import pytest

from rota.cli.main import main
from rota.cli.top import keys_of
from rota.cli.top_screen import View, frame, rows_that_fit
from rota.dashboard.picture import Eta, JobRow, NodeRow, Picture

STATUS = {
    "policy": "las", "mechanism": "proportional", "round_s": 60.0, "now_s": 600.0, "rounds": 10, "tenant": "a",
    "admin": True, "failed_decisions": 0, "last_failed_decision_s": 0.0, "last_decision_s": 0.01, "late_solves": 0,
}  # fmt: skip


def a_cluster(jobs, servers=3, name="train"):
    texts = {"remark": "", "emulated": True, "limits": "", "host": ""}
    nodes = {
        f"n{i}": NodeRow(
            node=f"n{i}", type="v100", gpus=4, busy=1, state="up", cpus=8.0, memory_gb=64.0, silent_s=0.0, **texts
        )
        for i in range(servers)
    }
    rows = {
        number: JobRow(
            job=number, name=name, tenant="t", phase="running" if number < servers else "queued", gpus=1, profile="P",
            done=0.5 if number < servers else None, submitted_at=0.0, ended_at=0.0,
            code="" if number < servers else "outranked", reason="",
            parts=((f"n{number}", ("0",)),) * (number < servers),
        )
        for number in range(jobs)
    }  # fmt: skip
    return Picture(version=1, away="", status=STATUS, nodes=nodes, jobs=rows)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [8, 24, 60])
@pytest.mark.parametrize("servers", [0, 3, 300])
def test_a_frame_is_never_larger_than_the_window(width, height, servers):
    lines = frame(a_cluster(500, servers), View(show="all"), width=width, height=height, now=100.0)

    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= max(width, 40)
    assert lines[-1].plain.startswith("q quit")


def test_a_frame_shows_gpus_jobs_reasons_and_expected_starts():
    picture = replace(a_cluster(5), etas={4: Eta(at=160.0, low=150.0, high=None), 3: Eta(at=None, low=None, high=None)})
    running = "\n".join(line.plain for line in frame(picture, View(), width=120, height=None, now=100.0))
    waiting = "\n".join(line.plain for line in frame(picture, View(show="waiting"), width=120, height=None, now=100.0))

    assert "n0 #..." in running
    assert "running jobs, by job: 1 to 3 of 3" in running
    assert "50 %" in running
    assert "1m00s (..later)" in waiting
    assert waiting.count("outranked") == 3  # in the sentence, and of two jobs
    assert "3 of 3 servers are up, 3 of 12 GPUs busy" in waiting


def test_texts_of_tenants_do_not_command_the_terminal():
    picture = a_cluster(5, name="\x1b[2J\x07[red]x")
    lines = frame(picture, View(), width=200, height=None, now=0.0)

    assert not any(character in line.plain for line in lines for character in ("\x1b", "\x07"))
    assert any("[red]x" in line.plain for line in lines)


def test_keys_choose_sort_reverse_and_scroll():
    view = View(show="running")
    assert view.after("\t", 10).show == "waiting"
    assert view.after("s", 10).sort == "tenant"
    assert view.after("r", 10).down
    assert view.after("pagedown", 10).after("down", 10).after("up", 10).first == 10
    assert view.after("up", 10).first == 0
    assert view.after("x", 10) == view


def test_scrolling_ends_with_the_last_row():
    picture = a_cluster(100)
    view = View(show="all", first=10_000)
    lines = frame(picture, view, width=100, height=24, now=0.0)

    assert "100 of 100" in "\n".join(line.plain for line in lines)
    assert rows_that_fit(picture, 100, 24) == sum(line.plain.startswith("     ") for line in lines)


def test_without_a_terminal_it_says_what_to_do(capsys):
    assert main(["top"]) == 2
    assert "`rota top --once` prints one frame" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("q", (["q"], "")),
        ("\x1b[A\x1b[6~s", (["up", "pagedown", "s"], "")),
        ("s\x1b[", (["s"], "\x1b[")),
        ("\x1b[Zq", (["\x1b", "[", "Z", "q"], "")),
    ],
)
def test_keys_of_several_characters_are_put_together(typed, keys):
    assert keys_of(typed) == keys


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_window_keeps_the_expected_start_and_the_reason(width):
    picture = replace(a_cluster(5), etas={4: Eta(at=160.0, low=150.0, high=None)})

    lines = [line.plain for line in frame(picture, View(show="waiting"), width=width, height=None, now=100.0)]

    assert "starts in" in lines[-3]
    assert "1m00s (..later)" in lines[-1]
    assert "outranked" in lines[-1]
