"""`rota report` on real runs: the page in a real browser, its numbers, its size, and what it refuses."""

import json
import re
import shlex
import shutil
import sqlite3

import numpy as np
import pytest

import rota
from rota.cli.main import main
from rota.experiments.blobs import pack
from rota.experiments.execution import RunOutcome
from rota.experiments.store import ResultStore
from rota.report.page import embedded, render, write_report
from rota.report.payload import payload
from rota.report.points import points
from rota.report.reading import names_for_equals, read

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVIL = '</script><b id="out">&amp; \u2028'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a sweep, two logs, a jobs CSV and an output of --json."""
    folder = tmp_path_factory.mktemp("report")
    grid = ["--policies", "fifo,las", "--loads", "0.1:0.3:0.1", "--seeds", "0:2", "--measure", "10:40"]
    sweep = ["sweep", "--workload", "gavel-continuous", "--cluster", "v100=4,k80=4", *grid]
    assert main([*sweep, "--quiet", "-j", "1", "--store", str(folder / "results.db")]) == 0
    for mechanism in ("proportional", "tune"):
        run = ["simulate", "--workload", "philly-derived", "--set", "jobs=40", "--set", "jobs_per_hour=20"]
        files = ["--events", f"{folder}/{mechanism}.jsonl.gz", "--jobs-csv", f"{folder}/{mechanism}.csv"]
        where = ["--cluster", "synergy-32", "--policy", "srtf", "--mechanism", mechanism]
        assert main([*run, *where, *files]) == 0
    return folder


def data_of(page):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def report(folder, *arguments):
    target = folder / "report.html"
    assert main(["report", *map(str, arguments), "-o", str(target)]) == 0
    return target


def synthesized(path, *, seeds=5, jobs=1000):
    """A store as a sweep of 4 policies x 5 loads x seeds leaves it, with completion times of real size."""
    config = rota.simulate(
        workload="gavel-static", settings={"jobs": 1}, cluster="v100=36,p100=36,k80=36", policy="fifo"
    ).config
    with ResultStore(path) as store:
        store.record_sweep("big", {})
        members = []
        for load in range(1, 6):
            for seed in range(seeds):
                arrival = np.cumsum(np.random.default_rng([load, seed]).exponential(3600 / load, jobs))
                for p, policy in enumerate(("fifo", "las", "srtf", "allox")):
                    jct = np.random.default_rng([p, load, seed]).lognormal(10, 1.5, jobs)
                    columns = {"job_id": np.arange(4000, 4000 + jobs), "arrival_s": arrival, "finish_s": arrival + jct}
                    blob = pack({**columns, "gpus": np.ones(jobs, dtype=int)}, None)
                    members.append(({"policy": policy, "load": load, "seed": seed}, f"{p}{load}{seed}".ljust(64, "0")))
                    metrics = {"mean_jct_s": jct.mean(), "p50_jct_s": np.median(jct), "p99_jct_s": jct.max()}
                    metrics |= {"makespan_s": 1e6, "utilization": 0.5, "mean_jct_s_by_tenant": {"default": 1.0}}
                    done = RunOutcome(status="ok", metrics=metrics, started=1.0, cpu_s=900.0, wall_s=900.0, jobs=blob)
                    settings = {"interarrival_s": 3600 / load}
                    own = {**config, "policy": policy, "seed": seed, "settings": settings, "measure": None}
                    store.write(members[-1][1], own, done)
        store.add_members("big", members)


# The page in a browser


@pytest.fixture(scope="module")
def browser():
    driver = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install '.[dev]' in a checkout of Rota"
    )
    if BROWSER is None:
        pytest.skip("no Chromium or Chrome is installed; scripts/system-packages.sh installs one")
    with driver.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


class Shown:
    """A page in the browser and everything it complained about or asked for."""

    def __init__(self, browser, path, **options):
        self.page = browser.new_page(viewport={"width": 1280, "height": 900}, **options)
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#configs details")

    def texts(self, selector):
        return self.page.locator(selector).all_inner_texts()


@pytest.fixture
def open_page(browser):
    opened = []

    def show(path, **options):
        opened.append((Shown(browser, path, **options), path))
        return opened[-1][0]

    yield show
    for shown, path in opened:
        assert shown.said == []
        assert shown.asked == [path.as_uri()]
        shown.page.close()


def test_the_summary_is_sorted_by_a_click_and_filtered_by_a_word(made, tmp_path, open_page):
    shown = open_page(report(tmp_path, made / "results.db"))
    page = shown.page
    heads = shown.texts("#runs thead th")
    column = heads.index("mean JCT h") + 1
    assert len(shown.texts("#runs tbody tr")) == 6

    page.click(f"#runs thead th:nth-child({column}) button")
    up = [float(t.split()[0]) for t in shown.texts(f"#runs tbody td:nth-child({column})")]
    page.click(f"#runs thead th:nth-child({column}) button")
    down = [float(t.split()[0]) for t in shown.texts(f"#runs tbody td:nth-child({column})")]
    page.fill("#filter", "las")
    filtered = shown.texts("#runs tbody td:first-child")
    page.fill("#filter", "")
    page.click("#summary button[data-value=true]")

    assert up == sorted(up)
    assert down == sorted(up, reverse=True)
    assert page.get_attribute("#runs thead th:first-child", "aria-sort") == "none"
    assert filtered == ["las"] * 3
    assert len(shown.texts("#runs tbody tr")) == 18


@pytest.fixture(scope="module")
def with_deadlines(tmp_path_factory):
    """A store, a log and a jobs CSV of runs whose jobs have deadlines."""
    folder = tmp_path_factory.mktemp("deadlines")
    where = ["--workload", "gavel-continuous", "--set", "slos=true", "--cluster", "v100=4,k80=4"]
    grid = ["--policies", "fifo,srtf", "--loads", "0.3:0.3:0.1", "--seeds", "0:1", "--measure", "5:25"]
    assert main(["sweep", *where, *grid, "--quiet", "-j", "1", "--store", str(folder / "slo.db")]) == 0
    run = ["simulate", *where, "--set", "interarrival_s=9000", "--set", "jobs=25", "--policy", "srtf"]
    assert main([*run, "--events", f"{folder}/log.jsonl.gz", "--jobs-csv", f"{folder}/table.csv"]) == 0
    return folder


@pytest.mark.parametrize("files", [["slo.db"], ["log.jsonl.gz"], ["table.csv"]])
def test_fairness_and_deadlines_are_shown_where_jobs_have_them(with_deadlines, tmp_path, open_page, files):
    target = report(tmp_path, *(with_deadlines / name for name in files))
    shown = open_page(target)
    data = data_of(target.read_text())

    for figure in ("#fig-ftf", "#fig-deadlines", "#fig-late"):
        assert shown.page.locator(figure).is_visible()
    for group in data["groups"]:
        found = group["deadlines"]
        runs = [data["runs"][i]["metrics"] for i in group["runs"]]
        assert found["jobs"] == sum(run["slo_jobs"] for run in runs) > 0
        assert found["jobs"] - found["met"] == sum(run["slo_violations"] for run in runs)
        name = data["lines"][group["line"]]
        row = shown.page.locator(f"#fig-deadlines g[data-row='{name}']").text_content()
        assert f"{100 * found['met'] / found['jobs']:.1f} %" in row
        assert group["ftf"]["jobs"] == sum(run["jobs_measured"] for run in runs)
    assert "deadlines missed" in shown.texts("#runs thead th")
    assert shown.page.locator("#fig-ftf line.equal").count() == 1
    shown.page.set_viewport_size({"width": 390, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_without_deadlines_nothing_is_said_about_them(made, tmp_path, open_page):
    shown = open_page(report(tmp_path, made / "results.db"))

    assert shown.page.locator("#fig-ftf").is_visible()
    assert shown.page.locator("#fig-deadlines").count() == 0
    assert shown.page.locator("#fig-late").count() == 0
    assert "deadlines missed" not in shown.texts("#runs thead th")


def test_intervals_lie_under_all_lines(made, tmp_path, open_page):
    page = open_page(report(tmp_path, made / "results.db")).page

    order = page.eval_on_selector_all("#fig-over svg.plot > g", "groups => groups.map(g => g.getAttribute('class'))")
    assert order[0] == "intervals"
    assert page.locator("#fig-over g.intervals polygon.band").count() == 2
    assert page.locator("#fig-over g.intervals polyline.edge").count() == 4


def test_models_of_a_gantt_chart_have_a_look_each(made, tmp_path, open_page):
    shown = open_page(report(tmp_path, made / "tune.jsonl.gz"))
    shown.page.click("#gantt button[data-value=profile]")

    data = data_of((tmp_path / "report.html").read_text())
    (chart,) = data["gantts"]
    assert sorted(shown.texts("#gantt .legend .plain")) == sorted(chart["jobs"]["profiles"])
    assert data["bar_colours"] == 14


def test_a_log_of_a_run_that_chose_its_own_jobs_can_be_shown(tmp_path):
    run = ["simulate", "--workload", "gavel-continuous", "--set", "interarrival_s=9000", "--set", "jobs=60"]
    log = tmp_path / "auto.jsonl.gz"
    assert main([*run, "--cluster", "v100=8", "--policy", "fifo", "--measure", "auto", "--events", str(log)]) == 0

    data = data_of(report(tmp_path, log).read_text())

    again = rota.replay(log).summary
    assert data["runs"][0]["metrics"]["mean_jct_s"] == pytest.approx(again["mean_jct_s"], rel=1e-6)
    assert data["runs"][0]["metrics"]["mean_ftf"] == pytest.approx(again["mean_ftf"], rel=1e-6)


def test_a_legend_switches_a_line_off_and_an_axis_becomes_logarithmic(made, tmp_path, open_page):
    page = open_page(report(tmp_path, made / "results.db")).page
    lines = page.locator("#fig-over g[data-series]")
    assert lines.count() == 2
    before = page.locator("#fig-over path.series").first.get_attribute("d")

    page.click("#fig-over .legend button >> text=las")
    left = [lines.nth(i).get_attribute("data-series") for i in range(lines.count())]
    page.click("#fig-over .legend button >> text=las")
    page.click("#fig-over button[data-axis=y]")
    after = page.locator("#fig-over path.series").first.get_attribute("d")
    page.locator("#fig-over svg.plot").hover()

    assert left == ["fifo"]
    assert lines.count() == 2
    assert after != before
    assert "load = 0.2" in page.inner_text("#tip")
    assert "3 runs" in page.inner_text("#tip")


def view_of(page):
    return tuple(float(page.get_attribute("#gantt-canvas", f"data-{end}")) for end in ("from", "to"))


def test_the_gantt_chart_zooms_moves_and_says_who_is_under_the_mouse(made, tmp_path, open_page):
    page = open_page(report(tmp_path, made / "proportional.jsonl.gz", made / "tune.jsonl.gz")).page
    whole = view_of(page)

    page.click("#zoom button[aria-label='Zoom in']")
    nearer = view_of(page)
    box = page.locator("#gantt-canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.wheel(0, -300)
    page.wait_for_function(f"document.getElementById('gantt-canvas').dataset.to != '{nearer[1]:.15g}'")
    nearest = view_of(page)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 200, box["y"] + 60)
    page.mouse.up()
    moved = view_of(page)
    page.focus("#gantt-canvas")
    page.keyboard.press("0")
    again = view_of(page)
    page.mouse.move(box["x"] + 112, box["y"] + 40)
    said = page.inner_text("#tip")
    page.select_option("#gantt-run", "1")
    other = view_of(page)

    assert nearer[1] - nearer[0] == pytest.approx((whole[1] - whole[0]) / 2)
    assert nearest[1] - nearest[0] < nearer[1] - nearer[0]
    assert moved[0] > nearest[0]
    assert moved[1] - moved[0] == pytest.approx(nearest[1] - nearest[0])
    assert again == whole
    assert "job " in said
    assert "model" in said
    assert other != whole


def test_the_difference_of_two_policies_follows_the_choice(made, tmp_path, open_page):
    shown = open_page(report(tmp_path, made / "results.db"))
    page = shown.page
    first = page.inner_text("#verdict")
    assert "3 paired seeds" in first
    ratio = float(re.search(r"B over A: ([\d.]+)", first).group(1))

    page.click("#diff-swap")
    turned = float(re.search(r"B over A: ([\d.]+)", page.inner_text("#verdict")).group(1))
    page.select_option("#diff-at", index=0)
    elsewhere = page.inner_text("#verdict")
    page.select_option("#diff-seed", "2")
    page.wait_for_selector("#fig-cloud circle.point", state="attached")  # figures are drawn a moment later

    assert turned == pytest.approx(1 / ratio, rel=2e-3)
    assert elsewhere != first
    assert page.locator("#fig-cloud circle.point").count() == 30
    assert shown.texts("#diff table.gained tbody tr") or shown.texts("#diff table.lost tbody tr")


def test_a_configuration_opens_with_the_command_that_makes_the_run_again(made, tmp_path, open_page):
    page = open_page(report(tmp_path, made / "tune.jsonl.gz")).page

    page.click("#configs details summary")

    assert "rota simulate --workload philly-derived" in page.inner_text("#configs pre.command")
    assert '"policy": "srtf"' in page.inner_text("#configs details")


def test_names_cannot_break_out_of_the_page(tmp_path, made, open_page):
    lines = (made / "tune.csv").read_text().splitlines()
    head = lines[0].split(",")
    evil = lines[1].split(",")
    evil[head.index("profile")] = '"' + EVIL.replace('"', '""') + '"'
    (tmp_path / "a.csv").write_text("\n".join([lines[0], ",".join(evil), *lines[2:]]) + "\n")
    (tmp_path / "b.csv").write_text("\n".join(lines) + "\n")

    target = report(tmp_path, f"<script><b>&amp;={tmp_path / 'a.csv'}", tmp_path / "b.csv")
    page = open_page(target).page

    assert page.locator("#out").count() == 0
    assert "<script><b>&amp;" in page.inner_text("#runs")
    assert EVIL in json.dumps(data_of(target.read_text())["workloads"], ensure_ascii=False).replace('\\"', '"')


def test_the_page_fits_a_narrow_window_and_a_dark_one(made, tmp_path, open_page):
    target = report(tmp_path, made / "results.db", made / "tune.jsonl.gz")

    dark = open_page(target, color_scheme="dark").page
    dark.set_viewport_size({"width": 420, "height": 800})

    assert dark.evaluate("document.documentElement.scrollWidth") <= 420
    assert dark.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


def test_a_hundred_runs_with_a_thousand_jobs_each_are_below_five_megabytes(tmp_path, open_page):
    synthesized(tmp_path / "big.db")

    target = report(tmp_path, tmp_path / "big.db")

    assert len(data_of(target.read_text())["runs"]) == 100
    assert target.stat().st_size < 5_000_000
    shown = open_page(target)
    assert len(shown.texts("#runs tbody tr")) == 20
    assert "5 paired seeds" in shown.page.inner_text("#verdict")


# What is in it


def test_the_policy_of_the_page_allows_nothing_but_its_own_script_and_style(made, tmp_path):
    page = report(tmp_path, made / "results.db").read_text()

    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")
    assert "unsafe" not in policy
    outside = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|src=|@import|url\(|eval\(|innerHTML|new Function", outside)


def test_groups_have_the_means_and_pairs_the_ratios_of_the_command_line(made, tmp_path, capsys):
    data = data_of(report(tmp_path, made / "results.db").read_text())
    capsys.readouterr()
    assert main(["compare", "--store", str(made / "results.db"), "--by", "policy", "fifo", "las", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert main(["plot", "jct-vs-load", str(made / "results.db"), "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]

    assert [data["settings"][p[0]]["x"] for p in data["pairs"]] == [s["point"]["load"] for s in compared["settings"]]
    for pair, setting in zip(data["pairs"], compared["settings"], strict=True):
        estimate = setting["estimate"]
        assert pair[4:7] == pytest.approx([estimate["ratio"], estimate["low"], estimate["high"]], rel=1e-5)
    for line in lines:
        for p in line["points"]:
            (group,) = [
                g
                for g in data["groups"]
                if data["lines"][g["line"]] == line["name"] and data["settings"][g["setting"]]["x"] == p["x"]
            ]
            assert group["stats"]["mean_jct_s"][:3] == pytest.approx([p["mean"], p["low"], p["high"]], rel=1e-6)


def test_the_runs_of_a_store_that_were_made_again_for_their_gantt_chart_are_said_to_be(made, tmp_path):
    data = data_of(report(tmp_path, made / "results.db").read_text())
    none = data_of(report(tmp_path, made / "results.db", "--gantt", "none").read_text())
    key = data["runs"][0]["key"]
    one = data_of(report(tmp_path, made / "results.db", "--gantt", key[:16]).read_text())

    assert [data["lines"][data["runs"][g["run"]]["line"]] for g in data["gantts"]] == ["fifo", "las"]
    assert all(data["runs"][g["run"]]["again"] for g in data["gantts"])
    assert data["notes"] == []
    assert none["gantts"] == []
    assert [one["runs"][g["run"]]["key"] for g in one["gantts"]] == [key]


def test_bars_hold_the_gpu_time_that_the_log_says(made, tmp_path):
    data = data_of(report(tmp_path, made / "tune.jsonl.gz").read_text())

    (chart,) = data["gantts"]
    held = sum(length * rows for length, rows in zip(chart["length"], chart["rows"], strict=True))
    summary = rota.replay(made / "tune.jsonl.gz").summary
    assert held == pytest.approx(summary["utilization"] * summary["makespan_s"] * 32, rel=1e-3)


def test_a_window_of_the_gantt_chart_is_kept_and_said(made, tmp_path):
    target = report(tmp_path, made / "tune.jsonl.gz", "--from-hour", "1", "--to-hour", "3")

    (chart,) = data_of(target.read_text())["gantts"]

    assert chart["window"] == [3600, 10800]
    assert "hours 1.0 to 3.0 only" in chart["cut"]


def test_a_log_beside_a_store_belongs_to_its_run(made, tmp_path):
    with ResultStore(made / "results.db", create=False) as store:
        run = next(store.runs(sweep="sweep"))
    command = next(r for r in data_of(report(tmp_path, made / "results.db").read_text())["runs"] if r["key"] == run.key)
    log = tmp_path / "one.jsonl"
    assert main([*shlex.split(command["command"])[1:], "--events", str(log)]) == 0

    data = data_of(report(tmp_path, made / "results.db", log).read_text())

    assert len(data["runs"]) == 18
    assert [data["runs"][g["run"]]["key"] for g in data["gantts"]] == [run.key]
    assert rota.replay(log).summary["mean_jct_s"] == pytest.approx(run.metrics["mean_jct_s"])


def test_files_of_one_name_are_parts_of_one_run(made, tmp_path, capsys):
    capsys.readouterr()
    arguments = ["simulate", "--workload", "gavel-static", "--set", "jobs=8", "--cluster", "v100=4", "--policy", "las"]
    assert main([*arguments, "--jobs-csv", str(tmp_path / "one.csv"), "--json"]) == 0
    (tmp_path / "one.json").write_text(capsys.readouterr().out)

    data = data_of(report(tmp_path, tmp_path / "one.json", tmp_path / "one.csv").read_text())

    (run,) = data["runs"]
    assert run["config"]["policy"] == "las"
    assert len(run["jobs"]["t"]) == 8
    assert data["lines"] == ["las"]


def test_unstable_failed_and_missing_runs_are_shown_with_their_reason(tmp_path):
    ends = {
        0: ("ok", None),
        1: ("unstable", "the queue grows"),
        2: ("failed", "SolveError: <b>no</b>"),
        3: (None, None),
    }
    with ResultStore(tmp_path / "some.db") as store:
        store.record_sweep("one", {})
        store.add_members("one", [({"policy": "fifo", "load": 1, "seed": s}, f"{s}" * 8) for s in ends])
        for seed, (status, error) in ends.items():
            if status is not None:
                done = RunOutcome(status=status, metrics={"mean_jct_s": 10.0}, error=error, started=1.0, wall_s=0.5)
                store.write(f"{seed}" * 8, {"policy": "fifo", "seed": seed}, done)

    data = data_of(report(tmp_path, tmp_path / "some.db").read_text())

    assert [(r["status"], r["error"]) for r in data["runs"]] == [(s or "to do", e) for s, e in ends.values()]
    assert all(g["stats"] == {} for g in data["groups"] if g["unstable"])


def an_overload(path, seeds=3):
    """Two policies at three loads; from load 2 on fifo is unstable with some seeds, and srtf at load 3."""
    ends = {("fifo", 2, 1): "unstable", ("fifo", 3, 0): "unstable", ("srtf", 3, 2): "unstable"}
    with ResultStore(path) as store:
        store.record_sweep("one", {})
        for load in (1, 2, 3):
            for policy, mean in (("fifo", 100.0), ("srtf", 26.0), ("las", 50.0)):
                for seed in range(seeds):
                    key = f"{policy}{load}{seed}".ljust(64, "0")
                    store.add_members("one", [({"policy": policy, "load": load, "seed": seed}, key)])
                    status = ends.get((policy, load, seed), "ok")
                    metrics = {"mean_jct_s": (mean + seed) * load}
                    store.write(key, {"policy": policy, "seed": seed}, RunOutcome(status=status, metrics=metrics))


def test_the_difference_opens_at_the_highest_load_at_which_two_are_stable(tmp_path, open_page):
    an_overload(tmp_path / "r.db")

    path = report(tmp_path, tmp_path / "r.db")
    page = open_page(path).page

    data = data_of(path.read_text())
    compared = {(data["settings"][setting]["x"], a, b) for setting, a, b, *_ in data["pairs"]}
    assert compared == {(1, 0, 1), (1, 0, 2), (1, 1, 2), (2, 1, 2)}
    assert page.locator("#diff-at option:checked").inner_text() == "load = 2"
    assert "beyond noise" in page.inner_text("#verdict")
    assert "fifo at load = 2 (1 of 3 runs); fifo at load = 3 (1 of 3 runs)" in page.inner_text("#diff-left-out")


def test_two_seeds_are_too_few_to_be_beyond_noise(tmp_path, open_page):
    an_overload(tmp_path / "r.db", seeds=2)

    page = open_page(report(tmp_path, tmp_path / "r.db")).page

    assert "too little to tell it from noise" in page.inner_text("#verdict")
    assert "2 paired seeds are too few" in page.inner_text("#verdict")


def test_data_survives_its_way_through_html():
    value = {"a": EVIL, "b": ["<!--", "]]>", "\u2029"]}

    text = embedded(value)

    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_jobs_beyond_the_budget_are_left_out_and_said(tmp_path, monkeypatch):
    synthesized(tmp_path / "big.db", seeds=1, jobs=50)
    monkeypatch.setattr("rota.report.payload.MOST_TIMES", 500)
    found = read([str(tmp_path / "big.db")])
    where = points([r.run for r in found.records], names_for_equals(found.records))

    data = payload(found, where, title="small", made=0.0)

    assert sum(run["jobs"] is not None for run in data["runs"]) == 10
    assert "10 runs are left out" in data["notes"][0]
    assert len(render(data)) > 1000


# What cannot be done


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.db", "-o", "a.html"], "cannot read none.db"),
        (["text.txt", "-o", "a.html"], "neither a store of results nor"),
        (["nothing.db", "-o", "a.html"], "is empty"),
        (["empty.db", "-o", "a.html"], "there is no run in this store yet"),
        (["other.db", "-o", "a.html"], "not a store of Rota"),
        (["results.db", "-o", "none/a.html"], "does not exist; create it first"),
        (["results.db", "-o", "."], "it is a folder"),
        (["results.db", "-o", "results.db"], "names one of the results"),
        (["results.db", "--sweep", "swep", "-o", "a.html"], "did you mean 'sweep'"),
        (["results.db", "--gantt", "zz", "-o", "a.html"], "no run of the report has a key"),
        (["tune.csv", "--sweep", "one", "-o", "a.html"], "--sweep chooses runs of a store"),
        (["results.db", "empty.db", "-o", "a.html"], "make a report for each"),
        (["tune.csv", "tune.csv", "-o", "a.html"], "NAME=FILE"),
        (["bad.json", "-o", "a.html"], "cannot read bad.json"),
        (["tune.jsonl.gz", "--from-hour", "3", "--to-hour", "2", "-o", "a.html"], "give a window"),
        (["results.db"], "Missing option '-o'"),
    ],
)
def test_what_cannot_be_reported_is_one_message_and_exit_code_2(made, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(made)
    (made / "text.txt").write_text("hello\n")
    (made / "nothing.db").write_bytes(b"")
    (made / "bad.json").write_text('{"mean_jct_s": ')
    with ResultStore(made / "empty.db"):
        pass
    other = sqlite3.connect(made / "other.db")
    other.execute("CREATE TABLE IF NOT EXISTS x (y)")
    other.commit()
    other.close()
    capsys.readouterr()

    assert main(["report", *arguments]) == 2

    out, err = capsys.readouterr()
    assert said in err
    assert out == ""
    assert not (made / "a.html").exists()


def test_a_full_disk_leaves_nothing_behind(made, tmp_path):
    """A limit on the size of files, in a process of its own, does what a full disk does."""
    resource = pytest.importorskip("resource")
    import subprocess
    import sys

    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "from rota.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    assert resource.RLIMIT_FSIZE is not None
    command = [sys.executable, "-c", code, "report", str(made / "tune.csv"), "-o", str(tmp_path / "a.html")]

    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_the_report_come_as_json(made, tmp_path, capsys):
    capsys.readouterr()

    assert main(["report", str(made / "results.db"), "-o", str(tmp_path / "a.html"), "--json"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["runs"], said["lines"], said["gantts"]) == (18, 2, 2)
    assert said["bytes"] == (tmp_path / "a.html").stat().st_size
    assert write_report([str(made / "tune.csv")], tmp_path / "b.html")["runs"] == 1
