"""`rota plot` on real runs: every kind in every format, and the numbers behind the pictures."""

import csv
import itertools
import json
import math
import statistics

import numpy as np
import pytest

import rota
from rota.cli.main import main
from rota.core.jobs import table
from rota.experiments.execution import RunOutcome
from rota.experiments.store import ResultStore

pytest.importorskip("matplotlib")

MAGIC = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two stores, two logs and two job tables."""
    folder = tmp_path_factory.mktemp("plots")
    small = ["--cluster", "v100=4,k80=4", "--policies", "fifo,las", "--seeds", "0:2", "--quiet", "-j", "1"]
    loads = ["--workload", "gavel-continuous", "--loads", "0.1:0.2:0.1", "--measure", "5:15"]
    assert main(["sweep", *small, *loads, "--store", str(folder / "loads.db")]) == 0
    assert main(["sweep", *small, "--workload", "gavel-static", "--jobs", "4:8:4", "--store", f"{folder}/jobs.db"]) == 0
    for policy in ("fifo", "max-min-fairness-packed"):
        run = ["simulate", "--workload", "gavel-static", "--set", "jobs=12", "--cluster", "v100=2,k80=2"]
        files = ["--events", f"{folder}/{policy}.jsonl.gz", "--jobs-csv", f"{folder}/{policy}.csv"]
        assert main([*run, "--policy", policy, *files]) == 0
    for mechanism in ("tune", "greedy"):
        run = ["simulate", "--workload", "philly-derived", "--set", "jobs=12", "--set", "static=true"]
        files = ["--mechanism", mechanism, "--events", f"{folder}/{mechanism}.jsonl.gz"]
        assert main([*run, "--cluster", "synergy-32", "--policy", "fifo", *files]) == 0
    rota.simulate(
        jobs=table(
            profile_names=["A3C"] * 8,
            gpus=[1] * 8,
            total_steps=[40_000] * 8,
            submitted=[0.0] * 8,
            tenant_names=["a", "b"] * 4,
        ),
        cluster="v100=3",
        policy="max-min-fairness-water-filling",
        policy_settings={"entities": "a=2:fairness,b=1:fairness"},
        events=folder / "tenants.jsonl.gz",
    )
    return folder


KINDS = {
    "jct-vs-load": ["loads.db"],
    "jct-cdf": ["fifo.csv", "packed=max-min-fairness-packed.csv"],
    "utilization": ["fifo.jsonl.gz", "max-min-fairness-packed.jsonl.gz"],
    "gantt": ["max-min-fairness-packed.jsonl.gz"],
    "sensitivity": ["synergy"],
    "colocation": ["gavel"],
    "makespan-vs-jobs": ["jobs.db"],
    "ftf-cdf": ["fifo.csv", "packed=max-min-fairness-packed.csv"],
    "sim-vs-real": ["fifo.csv", "packed=max-min-fairness-packed.csv"],
    "stranded": ["tune.jsonl.gz", "greedy.jsonl.gz"],
    "fairness-over-time": ["tenants.jsonl.gz"],
    "solve-time-vs-jobs": ["--policy", "fifo", "--policy", "max-min-fairness-perf", "--jobs", "8,16"],
}


@pytest.mark.parametrize("form", MAGIC)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_in_every_format(made, tmp_path, monkeypatch, kind, form):
    monkeypatch.chdir(made)
    target = tmp_path / f"figure.{form}"

    assert main(["plot", kind, *KINDS[kind], "-o", str(target)]) == 0

    data = target.read_bytes()
    assert data.startswith(MAGIC[form])
    assert len(data) > 3000


def numbers(capsys, *arguments):
    capsys.readouterr()
    assert main(["plot", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def jct_of(path):
    with path.open() as file:
        return sorted(float(line["jct_s"]) for line in csv.DictReader(file))


@pytest.mark.parametrize(
    ("kind", "file", "x", "y"),
    [("jct-vs-load", "loads.db", "load", "mean_jct_s"), ("makespan-vs-jobs", "jobs.db", "set.jobs", "makespan_s")],
)
def test_lines_are_means_over_seeds_with_their_interval(made, capsys, kind, file, x, y):
    with ResultStore(made / file, create=False) as store:
        runs = list(store.runs(sweep="sweep"))

    lines = numbers(capsys, kind, made / file)["lines"]

    assert [line["name"] for line in lines] == ["fifo", "las"]
    for line in lines:
        assert len(line["points"]) == 2
        for point in line["points"]:
            own = [r.metrics[y] for r in runs if (r.point["policy"], r.point[x]) == (line["name"], point["x"])]
            half = 4.302653 * statistics.stdev(own) / math.sqrt(3)
            assert (point["runs"], point["unstable"]) == (3, 0)
            assert point["mean"] == pytest.approx(statistics.mean(own))
            assert (point["low"], point["high"]) == pytest.approx((point["mean"] - half, point["mean"] + half))


def test_an_unstable_run_takes_the_mean_of_its_point_away(tmp_path, capsys):
    path = tmp_path / "some.db"
    ends = {(1, 0): "ok", (1, 1): "ok", (2, 0): "ok", (2, 1): "unstable", (3, 0): "failed"}
    with ResultStore(path) as store:
        store.record_sweep("one", {})
        store.add_members("one", [({"load": x, "policy": "fifo", "seed": s}, f"{x}{s}") for x, s in ends])
        for (x, s), status in ends.items():
            done = RunOutcome(status=status, metrics={"mean_jct_s": 10.0 * x + s}, started=1.0, wall_s=0.5)
            store.write(f"{x}{s}", {"policy": "fifo"}, done)

    found = numbers(capsys, "jct-vs-load", path)

    (line,) = found["lines"]
    assert [(p["x"], p["mean"], p["unstable"]) for p in line["points"]] == [(1, 10.5, 0), (2, None, 1)]
    assert found["left_out"] == 1
    assert main(["plot", "jct-vs-load", str(path), "-o", str(tmp_path / "some.svg")]) == 0
    assert "1 runs" in capsys.readouterr().err


def test_a_distribution_has_the_completion_times_of_the_job_table(made, capsys):
    (line,) = numbers(capsys, "jct-cdf", f"mine={made / 'fifo.csv'}")["lines"]

    assert (line["name"], line["jobs"]) == ("mine", 12)
    assert line["jct_s"] == jct_of(made / "fifo.csv")


def test_a_distribution_of_a_store_puts_seeds_together(made, capsys):
    lines = numbers(capsys, "jct-cdf", made / "loads.db", "--where", "load=0.2")["lines"]

    assert [(line["name"], line["jobs"]) for line in lines] == [("fifo", 30), ("las", 30)]
    with ResultStore(made / "loads.db", create=False) as store:
        means = [r.metrics["mean_jct_s"] for r in store.runs(sweep="sweep") if r.point["load"] == 0.2]
    both = [t for line in lines for t in line["jct_s"]]
    assert statistics.mean(both) == pytest.approx(statistics.mean(means))


def test_bars_of_a_gantt_chart_add_up_to_the_utilisation_and_never_overlap(made, capsys):
    log = made / "max-min-fairness-packed.jsonl.gz"

    found = numbers(capsys, "gantt", log)

    summary = rota.replay(log).summary
    held = sum(b["end_s"] - b["start_s"] for b in found["bars"])
    (busy,) = numbers(capsys, "utilization", log)["lines"]
    assert held == pytest.approx(np.mean(busy["utilization"]) * busy["edge_s"][-1] * 4)
    assert busy["edge_s"][-1] >= summary["makespan_s"] - 1
    by_gpu = {}
    for bar in found["bars"]:
        by_gpu.setdefault((bar["server"], bar["gpu"]), []).append((bar["start_s"], bar["end_s"]))
    assert len(by_gpu) == 4
    for bars in by_gpu.values():
        bars.sort()
        assert all(end <= start + 1e-6 for (_, end), (start, _) in itertools.pairwise(bars))
    assert {job for bar in found["bars"] for job in bar["jobs"]} == set(range(12))


def test_a_gantt_chart_keeps_to_its_window(made, tmp_path, capsys):
    log = made / "fifo.jsonl.gz"

    bars = numbers(capsys, "gantt", log, "--from-hour", "1", "--to-hour", "2")["bars"]

    assert bars
    assert all(3600 <= b["start_s"] < b["end_s"] <= 7200 for b in bars)
    assert main(["plot", "gantt", str(log), "--by", "server", "-o", str(tmp_path / "servers.png")]) == 0


def test_heat_maps_show_what_the_catalogue_says(capsys):
    (table,) = numbers(capsys, "sensitivity", "synergy", "--profile", "alexnet")["models"]
    pairs = numbers(capsys, "colocation", "gavel", "--type", "p100")

    known = rota.profiles.load("synergy").sensitivity("alexnet", 1, "v100")
    assert np.allclose(table["speed"], known.speed)
    gavel = rota.profiles.load("gavel")
    a, b = pairs["models"][:2]
    assert pairs["speed"][0][1] == pytest.approx(gavel.pair_rate(a, b, 1, "p100") / gavel.rate(a, 1, "p100"))
    assert len(pairs["models"]) == 26


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jct-vs-load", "none.db", "-o", "a.png"], "there is no store"),
        (["jct-vs-load", "jobs.db", "-o", "a.png"], "does not vary load"),
        (["jct-vs-load", "loads.db", "-o", "a.gif"], "ends in .png"),
        (["jct-vs-load", "loads.db"], "either -o FILE"),
        (["jct-vs-load", "loads.db", "--sweep", "swep", "--json"], "did you mean 'sweep'"),
        (["jct-cdf", "loads.db", "--where", "load=7", "--json"], "unknown value of load '7'"),
        (["jct-cdf", "none.csv", "--json"], "cannot read none.csv"),
        (["jct-cdf", "fifo.csv", "loads.db", "--json"], "drawn alone"),
        (["jct-cdf", "fifo.csv", "fifo.csv", "--json"], "NAME=FILE"),
        (["jct-cdf", "fifo.jsonl.gz", "--json"], "no column jct_s"),
        (["utilization", "fifo.csv", "--json"], "fifo.csv:1"),
        (["gantt", "fifo.jsonl.gz", "--from-hour", "3", "--to-hour", "2", "--json"], "is empty"),
        (["gantt", "fifo.jsonl.gz", "--from-hour", "1e6", "-o", "a.png"], "nothing ran"),
        (["sensitivity", "gavel", "--json"], "try `synergy`"),
        (["sensitivity", "synergy", "--type", "v10", "--json"], "did you mean 'v100'"),
        (["colocation", "synergy", "--json"], "no speeds of two jobs"),
        (["colocation", "gavel", "--profile", "A3", "--json"], "did you mean 'A3C'"),
    ],
)
def test_what_cannot_be_drawn_is_one_message_and_exit_code_2(made, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(made)
    capsys.readouterr()

    assert main(["plot", *arguments]) == 2

    out, err = capsys.readouterr()
    assert said in err
    assert out == ""
    assert not (made / "a.png").exists()


def test_the_distribution_of_fairness_is_that_of_the_jobs(made, capsys):
    lines = numbers(capsys, "ftf-cdf", made / "fifo.csv")["lines"]

    with (made / "fifo.csv").open() as file:
        expected = sorted(float(line["ftf"]) for line in csv.DictReader(file))
    assert lines == [{"name": "fifo", "jobs": 12, "ftf": expected}]


def test_a_store_has_the_fairness_of_its_jobs(made, capsys):
    lines = numbers(capsys, "ftf-cdf", made / "loads.db")["lines"]

    with ResultStore(made / "loads.db", create=False) as store:
        runs = [r for r in store.runs(sweep="sweep") if r.point["policy"] == "fifo" and r.point["load"] == 0.1]
    shown = next(line for line in lines if line["name"] == "fifo, load=0.1")
    assert len(shown["ftf"]) == 30
    assert np.mean(shown["ftf"]) == pytest.approx(np.mean([r.metrics["mean_ftf"] for r in runs]))


def test_ratios_are_taken_job_by_job(made, tmp_path, capsys):
    header = "job_id,arrival_s,jct_s,gpus,measured\n"
    (tmp_path / "real.csv").write_text(header + "0,0,10,1,1\n1,0,20,1,1\n2,0,,1,1\n3,0,40,1,0\n")
    (tmp_path / "sim.csv").write_text(header + "1,0,30,1,1\n0,0,8,1,1\n2,0,5,1,1\n3,0,40,1,1\n")

    found = numbers(capsys, "sim-vs-real", tmp_path / "real.csv", tmp_path / "sim.csv")

    assert found == {"lines": [{"name": "sim", "jobs": 2, "ratio": [0.8, 1.5]}]}


def test_ratios_of_other_jobs_are_refused(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("job_id,arrival_s,jct_s,gpus\n0,0,10,1\n")
    (tmp_path / "b.csv").write_text("job_id,arrival_s,jct_s,gpus\n0,0,10,2\n")

    assert main(["plot", "sim-vs-real", f"{tmp_path}/a.csv", f"{tmp_path}/b.csv", "--json"]) == 2
    assert "job 0 asks for another number of GPUs" in capsys.readouterr().err


def test_tenants_are_entitled_to_their_weight_while_both_are_there(made, capsys):
    a, b = numbers(capsys, "fairness-over-time", made / "tenants.jsonl.gz", "--bins", "20")["tenants"]

    assert (a["name"], a["weight"], b["name"], b["weight"]) == ("a", 2.0, "b", 1.0)
    assert a["entitled"][0] == pytest.approx(2 / 3)
    assert b["entitled"][0] == pytest.approx(1 / 3)
    assert b["entitled"][-1] == pytest.approx(1.0)  # the other one is through
    assert np.add(a["held"], b["held"]) == pytest.approx(np.ones(20))


def test_a_cluster_without_cpus_strands_none(made, capsys):
    assert main(["plot", "stranded", f"{made}/fifo.jsonl.gz", "--json"]) == 2
    assert "does not say how many CPUs" in capsys.readouterr().err


def test_solve_times_are_read_from_what_bench_printed(tmp_path, capsys):
    lines = [{"policy": "p", "jobs": n, "all_cpu_s": [0.3, 0.1 * n, 0.2 * n]} for n in (2, 1)]
    (tmp_path / "b.json").write_text("\n".join(json.dumps(line) for line in lines) + "\n")

    found = numbers(capsys, "solve-time-vs-jobs", tmp_path / "b.json")["lines"]

    assert found[0]["name"] == "p"
    assert [(p["x"], p["mean"]) for p in found[0]["points"]] == [(1, 0.1), (2, 0.2)]


@pytest.mark.parametrize("text", ["nonsense", "[1, 2]", "{}"])
def test_other_files_are_no_solve_times(tmp_path, capsys, text):
    (tmp_path / "b.json").write_text(text)

    assert main(["plot", "solve-time-vs-jobs", f"{tmp_path}/b.json", "--json"]) == 2
    assert "b.json:1: not a line of `rota bench solve --json`" in capsys.readouterr().err


def test_without_a_kind_all_kinds_are_listed(capsys):
    main(["plot"])

    said = capsys.readouterr()
    assert [kind for kind in KINDS if kind not in said.out + said.err] == []


def test_any_metric_is_drawn_over_anything_that_was_varied(made, tmp_path, capsys):
    with ResultStore(made / "loads.db", create=False) as store:
        runs = list(store.runs(sweep="sweep"))

    for metric in ("p99_jct_s", "utilization", "mean_ftf", "solves"):
        found = numbers(capsys, "jct-vs-load", made / "loads.db", "--metric", metric)
        assert found["metric"] == metric
        for line in found["lines"]:
            for point in line["points"]:
                own = [
                    r.metrics[metric]
                    for r in runs
                    if (r.point["policy"], r.point["load"]) == (line["name"], point["x"])
                ]
                assert point["mean"] == pytest.approx(statistics.mean(own))
    over = numbers(capsys, "jct-vs-load", made / "jobs.db", "--x", "jobs", "--metric", "makespan_s")["lines"]
    assert over == numbers(capsys, "makespan-vs-jobs", made / "jobs.db")["lines"]


def test_curves_are_chosen_ordered_and_named_in_figures_and_numbers(made, tmp_path, capsys):
    asked = ["jct-vs-load", made / "loads.db", "--curve", "las", "--curve", "f*", "--label", "las=LAS"]
    assert [line["name"] for line in numbers(capsys, *asked)["lines"]] == ["LAS", "fifo"]
    asked = ["jct-cdf", made / "fifo.csv", f"other={made / 'max-min-fairness-packed.csv'}", "--without", "fifo"]
    assert [line["name"] for line in numbers(capsys, *asked)["lines"]] == ["other"]


def test_a_figure_has_the_size_that_was_asked_for_and_carries_its_fonts(made, tmp_path):
    store = str(made / "loads.db")
    look = ["--width", "acm-column", "--height", "2", "--log-y", "--no-band", "--y-label", "hours"]
    for form in ("pdf", "svg", "png"):
        assert main(["plot", "jct-vs-load", store, *look, "-o", str(tmp_path / f"a.{form}")]) == 0

    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/MediaBox [ 0 0 239.76 144 ]" in pdf
    svg = (tmp_path / "a.svg").read_text()
    assert 'width="239.76pt"' in svg
    assert "<text" not in svg  # letters are outlines, so that no font is needed
    assert (tmp_path / "a.png").read_bytes()[16:24] == (666).to_bytes(4, "big") + (400).to_bytes(4, "big")


def test_a_gantt_chart_tells_models_and_tenants(made, tmp_path, capsys):
    log = made / "tenants.jsonl.gz"
    jobs = numbers(capsys, "gantt", log)["jobs"]

    assert [(job["job"], job["tenant"]) for job in jobs] == [(i, "ab"[i % 2]) for i in range(8)]
    assert {job["model"] for job in jobs} == {"A3C"}
    for by in ("job", "model", "tenant"):
        target = tmp_path / f"{by}.svg"
        assert main(["plot", "gantt", str(log), "--colour-by", by, "-o", str(target)]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jct-vs-load", "loads.db", "--metric", "mean_jtc_s", "--json"], "did you mean 'mean_jct_s'"),
        (["jct-vs-load", "loads.db", "--metric", "missed_fraction", "--json"], "has a result with missed_fraction"),
        (["jct-vs-load", "loads.db", "--x", "round_s", "--json"], "does not vary round_s"),
        (["jct-vs-load", "loads.db", "--curve", "fif", "--json"], "did you mean 'fifo'"),
        (["jct-vs-load", "loads.db", "--width", "acm", "-o", "a.png"], "acm-column"),
        (["jct-vs-load", "loads.db", "--label", "lass=x", "--json"], "did you mean 'las'"),
    ],
)
def test_a_look_that_cannot_be_is_one_message(made, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(made)
    capsys.readouterr()

    assert main(["plot", *arguments]) == 2

    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("rota plot jct-vs-load a.db --metric p99", "p99_jct_s"),
        ("rota plot gantt a.jsonl --width acm", "acm-column"),
        ("rota plot gantt a.jsonl --colour-by t", "tenant"),
        ("rota plot jct-vs-load a.db --band w", "whiskers"),
    ],
)
def test_a_shell_completes_names_of_looks(capsys, monkeypatch, words, offered):
    monkeypatch.setenv("_ROTA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))

    assert main([]) == 0
    assert f"plain,{offered}" in capsys.readouterr().out
