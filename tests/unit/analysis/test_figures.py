import numpy as np
import pytest
from event_builders import CLUSTER, V100, observe_all, planned, ran

from rota.analysis.timeline import Series, UtilizationTimeline

pytest.importorskip("matplotlib")

from rota.analysis import plots


def some_figure():
    rng = np.random.default_rng(0)
    series = {f"policy-{i}": Series(np.linspace(0, 86400, 11), rng.random(10)) for i in range(9)}
    return plots.utilization_lines(series)


@pytest.mark.parametrize("form", plots.FORMATS)
def test_the_same_figure_gives_the_same_bytes(form):
    first, again = (plots.rendered(some_figure(), form) for _ in range(2))

    assert first == again
    assert len(first) > 1000


def test_one_policy_alone_can_be_drawn():
    figure = plots.utilization_lines({"fifo": Series(np.array([0.0, 1.0]), np.array([0.5]))})

    assert len(figure.axes) == 1


def test_utilisation_is_spread_over_the_rounds_in_which_gpus_were_held():
    timeline = observe_all(
        UtilizationTimeline(CLUSTER),
        planned([(0, -1, V100, 2, 0)]),
        ran(0, 100, [100]),
        ran(100, 200, [50]),
        planned([(0, -1, V100, 1, 0), (1, -1, V100, 1, 0)]),
        ran(300, 400, [100, 100]),
    )

    series = timeline.utilization(bins=4)

    assert series.edge.tolist() == [0, 100, 200, 300, 400]
    assert series.value == pytest.approx([0.5, 0.25, 0.0, 0.5])


def test_a_run_without_rounds_was_never_busy():
    assert UtilizationTimeline(CLUSTER).utilization().value.tolist() == [0.0]
