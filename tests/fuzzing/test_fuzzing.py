"""Every fuzzer for a moment, and every input that once was a fault again. `make fuzz` runs them for long."""

import lzma
from pathlib import Path

import oracle
import pytest
from mutation import Mutator
from run import LATER, Campaign, makers

FOUND = sorted((Path(__file__).parent / "found").glob("*.xz"))
MAKERS = {name: make for name, make in makers().items() if name not in LATER}


@pytest.fixture(scope="module")
def target_of(tmp_path_factory):
    """Targets by name, each made once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = MAKERS[name](tmp_path_factory.mktemp(name))
        return made[name]

    yield get
    for target in made.values():
        target.close()


@pytest.mark.parametrize("name", MAKERS)
def test_good_inputs_are_accepted_and_changed_ones_are_answered(name, target_of):
    target = target_of(name)
    mutator = Mutator(20261118)

    accepted = [oracle.judge(target.feed, data) for data in target.seeds]
    faults = [oracle.judge(target.feed, target.input(mutator))[1] for _ in range(25)]

    assert accepted == [(False, None)] * len(target.seeds)
    assert [fault for fault in faults if fault] == []


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name.removesuffix(".xz"))
def test_an_input_that_once_was_a_fault_is_none_any_more(path, target_of):
    name = max((name for name in MAKERS if path.name.startswith(f"{name}-")), key=len)

    _, fault = oracle.judge(target_of(name).feed, lzma.decompress(path.read_bytes()))

    assert fault is None


def test_a_fault_is_found_kept_and_told(tmp_path, monkeypatch, capsys):
    """The fuzzer itself, with a reader that fails on a bracket and one that dies of it."""
    monkeypatch.setenv("ROTA_FUZZ_SELF_TEST", "1")
    campaign = Campaign(tmp_path / "found", seed=1)

    campaign.fuzz("self-fails", 20.0, most=100)
    campaign.fuzz("self-dies", 20.0, most=1)

    kept = sorted(path.name for path in (tmp_path / "found").glob("*.txt"))
    assert {name.rpartition("-")[0] for name in kept} == {"self-fails", "self-dies"}
    assert "--replay" in capsys.readouterr().out


def test_a_hang_ends_after_the_time_of_an_input(monkeypatch):
    monkeypatch.setattr(oracle, "SECONDS", 0.05)

    def endless(_):
        while True:
            pass

    _, fault = oracle.judge(endless, b"")

    assert fault.startswith("hang: ")
