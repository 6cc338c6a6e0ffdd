"""The iterator in this process: with checkpoints, but without an agent."""

import itertools
import os
import subprocess
import sys

import pytest

import rota.client
from rota.client.checkpoints import latest
from rota.core.errors import ConfigError


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Settings of a job that has a folder for checkpoints and nobody to talk to."""
    (tmp_path / "checkpoints").mkdir()

    def set_up(resume=None, **more):
        values = {"ROTA_JOB": "7", "ROTA_CHECKPOINTS": tmp_path / "checkpoints", "ROTA_RESUME": resume or "", **more}
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))
        return tmp_path / "checkpoints"

    return set_up


class Model:
    """Remembers the items it was trained with."""

    def __init__(self):
        self.items = []

    def save(self, path):
        (path / "items").write_text("\n".join(map(str, self.items)))

    def load(self, path):
        self.items = [int(line) for line in (path / "items").read_text().split()]


def shuffled(epoch):
    return [epoch * 100 + (i * 7 + epoch) % 10 for i in range(10)]


def train(loader, until=None, **more):
    """Train until the end, or until a lease ends after so many steps of this attempt."""
    model = Model()
    it = rota.client.Iterator(loader, save=model.save, load=model.load, **more)
    for count, item in enumerate(it, start=1):
        model.items.append(item)
        if count == until:
            it._session.gate.receive({"op": "stop"})
    return it, model


def test_with_a_total_one_loop_goes_through_the_epochs():
    it, model = train([1, 2, 3], steps=7)

    assert model.items == [1, 2, 3, 1, 2, 3, 1]
    assert (it.step, it.epoch, it.stopped) == (7, 2, "done")


def test_the_total_of_the_scheduler_wins(job):
    job(ROTA_STEPS=4)

    assert train([1, 2, 3], steps=100)[1].items == [1, 2, 3, 1]


@pytest.mark.parametrize("stops", [[3], [10], [9, 1, 1], [25], [1] * 31, [13, 4, 10]])
def test_interrupted_or_not_the_items_are_the_same(job, stops):
    whole = list(itertools.chain.from_iterable(shuffled(epoch) for epoch in range(4)))[:32]
    folder, resume = None, None
    for until in [*stops, None]:
        folder = job(resume, ROTA_STEPS=32)
        it, model = train(shuffled, until)
        resume = latest(folder).path
        assert it.step == latest(folder).step == len(model.items)

    assert it.stopped == "done"
    assert model.items == whole


def test_a_loader_that_can_set_its_position_is_not_read_in_vain(job):
    class Loader(list):
        start, drawn = 0, 0

        def set_position(self, position):
            self.start = position

        def __iter__(self):
            start, self.start = self.start, 0
            for item in self[start:]:
                self.drawn += 1
                yield item

    folder = job(ROTA_STEPS=12)
    train(Loader(range(10)), until=6)
    job(latest(folder).path)
    loader = Loader(range(10))
    _, model = train(loader)

    assert model.items == [*range(10), 0, 1]
    assert loader.drawn == 6


class Stateful:
    """A loader of a library that keeps its own state, and draws an item only once."""

    def __init__(self):
        self.next = 0

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]

    def __iter__(self):
        while self.next < 10:
            self.next += 1
            yield self.next - 1
        self.next = 0


@pytest.mark.parametrize("until", [1, 6, 9])
def test_a_loader_with_a_state_gets_it_back(job, until):
    folder = job(ROTA_STEPS=23)
    train(Stateful(), until=until)
    job(latest(folder).path)
    _, model = train(Stateful())

    assert model.items == [*range(10), *range(10), 0, 1, 2]


def test_a_sampler_is_told_the_epoch():
    class Sampler:
        epochs = ()

        def set_epoch(self, epoch):
            self.epochs += (epoch,)

    class Loader(list):
        sampler = Sampler()

    train(Loader([1, 2]), steps=5)

    assert Loader.sampler.epochs == (0, 1, 2)


def test_a_script_with_a_loop_over_epochs_keeps_it(job):
    folder = job()
    passes = []

    def run(until):
        model = Model()
        it = rota.client.Iterator(shuffled, save=model.save, load=model.load)
        for epoch in it.epochs(3):
            for item in it:
                model.items.append(item)
                if len(model.items) == until:
                    it._session.gate.receive({"op": "stop"})
            if it.stopped is None:
                passes.append(epoch)
        return it, model

    assert run(until=14)[0].stopped == "lease"
    job(latest(folder).path)
    it, model = run(until=None)

    assert (it.stopped, it.step) == ("done", 30)
    assert passes == [0, 1, 2]
    assert model.items == [*shuffled(0), *shuffled(1), *shuffled(2)]
    assert latest(folder).step == 30


def test_a_finished_job_that_is_started_again_does_nothing(job):
    folder = job(ROTA_STEPS=5)
    train([1, 2, 3])
    job(latest(folder).path)
    it, model = train([1, 2, 3])

    assert (it.step, it.stopped, model.items) == (5, "done", [1, 2, 3, 1, 2])


def test_checkpoints_are_made_every_so_many_steps(job):
    folder = job(ROTA_STEPS=10)
    seen = []
    model = Model()
    for item in (it := rota.client.Iterator(range(10), save=model.save, load=model.load, every_steps=4)):
        model.items.append(item)
        found = latest(folder)
        seen.append(found.step if found else None)

    assert seen == [None] * 4 + [4] * 4 + [8] * 2
    assert it.stopped == "done"


def test_an_abandoned_step_comes_again(job):
    folder = job(ROTA_STEPS=6)
    model = Model()
    it = rota.client.Iterator(range(10), save=model.save, load=model.load)
    for item in it:
        if item == 3:
            it._session.gate.receive({"op": "stop"})
        if it.wait(0):
            it.abandon()
            continue
        model.items.append(item)
    assert (it.step, it.stopped) == (3, "lease")

    job(latest(folder).path)
    assert train(range(10))[1].items == [0, 1, 2, 3, 4, 5]


def test_a_damaged_checkpoint_is_left_for_the_one_before_it_and_that_is_said(job, capsys):
    folder = job(ROTA_STEPS=20)
    train(range(20), until=12, every_steps=5)
    assert latest(folder).step == 12
    (folder / "step-000012" / "items").write_text("")
    job(folder / "step-000012")
    it, model = train(range(20))

    assert it.resumed.name == "step-000010"
    assert model.items == list(range(20))
    assert "step-000012 is damaged; resuming from" in capsys.readouterr().err


def test_the_other_ranks_of_a_gang_do_not_save(job):
    folder = job(ROTA_STEPS=5, ROTA_RANK=1, ROTA_WORLD_SIZE=2)
    it, _ = train(range(5))

    assert (it.rank, it.world_size, list(folder.iterdir())) == (1, 2, [])


def test_every_rank_may_save_its_own_part(job):
    for resume in (None, "latest"):
        for rank in range(2):
            folder = job(ROTA_STEPS=6 if resume is None else 9, ROTA_RANK=rank, ROTA_WORLD_SIZE=2)
            job(latest(folder).path if resume and rank == 0 else os.environ["ROTA_RESUME"] if resume else None)
            _, model = train([rank * 100 + i for i in range(3)], save_on="all", every_steps=3)

    assert latest(folder).step == 9
    assert model.items == [100, 101, 102] * 3


def test_loops_that_are_not_over_items_ask_for_each_step(job):
    folder = job(ROTA_STEPS=9)
    counted = []

    def run(until=None):
        with rota.client.lease(save=lambda path: (path / "n").write_text("x"), load=counted.append) as lease:
            while lease.next():
                if lease.step + 1 == until:
                    lease._session.gate.receive({"op": "stop"})
        return lease

    assert (run(until=4).step, latest(folder).step) == (4, 4)
    job(latest(folder).path)
    lease = run()

    assert (lease.step, lease.stopped, lease.resumed.name) == (9, "done", "step-000004")
    assert [path.name for path in counted] == ["step-000004"]


def test_outside_rota_a_lease_counts_to_its_steps():
    with rota.client.lease(steps=3) as lease:
        assert sum(1 for _ in iter(lease.next, False)) == 3

    assert (lease.step, lease.stopped) == (3, "done")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"ROTA_RANK": 2, "ROTA_WORLD_SIZE": 2}, "ROTA_RANK is 2, but ROTA_WORLD_SIZE is 2"),
        ({"ROTA_EPOCH": "x"}, "ROTA_EPOCH='x': expected a whole number"),
        ({"ROTA_STEPS": "-3"}, "ROTA_STEPS='-3'"),
        ({"ROTA_CHECKPOINT_EVERY_S": "nan"}, "ROTA_CHECKPOINT_EVERY_S='nan'"),
        ({"ROTA_CHECKPOINTS": "/nowhere"}, "no such folder"),
    ],
)
def test_a_wrong_setting_is_named(job, setting, message):
    job(**setting)

    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        rota.client.Iterator([1])


def test_mistakes_of_the_script_are_explained(job):
    with pytest.raises(ConfigError, match="it is 'rank0'"):
        rota.client.Iterator([1], save_on="some")
    with pytest.raises(ConfigError, match="can be read only once"):
        list(rota.client.Iterator(iter([1, 2]), steps=5))

    folder = job(ROTA_STEPS=8)
    train(range(10), until=5)
    job(latest(folder).path)
    with pytest.raises(ConfigError, match="the loader has only 2 items"):
        train(range(2))
    with pytest.raises(ConfigError, match="gave no load= function"):
        rota.client.Iterator([1])
    (folder / "step-000005" / "items").unlink()
    with pytest.raises(ConfigError, match=r"neither .* is whole"):
        train(range(10))
    job(ROTA_WORLD_SIZE=2)
    with pytest.raises(ConfigError, match="save_on='all' needs every_steps"):
        rota.client.Iterator([1], save=print, save_on="all")


def test_the_client_loads_little_and_quickly():
    script = """
import sys, time
before = set(sys.modules)
began = time.process_time()
import rota.client
took = time.process_time() - began
own = {name for name in set(sys.modules) - before if name.startswith('rota')}
extra = {n for n in own if not n.startswith('rota.client')} - {'rota', 'rota._version', 'rota.core', 'rota.core.errors'}
assert not extra, extra
assert not set(sys.modules) & {'numpy', 'socket', 'asyncio', 'dataclasses', 'logging', 'pathlib'}
print(took)
"""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    times = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment
        )
        times.append(float(done.stdout))

    assert min(times) < 0.06, times  # 0.02 on a quiet machine
