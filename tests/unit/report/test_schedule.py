import numpy as np
import pytest

from rota.analysis.figures.schedule import Bar, Occupancy
from rota.clusters import load
from rota.report.schedule import schedule_of


def observed(*bars, cluster="v100=8/4"):
    held = Occupancy(load(cluster))
    held.bars = [Bar(*bar) for bar in bars]
    held.last = max(bar[3] for bar in bars)
    return held


def test_gpus_side_by_side_are_one_bar():
    held = observed((0, 0, 0, 100, 7, -1), (0, 1, 0, 100, 7, -1), (1, 0, 0, 100, 7, -1), (0, 2, 0, 90, 8, -1))

    found = schedule_of(held)

    assert found.bars.tolist() == [[0, 100, 0, 2, 7, -1], [0, 100, 4, 1, 7, -1], [0, 90, 2, 1, 8, -1]]
    assert found.cut is None


def test_columns_give_the_bars_again():
    held = observed((0, 0, 0, 3600, 1, -1), (0, 1, 1800, 9000, 2, 3))

    columns = schedule_of(held).columns()

    start = np.cumsum(columns["start"])
    assert start.tolist() == [0, 1800]
    assert (start + columns["length"]).tolist() == [3600, 9000]
    assert columns["partner"] == [-1, 3]
    assert columns["unit"] == 1.0


def test_a_short_run_is_kept_to_the_hundredth_of_a_second():
    columns = schedule_of(observed((0, 0, 0.25, 1.5, 1, -1))).columns()

    assert [t * columns["unit"] for t in (columns["start"][0], columns["length"][0])] == pytest.approx([0.25, 1.25])


def test_too_many_bars_are_cut_at_a_time_and_said():
    held = observed(*((0, 0, 100.0 * i, 100.0 * i + 150, i, -1) for i in range(10)))

    found = schedule_of(held, most=4)

    assert found.window == (0.0, 400.0)
    assert len(found.bars) == 4
    assert found.bars[:, 1].max() == 400.0
    assert "only the first 0.1 hours" in found.cut


def test_nobody_on_a_gpu_is_no_chart():
    assert schedule_of(Occupancy(load("v100=4"))) is None
