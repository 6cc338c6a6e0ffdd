"""Which runs of a sweep are paired, and what the interval is over."""

import pytest

from rota.core.errors import ConfigError
from rota.experiments.execution import RunOutcome
from rota.experiments.pairing import pair_runs
from rota.experiments.store import ResultStore


def a_store(path, points, sweep="s"):
    """A store with a run for each (point, status, mean)."""
    with ResultStore(path) as store:
        store.record_sweep(sweep, {})
        for i, (point, status, mean) in enumerate(points):
            key = f"{sweep}{i:04d}"
            store.add_members(sweep, [(point, key)])
            store.write(key, point, RunOutcome(status=status, metrics={"mean_jct_s": mean}, started=1.0, wall_s=1.0))
    return ResultStore(path, create=False)


def point(policy, load, seed):
    return {"policy": policy, "load": load, "seed": seed}


def paired(store, axis="policy", a="fifo", b="las", sweep=None):
    with store:
        return pair_runs(store, axis, a, b, sweep=sweep, metric="mean_jct_s")


def test_pairs_without_two_results_are_left_out_and_counted(tmp_path):
    runs = [(point("fifo", 1, s), "ok", 100.0) for s in range(3)] + [(point("las", 1, s), "ok", 50.0) for s in range(2)]
    runs += [(point("las", 1, 2), "failed", None), (point("fifo", 2, 0), "ok", 10.0)]

    found = paired(a_store(tmp_path / "r.db", runs))

    assert found.left_out == {"las is failed": 1, "the sweep has no such run with las": 1}
    assert (found.pairs, found.settings[0].seeds, found.overall.ratio) == (2, (0, 1), pytest.approx(0.5))


def test_where_a_run_is_unstable_none_of_its_seeds_is_compared(tmp_path):
    runs = [(point(p, 1, s), "ok", m + s) for s in range(3) for p, m in (("fifo", 100.0), ("las", 50.0))]
    runs += [(point("fifo", 2, s), "ok", 400.0) for s in range(3)] + [(point("las", 2, 0), "ok", 100.0)]
    runs += [(point("las", 2, s), "unstable", 100.0) for s in (1, 2)]

    found = paired(a_store(tmp_path / "r.db", runs))

    assert found.left_out == {"las is unstable at load = 2 (2 of 3 runs)": 3}
    assert [setting.point for setting in found.settings] == [{"load": 1}]
    assert (found.overall_pairs, found.overall.ratio) == (3, pytest.approx(0.505, abs=0.01))


def test_two_seeds_are_too_few_for_an_interval(tmp_path):
    runs = [(point(p, 1, s), "ok", m + s) for s in range(2) for p, m in (("fifo", 100.0), ("las", 50.0))]

    found = paired(a_store(tmp_path / "r.db", runs))

    assert (found.overall.low, found.overall.beyond_noise) == (None, None)
    assert "too little to tell it from noise" in found.overall.verdict("fifo", "las")


def test_settings_that_lack_a_seed_are_shown_but_not_part_of_the_whole(tmp_path):
    runs = [(point(p, 1, s), "ok", m) for s in range(2) for p, m in (("fifo", 100.0), ("las", 50.0 + s))]
    runs += [(point(p, 2, 0), "ok", m) for p, m in (("fifo", 100.0), ("las", 900.0))]

    found = paired(a_store(tmp_path / "r.db", runs))

    assert (found.pairs, found.overall_pairs, found.over, found.samples) == (3, 2, "seeds", 2)
    assert found.overall.ratio == pytest.approx((0.50 * 0.51) ** 0.5)
    assert found.settings[1].estimate.beyond_noise is None


def test_numbers_are_values_too_and_one_seed_leaves_the_settings(tmp_path):
    runs = [({"load": x, "policy": p}, "ok", 100.0 * x) for x in (1, 2) for p in ("fifo", "las")]

    found = paired(a_store(tmp_path / "r.db", runs), "load", "1", "2")

    assert (found.over, found.samples, found.overall.ratio) == ("settings", 2, pytest.approx(2.0))


def test_values_that_differ_in_something_else_too_do_not_pair(tmp_path):
    runs = [({"policy": "fifo", "round_s": 300}, "ok", 1.0), ({"policy": "las", "round_s": 360}, "ok", 1.0)]

    with pytest.raises(ConfigError, match="no two runs that differ in policy only"):
        paired(a_store(tmp_path / "r.db", runs))


def test_several_sweeps_with_that_axis_have_to_be_chosen_from(tmp_path):
    runs = [(point(p, 1, 0), "ok", m) for p, m in (("fifo", 2.0), ("las", 1.0))]
    a_store(tmp_path / "r.db", runs).__exit__()
    store = a_store(tmp_path / "r.db", runs, sweep="t")

    with store:
        with pytest.raises(ConfigError, match="choose with --sweep"):
            pair_runs(store, "policy", "fifo", "las", sweep=None, metric="mean_jct_s")
        assert pair_runs(store, "policy", "fifo", "las", sweep="t", metric="mean_jct_s").overall.ratio == 0.5
