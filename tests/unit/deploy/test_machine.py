import subprocess
import sys

import pytest

from rota.core.errors import ConfigError
from rota.deploy.agent.machine import MachineOptions, equipment


def test_an_emulated_server_has_what_was_said_and_the_rest_by_gpu():
    made = equipment("emulate:v100=8", MachineOptions(name="a", memory_gb=10.0, rack="r"))

    assert (made.type, len(made.devices), made.emulated, made.rack) == ("v100", 8, True, "r")
    assert (made.cpus, made.memory_gb) == (24.0, 10.0)


def test_real_gpus_are_named_as_cuda_names_them():
    made = equipment("a100=2", MachineOptions(name="a"))

    assert (made.devices, made.emulated) == (("0", "1"), False)
    assert made.cpus >= 1
    assert made.memory_gb > 0


def test_gpus_are_counted_from_the_first_one_of_the_part():
    said = MachineOptions(name="a", first_gpu=4, first_cpu=1)

    assert equipment("emulate:k80=2", said).devices == ("emulated-4", "emulated-5")
    assert equipment("a100=2", said).devices == ("4", "5")


def test_an_emulated_card_has_its_memory():
    assert equipment("emulate:k80=2", MachineOptions(name="a")).device_memory_mib == 11441.0
    assert equipment("emulate:unheard-of=2", MachineOptions(name="a")).device_memory_mib == 0.0


@pytest.mark.parametrize(
    "text", ["v100", "v100=", "v100=0", "v100=-1", "=4", "emulate:", "emulate:v100=9999", "v100=²"]
)
def test_what_cannot_be_is_refused_with_what_to_write(text):
    with pytest.raises(ConfigError, match="emulate:TYPE=N"):
        equipment(text, MachineOptions(name="a"))


def test_an_agent_does_without_large_libraries():
    script = (
        "import sys, rota.cli.agent, rota.deploy.agent.runs; "
        "print({'numpy', 'scipy', 'rich', 'cryptography', 'matplotlib'} & set(sys.modules))"
    )

    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert ran.stdout.strip() == "set()"
