"""Logs replayed as they are: durations, types and names of the log, in any order of its lines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rota
from rota.core.errors import ConfigError
from rota.core.events import Planned
from rota.core.jobs import table
from rota.core.placement import nobody
from rota.engine.log import read_events
from rota.mechanisms.registry import mechanisms
from rota.policies.registry import policies
from rota.profiles import Catalogue

HEADER = "JobID|Account|Partition|Submit|Start|End|State|ReqTRES|AllocTRES"
HOUR = 3600


def clock(at_s):
    days, rest = divmod(at_s, 86400)
    return f"2026-01-{1 + days:02d}T{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"


def a_row(job, submit_s, lasted_s, *, gpus=4, ran_on="a100", asked="", wait_s=0):
    start = submit_s + wait_s
    want = f"gres/gpu:{asked}={gpus}" if asked else f"gres/gpu={gpus}"
    times = f"{clock(submit_s)}|{clock(start)}|{clock(start + lasted_s)}"
    return f"{job}|lab|gpu|{times}|COMPLETED|cpu=8,{want}|cpu=8,gres/gpu={gpus},gres/gpu:{ran_on}={gpus}"


def a_log(folder, *rows, name="sacct.txt"):
    path = folder / name
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def by_name(result):
    """Completion times by the name that the log gives a job."""
    return dict(zip(result.jobs["name"].tolist(), result.jobs["jct_s"].tolist(), strict=True))


@pytest.mark.parametrize("policy", policies.names())
def test_a_job_alone_takes_as_long_as_recorded_under_every_policy(tmp_path, policy):
    lasted = {"11": 3600, "12": 100, "13_4": 7201}
    rows = [a_row(job, at * 4 * HOUR, lasted[job], gpus=1, wait_s=77) for at, job in enumerate(lasted)]

    result = rota.simulate(trace=a_log(tmp_path, *rows), cluster="a100=8/8,v100=8/8", policy=policy)

    assert result.config["profiles"] == "recorded"
    assert by_name(result) == pytest.approx({job: float(s) for job, s in lasted.items()}, rel=1e-9)


def test_what_another_policy_would_have_done_is_computed_by_hand(tmp_path):
    # Four GPUs, three jobs of four, all there at the beginning: fifo 600, 1800, 2100; shortest first 300, 900, 2100.
    rows = [a_row("a", 0, 600), a_row("b", 0, 1200), a_row("c", 0, 300)]
    log = a_log(tmp_path, *rows)

    first, short = (rota.simulate(trace=log, cluster="a100=4/4", policy=p, round_s=300) for p in ("fifo", "srtf"))

    assert by_name(first) == {"a": 600.0, "b": 1800.0, "c": 2100.0}
    assert by_name(short) == {"a": 900.0, "b": 2100.0, "c": 300.0}


def test_a_job_that_asked_for_a_type_runs_nowhere_else(tmp_path):
    log = a_log(tmp_path, a_row(1, 0, 600, asked="a100"), a_row(2, 0, 600, ran_on="v100"))

    result = rota.simulate(trace=log, cluster="v100=16/8", policy="fifo")

    assert result.jobs["status"].tolist() == ["rejected", "finished"]
    assert any("may only run on a100; the cluster has v100=16" in note for note in result.notes)


def test_types_that_the_cluster_does_not_have_are_one_note_with_what_to_do(tmp_path):
    log = a_log(tmp_path, *(a_row(n, 0, 600, gpus=n, ran_on="tesla") for n in (1, 2, 4)))

    result = rota.simulate(trace=log, cluster="v100=16/8", policy="fifo")
    renamed = rota.simulate(trace=log, trace_settings={"rename": "tesla:v100"}, cluster="v100=16/8", policy="fifo")

    [note] = [note for note in result.notes if "may only run on tesla" in note]
    assert note.startswith("3 jobs did not run to the end")
    assert "rename=OLD:NEW" in note
    assert renamed.jobs["status"].tolist() == ["finished"] * 3


ALLOWED = [[], ["v100"], ["p100"], ["k80", "p100"]] * 3


def held_elsewhere(events, types):
    """(job, type) of every task in a log of events whose job may not be there."""
    found = set()
    for event in read_events(events):
        placement = event.plan.placement if isinstance(event, Planned) else nobody()
        for jobs in (placement.first, placement.second):
            pairs = zip(jobs.tolist(), placement.type.tolist(), strict=True)
            found |= {(j, types[t]) for j, t in pairs if j >= 0 and ALLOWED[j] and types[t] not in ALLOWED[j]}
    return found


@pytest.mark.parametrize("policy", policies.names())
def test_no_policy_ever_puts_a_job_where_it_may_not_run(tmp_path, policy):
    models = ["ResNet-50 (batch size 64)", "A3C", "A3C"] * 4
    jobs = table(
        profile_names=models,
        gpus=[1] * 12,
        total_steps=[4000.0 * (1 + row % 5) for row in range(12)],
        submitted=[100.0 * row for row in range(12)],
        allowed_types=ALLOWED,
    )

    result = rota.simulate(jobs=jobs, cluster="v100=1,p100=1,k80=1", policy=policy, events=tmp_path / "events")

    assert set(result.jobs["status"]) == {"finished"}
    assert held_elsewhere(tmp_path / "events", ("k80", "p100", "v100")) == set()


@pytest.mark.parametrize("mechanism", mechanisms.names())
def test_no_mechanism_ever_puts_a_job_where_it_may_not_run(tmp_path, mechanism):
    jobs = table(
        profile_names=["res50", "res18"] * 6,
        gpus=[1, 1, 2] * 4,
        total_steps=[400.0 * (1 + row % 5) for row in range(12)],
        submitted=[100.0 * row for row in range(12)],
        allowed_types=ALLOWED,
    )
    server = "2/2:cpus=6:memory=125"
    where = {"cluster": f"v100={server},p100={server},k80={server}", "profiles": "pipeline"}

    result = rota.simulate(jobs=jobs, policy="las", mechanism=mechanism, events=tmp_path / "events", **where)

    assert set(result.jobs["status"]) == {"finished"}
    assert held_elsewhere(tmp_path / "events", ("k80", "p100", "v100")) == set()


def test_who_asked_for_no_type_may_run_elsewhere_if_the_user_says_how_fast(tmp_path):
    log = a_log(tmp_path, a_row(1, 0, 600, asked="a100"), a_row(2, 0, 600))
    same = {"elsewhere": "same"}

    result = rota.simulate(trace=log, cluster="v100=16/8", policy="fifo", trace_settings=same)

    assert result.jobs["status"].tolist() == ["rejected", "finished"]


SPEEDS = {("m", 4, "a100", False): 9.0, ("m", 4, "v100", False): 3.0, ("m", 4, "h100", False): 18.0}


@pytest.mark.parametrize(("cluster", "jct"), [("a100=4/4", 3600.0), ("v100=4/4", 10800.0), ("h100=4/4", 1800.0)])
def test_a_known_model_takes_its_time_where_it_ran_and_is_scaled_elsewhere(tmp_path, cluster, jct):
    log = a_log(tmp_path, a_row(1, 0, 3600))

    result = rota.simulate(
        trace=log, cluster=cluster, policy="fifo", profiles=Catalogue("own", SPEEDS), trace_settings={"assign": "m"}
    )

    assert result.jobs["jct_s"].tolist() == [jct]


def test_the_reference_can_be_set_and_goes_before_the_log(tmp_path):
    log = a_log(tmp_path, a_row(1, 0, 3600))
    how = {"assign": "m", "reference": "v100"}

    result = rota.simulate(
        trace=log, cluster="a100=4/4", policy="fifo", profiles=Catalogue("own", SPEEDS), trace_settings=how
    )

    assert result.jobs["jct_s"].tolist() == [1200.0]


def durations_only(**columns):
    return table(profile_names=["m"], gpus=[4], total_steps=[np.nan], submitted=[0.0], duration=[600.0], **columns)


def test_a_catalogue_without_a_reference_asks_for_one_unless_there_is_one_type_only():
    own = Catalogue("own", SPEEDS)

    with pytest.raises(ConfigError, match=r"nobody says on which type.*own.*a100, h100, v100.*reference=TYPE"):
        rota.simulate(jobs=durations_only(), cluster="a100=4,v100=4", policy="fifo", profiles=own)
    alone = rota.simulate(jobs=durations_only(), cluster="h100=4", policy="fifo", profiles=own)
    said = rota.simulate(jobs=durations_only(recorded_on=["a100"]), cluster="v100=4", policy="fifo", profiles=own)

    assert alone.jobs["jct_s"].tolist() == [600.0]
    assert said.jobs["jct_s"].tolist() == [1800.0]


def test_a_model_that_was_not_measured_where_the_log_ran_is_no_silent_guess(tmp_path):
    log = a_log(tmp_path, a_row(1, 0, 3600, gpus=1))

    with pytest.raises(ConfigError, match=r"'res50' was not measured on a100.*reference=TYPE.*assign=recorded"):
        rota.simulate(trace=log, cluster="v100=4", policy="fifo", trace_settings={"assign": "res50"})


# Laws

ROWS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(1, 30),
        st.sampled_from([1, 2, 4]),
        st.sampled_from(["a100", "v100"]),
        st.booleans(),
    ),
    min_size=2,
    max_size=8,
    unique_by=lambda row: row[0],
)


@settings(max_examples=12, deadline=None)
@given(rows=ROWS, policy=st.sampled_from(["fifo", "srtf", "max-min-fairness-perf"]), data=st.data())
def test_the_order_of_lines_changes_nothing(tmp_path_factory, rows, policy, data):
    folder = tmp_path_factory.mktemp("log")
    lines = [
        a_row(f"j{n}", 300 * at, 100 * lasted, gpus=gpus, ran_on=kind, asked=kind if bound else "")
        for n, (at, lasted, gpus, kind, bound) in enumerate(rows)
    ]
    other = data.draw(st.permutations(lines))
    logs = a_log(folder, *lines), a_log(folder, *other, name="other.txt")

    one, two = (rota.simulate(trace=log, cluster="a100=4/4,v100=4/4", policy=policy) for log in logs)

    assert by_name(one) == by_name(two)


def renamed(text, names):
    for old, new in names.items():
        text = text.replace(old, f"<{new}>")
    return text.replace("<", "").replace(">", "")


@settings(max_examples=12, deadline=None)
@given(
    rows=ROWS, policy=st.sampled_from(["fifo", "srtf", "max-min-fairness-perf"]), assign=st.sampled_from(["m", None])
)
def test_other_names_of_types_change_nothing(tmp_path_factory, rows, policy, assign):
    folder = tmp_path_factory.mktemp("log")
    names = {"a100": "big", "v100": "little"}  # the same order of the alphabet, which is a matter of rankings
    lines = [
        a_row(f"j{n}", 300 * at, 100 * lasted, gpus=g, ran_on=kind) for n, (at, lasted, g, kind, _) in enumerate(rows)
    ]
    speeds = {("m", g, t, False): r * g for g in (1, 2, 4) for t, r in (("a100", 3.0), ("v100", 1.0))}
    other = {("m", g, names[t], False): rate for (_, g, t, _), rate in speeds.items()}
    how = {"assign": assign} if assign else {}

    def run(log, rates, cluster):
        return rota.simulate(
            trace=log, cluster=cluster, policy=policy, profiles=Catalogue("own", rates), trace_settings=how
        )

    one = run(a_log(folder, *lines), speeds, "a100=4/4,v100=4/4")
    two = run(a_log(folder, *(renamed(line, names) for line in lines), name="b.txt"), other, "big=4/4,little=4/4")

    assert by_name(one) == by_name(two)


# Tables


def unsorted_jobs(**columns):
    given = {"profile_names": ["recorded"] * 2, "gpus": [1, 1], "submitted": [7200.0, 0.0], "duration": [227.0, 100.0]}
    return table(total_steps=[np.nan, np.nan], **(given | columns))


def test_rows_of_a_table_may_be_in_any_order_and_come_back_in_it():
    result = rota.simulate(jobs=unsorted_jobs(), cluster="a100=1", policy="fifo")

    assert result.jobs["job_id"].tolist() == [0, 1]
    assert result.jobs["jct_s"].tolist() == [227.0, 100.0]
    assert result.jobs["arrival_s"].tolist() == [7200.0, 0.0]


def test_jobs_that_had_not_arrived_are_not_in_a_result():
    result = rota.simulate(jobs=unsorted_jobs(names=["late", "early"]), cluster="a100=1", policy="fifo", until=360)

    assert result.jobs["name"].tolist() == ["early"]
    assert result.jobs["job_id"].tolist() == [1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"submitted": [0.0, np.nan]}, r"job 1: submitted = nan is not an arrival; give seconds >= 0"),
        ({"submitted": [-5.0, 0.0]}, r"job 0: submitted = -5.0 is not an arrival"),
        ({"gpus": [1, 0]}, r"job 1: gpus = 0 is not a number of GPUs"),
        ({"duration": [5.0, -1.0]}, r"job 1: duration = -1.0 is not a duration"),
        ({"duration": [5.0, np.nan]}, r"job 1 has neither steps nor a duration; give one of them"),
        ({"weight": [1.0, np.inf]}, r"job 1: weight = inf is not a weight"),
        ({"names": ["x", "x"]}, r"two jobs are called 'x', in rows 0 and 1; give each its own name"),
        ({"names": ["x", "y"], "gpus": [1, -1]}, r"job 'y' \(row 1\): gpus = -1"),
    ],
)
def test_a_table_with_something_wrong_is_refused(columns, message):
    with pytest.raises(ConfigError, match=message):
        rota.simulate(jobs=unsorted_jobs(**columns), cluster="a100=1", policy="fifo")


@pytest.mark.parametrize("column", ["allowed_types", "recorded_on", "names"])
def test_a_column_that_is_too_short_is_refused(column):
    with pytest.raises(ConfigError, match=f"{column} has 1 entries for 2 jobs; give one for each"):
        unsorted_jobs(**{column: ["a"]})


def test_names_and_types_survive_a_log_of_events(tmp_path):
    log = a_log(tmp_path, a_row("late", 600, 300, asked="a100"), a_row("early", 0, 300))
    events = tmp_path / "events.jsonl"

    ran = rota.simulate(trace=log, cluster="a100=8/8,v100=8/8", policy="fifo", events=events)
    again = rota.replay(events)

    assert again.jobs["name"].tolist() == ran.jobs["name"].tolist() == ["early", "late"]
    assert again.jobs["ftf"].tolist() == ran.jobs["ftf"].tolist()


def test_a_sweep_varies_settings_of_a_trace(tmp_path):
    own = tmp_path / "own.csv"
    own.write_text("submit,minutes,ngpu,card\n0,10,4,a100\n0,5,4,v100\n")
    columns = {"trace.columns": "arrival:submit,duration:minutes*60,gpus:ngpu,gpu_type:card"}
    how = {"trace": str(own), "cluster": "a100=4/4", "policy": "fifo", "trace.elsewhere": ["never", "same"]}

    found = rota.sweep(**how, **columns, store=tmp_path / "store.db", workers=1)

    finished = {run.point["trace.elsewhere"]: run.metrics["jobs_finished"] for run in found.runs}
    assert finished == {"never": 1, "same": 2}
