"""The fixed set: known before the start, right in every byte, gone with its processes."""

import contextlib
import fcntl
import mmap
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_items import NumberedItems, content, name_and_check
from rota.core.errors import ConfigError
from rota.data import CachedDataset, Files, Sampler, segments
from rota.data.cache import CacheLayout, FixedSetCache
from rota.data.sources import sizes_of

TESTS = str(Path(__file__).parents[2])
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - where shared memory would be left
FORK = multiprocessing.get_context("fork")


def epoch(data, number):
    """One pass in the order of that epoch."""
    sampler = Sampler(data, seed=9)
    sampler.set_epoch(number)
    return [data[index] for index in sampler]


@pytest.mark.parametrize("part", [0.25, 0.6, 0.9])
def test_from_the_second_epoch_on_reads_fall_by_the_cached_share(part):
    source = NumberedItems(2000)
    data = CachedDataset(source, name_and_check, cache_bytes=int(part * source.total))
    per_epoch = []
    for number in range(4):
        before = source.read_bytes
        assert sorted(epoch(data, number)) == list(range(2000))
        per_epoch.append((source.read_bytes - before) / source.total)

    assert per_epoch[0] == 1.0
    assert per_epoch[1:] == pytest.approx([1 - part] * 3, abs=0.01)
    assert data.cached_fraction == pytest.approx(data.counters.hits / (3 * 2000))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(0, 1000), st.integers(0, 1000))
def test_a_smaller_cache_is_a_part_of_a_larger_one_and_neither_exceeds_its_bytes(sizes, first, second):
    layout = CacheLayout.of(sizes_of([b""] * len(sizes), sizes), seed=4)
    small, large = sorted((first, second))

    assert layout.fitting(small) <= layout.fitting(large)
    assert layout.bytes_of(layout.fitting(large)) <= large
    over = layout.fitting(large)
    assert over == len(sizes) or layout.bytes_of(over + 1) > large


def test_the_set_follows_from_seed_sizes_and_bytes_alone():
    def members(seed, cache_bytes=100_000):
        data = CachedDataset(NumberedItems(), cache_bytes=cache_bytes, seed=seed)
        return {index for index in range(len(data)) if data.cache.holds(index)}

    assert members(1) == members(1)
    assert members(1) != members(2)
    assert members(1, 50_000) < members(1)


def test_raw_bytes_are_cached_and_decoding_is_fresh_each_time():
    draws = random.Random(0)
    data = CachedDataset(
        NumberedItems(10), lambda raw, index: (index, len(raw), draws.random()), cache_bytes=10**6, seed=1
    )

    assert data[3][:2] == data[3][:2]
    assert data[3] != data[3]
    assert data.counters.misses == 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_the_cache_and_the_counters(method):
    source = NumberedItems(120)
    data = CachedDataset(source, name_and_check, cache_bytes=10**6)
    context = multiprocessing.get_context(method)

    for _ in range(2):
        with context.Pool(2) as workers:
            assert workers.map(data.__getitem__, range(120), chunksize=20) == list(range(120))

    counts = data.counters
    assert (counts.hits, counts.misses) == (120, 120)
    assert (counts.hit_bytes, counts.fetched_bytes) == (source.total, source.total)
    assert counts.decode_s > 0
    assert data.cache.filled == 120
    assert sum(own.hits for own in data.counters_by_process.values()) <= 120


def test_counts_of_workers_that_are_gone_are_kept_and_their_rows_used_again():
    data = CachedDataset(NumberedItems(4), cache_bytes=10**6)

    for _ in range(5):
        worker = FORK.Process(target=data.__getitem__, args=(1,))
        worker.start()
        worker.join()

    assert data.counters.hits + data.counters.misses == 5
    assert len(data.counters_by_process) <= 1


