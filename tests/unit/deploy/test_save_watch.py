"""How long a task that was asked to stop may take, and by which signs an agent knows that it saves."""

import threading
import time

import pytest

from rota.client.checkpoints import CheckpointStore, latest
from rota.core.trees import remove_tree
from rota.deploy.agent.saving import SaveWatch, amount_in
from rota.deploy.worker.ranks import AttemptId, Rank, after_message

RANK = Rank(AttemptId("7", 1), 0)


def a_watch(grace_s=60.0, longest_s=1800.0):
    return SaveWatch(asked=100.0, grace_s=grace_s, longest_s=longest_s, listens=True)


def test_without_a_sign_the_notice_period_counts_from_the_order():
    watch = a_watch(grace_s=10.0)

    assert watch.ends == 110.0
    assert watch.why == "it did not stop within 10 s"


def test_every_sign_of_progress_gives_a_new_period_and_the_same_amount_does_not():
    watch = a_watch(grace_s=10.0)
    watch.told(0, 0, 105.0)
    assert watch.ends == 115.0, "that it begins is a sign"
    watch.told(0, 50, 112.0)
    watch.told(0, 50, 119.0)

    assert watch.ends == 122.0
    assert watch.why == "its save made no progress for 10 s"


def test_the_next_checkpoint_may_be_smaller_than_the_last():
    watch = a_watch(grace_s=10.0)
    for at, amount in ((101.0, 1000), (102.0, 0), (103.0, 10)):
        watch.told(0, amount, at)

    assert watch.ends == 113.0


def test_no_progress_goes_beyond_the_limit_of_the_operator():
    watch = a_watch(grace_s=10.0, longest_s=30.0)
    for second in range(40):
        watch.told(0, second, 100.0 + second)

    assert watch.ends == 130.0
    assert watch.why == "its save took longer than 30 s, the limit of the operator"


def looked(watch, folder, now):
    """Let it measure, and take in what was measured a little later."""
    watch.look(folder, now)
    end = time.monotonic() + 30.0
    while watch._measuring is not None and watch._measuring.amount is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    watch.look(folder, now + 0.1)


def test_a_folder_that_grows_is_a_sign_though_nobody_says_that_it_saves(tmp_path):
    watch = a_watch(grace_s=10.0)
    (tmp_path / "before").write_bytes(bytes(100))
    looked(watch, tmp_path, 101.0)
    assert watch.signs == 0, "what was there before is none"
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "part").write_bytes(bytes(10))
    looked(watch, tmp_path, 101.5)
    assert watch.signs == 0, "it looks once a second"
    looked(watch, tmp_path, 103.0)

    assert watch.signs == 1
    assert watch.ends == 113.1


def test_a_file_system_that_does_not_answer_holds_up_nobody(tmp_path, monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr("rota.deploy.agent.saving.amount_in", lambda _: answers.wait(30.0) and 0)
    watch = a_watch(grace_s=10.0)
    began = time.monotonic()
    for second in range(20):
        watch.look(tmp_path, 101.0 + second)

    assert time.monotonic() - began < 5.0
    assert sum(thread.name == "rota-folder-size" for thread in threading.enumerate()) == 1
    assert watch.ends == 110.0
    answers.set()


def test_a_folder_that_is_not_there_or_has_links_to_nowhere_does_no_harm(tmp_path):
    assert amount_in(tmp_path / "none") == 0
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "self").symlink_to(tmp_path)
    assert amount_in(tmp_path) >= 0


# What ranks say


def test_a_rank_that_uses_the_client_saves_unless_it_says_no():
    hello = {"op": "hello", "job": "7", "epoch": 1, "rank": 0, "pid": 1, "step": 0}

    assert after_message(RANK, hello).saves, "clients of before said nothing about it"
    assert after_message(RANK, {**hello, "saves": True}).saves
    assert not after_message(RANK, {**hello, "saves": False}).saves


def test_a_rank_saves_from_its_word_until_the_checkpoint_is_safe():
    saving = after_message(RANK, {"op": "saving", "step": 9, "written": 500})
    saved = after_message(saving, {"op": "saved", "step": 9, "path": "step-000009", "seconds": 2.5})

    assert (saving.saving, saving.written, saving.step) == (True, 500, 9)
    assert (saved.saving, saved.saved, saved.longest_save_s) == (False, 9, 2.5)
    assert not after_message(saving, {"op": "failed", "reason": "x"}).saving
    assert not after_message(saving, {"op": "stopped", "step": 9}).saving


@pytest.mark.parametrize("bad", [None, -1, "much", True, float("nan"), float("inf"), 1e300, [3]])
def test_nonsense_about_a_save_is_no_progress_and_no_duration(bad):
    saving = after_message(RANK, {"op": "saving", "step": 9, "written": bad})
    saved = after_message(RANK, {"op": "saved", "step": 9, "path": "step-000009", "seconds": bad})

    assert (saving.saving, saving.written) == (True, 0)
    assert saved.longest_save_s == 0.0


def test_a_rank_that_said_its_last_word_saves_no_more():
    stopped = after_message(RANK, {"op": "stopped", "step": 9})

    assert after_message(stopped, {"op": "saving", "step": 10, "written": 1}) == stopped


# Checkpoints that are being written


def test_the_amount_that_is_written_grows_with_bytes_and_flushed_files(tmp_path):
    store = CheckpointStore(tmp_path)
    amounts = []

    def save(path):
        amounts.append(store.amount_written())
        for name in ("a", "b"):
            (path / name).write_bytes(bytes(10))
            amounts.append(store.amount_written())

    assert store.amount_written() == 0
    store.write(5, 0, 5, save)

    assert amounts == [0, 11, 22]
    assert store.amount_written() == 0
    assert latest(tmp_path).step == 5


def test_a_half_written_checkpoint_is_never_resumed_from(tmp_path):
    CheckpointStore(tmp_path).write(5, 0, 5, lambda path: (path / "a").write_text("whole"))
    half = tmp_path / "step-000009.tmp"
    half.mkdir()
    (half / "a").write_text("half")
    renamed = tmp_path / "step-000012"
    renamed.mkdir()
    (renamed / "a").write_text("no manifest")

    assert latest(tmp_path).step == 5


def test_a_deep_and_wide_folder_is_measured_as_far_as_the_bound(tmp_path, monkeypatch):
    """Folders count as well: a job could make nothing but folders."""
    deep = tmp_path
    for _ in range(1500):
        deep = deep / "d"
        if len(str(deep)) > 3900:
            break
        deep.mkdir()
    for number in range(50):
        (tmp_path / f"wide-{number}").mkdir()
        (tmp_path / f"wide-{number}" / "file").write_bytes(b"xy")

    assert amount_in(tmp_path) == 150
    monkeypatch.setattr("rota.deploy.agent.saving._MOST_ENTRIES", 30)
    assert amount_in(tmp_path) <= 90
    remove_tree(tmp_path / "d")  # pytest cannot
