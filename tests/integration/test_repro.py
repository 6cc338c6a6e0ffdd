"""`rota repro` for real: the list, one quick reproduction of each kind, and the page made from recorded results."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from rota.core.errors import ConfigError
from rota.experiments.repro import catalogue, page
from rota.experiments.repro.comparing import compare, pooled
from rota.experiments.repro.model import Measured

PROJECT = Path(__file__).parents[2]
RECORDED = PROJECT / "docs" / "reproductions.json"


def rota(*arguments, folder=None):
    return subprocess.run(
        [sys.executable, "-m", "rota.cli", "repro", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
    )


def reproduced(name, folder, *more):
    done = rota(name, "--quick", "--quiet", "--json", "-j", "2", *more, folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_list_names_every_figure_with_its_runs():
    done = rota("list", "--json")

    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert {
        "gavel-check", "gavel-fig8", "gavel-fig9", "gavel-fig10", "gavel-makespan", "gavel-fig11", "gavel-fig12",
        "gavel-fig13", "synergy-check", "synergy-fig1", "synergy-fig6", "synergy-fig7", "synergy-fig8", "synergy-fig9",
        "synergy-fig12", "synergy-ratios", "synergy-opt",
    } == set(found)  # fmt: skip
    assert all(one["source"] and one["licence"].startswith("MIT") for one in found.values())
    assert all(one["quick_runs"] <= one["runs"] for one in found.values())
    assert "gavel-fig8" in rota("list").stdout


def test_an_unknown_name_is_answered_with_the_nearest():
    done = rota("gavel-fig88")

    assert done.returncode == 2
    assert "did you mean 'gavel-fig8'?" in done.stderr


def test_check_lines_are_met_to_the_last_digit_and_drawn(tmp_path):
    found = reproduced("gavel-check", tmp_path, "-o", "out")

    assert found["counts"] == {"met": 2}
    assert found["left_out"] == 7
    assert found["rows"][0]["published"] == 59770.441018
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "gavel-check.json", "gavel-check.pdf", "gavel-check.png",
    ]  # fmt: skip
    assert json.loads((tmp_path / "out" / "gavel-check.json").read_text()) == found


def test_runs_are_made_once_and_can_be_compared_without_running(tmp_path):
    first = reproduced("synergy-opt", tmp_path)
    again = reproduced("synergy-opt", tmp_path)
    stored = reproduced("synergy-opt", tmp_path, "--stored")

    assert (first["computed"], again["computed"], stored["computed"]) == (6, 0, 0)
    assert first["rows"] == again["rows"] == stored["rows"]
    assert first["counts"] == {"met": 4, "not published": 1}


@pytest.mark.parametrize("name", ["gavel-fig11", "synergy-check"])
def test_a_quick_reproduction_runs_and_meets_what_was_published(name, tmp_path):
    found = reproduced(name, tmp_path, "-o", "out")

    assert found["counts"]["met"] >= 3
    assert found["failed"] == 0
    assert all(row["reason"] for row in found["rows"] if row["verdict"] == "not met")
    assert (tmp_path / "out" / f"{name}.png").stat().st_size > 5000


def test_strict_turns_a_number_that_is_not_met_into_the_exit_code(tmp_path):
    assert rota("gavel-fig11", "--strict", folder=tmp_path).returncode == 1
    assert rota("gavel-fig11", folder=tmp_path).returncode == 0


def test_every_solve_of_figure_12_is_faster_than_published(tmp_path):
    found = reproduced("gavel-fig12", tmp_path)

    assert set(found["counts"]) == {"met"}


def test_a_report_of_nothing_says_what_to_do(tmp_path):
    done = rota("report", str(tmp_path))

    assert done.returncode == 2
    assert "rota repro NAME -o DIR" in done.stderr


def test_the_page_is_what_the_recorded_results_say():
    results = page.read_results([RECORDED])

    assert [r.name for r in results] == list(catalogue.names())
    assert (PROJECT / "docs" / "reproductions.md").read_text(encoding="utf-8") == page.page(results)


def test_recorded_results_have_the_published_numbers_of_the_catalogue():
    for result in page.read_results([RECORDED]):
        wanted = catalogue.load(result.name)
        known = {
            (line.name, at): value for line in wanted.lines for at, value in zip(line.at, line.values, strict=False)
        }
        for row in result.rows:
            value = known.get((row.name, row.at), row.published)
            assert row.published == (None if value is None or math.isnan(value) else value), (result.name, row)


@pytest.mark.parametrize("name", catalogue.names())
def test_every_reproduction_can_be_planned_and_says_where_its_numbers_come_from(name):
    wanted = catalogue.load(name)

    full, quick = (sum(len(s.points()) for s in catalogue.specs(wanted, quick=q)) for q in (False, True))
    assert (full > 0) == (wanted.kind == "sweep")
    assert 0 <= quick <= full
    assert wanted.source
    assert wanted.tolerance.why
    assert wanted.quick


def test_an_overloaded_point_that_was_run_to_the_end_replaces_the_stopped_one():
    wanted = catalogue.load("gavel-fig8")
    point = {"policy": "max-min-fairness", "load": 5.6, "seed": 0}
    stopped = Measured(point=point, status="unstable", metrics={})
    ended = Measured(point=point, status="ok", metrics={"mean_jct_s": 96.0 * 3600})

    (before,), _ = compare(wanted, pooled([stopped]))
    (after,), left_out = compare(wanted, pooled([stopped, ended]))

    assert (before.verdict, before.ours) == ("unstable", None)
    assert (after.verdict, after.ours) == ("met", 96.0)
    assert left_out == sum(len(line.values) for line in wanted.lines) + len(wanted.ratios) - 1


def test_an_overloaded_point_that_does_not_end_without_the_guard_either_stays_unstable():
    point = {"policy": "max-min-fairness", "load": 5.6, "seed": 0}
    stopped, late = (Measured(point=point, status=status, metrics={}) for status in ("unstable", "timeout"))

    assert pooled([stopped, late]) == [stopped]
    assert pooled([late]) == [late]


def test_figure_8_is_the_whole_grid_and_overloaded_points_once_more():
    grid, again = catalogue.specs(catalogue.load("gavel-fig8"), quick=False)

    assert len(grid.points()) == 16 * 6 * 3
    assert (grid.overload, again.overload) == ("auto", "off")


def test_a_file_that_is_no_result_is_refused_by_name(tmp_path):
    (tmp_path / "a.json").write_text("[1]")

    with pytest.raises(ConfigError, match=r"a\.json is not a result"):
        page.read_results([tmp_path])
