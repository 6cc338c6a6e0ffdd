"""Our generators and trace files against those of the Gavel artifact, to the last bit."""

import ast
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from rota import profiles
from rota.core.jobs import COLUMNS, Jobs
from rota.workloads import materialise, read_trace, with_durations, workload, write_trace

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
TRACES = SHARED / "oracle" / "gavel" / "traces"
LEGACY = SHARED / "data" / "traces" / "gavel_msr_0e4a51_7col.trace.gz"
STATIC = ("artifact_evaluation", "debug", "highmem_test", "max_min_fairness", "medium_test", "small_test")
GENERATED = (
    "gen_seed0_lam0_n100", "gen_seed0_lam0_n100_multi", "gen_seed0_lam1000_n2600", "gen_seed0_lam15000_n120",
    "gen_seed0_lam15000_n120_prio", "gen_seed0_lam1500_n1200", "gen_seed0_lam2200_n450", "gen_seed0_lam3000_n200_multi",
    "gen_seed0_lam3000_n700", "gen_seed0_lam6000_n250", "gen_seed0_lam8000_n300_multi", "gen_seed42_lam4500_n5300",
)  # fmt: skip


def oracle(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"the oracle file {path.name} is not beside this checkout")
    return path


def lines_of(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in gzip.decompress(oracle(path).read_bytes()).decode().splitlines()]


def our_stream(name: str) -> Jobs:
    seed, gap, count = re.match(r"gen_seed(\d+)_lam(\d+)_n(\d+)", name).groups()
    settings = {"multi_gpu": name.endswith("_multi"), "multi_priority": name.endswith("_prio")}
    if gap == "0":
        return materialise(workload("gavel-static", jobs=count, seed=seed, **settings))
    return materialise(workload("gavel-continuous", interarrival_s=gap, seed=seed, **settings), int(count))


def as_cells(jobs: Jobs) -> list[tuple]:
    launches = [jobs.launches[i] for i in jobs.launch]
    return [
        (
            jobs.profiles[jobs.profile[i]],
            launches[i].command,
            launches[i].working_directory,
            launches[i].steps_argument,
            launches[i].needs_data_dir,
            jobs.total_steps[i],
            jobs.gpus[i],
            jobs.weight[i],
            jobs.slo[i] if jobs.slo[i] == jobs.slo[i] else -1.0,
            jobs.submitted[i],
        )
        for i in range(len(jobs))
    ]


def as_told(row: list[str]) -> tuple:
    return (*row[:4], row[4] == "1", float(row[5]), int(row[6]), float(row[7]), float(row[8]), float(row[9]))


def test_every_generated_stream_of_the_oracle_is_in_the_list():
    found = {p.name.split(".")[0] for p in oracle(TRACES).glob("gen_*.gz")}

    assert found == set(GENERATED)


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_stream_equals_the_artifact_in_every_field(name):
    expected = [as_told(row) for row in lines_of(TRACES / f"{name}.float.trace.gz")]

    assert as_cells(our_stream(name)) == expected


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize("exact", [True, False], ids=["float", "whole"])
def test_a_generated_stream_is_written_as_the_artifact_writes_it(name, exact, tmp_path):
    source = oracle(TRACES / f"{name}{'.float' if exact else ''}.trace.gz")
    expected = gzip.decompress(source.read_bytes()).decode()
    if "_lam0_" in name:
        # The artifact prints arrivals without gaps as 0 once and then as 0.0; we print 0.
        expected = expected.replace("\t0.0\n", "\t0\n")

    write_trace(our_stream(name), tmp_path / "out.trace", "gavel", exact=exact)

    assert (tmp_path / "out.trace").read_text() == expected


@pytest.mark.parametrize("name", GENERATED)
def test_a_trace_with_exact_steps_reads_as_the_stream_it_came_from(name):
    stream = our_stream(name)

    found = read_trace(oracle(TRACES / f"{name}.float.trace.gz"))

    assert as_cells(found) == as_cells(stream)
    np.testing.assert_allclose(with_durations(found, profiles.load("gavel")).duration, stream.duration, rtol=1e-15)


