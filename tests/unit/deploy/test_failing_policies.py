"""A scheduler that no policy and no mechanism can end."""

import numpy as np
import pytest

from deployed import PlayedAgent, a_scheduler, jobs_of, look, submit, until
from rota.core.allocation import Allocation
from rota.core.placement import nobody
from rota.mechanisms.dividing import Divide
from rota.mechanisms.registry import mechanisms
from rota.policies.registry import policies

WAYS = ("raises", "NaN", "negative", "wrong shape", "nothing")


class Failing:
    """LAS, but for every second answer."""

    def __init__(self, way: str = "raises") -> None:
        self._way = way
        self._inner = policies.create("las")
        self._asked = 0

    def allocate(self, view):
        self._asked += 1
        if self._asked % 2 == 1:
            return self._inner.allocate(view)
        if self._way == "raises":
            raise RuntimeError("the plug-in is broken")
        share = np.zeros((len(view), len(view.types)))
        share[:] = {"NaN": np.nan, "negative": -1.0}.get(self._way, 0.0)
        if self._way == "nothing":
            return None
        return Allocation(jobs=view.jobs, types=view.types, share=share[1:] if self._way == "wrong shape" else share)


class FailingDivide(Divide):
    """Proportional, but for every second answer."""

    def __init__(self) -> None:
        self._inner = mechanisms.create("proportional")
        self._asked = 0

    def divide(self, view, choice):
        self._asked += 1
        if self._asked % 2 == 0:
            return None if self._asked % 4 == 0 else nobody().nonsense
        return self._inner.divide(view, choice)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    for registry, name, factory in ((policies, "failing", Failing), (mechanisms, "failing", FailingDivide)):
        registry.names()  # loads what there is
        monkeypatch.setitem(registry._entries, name, None)
        registry.register(name, summary="for tests")(factory)


def run_to_the_end(path, **options):
    scheduler = a_scheduler(path, **options)
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "a", gpus=2)]
        submit(scheduler, *({"steps": 2000} for _ in range(5)))
        until(lambda: all(job.over for job in jobs_of(scheduler).values()), scheduler, agents)
        return {str(job.phase.value) for job in jobs_of(scheduler).values()}, look(
            scheduler, lambda registry: registry.failed_decisions
        )
    finally:
        scheduler.stop()


@pytest.mark.parametrize("way", WAYS)
def test_a_policy_that_fails_again_and_again_ends_nothing(tmp_path, way):
    phases, failures = run_to_the_end(tmp_path / "s.db", policy="failing", policy_settings={"way": way})

    assert phases == {"finished"}
    assert failures.count >= 1
    assert failures.last_reason


def test_a_mechanism_that_fails_again_and_again_ends_nothing(tmp_path):
    phases, failures = run_to_the_end(tmp_path / "s.db", mechanism="failing")

    assert phases == {"finished"}
    assert failures.count >= 1


def test_what_failed_is_in_the_journal_and_a_restart_reads_it(tmp_path):
    _, failures = run_to_the_end(tmp_path / "s.db", policy="failing")

    scheduler = a_scheduler(tmp_path / "s.db", policy="las")
    scheduler.start()
    try:
        assert look(scheduler, lambda registry: registry.failed_decisions.count) >= failures.count
    finally:
        scheduler.stop()
