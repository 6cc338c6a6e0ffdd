"""Jobs after others, arrays and time limits in simulation: laws over random graphs, under every kind of rounds."""

import random

import numpy as np
import pytest

import rota
from rota.core.errors import ConfigError
from rota.core.events import JobsDropped, JobsFinished, JobsRejected, JobsSubmitted, Planned, RoundsRan
from rota.core.jobs import table
from rota.core.queue_columns import queue_columns, queue_fields, queue_from
from rota.engine.log import read_events
from rota.sim.queue_gate import GatedJob, QueueGate, array_key
from rota.workloads import read_trace
from rota.workloads.anonymity import anonymize
from rota.workloads.losses import lost
from rota.workloads.traces import write_trace

MODEL = "ResNet-18 (batch size 32)"
RATE = rota.core.jobs.RECORDED_RATE
RULES = {
    "at once": {},
    "in rounds": {"rule_settings": {"at_once": False}},
    "restarts": {"rule_settings": {"restart_s": 30.0}},
    "gavel": {"rules": "gavel-artifact"},
    "synergy": {"rules": "synergy-artifact"},
    "ideal": {"mechanism": "ideal", "policy": "max-min-fairness-perf"},
}


def random_jobs(seed, count=24):
    """A table with random jobs before jobs, arrays with limits, and time limits."""
    numbers = random.Random(seed)
    arrays = [numbers.choice(["", "", "sweep", "search"]) for _ in range(count)]
    last = {name: max((row for row in range(count) if arrays[row] == name), default=0) for name in arrays if name}
    after, after_any = [], []
    for row in range(count):
        before = [str(n) for n in range(row) if numbers.random() < 2.0 / count]
        before += [name for name, at in last.items() if at < row and numbers.random() < 0.2]
        split = numbers.randrange(len(before) + 1)
        after.append(before[:split])
        after_any.append(before[split:])
    queue = queue_columns(
        count,
        after=after,
        after_any=after_any,
        array=arrays,
        array_limit=[2 if name else 0 for name in arrays],
        time_limit_s=[numbers.choice([np.inf, np.inf, 2000.0]) for _ in range(count)],
    )
    return table(
        profile_names=[MODEL] * count,
        gpus=[numbers.choice([1, 1, 2, 64 if row % 11 == 10 else 1]) for row in range(count)],
        total_steps=[numbers.uniform(5_000, 100_000) for _ in range(count)],
        submitted=np.sort([numbers.uniform(0, 3000) for _ in range(count)]),
        queue=queue,
    )


def simulated(jobs, tmp_path, name="log.jsonl", **settings):
    path = tmp_path / name
    arguments = {"policy": "las", "cluster": "v100=4", "seed": 1, **settings}
    result = rota.simulate(jobs=jobs, events=str(path), **arguments)
    return result, list(read_events(path))


class Story:
    """When jobs held slots and when they were over, from the events of a run."""

    def __init__(self, events):
        self.over, self.finished, self.began, self.seconds, self.at_once = {}, set(), {}, {}, []
        placement = None
        for event in events:
            if isinstance(event, Planned):
                placement = event.plan.placement
                running = {int(n) for n in (*placement.first, *placement.second) if n >= 0}
                self.at_once.append(running)
                for number in running:
                    self.began.setdefault(number, event.at)
            elif isinstance(event, RoundsRan):
                for number, spent in zip(placement.first.tolist(), event.seconds.tolist(), strict=True):
                    self.seconds[number] = self.seconds.get(number, 0.0) + spent
            elif isinstance(event, (JobsFinished, JobsDropped, JobsRejected)):
                self.over.update(dict.fromkeys(event.jobs.tolist(), event.at))
                if isinstance(event, JobsFinished):
                    self.over.update(zip(event.jobs.tolist(), event.finished_at.tolist(), strict=True))
                    self.finished.update(event.jobs.tolist())


def before(jobs, row):
    """(job, whether it has to finish) for all that a job comes after, arrays taken apart."""
    queue = jobs.queue
    for names, must in ((queue.after[row], True), (queue.after_any[row], False)):
        for name in names:
            members = [n for n in range(len(jobs)) if queue.array[n] == name] or [int(name)]
            yield from ((member, must) for member in members)


def assert_lawful(jobs, story, slack_s):
    assert set(story.over) == set(range(len(jobs)))  # nobody waits for ever
    for row, began in story.began.items():
        for other, must in before(jobs, row):
            assert story.over[other] <= began + 1e-6, (row, other)
            assert other in story.finished or not must
    for running in story.at_once:
        for name in ("sweep", "search"):
            assert sum(jobs.queue.array[n] == name for n in running) <= 2
    for row, spent in story.seconds.items():
        assert spent <= jobs.queue.time_limit_s[row] + slack_s


@pytest.mark.parametrize("rules", list(RULES))
@pytest.mark.parametrize("seed", range(4))
def test_nobody_starts_too_early_and_nobody_waits_for_ever(seed, rules, tmp_path):
    jobs = random_jobs(seed)
    settings = RULES[rules]
    whole_rounds = rules in ("gavel", "synergy")

    _, events = simulated(jobs, tmp_path, **settings)

    assert_lawful(jobs, Story(events), slack_s=400.0 if whole_rounds else 1e-3)


