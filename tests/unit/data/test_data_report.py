"""What a data set tells a profiler while it is read."""

import os

import pytest

from rota.core.errors import ConfigError
from rota.data import CachedDataset, report


class Raw:
    sizes = 1000

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return bytes([index]) * 1000


def test_nobody_asked_and_nothing_is_written(tmp_path):
    CachedDataset(Raw(), cache_bytes=5000, sizes=1000, environ={})

    assert report.read(tmp_path) is None


def test_a_profiler_sees_sizes_and_counters_as_they_grow(tmp_path):
    data = CachedDataset(
        Raw(), lambda raw, _index: raw[0], cache_bytes=5000, sizes=1000, environ={report.FOLDER: str(tmp_path)}
    )
    assert [data[index] for index in range(20)] == list(range(20))

    seen = report.read(tmp_path)
    assert (seen.items, seen.data_bytes, seen.cache_bytes, seen.cached_items) == (20, 20_000, 5000, 5)
    assert (seen.counters.hits, seen.counters.misses, seen.workers) == (0, 20, 0)

    for index in range(20):
        data[index]
    since = report.read(tmp_path).counters.since(seen.counters)
    assert (since.hits, since.misses, since.fetched_bytes) == (5, 15, 15_000)


def test_processes_that_only_read_are_counted_as_workers(tmp_path):
    data = CachedDataset(Raw(), cache_bytes=0, sizes=1000, environ={report.FOLDER: str(tmp_path)})
    worker = os.fork()
    if worker == 0:
        data[3]
        os._exit(0)
    os.waitpid(worker, 0)

    assert report.read(tmp_path).workers == 1


@pytest.mark.parametrize("text", ["", "[]", '{"pid": 1}', "[" * 100_000, '{"pid": 1, "items": "many"}'])
def test_a_report_that_the_job_wrote_itself_is_refused_with_its_place(tmp_path, text):
    (tmp_path / "1-0.json").write_text(text)

    with pytest.raises(ConfigError, match="is no report of a data set"):
        report.read(tmp_path)


def test_a_pipe_is_no_report_and_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / "1-0.json")

    assert report.read(tmp_path) is None
