"""Curves: how they look, which are drawn, and what a logarithmic axis cannot show."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.analysis.figures import quantities
from rota.analysis.figures.style import Style, chosen, inches
from rota.core.errors import ConfigError, UnknownName

pytest.importorskip("matplotlib")

from rota.analysis import plots
from rota.analysis.figures import curves
from rota.analysis.figures.curves import PlotLine, point

MEAN = quantities.quantity("mean_jct_s")


def line(name, values, unstable=()):
    """A curve with a few runs at 1, 2, 3 ...; values are means in hours, or lists of them."""
    points = []
    for x, value in enumerate(values, start=1):
        runs = value if isinstance(value, list) else [value]
        points.append(point(float(x), [3600.0 * v for v in runs], int(x in unstable)))
    return PlotLine(name=name, points=tuple(points))


def drawn(lines, **style):
    return curves.metric(lines, MEAN, xlabel="load", style=Style(**style)).axes[0]


def curve_of(axes, name):
    return next(artist for artist in axes.lines if artist.get_label() == name)


def test_no_two_of_sixteen_curves_look_alike():
    axes = drawn([line(f"p{i}", [i + 1.0, i + 2.0]) for i in range(16)])

    looks = {(a.get_color(), str(a.get_linestyle()), a.get_marker()) for a in axes.lines if a.get_label()[0] == "p"}
    assert len(looks) == 16
    with pytest.raises(ConfigError, match="17 lines"):
        drawn([line(f"p{i}", [1.0]) for i in range(17)])


def test_intervals_lie_under_every_curve():
    for count in (2, 9):
        axes = drawn([line(f"p{i}", [[1.0, 2.0, 3.0], [2.0, 3.0, 4.5]]) for i in range(count)])
        lowest = min(curve_of(axes, f"p{i}").get_zorder() for i in range(count))
        assert len(axes.collections) == count
        assert all(band.get_zorder() < lowest for band in axes.collections)


@pytest.mark.parametrize(
    ("count", "band", "kinds"),
    [
        (4, "auto", {"FillBetweenPolyCollection", "PolyCollection"}),
        (5, "auto", {"LineCollection"}),
        (9, "area", {"FillBetweenPolyCollection", "PolyCollection"}),
        (2, "whiskers", {"LineCollection"}),
        (2, "none", set()),
    ],
)
def test_many_curves_have_whiskers_and_none_may_be_asked_for(count, band, kinds):
    axes = drawn([line(f"p{i}", [[1.0, 2.0], [2.0, 3.0]]) for i in range(count)], band=band)

    assert {type(artist).__name__ for artist in axes.collections} <= kinds
    assert bool(axes.collections) == bool(kinds)


@pytest.mark.parametrize("name", ["mean_jct_s", "p99_jct_s", "lease_extension_fraction"])
def test_the_name_of_an_axis_is_not_cut_off_by_the_edge(name):
    figure = curves.metric([line("a", [1.0, 2.0])], quantities.quantity(name), xlabel="load", style=Style(width=3.33))
    figure.draw_without_rendering()

    extent = figure.axes[0].yaxis.label.get_window_extent()
    assert extent.y0 >= 0
    assert extent.y1 <= figure.bbox.height


def test_one_seed_has_no_interval():
    assert not drawn([line("a", [1.0, 2.0]), line("b", [2.0, 3.0])]).collections


def test_a_curve_has_a_gap_and_a_cross_where_a_run_was_unstable():
    axes = drawn([line("a", [1.0, 2.0, 3.0, 4.0], unstable={3})])

    y = curve_of(axes, "a").get_ydata()
    assert np.isnan(y).tolist() == [False, False, True, False]
    crosses = [a for a in axes.lines if a.get_marker() == "x" and len(a.get_xdata())]
    assert [list(a.get_xdata()) for a in crosses] == [[3.0]]
    assert curve_of(axes, "unstable") is not None


def test_zeros_are_marked_on_the_edge_of_a_logarithmic_axis():
    axes = drawn([line("a", [0.0, 0.0, 5.0]), line("b", [2.0, 3.0, 4.0])], log_y=True)

    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] > 0
    assert axes.get_xlim()[0] < 1
    arrows = [list(a.get_xdata()) for a in axes.lines if a.get_marker() == 7 and len(a.get_xdata())]
    assert arrows == [[1.0, 2.0]]
    assert curve_of(axes, "0") is not None
    with pytest.raises(ConfigError, match="linear-y"):
        drawn([line("a", [0.0, 0.0])], log_y=True)


def test_jobs_that_took_no_time_stay_in_a_distribution_with_a_logarithmic_axis():
    axes = curves.jct_cdf({"a": np.array([0.0, 0.0, 3600.0, 7200.0, np.nan])}).axes[0]

    x, y = curve_of(axes, "a").get_data()
    assert y.tolist() == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert x[:4].tolist() == pytest.approx([0.8, 0.8, 1.0, 2.0])
    assert curves.jct_cdf({"a": np.array([0.0, 3600.0])}, Style(log_x=False)).axes[0].get_xscale() == "linear"


@pytest.mark.parametrize(("text", "size"), [("acm-column", 3.33), ("ieee-text", 7.16), ("5", 5.0)])
def test_a_size_is_a_name_or_inches(text, size):
    assert inches(text, "--width") == size
    figure = curves.metric([line("a", [1.0, 2.0])], MEAN, xlabel="load", style=Style(width=size, height=2.0))
    assert tuple(figure.get_size_inches()) == (size, 2.0)


@pytest.mark.parametrize("text", ["wide", "0", "-3", "1e9", "nan"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ConfigError, match="inches"):
        inches(text, "--width")


NAMES = {"fifo": 1, "srtf": 2, "srtf, mechanism=tune": 3, "las": 4}


@pytest.mark.parametrize(
    ("style", "names"),
    [
        ({}, ["fifo", "srtf", "srtf, mechanism=tune", "las"]),
        ({"curves": ["las", "srtf*"]}, ["las", "srtf", "srtf, mechanism=tune"]),
        ({"without": ["*tune", "fifo"]}, ["srtf", "las"]),
        ({"labels": ["srtf=SRTF", "srtf, mechanism=tune=SRTF (tune)"]}, ["fifo", "SRTF", "SRTF (tune)", "las"]),
        ({"curves": ["srtf", "las"], "labels": ["las=a=b"]}, ["srtf", "a=b"]),
    ],
)
def test_curves_are_chosen_ordered_and_renamed(style, names):
    assert list(chosen(NAMES, Style(**style))) == names


@pytest.mark.parametrize(
    ("style", "error", "said"),
    [
        ({"curves": ["srft"]}, UnknownName, "did you mean 'srtf'"),
        ({"labels": ["lass=LAS"]}, UnknownName, "did you mean 'las'"),
        ({"labels": ["las"]}, ConfigError, "NAME=LABEL"),
        ({"labels": ["las=x", "fifo=x"]}, ConfigError, "same label"),
        ({"without": ["*"]}, ConfigError, "no curve is left"),
    ],
)
def test_what_names_no_curve_is_refused(style, error, said):
    with pytest.raises(error, match=said):
        chosen(NAMES, Style(**style))


def test_missed_deadlines_are_a_metric_where_jobs_have_some():
    assert quantities.value({"slo_jobs": 8, "slo_violations": 2}, quantities.MISSED) == 0.25
    assert quantities.value({"slo_jobs": 0, "slo_violations": 0}, quantities.MISSED) is None
    assert quantities.MISSED in quantities.names({"slo_jobs": 8, "slo_violations": 2})
    assert quantities.quantity("longest_s").label == "longest (hours)"


@given(st.integers(1, 16), st.sampled_from([3.33, 3.5, 7.0]), st.integers(1, 40))
def test_a_legend_has_at_most_four_columns_and_room_for_its_names(count, width, letters):
    columns = curves._legend_columns(["x" * letters] * count, width)

    assert 1 <= columns <= 4
    assert columns == 1 or min(columns, count) * (0.45 + 0.052 * letters) <= width + 0.06


# Colours

SIGHT = {
    "all colours": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}
"""What is left of linear red, green and blue (Machado, Oliveira and Fernandes 2009, severity 1)."""
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]


def lab(colour, sight):
    """CIELAB of a colour as somebody sees it."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(SIGHT[sight]) @ linear, 0, 1)
    t = np.array(TO_XYZ) @ seen / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_can_be_told_apart_also_without_red_or_green(sight):
    for a, b in itertools.combinations(plots.BAR_COLOURS, 2):
        assert np.linalg.norm(lab(a, sight) - lab(b, sight)) > 15, (a, b)