@pytest.mark.parametrize("policy", ["srtf", "max-min-fairness-packed", "finish-time-fairness-perf", "min-mean-jct"])
def test_under_every_kind_of_policy(policy, tmp_path):
    jobs = random_jobs(7)

    _, events = simulated(jobs, tmp_path, policy=policy)

    assert_lawful(jobs, Story(events), slack_s=400.0 if "packed" in policy else 1e-3)


def test_a_run_that_is_resumed_is_the_run(tmp_path):
    jobs = random_jobs(3)
    whole, _ = simulated(jobs, tmp_path)
    saved = tmp_path / "checkpoint"
    part = {"policy": "las", "cluster": "v100=4", "seed": 1}
    rota.simulate(jobs=jobs, until=2500.0, checkpoint=str(saved), **part)

    again = rota.simulate(jobs=jobs, resume=str(saved), **part)

    assert again.summary["mean_jct_s"] == whole.summary["mean_jct_s"]
    assert again.summary["jobs_dropped"] == whole.summary["jobs_dropped"]


def test_a_job_ends_at_its_time_limit_to_the_second(tmp_path):
    queue = queue_columns(1, time_limit_s=[1234.5])
    jobs = table(profile_names=[MODEL], gpus=[1], total_steps=[1e9], submitted=[0.0], queue=queue)

    result, events = simulated(jobs, tmp_path)

    assert Story(events).seconds[0] == pytest.approx(1234.5)
    assert result.summary["jobs_dropped"] == 1


def test_jobs_that_say_nothing_are_simulated_as_before(tmp_path):
    common = {"profile_names": [MODEL] * 6, "gpus": [1] * 6, "total_steps": [1e5] * 6, "submitted": np.arange(6.0)}
    plain, _ = simulated(table(**common), tmp_path)
    far = queue_columns(6, time_limit_s=[1e15] * 6)
    limited, _ = simulated(table(**common, queue=far), tmp_path)

    assert limited.summary["mean_jct_s"] == plain.summary["mean_jct_s"]


# Traces

HEADER = "job_id,arrival_s,profile,gpus,duration_s,after,after_any,array,array_limit,time_limit_s\n"
TRACE = HEADER + (
    f"p,0,{MODEL},1,100,,,,,\n"
    f"x,0,{MODEL},1,100,p,,s,1,\n"
    f"y,5,{MODEL},1,100,p,,s,1,7.5\n"
    f"e,9,{MODEL},1,100,s|p,x,,,\n"
)  # fmt: skip


def read(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_trace(path)


@pytest.mark.parametrize("ending", ["csv", "parquet", "csv.gz"])
def test_a_trace_keeps_what_jobs_wait_for(tmp_path, ending):
    jobs = read(tmp_path, TRACE)
    write_trace(jobs, tmp_path / f"again.{ending}")

    again = read_trace(tmp_path / f"again.{ending}")

    assert queue_fields(again.queue) == queue_fields(jobs.queue)
    assert again.queue.after.tolist() == [(), ("p",), ("p",), ("s", "p")]
    assert again.queue.time_limit_s.tolist() == [np.inf, np.inf, 7.5, np.inf]


def test_rows_in_another_order_still_find_each_other(tmp_path):
    lines = TRACE.splitlines(keepends=True)
    shuffled = read(tmp_path, "".join([lines[0], lines[4], lines[3], lines[1], lines[2]]))

    assert queue_fields(shuffled.queue) == queue_fields(read(tmp_path, TRACE).queue)


def test_without_names_rows_are_called_by_their_numbers(tmp_path):
    text = "arrival_s,profile,gpus,duration_s,after\n" + f"9,{MODEL},1,100,1\n0,{MODEL},1,100,\n"
    jobs = read(tmp_path, text)

    assert jobs.names.tolist() == ["1", "0"]
    assert jobs.queue.after.tolist() == [(), ("1",)]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("z,,,,", r"t.csv:6, column after: 'z' is no job_id and no array of this trace"),
        ("q,,,,", r"'q' does not arrive before this job"),
        (",late,,,", r"'late' does not arrive before this job"),
        (",,s,-1,", r"'-1' is not a number of jobs"),
        (",,s,1.5,", r"'1.5' is not a number of jobs"),
        (",,,,0", r"'0' is not a time limit"),
        (",,,,nan", r"'nan' is not a time limit"),
        (",,,,1e300", r"'1e300' is not a time limit"),
    ],
)
def test_what_cannot_be_is_refused_with_file_and_line(tmp_path, cells, message):
    text = TRACE + f"q,20,{MODEL},1,100,{cells}\nlate,30,{MODEL},1,100,,,,,\n"

    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_formats_without_a_place_for_it_say_so(tmp_path):
    jobs = read(tmp_path, TRACE)

    assert "jobs before others, arrays and time limits" in lost(jobs, "gavel")
    assert "jobs before others, arrays and time limits" not in lost(jobs, "csv")


