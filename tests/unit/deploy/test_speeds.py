import pytest

from rota.core.errors import ConfigError
from rota.deploy.scheduler.catalogue import opened
from rota.profiles import load


@pytest.fixture(scope="module")
def speeds():
    return opened(load("gavel"))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("ResNet-50 (batch size 64)", "ResNet-50 (batch size 64)"),
        ("resnet50-64", "ResNet-50 (batch size 64)"),
        ("ResNet-50 (64)", "ResNet-50 (batch size 64)"),
        ("cyclegan", "CycleGAN"),
        ("resnet50", "ResNet-50 (batch size 128)"),
        ("unprofiled", "unprofiled"),
    ],
)
def test_profiles_go_by_the_names_people_use(speeds, said, meant):
    assert speeds.named(said) == meant


def test_the_nearest_names_are_offered(speeds):
    with pytest.raises(ConfigError, match="did you mean 'CycleGAN'"):
        speeds.named("cyclegam")


def test_a_job_that_was_never_measured_is_refused_at_the_door(speeds):
    with pytest.raises(ConfigError, match="not measured with 2 GPUs"):
        speeds.check("A3C", 2)
    speeds.check("A3C", 1)


def test_a_type_that_the_catalogue_does_not_know_runs_nothing_and_stops_nobody(speeds):
    assert speeds.rate("A3C", 1, "h100") == 0.0
    assert speeds.rate("A3C", 2, "v100") == 0.0
    assert speeds.pair_rate("A3C", "CycleGAN", 1, "h100") == 0.0
    assert speeds.rate("unprofiled", 4, "h100") == 4.0


def test_rates_follow_the_storage_of_servers_where_the_catalogue_does():
    pipeline = opened(load("pipeline"))
    starved = pipeline.with_storage({"v100": 5.0})

    assert starved.rate("res50", 1, "v100") == load("pipeline").with_storage({"v100": 5.0}).rate("res50", 1, "v100")
    assert starved.sensitivity("res50", 1, "v100").speedup > pipeline.sensitivity("res50", 1, "v100").speedup
    assert starved.rate("unprofiled", 2, "v100") == 2.0
