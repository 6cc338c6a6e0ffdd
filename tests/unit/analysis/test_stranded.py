import numpy as np
import pytest
from event_builders import ran
from test_fairness import SERVERS, of_two

from rota.analysis.stranded import Stranding


def test_what_is_idle_beyond_the_share_of_idle_gpus_is_stranded():
    watch = Stranding(SERVERS)  # two servers with 2 GPUs, 10 CPUs and 100 GB each
    for event in (of_two(np.array([8.0, 4.0]), np.array([50.0, 25.0])), ran(0, 100, [100, 100]), ran(100, 200, [0, 0])):
        watch.observe(event)

    found = watch.over_time(bins=2)

    # Server 0: one GPU of two with 8 CPUs of 10; server 1: both GPUs with 4 of 10 CPUs and 25 of 100 GB.
    assert found.cpus[:, 0] == pytest.approx([0.0, 0.6])
    assert found.memory[:, 0] == pytest.approx([0.0, 0.75])
    assert found.edge.tolist() == [0.0, 100.0, 200.0]


def test_a_division_in_proportion_strands_nothing():
    watch = Stranding(SERVERS)
    for event in (of_two(None, None), ran(0, 100, [100, 100])):
        watch.observe(event)

    assert not watch.over_time(4).cpus.any()