def test_with_less_memory_the_rest_is_freed_and_with_more_it_grows_again():
    source = NumberedItems(1000)
    data = CachedDataset(source, name_and_check, cache_bytes=source.total)
    epoch(data, 0)
    full = _held(data)

    data.cache.resize(source.total // 4)
    small = _held(data)
    shrunk = epoch(data, 1)
    data.cache.resize(source.total)
    before = data.counters
    grown = epoch(data, 2)

    assert small < 0.3 * full
    assert sorted(shrunk) == sorted(grown) == list(range(1000))
    assert data.counters.since(before).hit_ratio == pytest.approx(0.25, abs=0.02)
    assert data.cache.filled == 1000


def _held(data):
    return os.fstat(data.cache.segment.handle).st_blocks * 512


@pytest.mark.parametrize("kept", [False, True])
def test_killed_while_filling_batches_are_right_afterwards_and_nothing_is_left(tmp_path, kept):
    """Workers are killed at any moment; those that come after them must never see half an item."""
    folder = IN_MEMORY / f"rota-test-{os.getpid()}-{tmp_path.name}"
    folder.mkdir(mode=0o700)
    try:
        environ = {"ROTA_DATA_FOLDER": str(folder)} if kept else {}
        source = NumberedItems(60, least=400_000, spread=9)
        data = CachedDataset(source, name_and_check, cache_bytes=source.total, environ=environ)
        dice = random.Random(3)
        for _ in range(6):
            reader, writer = os.pipe()
            worker = FORK.Process(target=_fill, args=(data, writer))
            worker.start()
            os.read(reader, 1)  # it has begun
            time.sleep(dice.uniform(0.0, 0.01))
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
            os.close(reader)
            os.close(writer)
            again = CachedDataset(source, name_and_check, cache_bytes=source.total, environ=environ) if kept else data
            assert [again[index] for index in range(60)] == list(range(60))
            again.cache.resize(0)
            again.cache.resize(source.total)
        assert len(list(folder.iterdir())) == kept  # one file of the job, which its agent removes
    finally:
        shutil.rmtree(folder)


def _fill(data, writer):
    os.write(writer, b"!")
    for index in range(len(data)):
        data.raw(index)


def test_a_whole_process_tree_that_is_killed_leaves_nothing_in_shared_memory(tmp_path):
    script = """
import os, sys
from data_items import NumberedItems
from rota.data import CachedDataset
data = CachedDataset(NumberedItems(50, least=100_000), cache_bytes=10**8, environ=dict(LOCAL_WORLD_SIZE="2"))
for _ in range(2):
    if not os.fork():
        break
for index in range(50):
    data[index]
os.write(1, b"!")
while True:
    os.read(0, 1) or os._exit(1)
"""
    tree = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": TESTS, "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": ""},
    )
    for _ in range(3):
        assert tree.stdout.read(1) == b"!"
    held = [str(path.readlink()) for path in Path(f"/proc/{tree.pid}/fd").iterdir()]
    assert any("memfd:rota-cache" in link for link in held)
    assert not any(str(IN_MEMORY) in link for link in held)  # a memfd goes with its last process

    os.killpg(tree.pid, signal.SIGKILL)
    tree.wait()
    tree.stdin.close()
    tree.stdout.close()
    folder = tmp_path / f"rota-data-{os.geteuid()}"
    assert [path.stat().st_size < 100 for path in folder.iterdir()] == [True]  # who had it open

    segments.remove_dead_lists(folder)
    assert list(folder.iterdir()) == []


def test_four_workers_take_the_memory_of_one_cache():
    source = NumberedItems(64, least=250_000, spread=9)
    data = CachedDataset(source, cache_bytes=source.total)
    for index in range(64):
        data[index]

    idle = _pss_of_four(data, reads=0)
    reading = _pss_of_four(data, reads=64)

    assert reading - idle == pytest.approx(source.total, rel=0.15)


def _pss_of_four(data, reads):
    """Sum of the proportional sets of this process and four forked workers that have read."""
    pipes = [(FORK.Pipe(), FORK.Pipe()) for _ in range(4)]
    workers = [FORK.Process(target=_read_and_wait, args=(data, reads, ends[0][1], ends[1][1])) for ends in pipes]
    for worker in workers:
        worker.start()
    for ready, _ in pipes:
        ready[0].recv()
    data.cache.segment.view.madvise(mmap.MADV_DONTNEED)  # the parent's own mapping does not count
    total = sum(_pss(worker.pid) for worker in workers)
    for _, leave in pipes:
        leave[0].send(None)
    for worker in workers:
        worker.join()
    return total


def _read_and_wait(data, reads, ready, leave):
    for index in range(reads):
        data[index]
    ready.send(None)
    leave.recv()


