import pytest

from rota.core.errors import ConfigError
from rota.emulate.catalogue import DeviceTimes
from rota.emulate.gangs import Links, all_reduce_seconds, gang_step

TIMES = DeviceTimes()


def test_a16_the_exchange_grows_as_the_formula_says():
    links = Links(within_server=1e10, between_servers=1e9, latency_within_s=0.0, latency_between_s=1e-3)

    assert all_reduce_seconds(1, 1e9, links=links) == 0.0
    assert all_reduce_seconds(2, 1e9, links=links) == pytest.approx(0.1)
    assert all_reduce_seconds(4, 1e9, links=links) == pytest.approx(0.15)
    assert all_reduce_seconds(4, 1e9, servers=2, links=links) == pytest.approx(1.5 + 6e-3)


def test_each_gpu_of_a_gang_computes_its_part_of_the_batch():
    alone = TIMES.step("resnet50", "v100", 64)
    gang = gang_step(TIMES, "resnet50", "v100", 256, gpus=4)

    exchange = all_reduce_seconds(4, 4 * 25_557_032)
    assert gang.compute_s == pytest.approx(alone.compute_s + exchange)
    assert gang.transfer_s == alone.transfer_s
    assert gang.seconds > TIMES.step("resnet50", "v100", 256).seconds / 4


def test_a_gang_of_one_is_a_job():
    assert gang_step(TIMES, "resnet50", "v100", 64, gpus=1) == TIMES.step("resnet50", "v100", 64)


def test_impossible_gangs_are_refused():
    with pytest.raises(ConfigError, match="cannot be divided among 8"):
        gang_step(TIMES, "resnet50", "v100", 4, gpus=8)
    with pytest.raises(ConfigError, match="2 GPUs on 3 servers"):
        all_reduce_seconds(2, 1.0, servers=3)
