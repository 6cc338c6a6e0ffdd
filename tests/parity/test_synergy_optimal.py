"""`optimal` beside the optimum of Synergy's artifact, which ignores servers: close, not equal."""

import gzip
import json
from pathlib import Path

import pytest

from rota import api

ORACLE = Path(__file__).resolve().parents[2].parent / "shared" / "oracle" / "synergy"
RUNS = {
    "opt_testtrace_FIFO+opt": ("fifo", "test_trace.csv", "synergy-32"),
    "opt_static30_1srv_FIFO+opt": ("fifo", "static30.csv", "one_server.ini"),
    "opt_static30_1srv_SRTF+opt": ("srtf", "static30.csv", "one_server.ini"),
}


@pytest.mark.parametrize("name", sorted(RUNS))
def test_mean_completion_time_is_within_two_percent_of_the_artifacts_bound(name, tmp_path):
    if not (ORACLE / "runs.json").exists():
        pytest.skip("the oracle of Synergy's runs is not beside this checkout")
    policy, trace, cluster = RUNS[name]
    recorded = next(run for run in json.loads((ORACLE / "runs.json").read_text())["runs"] if run["name"] == name)
    path = tmp_path / trace
    path.write_bytes(gzip.decompress((ORACLE / "traces" / f"{trace}.gz").read_bytes()))
    servers = ORACLE / "traces" / cluster if cluster.endswith(".ini") else cluster

    means = {
        mechanism: api.simulate(
            trace=path, trace_format="synergy", cluster=servers, policy=policy, mechanism=mechanism,
            rules="synergy-artifact",
        ).summary["mean_jct_s"]
        for mechanism in ("optimal", "tune")
    }  # fmt: skip

    assert means["optimal"] / 3600 == pytest.approx(recorded["all_jct_h"]["mean"], rel=0.02)
    assert means["optimal"] < means["tune"]