def _pss(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss_Shmem:"))


def test_a_resumed_job_has_the_hit_ratio_of_the_cached_set_at_once(tmp_path):
    environ = {"ROTA_DATA_FOLDER": str(tmp_path), "ROTA_EPOCH": "1"}
    first = CachedDataset(NumberedItems(), name_and_check, cache_bytes=200_000, environ=environ)
    for number in range(2):
        epoch(first, number)
    del first

    resumed = CachedDataset(
        NumberedItems(), name_and_check, cache_bytes=200_000, environ={**environ, "ROTA_EPOCH": "2"}
    )
    sampler = Sampler(resumed, seed=9)
    sampler.set_epoch(3)
    sampler.set_position(150)
    seen = [resumed[index] for index in sampler]

    assert len(seen) == 250
    assert None not in seen
    expected = sum(resumed.cache.holds(index) for index in seen)
    assert resumed.counters.hits == expected
    assert resumed.counters.hit_ratio == pytest.approx(resumed.cached_fraction, abs=0.05)


def test_a_data_set_that_changed_is_read_anew(tmp_path):
    environ = {"ROTA_DATA_FOLDER": str(tmp_path / "kept")}
    (tmp_path / "kept").mkdir()
    path = tmp_path / "item"
    path.write_bytes(b"old")
    os.utime(path, ns=(1, 1))
    assert CachedDataset(Files([path]), cache_bytes=100, environ=environ)[0] == b"old"

    path.write_bytes(b"new")

    assert CachedDataset(Files([path]), cache_bytes=100, environ=environ)[0] == b"new"


def test_a_cache_that_the_last_attempt_did_not_use_is_removed(tmp_path):
    def attempt(number, *names):
        environ = {"ROTA_DATA_FOLDER": str(tmp_path), "ROTA_EPOCH": str(number)}
        opened = [CachedDataset(NumberedItems(fingerprint=name), cache_bytes=1000, environ=environ) for name in names]
        return len(opened)

    attempt(1, "training", "validation")
    attempt(3, "training", "validation")
    assert len(list(tmp_path.iterdir())) == 2
    attempt(4, "training", "another")
    attempt(5, "training", "another")

    assert len(list(tmp_path.iterdir())) == 2


def test_files_are_read_whole_cold_or_warm_and_also_after_they_grew(tmp_path):
    paths = [tmp_path / str(number) for number in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(content(number, 5000 * number))
    for cold in (False, True):
        data = CachedDataset(Files(paths, cold=cold), cache_bytes=10**6)
        assert [data[index] for index in range(3)] == [content(number, 5000 * number) for number in range(3)]

    paths[1].write_bytes(content(1, 2_500_000))

    fresh = CachedDataset(data.source, cache_bytes=10**6)
    assert [fresh[1], fresh[1]] == [content(1, 2_500_000)] * 2
    assert (fresh.counters.hits, fresh.counters.not_kept) == (0, 2)


def test_without_room_items_are_passed_on_and_counted():
    data = CachedDataset(NumberedItems(5, least=100_000), name_and_check, cache_bytes=10**6)
    room = data.cache.layout.data_at + 250_000

    with FORK.Pool(1, initializer=resource.setrlimit, initargs=(resource.RLIMIT_FSIZE, (room, room))) as worker:
        twice = worker.map(data.__getitem__, [*range(5), *range(5)])

    assert twice == [*range(5), *range(5)]
    assert (data.counters.hits, data.counters.misses, data.counters.not_kept) == (2, 8, 6)


@pytest.mark.parametrize(
    ("environ", "cache_bytes"),
    [
        ({}, 0),
        ({"ROTA_MEMORY_GB": ""}, 0),
        ({"ROTA_MEMORY_GB": "4"}, 3_000_000_000),
        ({"ROTA_MEMORY_GB": "1"}, 500_000_000),
        ({"ROTA_MEMORY_GB": "0.4"}, 0),
        ({"ROTA_MEMORY_GB": "4", "ROTA_LOCAL_WORLD_SIZE": "2"}, 3_000_000_000),
        ({"ROTA_MEMORY_GB": "4", "ROTA_LOCAL_WORLD_SIZE": "2", "ROTA_DATA_FOLDER": "."}, 6_000_000_000),
        ({"ROTA_MEMORY_GB": "4", "ROTA_DATA_CACHE_GB": "0.25"}, 250_000_000),
    ],
)
def test_the_size_follows_the_memory_that_the_job_was_given(environ, cache_bytes, tmp_path):
    if "ROTA_DATA_FOLDER" in environ:
        environ = {**environ, "ROTA_DATA_FOLDER": str(tmp_path)}

    data = CachedDataset([b""] * 800, sizes=10_000_000, environ=environ)

    assert data.cached_bytes == min(cache_bytes, 8_000_000_000)


def test_ranks_outside_rota_share_one_cache(tmp_path):
    environ = {**os.environ, "PYTHONPATH": TESTS, "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": "",
               "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}  # fmt: skip
    script = """
import json, os, sys
from data_items import NumberedItems
from rota.data import CachedDataset
data = CachedDataset(NumberedItems(20), cache_bytes=10**6)
for index in range(20):
    data[index]
print(data.counters.hits, flush=True)
sys.stdin.read()
"""
    first = subprocess.Popen([sys.executable, "-c", script], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdout.readline() == b"0\n"

    second = subprocess.run([sys.executable, "-c", script], env=environ, input=b"", capture_output=True, check=True)
    first.kill()
    first.wait()
    first.stdin.close()
    first.stdout.close()
    third = subprocess.run([sys.executable, "-c", script], env=environ, input=b"", capture_output=True, check=True)

    assert second.stdout == b"20\n"
    assert third.stdout == b"0\n"


def test_reads_are_throttled_for_all_workers_together():
    data = CachedDataset([bytes(10_000)] * 40, sizes=10_000, bytes_per_s=2e6)
    began = time.monotonic()

    with FORK.Pool(4) as workers:
        workers.map(data.__getitem__, range(40), chunksize=1)
    took_s = time.monotonic() - began

    assert 0.18 <= took_s < 2.0
    assert data.counters.fetch_s >= 0.18


def test_bad_input_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="pass sizes="):
        CachedDataset([b"a"])
    with pytest.raises(ConfigError, match="sizes has 2 numbers, the data set 1 items"):
        CachedDataset([b"a"], sizes=[1, 1])
    with pytest.raises(ConfigError, match="share=0"):
        CachedDataset([b"a"], sizes=1, share=0)
    for speed in (0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="bytes_per_s="):
            CachedDataset([b"a"], sizes=1, bytes_per_s=speed)
    for reserve in (-1, float("nan")):
        with pytest.raises(ConfigError, match="reserve_gb="):
            CachedDataset([b"a"], sizes=1, reserve_gb=reserve)
    with pytest.raises(ConfigError, match="ROTA_DATA_CACHE_GB='lots'"):
        CachedDataset([b"a"], sizes=1, environ={"ROTA_DATA_CACHE_GB": "lots"})
    with pytest.raises(ConfigError, match="there is no such folder"):
        CachedDataset([b"a"], sizes=1, environ={"ROTA_DATA_FOLDER": str(tmp_path / "none")})
    with pytest.raises(IndexError, match="item 1"):
        CachedDataset([b"a"], sizes=1)[1]


def test_a_damaged_file_counts_as_empty(tmp_path):
    source = NumberedItems(30)
    environ = {"ROTA_DATA_FOLDER": str(tmp_path)}
    data = CachedDataset(source, name_and_check, cache_bytes=source.total, environ=environ)
    epoch(data, 0)
    path = next(tmp_path.iterdir())
    del data
    with path.open("r+b") as file:
        file.write(b"damaged!")

    again = CachedDataset(source, name_and_check, cache_bytes=source.total, environ=environ)

    assert again.cache.filled == 0
    assert sorted(epoch(again, 0)) == list(range(30))


FULL = """
import logging, sys
from data_items import NumberedItems, name_and_check
from rota.data import CachedDataset, Coordinated
data = CachedDataset(NumberedItems(30), name_and_check, environ={"ROTA_DATA_FOLDER": sys.argv[1]}, cache_bytes=10**6)
items = Coordinated(lambda _epoch, position: data[position], 30, group="g", item_bytes=100,
                    environ={"ROTA_DATA_SHARED": sys.argv[1]})
print([data[index] for index in range(30)] == list(items) == list(range(30)), data.cached_fraction)
"""


def test_in_full_memory_a_job_goes_on_without_a_cache(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        with contextlib.suppress(OSError), (tmp_path / "full").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

        done = subprocess.run(
            [sys.executable, "-c", FULL, str(tmp_path)],
            check=False,
            env={"PYTHONPATH": TESTS},
            capture_output=True,
            text=True,
        )
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)

    assert done.stdout == "True 0.0\n", done.stderr
    assert "no cache can be made" in done.stderr
    assert "every job prepares for itself" in done.stderr


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_something_else_in_the_place_of_a_cache_is_no_cache(tmp_path, kind):
    source = NumberedItems(30)
    environ = {"ROTA_DATA_FOLDER": str(tmp_path)}
    first = CachedDataset(source, name_and_check, cache_bytes=source.total, environ=environ)
    path = next(tmp_path.iterdir())
    del first
    path.unlink()
    if kind == "link":
        path.symlink_to(tmp_path.parent / "elsewhere")
    else:
        path.mkdir()

    data = CachedDataset(source, name_and_check, cache_bytes=source.total, environ=environ)

    assert sorted(epoch(data, 0)) == list(range(30))
    assert data.cached_fraction == 0
    assert not (tmp_path.parent / "elsewhere").exists()


def test_a_file_in_use_is_locked(tmp_path):
    cache = FixedSetCache.open(CacheLayout.of(sizes_of([b"a"], 1), 0), 10, folder=tmp_path)
    path = next(tmp_path.iterdir())

    with path.open("rb") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pytest.fail(f"{path} is in use by {cache}")
