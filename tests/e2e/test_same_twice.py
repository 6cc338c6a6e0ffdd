"""The same jobs and seed twice in emulation: the same starts in the same order, the same servers in every round."""

import math
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from faults import Site, until

ROUND, SCALE = 60.0, 40.0
"""A round takes 1.5 s. Jobs come and end in the middle of rounds, where (without at_once) a little delay
changes nothing."""


def jobs_of(seed):
    """(round of arrival, job) of a small trace."""
    draw = random.Random(seed)
    return sorted(
        (
            (draw.randint(0, 4), {"gpus": draw.choice([1, 1, 2]), "steps": 60 * draw.randint(2, 4) + 25})
            for _ in range(12)
        ),
        key=lambda pair: pair[0],
    )


def played(folder, policy, seed):
    folder.mkdir()
    with Site(
        folder, policy=policy, round=ROUND, time_scale=SCALE, seed=seed, dead_after=20, lease=30, set_rules="at_once=no"
    ) as site:
        site.agent("n0", "emulate:v100=2")
        site.agent("n1", "emulate:k80=2")
        begin, numbers = math.ceil(site.client.status().now_s / ROUND + 0.5), []
        for at, job in jobs_of(seed):
            wait = (begin + at + 0.4) * ROUND - site.client.status().now_s
            time.sleep(max(0.0, wait / SCALE))
            spec = {**job, "emulated": True, "profile": "unprofiled", "checkpoint_every_s": 0.3}
            numbers.append(site.submit(**spec))
        over = site.done(*numbers, seconds=90)
        assert [job.phase for job in over] == ["finished"] * len(numbers)
        until(lambda: site.events("JobsFinished"))
        return decisions(site), sum(job.preemptions for job in over)


def decisions(site):
    """What was placed where, from which round on, and the order of starts with their devices."""
    planned, last = [], None
    for event in site.events("Planned"):
        if event.get("same"):
            continue
        slots = {k: v for k, v in event.items() if k not in {"at", "event", "round", "kept"}}
        if slots != last:
            planned.append((event["round"], slots))
            last = slots
    first = planned[0][0]
    starts = [
        (round(e["at"] // ROUND) - first, e["job"], e["epoch"], [(p["node"], p["devices"]) for p in e["parts"]])
        for e in site.events("AttemptStarted")
    ]
    offset = starts[0][0]
    by_round = sorted((at - offset, *rest) for at, *rest in starts)
    return [(at - first, slots) for at, slots in planned], by_round


@pytest.mark.parametrize("policy", ["las", pytest.param("max-min-fairness", marks=pytest.mark.long)])
def test_two_emulations_decide_the_same(tmp_path, policy):
    with ThreadPoolExecutor(2) as both:
        runs = [both.submit(played, tmp_path / name, policy, 5) for name in ("one", "two")]
        (one, moves), (two, again) = (run.result() for run in runs)

    assert moves == again > 0
    assert one[0] == two[0]
    assert one[1] == two[1]
