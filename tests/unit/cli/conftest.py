"""A stand-in for `rota.api`, so that the command line is tested without a simulator."""

import sys
import types
from dataclasses import dataclass, field

import numpy as np
import pytest

import rota


@dataclass
class FakeResult:
    summary: dict = field(
        default_factory=lambda: {
            "mean_jct_s": 59770.441018,
            "p50_jct_s": 10.0,
            "makespan_s": 1e6,
            "utilization": 0.121262,
            "jobs_measured": 2,
            "slo_jobs": 3,
            "slo_violations": 1,
            "cost": float("nan"),
            "rounds": np.int64(7),
            "mean_jct_s_by_weight": {"1": 5.0, "5": 4.0},
            "cpu_s": 0.5,
        }
    )
    jobs: dict = field(default_factory=lambda: {"job_id": np.arange(2), "arrival_s": np.array([0.0, 0.1])})
    config: dict = field(default_factory=lambda: {"policy": "fifo"})
    interrupted: bool = False
    notes: list = field(default_factory=list)


class FakeApi(types.ModuleType):
    """Remembers how it was called; `behave` may raise or return something else."""

    def __init__(self):
        super().__init__("rota.api")
        self.calls = []
        self.behave = lambda **_: FakeResult()

    def simulate(self, **arguments):
        self.calls.append(arguments)
        return self.behave(**arguments)

    def replay(self, path):
        self.calls.append({"path": path})
        return self.behave(path=path)


@pytest.fixture
def api(monkeypatch):
    fake = FakeApi()
    monkeypatch.setitem(sys.modules, "rota.api", fake)
    monkeypatch.setattr(rota, "api", fake, raising=False)
    return fake


@pytest.fixture
def result():
    return FakeResult
