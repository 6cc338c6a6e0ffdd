import json

import pytest

from rota.client.checkpoints import MANIFEST, CheckpointStore, latest, read


def saver(text="weights"):
    def save(path):
        (path / "model").write_text(text)
        (path / "more").mkdir()
        (path / "more" / "optimizer").write_bytes(b"\0" * 100)

    return save


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_comes_back_with_its_place(store, tmp_path):
    assert store.write(123, 4, 5, saver()) == "step-000123"

    found = latest(tmp_path)
    assert (found.path.name, found.step, found.epoch, found.position) == ("step-000123", 123, 4, 5)
    assert (found.part(0) / "more" / "optimizer").stat().st_size == 100
    assert names(tmp_path) == ["step-000123"]


def test_no_folder_and_an_empty_folder_have_no_checkpoint(tmp_path):
    assert latest(tmp_path) is None
    assert latest(tmp_path / "absent") is None


def test_the_newest_is_by_number_and_not_by_text(store, tmp_path):
    for step in (999_999, 1_000_000):
        store.write(step, 0, 0, saver())

    assert latest(tmp_path).step == 1_000_000


def truncate(path):
    (path / "more" / "optimizer").write_bytes(b"\0" * 99)


def delete(path):
    (path / "model").unlink()


def add(path):
    (path / "stray").write_text("")


def forget(path):
    (path / MANIFEST).unlink()


def tear(path):
    text = (path / MANIFEST).read_text()
    (path / MANIFEST).write_text(text[: len(text) // 2])


def forge(path):
    body = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**body, "step": body["step"] + 1}))


def confuse(path):
    (path / MANIFEST).write_text("[1, 2]")


@pytest.mark.parametrize("damage", [truncate, delete, add, forget, tear, forge, confuse])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(store, tmp_path, damage):
    store.write(10, 0, 0, saver())
    store.write(20, 0, 0, saver())
    assert latest(tmp_path).step == 20

    damage(tmp_path / "step-000020")

    assert latest(tmp_path).step == 10
    assert read(tmp_path / "step-000020") is None


def test_the_last_two_are_kept(store, tmp_path):
    for step in (10, 20, 30, 40):
        store.write(step, 0, 0, saver())
        store.prune(step)

    assert names(tmp_path) == ["step-000030", "step-000040"]


def test_a_damaged_one_is_not_counted_among_the_two(store, tmp_path):
    for step in (10, 20):
        store.write(step, 0, 0, saver())
    truncate(tmp_path / "step-000020")
    store.write(30, 0, 0, saver())
    store.prune(30)

    assert names(tmp_path) == ["step-000010", "step-000030"]


def test_a_later_one_from_an_attempt_that_was_given_up_does_not_win(store, tmp_path):
    for step in (10, 20, 15):
        store.write(step, 0, 0, saver())
    store.prune(15)

    assert latest(tmp_path).step == 15


def test_when_saving_fails_nothing_is_left_and_the_old_one_stays(store, tmp_path):
    store.write(10, 0, 0, saver())

    def full(path):
        (path / "model").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        store.write(20, 0, 0, full)

    assert names(tmp_path) == ["step-000010"]
    assert latest(tmp_path).step == 10


def test_drafts_of_a_killed_process_are_tidied_away(store, tmp_path):
    (tmp_path / "step-000007.tmp").mkdir()
    (tmp_path / "step-000007.tmp" / "model").write_text("half")

    assert latest(tmp_path) is None
    store.tidy()

    assert names(tmp_path) == []


def test_saving_a_step_again_replaces_it(store, tmp_path):
    store.write(10, 0, 0, saver("old"))
    store.write(10, 0, 0, saver("new"))

    assert (latest(tmp_path).path / "model").read_text() == "new"


def test_parts_of_a_gang_count_only_when_all_are_there(tmp_path):
    ranks = [CheckpointStore(tmp_path, f"rank-{rank}", 3) for rank in range(3)]
    for step in (10, 20):
        for rank in ranks:
            assert rank.write(step, 0, 0, saver()).startswith(f"step-0000{step}/rank-")
    for rank in ranks[:2]:
        rank.write(30, 0, 0, saver())

    found = latest(tmp_path)
    assert (found.step, found.world_size, found.part(2).name) == (20, 3, "rank-2")

    ranks[2].write(30, 0, 0, saver())
    for rank in ranks:
        rank.prune(30)
    assert latest(tmp_path).step == 30
    assert names(tmp_path) == ["step-000020", "step-000030"]


def test_a_link_in_the_place_of_a_draft_is_not_written_through(store, tmp_path):
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (tmp_path / "step-000005.tmp").symlink_to(elsewhere)
    (tmp_path / "step-000005").symlink_to(elsewhere)

    store.write(5, 0, 0, saver())

    assert list(elsewhere.iterdir()) == []
    assert not (tmp_path / "step-000005").is_symlink()
    assert latest(tmp_path).step == 5


def test_a_link_in_the_place_of_a_gangs_checkpoint_is_not_written_through(tmp_path):
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (tmp_path / "step-000005").symlink_to(elsewhere)

    for rank in (0, 1):
        CheckpointStore(tmp_path, f"rank-{rank}", 2).write(5, 0, 0, saver())

    assert list(elsewhere.iterdir()) == []
    assert latest(tmp_path).step == 5


def test_a_link_in_the_place_of_the_manifest_is_not_written_through(store, tmp_path):
    target = tmp_path.parent / f"{tmp_path.name}-target"

    def plant(folder):
        target.write_text("before")
        (folder / MANIFEST).symlink_to(target)

    with pytest.raises(OSError, match="File exists"):
        store.write(5, 0, 0, plant)

    assert target.read_text() == "before"
    assert latest(tmp_path) is None


def test_a_checkpoint_that_is_a_link_to_another_place_does_not_count(store, tmp_path):
    store.write(5, 0, 0, saver())
    (tmp_path / "step-000005").rename(tmp_path.parent / f"{tmp_path.name}-moved")
    (tmp_path / "step-000005").symlink_to(tmp_path.parent / f"{tmp_path.name}-moved")

    assert latest(tmp_path) is None


def test_a_manifest_with_endless_nesting_is_damaged(store, tmp_path):
    store.write(5, 0, 0, saver())
    (tmp_path / "step-000005" / MANIFEST).write_text("[" * 100_000)

    assert latest(tmp_path) is None
