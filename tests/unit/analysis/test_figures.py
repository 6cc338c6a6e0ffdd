import numpy as np
import pytest
from event_builders import CLUSTER, V100, observe_all, planned, ran

from rota.analysis.report import Picture, Report, render
from rota.analysis.timeline import Series, Timeline

pytest.importorskip("matplotlib")

from rota.analysis import plots


def some_figures():
    rng = np.random.default_rng(0)
    jct = {f"policy-{i}": rng.lognormal(10, 1, 50) for i in range(9)}
    series = {name: Series(np.linspace(0, 86400, 11), rng.random(10)) for name in jct}
    means = {name: float(v.mean()) for name, v in jct.items()}
    return (plots.jct_cdf(jct), plots.jct_bars(means, means), plots.utilization_lines(series))


def test_every_figure_is_written_in_every_format(tmp_path):
    for i, figure in enumerate(some_figures()):
        paths = plots.save(figure, tmp_path, f"figure-{i}")

        assert [p.suffix for p in paths] == [".png", ".pdf", ".svg"]
        assert all(p.stat().st_size > 1000 for p in paths)


@pytest.mark.parametrize("form", plots.FORMATS)
def test_the_same_figure_gives_the_same_bytes(form):
    first, again = (plots.rendered(some_figures()[1], form) for _ in range(2))

    assert first == again


def test_one_policy_alone_can_be_drawn():
    figure = plots.utilization_lines({"fifo": Series(np.array([0.0, 1.0]), np.array([0.5]))})

    assert len(figure.axes) == 1


def test_utilisation_is_spread_over_the_rounds_in_which_gpus_were_held():
    timeline = observe_all(
        Timeline(CLUSTER),
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
    assert Timeline(CLUSTER).utilization().value.tolist() == [0.0]


def test_the_page_contains_everything_and_escapes_what_it_shows():
    page = render(
        Report(
            title="a < b",
            introduction="text",
            header=("policy", "x"),
            rows=(("fifo", "1"), ("<b>", "2")),
            best=1,
            pictures=(Picture(svg=b"<svg/>", caption='say "hi"'),),
            recipe="rota demo",
            footer="end",
        )
    )

    assert "<title>a &lt; b</title>" in page
    assert '<tr class="best"><td>&lt;b&gt;</td>' in page
    assert "data:image/svg+xml;base64,PHN2Zy8+" in page
    assert "http" not in page.replace("<!doctype html>", "")