def test_durations_and_all_else_equal_the_dump_of_the_simulator():
    header, *rows = lines_of(TRACES / "simdump_seed0_lam3000_n120.tsv.gz")
    jobs = materialise(workload("gavel-continuous", interarrival_s=3000, jobs=120, seed=0))

    assert header[1:] == ["job_type", "scale_factor", "priority", "SLO", "duration", "total_steps_float", "arrival"]
    assert [jobs.profiles[p] for p in jobs.profile] == [r[1] for r in rows]
    assert jobs.gpus.tolist() == [int(r[2]) for r in rows]
    assert jobs.weight.tolist() == [float(r[3]) for r in rows]
    assert np.isnan(jobs.slo).all()
    assert {r[4] for r in rows} == {"None"}
    assert jobs.duration.tolist() == [float(r[5]) for r in rows]
    assert jobs.total_steps.tolist() == [float(r[6]) for r in rows]
    assert jobs.submitted.tolist() == [float(r[7]) for r in rows]


@pytest.mark.parametrize("name", STATIC)
def test_a_static_trace_is_written_back_to_identical_bytes(name, tmp_path):
    source = oracle(TRACES / f"{name}.trace.gz")

    write_trace(read_trace(source), tmp_path / "out.trace", "gavel")

    assert (tmp_path / "out.trace").read_bytes() == gzip.decompress(source.read_bytes())


def test_the_legacy_trace_is_written_back_to_identical_bytes(tmp_path):
    jobs = read_trace(oracle(LEGACY))

    write_trace(jobs, tmp_path / "out.trace", "gavel-legacy")

    assert len(jobs) == 1181
    assert (tmp_path / "out.trace").read_bytes() == gzip.decompress(LEGACY.read_bytes())


def test_the_legacy_trace_can_become_ten_columns_and_back(tmp_path):
    jobs = read_trace(oracle(LEGACY))

    write_trace(jobs, tmp_path / "ten.trace", "gavel")
    again = read_trace(tmp_path / "ten.trace")

    assert all(np.array_equal(getattr(jobs, c), getattr(again, c), equal_nan=True) for c in COLUMNS)
    assert again.launches[0].working_directory == "translation"


def test_the_artifact_evaluation_trace_comes_from_the_file_generator_up_to_its_edits_by_hand():
    published = read_trace(oracle(TRACES / "artifact_evaluation.trace.gz"))
    ours = materialise(
        workload(
            "gavel-trace", jobs=15, seed=4, min_hours=0.25, max_hours=0.5, num_durations=20, profiles="gavel-physical"
        )
    )

    same_steps = published.total_steps == ours.total_steps
    names = [[j.profiles[p] for p in j.profile] for j in (published, ours)]

    assert names[0] == names[1]
    assert np.flatnonzero(~same_steps).tolist() == [0, 3, 9, 11]
    assert np.array_equal(published.submitted, ours.submitted)


@pytest.mark.parametrize(("name", "file"), [("gavel", "simulation"), ("gavel-physical", "physical")])
def test_a_catalogue_equals_the_published_table(name, file):
    path = oracle(SHARED / "data" / f"gavel_{file}_throughputs.json.gz")
    published = json.loads(gzip.decompress(path.read_bytes()))
    catalogue = profiles.load(name)

    compared = 0
    for type_name, jobs in published.items():
        type_, spread = type_name.removesuffix("_unconsolidated"), type_name.endswith("_unconsolidated")
        for key, partners in jobs.items():
            profile, gpus = ast.literal_eval(key)
            if spread and gpus == 1:
                continue  # one GPU cannot be spread: we answer with the figure for one server
            for partner, rate in partners.items():
                if partner == "null":
                    assert catalogue.rate(profile, gpus, type_, spread=spread) == rate
                elif not spread or rate[0]:
                    other = ast.literal_eval(partner)[0]
                    assert catalogue.pair_rate(profile, other, gpus, type_, spread=spread) == rate[0]
                compared += 1

    assert compared == 414 + 3 * 1759 + 3033
