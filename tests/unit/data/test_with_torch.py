"""The data path under a PyTorch DataLoader. Skipped without PyTorch, which is not a dependency."""

from pathlib import Path

import pytest

import rota.client
from data_items import NumberedItems, name_and_check
from rota.data import CachedDataset, Coordinated, PreparedBatches, Sampler

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")


def loader_of(data, method, workers=2, **more):
    sampler = Sampler(data, seed=2)
    context = method if workers else None
    return torch.utils.data.DataLoader(
        data, batch_size=8, sampler=sampler, num_workers=workers, multiprocessing_context=context, **more
    )


@pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("spawn", 1)])
def test_a_data_loader_gets_every_item_and_the_hit_ratio_is_the_cached_fraction(method, workers):
    source = NumberedItems(120)
    data = CachedDataset(source, name_and_check, cache_bytes=source.total // 2)
    loader = loader_of(data, method, workers, persistent_workers=method == "spawn")
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        before = data.counters
        seen = [int(number) for batch in loader for number in batch]
        assert sorted(seen) == list(range(120))

    assert data.counters.since(before).hit_ratio == data.cached_fraction
    assert data.counters.misses + data.counters.hits == 240


@pytest.mark.parametrize("workers", [0, 2])
def test_a_job_stopped_in_the_middle_of_an_epoch_sees_exactly_the_rest(tmp_path, monkeypatch, workers):
    source = NumberedItems(64)
    monkeypatch.setenv("ROTA_JOB", "1")
    monkeypatch.setenv("ROTA_CHECKPOINTS", str(tmp_path))

    def run(until=None):
        data = CachedDataset(source, name_and_check, cache_bytes=source.total, environ={})
        seen = []
        it = rota.client.Iterator(loader_of(data, "fork", workers), save=Path.exists, load=Path.exists, steps=16)
        for count, batch in enumerate(it, start=1):
            seen += [int(number) for number in batch]
            if count == until:
                it._session.gate.receive({"op": "stop"})
        return seen, data

    whole, _ = run()
    for path in tmp_path.iterdir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    first, _ = run(until=11)
    monkeypatch.setenv("ROTA_RESUME", str(next(tmp_path.glob("step-000011"))))
    rest, data = run()

    assert first + rest == whole
    assert data.counters.misses + data.counters.hits == len(rest)  # nothing before the place was read again


def test_a_data_loader_with_workers_takes_what_jobs_prepare_together(tmp_path):
    def job():
        batches = PreparedBatches(list(range(40)), 4, seed=2)
        return Coordinated(batches, group="x", item_bytes=1000, environ={"ROTA_DATA_SHARED": str(tmp_path)})

    items = job()
    items.sampler.set_epoch(1)
    loader = torch.utils.data.DataLoader(
        items, batch_size=None, sampler=items.sampler, num_workers=2, multiprocessing_context="fork"
    )
    other = job()
    other.set_epoch(1)

    assert list(loader) == list(other)
    assert other.counts.taken == 10
