"""Jobs that prepare data together: each item once, the right one, and nobody held up by the dead or the slow."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

import rota.client
from rota.core.errors import ConfigError
from rota.data import Coordinated, PreparedBatches, Sampler
from rota.data.staging import StagingArea

FORK = multiprocessing.get_context("fork")
LENGTH = 30


class Recipe:
    """Prepares items, and writes down in a file who prepared which."""

    def __init__(self, log, seconds=0.002):
        self.log = log
        self.seconds = seconds

    def __call__(self, epoch, position):
        time.sleep(self.seconds)
        with self.log.open("a") as file:
            file.write(f"{epoch} {position}\n")
        return {"epoch": epoch, "position": position, "by": os.getpid()}


def prepared(log):
    return [tuple(map(int, line.split())) for line in log.read_text().splitlines()]


def job(folder, epochs, results, seconds=0.002, **more):
    """One job: all items of some epochs, in their order."""
    items = a_job(folder, Recipe(folder / "log", seconds), **more)
    seen = []
    for epoch in range(epochs):
        items.set_epoch(epoch)
        seen += [(item["epoch"], item["position"]) for item in items]
    results.put((seen, items.counts.prepared, items.counts.taken, items.counts.alone))


def a_job(folder, recipe, **more):
    settings = {"group": "test", "item_bytes": 4096, "window": 16, **more}
    return Coordinated(recipe, LENGTH, environ={"ROTA_DATA_SHARED": str(folder)}, **settings)


def run(folder, jobs, epochs=2, **more):
    results = FORK.Queue()
    (folder / "log").touch()
    processes = [FORK.Process(target=job, args=(folder, epochs, results), kwargs=more) for _ in range(jobs)]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    return found


def test_every_job_gets_every_item_in_order_and_most_are_prepared_once(tmp_path):
    found = run(tmp_path, jobs=3)

    expected = [(epoch, position) for epoch in range(2) for position in range(LENGTH)]
    assert [seen for seen, *_ in found] == [expected] * 3
    times = len(prepared(tmp_path / "log"))
    assert times == sum(prepared + alone for _, prepared, _, alone in found)
    assert set(prepared(tmp_path / "log")) >= set(expected)
    assert times < 2 * len(expected)  # alone they would have been 3 times as many


def test_a_job_alone_prepares_everything_itself(tmp_path):
    [(seen, prepared_, taken, alone)] = run(tmp_path, jobs=1)

    assert (len(seen), prepared_, taken, alone) == (2 * LENGTH, 2 * LENGTH, 0, 0)


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_a_job_that_dies_or_stalls_in_the_middle_of_an_item_holds_up_nobody(tmp_path, blow):
    reader, writer = os.pipe()

    def stuck(epoch, position):
        os.write(writer, b"!")
        time.sleep(60)

    victim = FORK.Process(target=lambda: a_job(tmp_path, stuck)[0])
    victim.start()
    os.read(reader, 1)  # it holds the place of item 0
    os.kill(victim.pid, blow)
    if blow == signal.SIGKILL:
        victim.join()
    try:
        began = time.monotonic()
        items = a_job(tmp_path, Recipe(tmp_path / "log", 0.0), patience_s=0.3)
        seen = [items[number]["position"] for number in range(LENGTH)]
        took_s = time.monotonic() - began
    finally:
        if blow == signal.SIGSTOP:
            victim.kill()
            victim.join()
        os.close(reader)
        os.close(writer)

    assert seen == list(range(LENGTH))
    assert items.counts.alone == (0 if blow == signal.SIGKILL else 2)  # items 0 and 16, its place in the ring
    assert took_s < 5.0


def test_an_item_that_was_half_written_by_a_killed_job_is_not_believed(tmp_path):
    area = StagingArea.open("x", 4, 100, tmp_path)
    assert area.claim(1)
    assert area.publish(1, b"whole")
    area.release(1)

    def die_in_the_middle():
        own = StagingArea.open("x", 4, 100, tmp_path)
        own.claim(5)
        write = own._segment.write

        def cut(data, at):
            write(data[: len(data) // 2], at)
            if at > 4096 * 1.5:
                os.kill(os.getpid(), signal.SIGKILL)

        own._segment.write = cut
        own.publish(5, b"half an item")

    victim = FORK.Process(target=die_in_the_middle)
    victim.start()
    victim.join()

    assert victim.exitcode == -signal.SIGKILL
    assert area.get(5) is None
    assert area.claim(5)


def test_a_job_far_behind_prepares_for_itself_and_disturbs_nobody(tmp_path):
    ahead = a_job(tmp_path, Recipe(tmp_path / "log", 0.0))
    for number in range(LENGTH):
        ahead[number]
    behind = a_job(tmp_path, Recipe(tmp_path / "log", 0.0))

    assert [behind[number]["position"] for number in range(LENGTH)] == list(range(LENGTH))
    assert (behind.counts.prepared, behind.counts.alone, behind.counts.taken) == (0, LENGTH - 16, 16)


def test_an_item_too_large_for_the_area_is_prepared_by_everybody(tmp_path):
    one = a_job(tmp_path, lambda *_: bytes(10_000))
    other = a_job(tmp_path, lambda *_: bytes(10_000))

    assert one[0] == other[0] == bytes(10_000)
    assert (one.counts.prepared, other.counts.prepared) == (1, 1)


def test_an_error_while_preparing_reaches_the_script_and_frees_the_place(tmp_path):
    def broken(epoch, position):
        raise ValueError("no such image")

    with pytest.raises(ValueError, match="no such image"):
        a_job(tmp_path, broken)[3]

    assert a_job(tmp_path, Recipe(tmp_path / "log"))[3]["position"] == 3


def test_groups_do_not_mix(tmp_path):
    first = a_job(tmp_path, lambda *_: "crops", group="crops")
    second = a_job(tmp_path, lambda *_: "flips", group="flips")

    assert (first[0], second[0]) == ("crops", "flips")


def test_batches_are_those_of_a_sampler_with_the_same_seed_and_a_job_can_resume(tmp_path):
    data = [number * 10 for number in range(23)]
    sampler = Sampler(23, seed=7)
    sampler.set_epoch(1)
    order = [data[index] for index in sampler]
    batches = PreparedBatches(data, 4, seed=7)
    items = Coordinated(batches, group="x", item_bytes=1000, environ={"ROTA_DATA_SHARED": str(tmp_path)})

    items.set_epoch(1)
    items.set_position(2)

    assert len(items) == 6
    assert [number for batch in items for number in batch] == order[8:]
    assert sum(1 for _ in rota.client.Iterator(items, steps=15)) == 15


def test_outside_a_cluster_jobs_of_a_user_find_each_other_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    one = Coordinated(Recipe(tmp_path / "log"), LENGTH, group="x", item_bytes=1000, environ={})
    other = Coordinated(Recipe(tmp_path / "log"), LENGTH, group="x", item_bytes=1000, environ={})

    assert one[5] == other[5]
    assert other.counts.taken == 1
    folder = tmp_path / f"rota-data-{os.geteuid()}"
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_size < 200 for path in folder.iterdir())


def test_a_folder_that_others_can_enter_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = Path(tmp_path, f"rota-data-{os.geteuid()}")
    folder.mkdir()
    folder.chmod(0o777)

    with pytest.raises(ConfigError, match="not a folder that only user"):
        Coordinated(Recipe(tmp_path / "log"), LENGTH, group="x", item_bytes=1000, environ={})


def test_bad_sizes_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="window=1"):
        a_job(tmp_path, Recipe(tmp_path / "log"), window=1)
    with pytest.raises(ConfigError, match="batch_size=0"):
        PreparedBatches([1], 0)
