"""Arrays with limits, random jobs of one GPU on two types: never more run, and no GPU is idle that one could use."""

import random

import pytest

import rota
from rota.core.events import JobsParked, JobsSubmitted, Planned, RoundsRan
from rota.engine.log import read_events

CLUSTER = {"p100": 2, "v100": 2}
TYPES = ("p100", "v100", "p100|v100")
LIMITS = {"A": 1, "B": 2}


def a_trace(path, seed, count=16):
    """Random jobs by number: (arrival, types, array)."""
    numbers = random.Random(seed)
    jobs = []
    lines = ["job_id,arrival_s,gpus,duration_s,gpu_types,array,array_limit"]
    for arrival_s in sorted(numbers.choice([0, 0, 200, 500, 730]) for _ in range(count)):
        types, array = numbers.choice(TYPES), numbers.choice(["", "A", "B"])
        limit = LIMITS.get(array, "")
        lines.append(f"{len(jobs)},{arrival_s},1,{numbers.choice([90, 300, 700, 1500])},{types},{array},{limit}")
        jobs.append((arrival_s, types.split("|"), array))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return jobs


def stretches(events):
    """(second, {job: type}) of every placement that lasted."""
    placement = None
    for event in events:
        if isinstance(event, Planned):
            placement = event.plan.placement
        elif isinstance(event, RoundsRan) and event.at > event.start:
            yield event.start, dict(zip(placement.first.tolist(), placement.type.tolist(), strict=True))


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las"])
@pytest.mark.parametrize("seed", range(12))
def test_never_more_than_the_limit_run_and_no_gpu_is_idle_that_one_of_the_array_could_use(tmp_path, seed, policy):
    jobs = a_trace(tmp_path / "t.csv", seed)

    result = rota.simulate(
        trace=str(tmp_path / "t.csv"),
        trace_settings={"elsewhere": "same"},
        cluster="v100=2/2,p100=2/2",
        policy=policy,
        events=str(tmp_path / "e.jsonl"),
    )

    events = list(read_events(tmp_path / "e.jsonl"))
    over = dict(enumerate(result.jobs["finish_s"].tolist()))
    assert result.summary["jobs_finished"] == len(jobs)
    for start_s, runs in stretches(events):
        of_array = {name: sum(jobs[job][2] == name for job in runs) for name in LIMITS}
        assert all(of_array[name] <= limit for name, limit in LIMITS.items())
        idle = [name for at, name in enumerate(sorted(CLUSTER)) if list(runs.values()).count(at) < CLUSTER[name]]
        waiting = [job for job, (at, _, _) in enumerate(jobs) if at <= start_s < over[job] - 1e-6 and job not in runs]
        for job in waiting:
            _, types, array = jobs[job]
            assert not set(types) & set(idle) or (array and of_array[array] >= LIMITS[array]), (start_s, job, idle)
    submitted = [event for event in events if isinstance(event, JobsSubmitted)]
    parked = [event for event in events if isinstance(event, JobsParked)]
    assert sum(len(event.jobs) for event in submitted) == len(jobs)
    assert sum(len(event.jobs) for event in parked) < 4 * len(jobs), "few jobs have to step aside"
