"""What is asked of Slurm, and what a batch job may tell."""

import pytest

from rota.core.errors import ConfigError
from rota.deploy.providers.port import PilotOrder
from rota.deploy.providers.slurm.allocation import allocation
from rota.deploy.providers.slurm.commands import passed_on
from rota.deploy.providers.slurm.script import batch_script
from rota.deploy.providers.slurm.settings import SlurmSettings, read_time, settings_from, slurm_time
from rota.deploy.providers.slurm.shares import fair_share

NODES = ({"Gres": "gpu:v100:4", "CPUTot": "48", "RealMemory": "256000"}, {"Gres": "gpu:v100:8", "CPUTot": "64"})
JOB = {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1", "CUDA_VISIBLE_DEVICES": "2,3", "SLURM_CPUS_ON_NODE": "8"}


def test_settings_become_options_of_sbatch():
    options = SlurmSettings(partition="gpu", gres="gpu:v100:4", time_s=14_400.0, cpus=16, mem="100G").options()

    assert options == ["--partition=gpu", "--gres=gpu:v100:4", "--mem=100G", "--cpus-per-task=16", "--time=04:00:00"]


def test_without_gres_a_pilot_has_its_whole_node():
    assert {"--exclusive", "--mem=0"} <= set(SlurmSettings(partition="gpu").options())


def test_settings_survive_being_written_down():
    settings = SlurmSettings(partition="gpu", gres="gpu:2", more=("--hint=nomultithread",))

    assert settings_from(settings.values()) == settings


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"partition": "gpu\n#SBATCH --x"}, "partition"),
        ({"gres": "nvme:1"}, "asks for no GPU"),
        ({"more": ("rm -rf",)}, "option of sbatch"),
        ({"more": ("--job-name=mine",)}, "found again"),
        ({"more": ("-Jmine",)}, "found again"),
        ({"more": ("--array=1-4",)}, "found again"),
        ({"time_s": 60.0}, "longer --time"),
        ({"notice_s": 1.0}, "jobs need time"),
    ],
)
def test_what_cannot_be_asked_is_refused(fields, word):
    with pytest.raises(ConfigError, match=word):
        SlurmSettings(**fields)


@pytest.mark.parametrize(
    ("text", "seconds"), [("4h", 14_400.0), ("90m", 5_400.0), ("2d", 172_800.0), ("4:00:00", 14_400.0), ("30", 1_800.0)]
)
def test_times_are_read_as_people_and_as_slurm_write_them(text, seconds):
    assert read_time(text) == seconds
    assert read_time(slurm_time(seconds)) == seconds


@pytest.mark.parametrize("text", ["soon", "0", "", "4 h"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ConfigError, match="is not a time"):
        read_time(text)


def test_a_pilot_gets_the_same_part_of_cpus_and_memory_as_of_gpus():
    assert fair_share(SlurmSettings(gres="gpu:v100:2"), NODES[:1]) == (24, 128_000)
    assert fair_share(SlurmSettings(gres="gpu:v100:2"), NODES)[0] == 16
    assert fair_share(SlurmSettings(gres="gpu:a100:2"), NODES) == (0, 0)


def test_an_agent_offers_the_devices_that_slurm_gave_and_no_others():
    part = allocation("slurm:v100", {**JOB, "SLURM_MEM_PER_NODE": "100000"}, lambda *_: {})

    assert (part.gpu_type, part.devices, part.cpus) == ("v100", ("2", "3"), 8.0)
    assert part.memory_gb == pytest.approx(104.8576)


def test_the_type_comes_from_the_job_else_from_the_node():
    asked = {"job": {"TresPerNode": "gres:gpu:k80:2"}, "node": {"Gres": "gpu:v100:4,gpu:k80:4", "RealMemory": "1000"}}
    untyped = {"job": {"TresPerNode": "gres:gpu:2"}, "node": {"Gres": "gpu:v100:4", "RealMemory": "1000"}}

    assert allocation("slurm", JOB, lambda what, _: asked[what]).gpu_type == "k80"
    assert allocation("slurm", JOB, lambda what, _: untyped[what]).gpu_type == "v100"


def test_a_type_that_nobody_says_is_asked_for():
    mixed = {"job": {"TresPerNode": "gres:gpu:2"}, "node": {"Gres": "gpu:v100:4,gpu:k80:4"}}

    with pytest.raises(ConfigError, match="of which type"):
        allocation("slurm", JOB, lambda what, _: mixed[what])


def test_without_a_job_or_without_gpus_there_is_one_clear_message():
    with pytest.raises(ConfigError, match="SLURM_JOB_ID is not set"):
        allocation("slurm", {})
    with pytest.raises(ConfigError, match="gave job 12 no GPU"):
        allocation("slurm", {"SLURM_JOB_ID": "12"})


def test_nothing_secret_of_the_environment_reaches_a_batch_job():
    mine = {"PATH": "/bin", "HOME": "/h", "ROTA_TOKEN": "rota_x_y", "AWS_SECRET_ACCESS_KEY": "z", "SLURM_CONF": "/c"}

    assert passed_on(mine) == {"PATH": "/bin", "HOME": "/h", "SLURM_CONF": "/c"}


def test_the_batch_script_names_the_folder_of_the_ticket_and_quotes_it(tmp_path):
    command = ("python", "-c", "import x; y", "--ticket", "/home/a b/ticket")

    script = batch_script(PilotOrder(name="gpu-0", command=command, log=tmp_path / "log"))

    assert script.splitlines()[-1] == "exec python -c 'import x; y' --ticket '/home/a b/ticket'"
