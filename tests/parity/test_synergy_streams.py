"""Our philly-derived workload and trace files against those of the Synergy artifact, to the last bit."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from rota.core.jobs import Jobs
from rota.workloads import materialise, philly, read_trace, workload, write_trace

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
TRACES = SHARED / "oracle" / "synergy" / "traces"
LOG = SHARED / "data" / "philly_jobs.csv.gz"
STREAMS = (
    "m3_multi_load2_seed42", "m3_multi_load3_seed42", "m3_multi_load4_seed42", "m3_multi_load5_seed42",
    "m3_multi_load6_seed42", "m3_multi_load9_seed42", "m3_single_load2_seed42", "m3_single_load3_seed42",
    "m3_single_load3_split33-33-33_seed42", "m3_single_load3_split50-0-50_seed42", "m3_single_load6_seed42",
    "m3_single_load8_seed42", "m3_single_load9_seed42", "m3_single_load9_split33-33-33_seed42",
    "m3_single_load9_split50-0-50_seed42", "m4_multi_load2_seed42", "m4_multi_load6_seed42", "m4_single_load3_seed42",
    "m4_single_load9_seed42", "m5_multi_load2_seed42", "m5_multi_load6_seed42", "m5_single_load3_seed42",
    "m5_single_load9_seed42", "m6_multi_load2_seed42", "m6_multi_load6_seed42", "m6_single_load3_seed42",
    "m6_single_load9_seed42", "overload600", "static200_multi", "static200_single", "static_small100_multi",
    "static_small100_single", "synthetic_load2_seed42",
)  # fmt: skip
OTHERS = {"multi_mid500", "static30", "test_trace"}
"""Cut out of other traces, or written by hand."""
CANONICAL = (
    *(f"{name}.csv" for name in (*STREAMS, "multi_mid500", "static30")), "dynamic_srtf.log", "static_100job_6_3_1100.0"
)  # fmt: skip


def oracle(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"the oracle file {path.name} is not beside this checkout")
    return path


def text_of(name: str) -> str:
    return gzip.decompress(oracle(TRACES / f"{name}.gz").read_bytes()).decode()


def settings_of(name: str) -> dict[str, object]:
    """What was asked of the artifact, from the name of the file; the seed is left to the workload."""
    if name.startswith("static"):
        return {
            "static": True,
            "small": "small" in name,
            "jobs": re.search(r"\d+", name)[0],
            "multi_gpu": "multi" in name,
        }
    if name == "overload600":
        return {"jobs_per_hour": 9}
    if name.startswith("synthetic"):
        return {"jobs_per_hour": 2, "synthetic": True}
    models, kind, load, split = re.match(r"m(\d)_(single|multi)_load(\d)(?:_split([\d-]+))?_seed42$", name).groups()
    profiles = {"3": "synergy"}.get(models, f"synergy-cpu{models}")
    settings = {"jobs_per_hour": load, "multi_gpu": kind == "multi", "profiles": profiles}
    return settings if split is None else settings | {"split": split.replace("-", ",")}


def our_stream(name: str, count: int) -> Jobs:
    return materialise(workload("philly-derived", **settings_of(name)), count)


def test_every_trace_of_the_oracle_is_in_a_list():
    found = {p.name.removesuffix(".csv.gz") for p in oracle(TRACES).glob("*.csv.gz")}

    assert found == {*STREAMS, *OTHERS}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_written_to_the_bytes_of_the_artifact(name, tmp_path):
    expected = text_of(f"{name}.csv")

    write_trace(our_stream(name, expected.count("\n")), tmp_path / "out.csv", "synergy", exact=True)

    assert (tmp_path / "out.csv").read_text() == expected


@pytest.mark.parametrize("name", CANONICAL)
def test_a_trace_is_written_back_to_identical_bytes(name, tmp_path):
    expected = text_of(name)

    write_trace(read_trace(TRACES / f"{name}.gz"), tmp_path / "out.csv", "synergy")

    assert (tmp_path / "out.csv").read_text() == expected


def test_the_trace_written_by_hand_has_arrivals_without_a_leading_zero():
    assert ",.123," in text_of("test_trace.csv")
    jobs = read_trace(TRACES / "test_trace.csv.gz")

    assert jobs.submitted[[0, -1]].tolist() == [0.123, 0.609]
    assert jobs.gpus[:3].tolist() == [4, 1, 2]


def test_the_log_we_ship_is_the_log_prepared_by_sia():
    ours, published = philly.shipped().by_arrival(), read_trace(oracle(LOG))

    assert len(published) == 82_247
    for column in ("submitted", "duration", "gpus"):
        assert np.array_equal(getattr(ours, column), getattr(published, column))
    names = [[log.tenants[t] for t in log.tenant] for log in (ours, published)]
    assert names[0] == names[1]
