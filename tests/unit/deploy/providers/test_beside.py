"""`rota serve --nodes`: where nodes come from, in one text."""

import socket

import pytest

from rota.core.errors import ConfigError, RotaError
from rota.deploy.providers.beside import pilots_arguments, reachable


def test_keys_become_options_of_rota_pilots_start():
    words = pilots_arguments("slurm:partition=gpu,gres=gpu:v100:4,nodes=16,time=4h,emulate")

    assert words == [
        "--slurm", "--partition", "gpu", "--gres", "gpu:v100:4", "--nodes", "16", "--time", "4h", "--emulate"
    ]  # fmt: skip


def test_a_list_of_nodes_may_have_commas_in_brackets():
    words = pilots_arguments("slurm:nodelist=n[1,3-5],exclude=n4,sbatch=--hint=nomultithread")

    assert words == ["--slurm", "--nodelist", "n[1,3-5]", "--exclude", "n4", "--sbatch", "--hint=nomultithread"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("k8s:nodes=3", "other places are not known"),
        ("slurm", "other places are not known"),
        ("slurm:nodes", "write nodes=VALUE"),
        ("slurm:emulate=yes", "write emulate alone"),
        ("slurm:patition=gpu", "partition"),
    ],
)
def test_what_is_not_understood_is_said_with_what_to_write(spec, words):
    with pytest.raises(RotaError, match=words) as refused:
        pilots_arguments(spec)
    assert isinstance(refused.value, ConfigError)


def test_a_scheduler_that_listens_everywhere_is_called_by_the_name_of_its_machine():
    assert reachable("127.0.0.1:7070") == "127.0.0.1:7070"
    assert reachable("[::]:7070") == f"{socket.gethostname()}:7070"
