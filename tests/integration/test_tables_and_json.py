"""A table says the same numbers as --json: every number in it is one of those, in another unit at most."""

import json
import re

import pytest

from rota.cli.main import main

UNITS = (1.0, 1 / 60, 1 / 3600, 1 / 86400, 100.0)
"""A table may say seconds as minutes, hours and days, and parts as percentages."""
TEXT = re.compile(r"(?<![\w.-])[-+]?\d[\d,]*(?:\.\d+)?(?![\w-]|\.\d)")
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
KEY = re.compile(r"^[0-9a-f]{8}(?= )", re.MULTILINE)
"""The key of a run, in which there may be digits only."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tables")
    run = ["simulate", "--workload", "gavel-static", "--set", "jobs=30", "--cluster", "v100=2,k80=4"]
    for policy in ("fifo", "las"):
        files = ["--jobs-csv", f"{made}/{policy}.csv", "--events", f"{made}/{policy}.jsonl"]
        assert main([*run, "--policy", policy, *files]) == 0
    sweep = ["--cluster", "v100=4", "--policies", "fifo,las", "--seeds", "0:2", "--quiet", "-j", "1"]
    made_store = ["--workload", "gavel-static", "--set", "jobs=8", "--store", f"{made}/a.db"]
    assert main(["sweep", *sweep, *made_store]) == 0
    trace = ["trace", "generate", "gavel-continuous", f"{made}/a.trace", "--jobs", "20"]
    assert main([*trace, "--set", "interarrival_s=100"]) == 0
    return made


VERBS = {
    "replay": ["replay", "fifo.jsonl"],
    "compare": ["compare", "fifo.csv", "las.csv"],
    "compare values": ["compare", "--store", "a.db", "--by", "policy", "fifo", "las"],
    "results list": ["results", "list", "a.db"],
    "results show": ["results", "show", "a.db"],
    "clusters": ["clusters", "v100=12/8:cpus=24:memory=500,k80=4"],
    "profiles gavel": ["profiles", "gavel"],
    "profiles synergy": ["profiles", "synergy"],
    "trace info": ["trace", "info", "a.trace"],
    "repro list": ["repro", "list"],
}


@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_every_number_of_a_table_is_one_of_the_json(folder, monkeypatch, capsys, arguments):
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    known = sorted(set(numbers(json.loads(capsys.readouterr().out))))

    if arguments[0] == "trace":
        shown = shown.partition("\n\n")[0]  # histograms follow
    said = TEXT.findall(KEY.sub("", DATE.sub("", shown)))
    assert len(said) > 3
    strangers = [text for text in said if not is_one_of(text, known)]
    assert [text for text in strangers if text not in EXPLAINED.get(arguments[0], ())] == []


EXPLAINED = {"compare": ("95", "2,000")}
"""Numbers in sentences about the method."""


def numbers(value):
    """All numbers in a JSON value, also those in names, and differences and ratios of `a` and `b`."""
    if isinstance(value, dict):
        yield len(value)
        a, b = (value.get(name) or value.get(f"{name}_s") for name in "ab")
        if isinstance(a, dict):
            yield from (b[key] / a[key] for key in a if a[key])
        elif isinstance(a, int | float) and isinstance(b, int | float):
            yield from (b - a, b / a)
        for key, inside in value.items():
            yield from numbers(key)
            yield from numbers(inside)
    elif isinstance(value, list):
        yield len(value)
        for inside in value:
            yield from numbers(inside)
    elif isinstance(value, str):
        yield from (float(text.replace(",", "")) for text in TEXT.findall(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def is_one_of(text, known):
    """Whether a printed number is one of the known in some unit, to as many digits as are printed."""
    digits = len(text.partition(".")[2])
    value = float(text.replace(",", ""))
    near = 0.5001 * 10**-digits
    return any(abs(number * unit - value) <= near for number in known for unit in UNITS)


def test_the_summary_of_a_run_has_each_number_under_its_name(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["replay", "las.jsonl", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert main(["replay", "las.jsonl"]) == 0
    rows = dict(line.strip().split("  ", 1) for line in capsys.readouterr().out.splitlines()[1:])

    def said(label):
        return float(TEXT.findall(rows[label])[0].replace(",", ""))

    for label, key in (
        ("Mean completion time", "mean_jct_s"),
        ("median", "p50_jct_s"),
        ("90th percentile", "p90_jct_s"),
        ("99th percentile", "p99_jct_s"),
        ("Makespan", "makespan_s"),
    ):
        assert said(label) == pytest.approx(known[key], abs=0.051)
    assert said("Utilisation") == pytest.approx(100 * known["utilization"], abs=0.0051)
    assert said("Finish-time fairness") == pytest.approx(known["mean_ftf"], abs=0.00051)
    assert said("Cost") == pytest.approx(known["cost"], abs=0.0051)
    assert said("Rounds") == known["rounds"]


def test_a_cost_that_is_unknown_stands_where_the_cost_stands():
    from rota.cli.tables import summary_rows

    labels = [[label for label, _ in summary_rows({"jobs_measured": 1, "cost": cost})] for cost in (2.5, None)]
    assert labels[0] == labels[1]
    assert ("Cost", "unknown") in summary_rows({"jobs_measured": 1, "cost": None})
