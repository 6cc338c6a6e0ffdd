"""The measurement of `rota eta` with arrivals: what it counts, and that bands hold what they promise."""

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "eta_with_arrivals.py"
SMALL = ("--warm-up", "30", "--middle", "20", "--after", "40", "--moments", "2", "--most-seeds", "1")


def benchmark():
    spec = importlib.util.spec_from_file_location("eta_with_arrivals", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def measured(*options):
    command = [sys.executable, str(BENCHMARK), *options]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def a_row(samples, real):
    return {"samples": sorted(samples), "real": real, "seed": 1, "now": 0.0, "naive": 0.0, "alone": 0.0}


@pytest.mark.parametrize("spread_s", [1.0, 400.0, 100_000.0])
def test_a_perfect_forecast_has_four_ranks_in_five_whatever_falls_into_a_round(spread_s):
    scored = benchmark()
    draw = random.Random(3)
    rows = []
    for _ in range(600):
        values = [7000.0 + draw.expovariate(1 / spread_s) for _ in range(21)]
        rows.append(a_row(values[:20], values[20]))
    found = scored.scores(rows)["all"]
    assert 0.76 < found["rank"] < 0.84
    assert found["band"] > 0.77


def test_forecasts_that_agree_on_the_wrong_round_are_seen():
    scored = benchmark()
    found = scored.scores([a_row([7300.0] * 20, 9000.0)] * 10)["all"]
    assert found["rank"] < 0.1
    assert found["band"] == found["narrowest"] == 0.0


def test_the_measurement_runs_and_knows_that_nobody_overtakes_under_fifo():
    found = measured("fifo", "--load", "1.5", "--first-seed", "7", *SMALL)
    assert found["all"]["starts"] > 0
    assert found["all"]["band"] == 1.0
    assert found["all"]["error_s"] == 0.0


@pytest.mark.long
@pytest.mark.timeout(7000)
@pytest.mark.parametrize("policy", ["las", "max-min-fairness", "finish-time-fairness"])
def test_bands_hold_and_medians_are_twice_as_good_as_the_naive_estimate(policy):
    found = measured(policy, "--load", "0.85", "--first-seed", "5001", "--starts", "200", "--moments", "4")["all"]
    assert found["starts"] >= 200
    assert 0.7 <= found["rank"] <= 0.9
    assert found["error_s"] <= found["naive_error_s"] / 2
