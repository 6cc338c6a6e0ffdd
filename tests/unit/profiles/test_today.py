"""Catalogues of today's GPUs against an independent reading of the figures they were made from."""

import csv
import gzip
import math
from collections import defaultdict
from pathlib import Path

import pytest

from rota import profiles

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
NAMES = ("arena", "lambda", "mlperf", "sia", "zeus")
needs_tables = pytest.mark.skipif(not (DATA / "sia_steps.csv.gz").is_file(), reason="no tables in ../shared/data")


def table(name):
    with gzip.open(DATA / name, "rt", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", NAMES)
def test_source_licence_and_reference_are_named_and_every_rate_is_a_number(name):
    catalogue = profiles.load(name)

    assert all(catalogue.about[key] for key in ("title", "source", "licence"))
    assert catalogue.reference_type in catalogue.types
    assert all(math.isfinite(rate) and rate >= 0 for rate in catalogue.alone.values())


@needs_tables
def test_every_row_of_sia_is_the_step_of_its_placement():
    steps = defaultdict(dict)
    for row in table("sia_steps.csv.gz"):
        key = (f"{row['model']} (batch size {float(row['local_batch']):g} per GPU)", int(row["gpus"]), row["cluster"])
        if row["placement"]:
            steps[key][row["placement"]] = float(row["step_s"])
    clusters = {"t4": "aws", "v100": "azure", "a100": "dgx", "rtx6000": "quad", "rtx2080ti": "rtx"}
    catalogue = profiles.load("sia")
    checked = 0

    for (profile, gpus, gpu_type, spread), rate in catalogue.alone.items():
        extended = catalogue.origins.get((profile, gpus, gpu_type, spread)) == "extended"
        placements = steps[profile, gpus, "dgx-ext" if extended else clusters[gpu_type]]
        fewest = min(len(p) for p in placements if len(p) > 1 or not spread)
        candidates = {p: s for p, s in placements.items() if len(p) == fewest}
        even = min(max(map(int, p)) - min(map(int, p)) for p in candidates)
        expected = [s for p, s in candidates.items() if max(map(int, p)) - min(map(int, p)) == even]
        assert any(rate == pytest.approx(1 / s, rel=1e-7) for s in expected)
        assert not extended or not steps[profile, gpus, "dgx"]
        checked += 1
    assert checked > 700


@needs_tables
def test_every_row_of_arena_is_the_iteration_with_the_fewest_servers():
    seconds = defaultdict(dict)
    for row in table("arena_iterations.csv.gz"):
        profile = f"{row['model']}-{row['parameters']} (batch size {row['global_batch']})".replace("wide_", "wide-")
        nodes = int(row["nodes"])
        seconds[profile, nodes * int(row["gpus_per_node"]), row["gpu_type"]][nodes] = row["iteration_s"]
    catalogue = profiles.load("arena")

    assert {key[:3] for key in catalogue.alone} == set(seconds)
    for (profile, gpus, gpu_type, spread), rate in catalogue.alone.items():
        of = seconds[profile, gpus, gpu_type]
        text = of[min(n for n in of if not spread or (n > 1 and of[n]))]
        assert rate == (pytest.approx(1 / float(text), rel=1e-7) if text else 0.0)


@needs_tables
def test_every_row_of_zeus_is_an_epoch_at_full_power():
    catalogue = profiles.load("zeus")
    rows = table("zeus_power.csv.gz")
    full = {gpu: max(int(r["power_limit_w"]) for r in rows if r["gpu_type"] == gpu) for gpu in catalogue.types}
    expected = {}
    for row in rows:
        if int(row["power_limit_w"]) == full[row["gpu_type"]]:
            profile = f"{row['model']} {row['dataset']} {row['optimizer']} (batch size {row['batch']})"
            expected[profile, 1, row["gpu_type"], False] = row

    assert set(catalogue.alone) == set(expected)
    for key, row in expected.items():
        assert catalogue.alone[key] * float(row["seconds_per_epoch"]) == pytest.approx(1000, rel=1e-7)
        assert catalogue.watts[key] == float(row["average_power_w"])


PUBLISHED = {
    ("resnet50 (1000 images)", 1, "v100"): 833,
    ("resnet50 (1000 images)", 8, "a100"): 11439,
    ("resnet50 (1000 images)", 1, "h100"): 2791,
    ("resnet50 (1000 images)", 8, "h100"): 22059,
    ("resnet50 (1000 images)", 8, "h200"): 24479,
    ("resnet50 (1000 images)", 8, "b200"): 24461,
    ("resnet50 (1000 images)", 1, "a10"): 638,
    ("resnet50 (1000 images)", 4, "rtx6000ada"): 4548,
    ("bert_large_squad (100 sequences)", 1, "gh200"): 296,
    ("bert_large_squad (100 sequences)", 4, "b200"): 1981,
    ("ssd (100 images)", 2, "rtx4090"): 732,
    ("gnmt (100000 tokens)", 1, "h200"): 570504,
    ("waveglow (100000 samples)", 4, "v100"): 165996,
}
"""Samples/s, copied by hand from the tables of Lambda's benchmark."""


@pytest.mark.parametrize("kind", PUBLISHED)
def test_lambda_has_the_published_samples_per_second(kind):
    profile, gpus, gpu_type = kind
    step = int(profile.partition("(")[2].split()[0])

    assert profiles.load("lambda").rate(profile, gpus, gpu_type) * step == pytest.approx(PUBLISHED[kind])
    assert profiles.load("lambda").origin(profile, gpus, gpu_type) == "measured"


def test_an_l40s_is_derived_from_the_same_chip_by_memory_bandwidth():
    catalogue = profiles.load("lambda")

    for profile in catalogue.names:
        for gpus in (1, 2, 4, 8):
            assert catalogue.rate(profile, gpus, "l40s") == pytest.approx(
                0.9 * catalogue.rate(profile, gpus, "rtx6000ada")
            )
            assert catalogue.origin(profile, gpus, "l40s") == "derived"
            assert catalogue.origin(profile, gpus, "h200") == ("measured" if gpus in {1, 8} else "derived")


MINUTES = {
    ("llama2_70b_lora", 8, "h100"): 28.163,
    ("llama2_70b_lora", 8, "h200"): 24.689,
    ("llama2_70b_lora", 8, "b200"): 12.958,
    ("bert", 8, "h100"): 5.469,
    ("bert", 8, "h200"): 5.212,
    ("bert", 4, "l40s"): 82.695,
    ("resnet", 8, "l40s"): 52.723,
    ("ssd", 4, "l40s"): 203.384,
    ("ssd", 8, "h100"): 35.476,
    ("unet3d", 8, "h200"): 11.506,
    ("stable_diffusion", 8, "b200"): 19.517,
}
"""Times to train by the rules of MLPerf: mean of the runs without the extremes, times the factor for convergence."""


@pytest.mark.parametrize("kind", MINUTES)
def test_mlperf_has_the_official_times(kind):
    benchmark, gpus, gpu_type = kind

    rate = profiles.load("mlperf").rate(f"{benchmark} (MLPerf)", gpus, gpu_type)

    assert 1000 / rate / 60 == pytest.approx(MINUTES[kind], abs=0.002)
