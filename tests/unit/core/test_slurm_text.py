"""What Slurm prints, as values."""

import pytest

from rota.core.slurm_text import GpuGres, gpus_of, memory_mib, record, records, seconds_of

NODE = (
    "NodeName=n1 Arch=x86_64 CPUEfctv=8 CPUTot=8 AvailableFeatures=(null) Gres=gpu:v100:4(S:0-1) OS=Linux 6.1 #1 SMP "
    "RealMemory=32000 State=IDLE+DRAIN Partitions=gpu,urgent  Reason=disk full [root@2026-11-18T10:00:00]"
)


def test_a_record_is_cut_where_the_next_name_begins():
    node = record(NODE)

    assert node["NodeName"] == "n1"
    assert node["OS"] == "Linux 6.1 #1 SMP"
    assert node["Partitions"] == "gpu,urgent"
    assert node["Reason"] == "disk full [root@2026-11-18T10:00:00]"


def test_a_reason_that_looks_like_a_field_changes_nothing():
    assert record("NodeName=n1 State=DOWN Reason=was Gres=gpu:9 State=IDLE [root@x]")["State"] == "DOWN"


def test_every_line_is_a_record():
    assert [one["NodeName"] for one in records(f"{NODE}\n\n{NODE.replace('n1', 'n2')}\n")] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:v100:4", [GpuGres("v100", 4)]),
        ("gpu:4", [GpuGres("", 4)]),
        ("gpu", [GpuGres("", 1)]),
        ("gpu:v100", [GpuGres("v100", 1)]),
        ("gpu:v100:4(S:0-1),gpu:k80:2(IDX:0-1),nvme:1", [GpuGres("v100", 4), GpuGres("k80", 2)]),
        ("gpu:v100:1(S:0),gpu:v100:3(S:1)", [GpuGres("v100", 4)]),
        ("gres:gpu:a100:2", [GpuGres("a100", 2)]),
        ("cpu=8,mem=32000M,gres/gpu:v100=2", [GpuGres("v100", 2)]),
        ("(null)", []),
        ("", []),
        ("nvme:1", []),
    ],
)
def test_gpus_are_found_among_generic_resources(text, gpus):
    assert gpus_of(text) == gpus


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3:58", 238.0),
        ("4:00:00", 14_400.0),
        ("1-02:03:04", 93_784.0),
        ("1-12", 129_600.0),
        ("30", 1_800.0),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
        ("1:2:3:4", None),
    ],
)
def test_times_are_seconds(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(("text", "mib"), [("32000", 32_000.0), ("1.5G", 1_536.0), ("2T", 2_097_152.0), ("N/A", None)])
def test_memory_is_mib(text, mib):
    assert memory_mib(text) == mib
