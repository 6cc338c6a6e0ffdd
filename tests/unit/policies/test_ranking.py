"""What rankings of a user's own get from `ranked`."""

import pytest

import rota
from rota.core.allocation import Traits
from rota.core.jobs import table
from rota.policies.ranking import ranked

MODEL = "ResNet-50 (batch size 64)"
BUSY, LATER = 1_000.0, 20_000.0
JOBS = table(profile_names=[MODEL] * 2, gpus=[1, 1], total_steps=[BUSY, LATER], submitted=[0.0, 0.0])


class Mine:
    def __init__(self, **more):
        self.more = more

    def allocate(self, view):
        return ranked(view, view.submitted, **self.more)


def finishes(policy, seed=0):
    return rota.simulate(jobs=JOBS, cluster="v100=1,k80=1", policy=policy, seed=seed).jobs["finish_s"]


def test_a_ranking_of_ones_own_takes_the_faster_type_unless_it_says_otherwise():
    assert finishes(Mine()) == pytest.approx(finishes("las-perf"))
    blind = [finishes(Mine(traits=Traits(aware=False)), seed).tolist() for seed in range(4)]
    assert blind == [finishes("fifo", seed).tolist() for seed in range(4)]
    assert max(ends[1] for ends in blind) > 2 * finishes(Mine())[1]  # drew the K80 and stayed there
