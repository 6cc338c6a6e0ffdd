import pytest
from harness import Harness

from rota.core.errors import ConfigError
from rota.core.job_spec import JobSpec
from rota.deploy.scheduler.catalogue import opened
from rota.deploy.scheduler.speed_names import fingerprint
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


def test_a_name_that_the_catalogue_lacks_is_new_and_one_that_it_has_is_not(speeds):
    assert speeds.named_or_new("my model") == "my model"
    assert speeds.named_or_new("resnet50-64") == "ResNet-50 (batch size 64)"
    assert speeds.named_or_new("resnet50") == "ResNet-50 (batch size 128)"
    with pytest.raises(ConfigError, match="up to 200 printable characters"):
        speeds.named_or_new("my\nmodel")
    with pytest.raises(ConfigError, match="up to 200 printable characters"):
        speeds.named_or_new("x" * 201)


def test_a_job_that_nobody_measured_is_first_taken_to_be_as_fast_as_models_are_there(speeds):
    rates = {gpu_type: speeds.rate("my model", 1, gpu_type) for gpu_type in ("k80", "p100", "v100")}

    assert 0 < rates["k80"] < rates["p100"] < rates["v100"]
    assert speeds.rate("my model", 2, "h100") == 2.0, "one step per second and GPU where nothing was measured"
    assert speeds.pair_rate("my model", "CycleGAN", 1, "v100") == 0.0
    speeds.check("my model", 64)


def test_whoever_submits_is_told_of_new_names_and_of_no_more_than_three():
    cluster = Harness(catalogue=opened(load("gavel")))
    command = {"argv": ["python", "train.py"], "steps": 10}
    names = ["cyclegam", "resnet18-32", *(f"x{number}" for number in range(10_000))]

    remarks = cluster.requests.remarks_on([JobSpec(**command, profile=name) for name in names])

    assert len(remarks) == 4
    assert remarks[0].startswith("profile 'cyclegam' is not in catalogue 'gavel': its speed is learned under that name")
    assert "if 'CycleGAN' was meant" in remarks[0]
    assert remarks[-1] == "... and 9998 more names that are not in it"
    assert cluster.requests.remarks_on([JobSpec(**command), JobSpec(emulated=True, profile="A3C", steps=1)]) == []


def test_a_command_whose_fingerprint_is_in_the_catalogue_has_that_profile(tmp_path):
    argv = ("python", "train.py", "--batch", "64")
    rows = f"profile,gpus,type,rate\n{fingerprint(argv)},1,v100,5.0\n"
    (tmp_path / "learned.csv").write_text(rows)
    cluster = Harness(catalogue=opened(load(tmp_path / "learned.csv")))

    number = cluster.submit(emulated=False, argv=[*argv, "--seed", "3"], profile="", steps=10)

    assert cluster.job(number).spec.profile == fingerprint(argv)