def test_a_trace_without_names_keeps_who_waits_for_whom(tmp_path):
    hidden = anonymize(read(tmp_path, TRACE))

    assert hidden.queue.after.tolist() == [(), ("0",), ("0",), ("array-1", "0")]
    assert hidden.names.tolist() == ["0", "1", "2", "3"]


def test_some_of_the_jobs_do_not_wait_for_those_that_are_left_out(tmp_path):
    jobs = read(tmp_path, TRACE).take(np.array([2, 3]))

    result, _ = simulated(jobs, tmp_path)

    assert result.summary["jobs_submitted"] == 2


def test_the_log_has_what_jobs_wait_for(tmp_path):
    jobs = random_jobs(5)
    _, events = simulated(jobs, tmp_path)

    seen = {}
    for event in events:
        if isinstance(event, JobsSubmitted) and event.jobs.queue is not None:
            seen |= dict(enumerate(event.jobs.queue.after.tolist(), event.first_id))
    assert {row: names for row, names in enumerate(jobs.queue.after.tolist()) if names}.items() <= seen.items()


@pytest.mark.parametrize(
    "fields",
    [
        {"after": [["a"]]}, {"after": ["a", "b"]}, {"after": [[1], []]}, {"array": [1, "a"]},
        {"time_limit_s": [0, None]}, {"time_limit_s": [-1.0, None]}, {"time_limit_s": ["x", None]}, {"array_limit": 3},
    ],
)  # fmt: skip
def test_a_log_with_nonsense_about_it_is_refused(fields):
    with pytest.raises((TypeError, ValueError)):
        queue_from(2, fields)


SACCT = (
    "JobID|Submit|Start|End|State|AllocTRES|Timelimit\n"
    "17_0|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T02:01:00|COMPLETED|gres/gpu=1|1-00:00:00\n"
    "17_1|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T02:01:00|COMPLETED|gres/gpu=1|UNLIMITED\n"
    "18|2026-01-01T00:05:00|2026-01-01T00:05:00|2026-01-01T00:35:00|COMPLETED|gres/gpu=1|\n"
)


def test_arrays_and_time_limits_of_slurm_are_kept_if_asked_for(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT, encoding="utf-8")

    assert read_trace(path).queue is None
    queue = read_trace(path, settings={"queue": "keep"}).queue
    assert queue.array.tolist() == ["17", "17", ""]
    assert queue.time_limit_s.tolist() == [86400.0, np.inf, np.inf]


# The gate by itself


def test_a_job_is_let_in_once_all_before_it_are_over():
    gate = QueueGate()
    for number in (0, 1):
        gate.arrive(GatedJob(job=number))
    gate.arrive(GatedJob(job=2, after=(0,), after_any=(1,)))
    assert gate.take() == ([0, 1], {})

    gate.over(1, finished=False)
    assert not gate.pending
    gate.over(0, finished=True)
    gate.over(0, finished=True)

    assert gate.take() == ([2], {})


def test_an_array_that_lost_a_job_turns_away_whoever_needs_it_at_once():
    gate = QueueGate()
    for number in (0, 1):
        gate.arrive(GatedJob(job=number, array=0))
    gate.arrive(GatedJob(job=2, after=(array_key(0),)))
    gate.arrive(GatedJob(job=3, after_any=(array_key(0),)))
    gate.take()

    gate.over(1, finished=False)
    assert gate.take() == ([], {2: array_key(0)})
    gate.over(0, finished=True)

    assert gate.take() == ([3], {})


@pytest.mark.parametrize("limit", [{"array": 0, "limit": 1}, {"tenant": "a", "tenant_limit": 1}])
def test_a_job_that_was_preempted_makes_way_for_a_lower_number(limit):
    gate = QueueGate()
    gate.arrive(GatedJob(job=0))
    gate.arrive(GatedJob(job=1, after=(0,), **limit))
    gate.arrive(GatedJob(job=2, **limit))
    assert gate.take() == ([0, 2], {})
    gate.run([0, 2])

    gate.over(0, finished=True)
    assert not gate.pending, "job 2 runs"
    gate.run([])

    assert gate.step_aside() == [2]
    assert gate.take() == ([1], {})


def test_the_lowest_number_of_an_array_comes_after_another_one_was_preempted():
    jobs = table(
        profile_names=["recorded"] * 4,
        gpus=[1, 1, 1, 2],
        total_steps=[100.0, 400.0, 1000.0, 500.0],
        submitted=[0.0, 0.0, 0.0, 200.0],
        priority=[0, 0, 0, 5],
        queue=queue_columns(4, after=[(), ("0",), (), ()], array=["", "a", "a", ""], array_limit=[0, 1, 1, 0]),
    )

    ends = rota.simulate(jobs=jobs, cluster="v100=2", policy="srtf", seed=0).jobs["finish_s"]

    assert ends.tolist() == pytest.approx([100.0, 1260.0, 1900.0, 860.0])
