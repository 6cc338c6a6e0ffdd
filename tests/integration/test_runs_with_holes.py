"""What was not measured is said wherever results are: runs, sweeps, comparisons, reports."""

import json

import pytest

from builders import command

CATALOGUE = """profile,gpus,type,rate,origin
bert,1,a100,2,
bert,1,l40s,1,
bert,2,a100,3.5,
resnet,1,a100,5,
resnet,1,l40s,4,derived
"""
TRACE = """arrival_s,profile,gpus,steps
0,bert,1,4000
10,bert,2,4000
20,bert,2,8000
30,resnet,1,9000
"""
HOLE = "not measured, so these jobs did not use the type: 'bert' with 2 GPUs on l40s (2 jobs)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("holes")
    (found / "mine.csv").write_text(CATALOGUE)
    (found / "jobs.csv").write_text(TRACE)
    return found


FLAGS = ("--trace", "jobs.csv", "--profiles", "mine.csv", "--cluster", "a100=2,l40s=4")


def test_a_run_names_the_hole_and_all_jobs_end(folder):
    done = command("simulate", *FLAGS, "--policy", "fifo", "--events", "a.jsonl", "--json", cwd=folder)

    told = json.loads(done.stdout)
    assert (told["jobs_finished"], told["jobs_rejected"]) == (4, 0)
    assert HOLE in done.stderr
    assert any(HOLE in note for note in told["notes"])
    assert any("derived, not measured" in note and "l40s (of 1 job)" in note for note in told["notes"])


def test_scaling_fills_it_and_says_so(folder):
    how = ("--set-profiles", "scaling=constant")
    done = command("simulate", *FLAGS, *how, "--policy", "fifo", "--json", cwd=folder)

    (estimated,) = [note for note in json.loads(done.stdout)["notes"] if "estimated" in note]
    assert estimated == "estimated, not measured, is the speed of 'bert' with 2 GPUs on l40s (2 jobs)"
    assert HOLE not in done.stderr


def test_several_catalogues_fill_it_and_conflicts_are_said(folder):
    (folder / "more.csv").write_text("profile,gpus,type,rate\nbert,2,l40s,1.8\nbert,1,a100,99\n")
    flags = (*FLAGS, "--profiles", "more.csv", "--policy", "fifo", "--json")

    notes = json.loads(command("simulate", *flags, cwd=folder).stdout)["notes"]

    assert not any(HOLE in note for note in notes)
    assert any("those of 'mine.csv', which is named first, are used" in note and "99" in note for note in notes)


def test_a_sweep_a_comparison_and_a_report_name_it(folder):
    swept = command("sweep", *FLAGS, "--policies", "fifo,las", "--store", "r.db", "--quiet", cwd=folder)
    compared = command("compare", "--store", "r.db", "--by", "policy", "fifo", "las", cwd=folder)
    told = json.loads(
        command("compare", "--store", "r.db", "--by", "policy", "fifo", "las", "--json", cwd=folder).stdout
    )
    report = command("report", "r.db", "--output", "report.html", cwd=folder)

    assert swept.returncode == 0, swept.stderr
    assert f"2 of 2 runs: {HOLE}" in swept.stderr
    assert f"2 of 2 runs: {HOLE}" in compared.stderr
    assert any(HOLE in note for note in told["notes"])
    assert report.returncode == 0, report.stderr
    assert "did not use the type" in (folder / "report.html").read_text()


def test_a_cost_that_nobody_knows_is_unknown(folder):
    (folder / "other.csv").write_text(CATALOGUE.replace("l40s", "l4"))
    flags = ("--trace", "jobs.csv", "--profiles", "other.csv", "--cluster", "a100=2,l4=4", "--policy", "las-perf")

    shown = command("simulate", *flags, cwd=folder)
    told = json.loads(command("simulate", *flags, "--json", cwd=folder).stdout)
    given = json.loads(
        command("simulate", *flags[:-3], "a100=2,l4=4:price=0.5", *flags[-2:], "--json", cwd=folder).stdout
    )

    assert told["cost"] is None
    assert "unknown" in shown.stdout
    assert "the price of a GPU hour of l4" in shown.stderr
    assert given["cost"] > 0


def test_a_refused_job_says_what_is_true(folder):
    (folder / "big.csv").write_text("arrival_s,profile,gpus,steps\n0,bert,4,100\n0,bert,1,100\n")
    flags = ("--trace", "big.csv", "--profiles", "mine.csv", "--cluster", "a100=8,l40s=8", "--policy", "fifo")

    done = command("simulate", *flags, "--json", cwd=folder)

    assert json.loads(done.stdout)["jobs_rejected"] == 1
    assert "'bert' with 4 GPUs has no measured speed on any type that could hold it (l40s=8, a100=8)" in done.stderr
