"""Who runs and is chosen again on the same type stays on its servers (rule `repack` is off)."""

from itertools import pairwise, permutations

import pytest

import rota
from rota import clusters
from rota.core.events import Planned
from rota.engine.log import read_events

CLUSTER = "v100=12/4:cpus=12:memory=250"
CPUS, MEMORY = 12.0, 250.0


def placements(tmp_path, policy, mechanism, *, seed=0, gangs=False, **settings):
    """The placements of a run on servers that are short of CPUs."""
    rota.simulate(
        workload="philly-derived",
        settings={"jobs": 20 if mechanism == "optimal" else 50, "jobs_per_hour": 20.0, "multi_gpu": gangs},
        cluster=CLUSTER,
        policy=policy,
        mechanism=mechanism,
        mechanism_settings=settings,
        seed=seed,
        events=tmp_path / "run.jsonl",
    )
    return [event.plan.placement for event in read_events(tmp_path / "run.jsonl") if isinstance(event, Planned)]


def tasks_of(placement):
    """By members and type: slots, CPUs and memory."""
    tasks = {}
    for k in range(len(placement)):
        part = slice(placement.slot_start[k], placement.slot_start[k + 1])
        slots = zip(placement.slot_server[part].tolist(), placement.slot_gpus[part].tolist(), strict=True)
        held = (0.0, 0.0) if placement.cpus is None else (placement.cpus[k], placement.memory_gb[k])
        tasks[int(placement.first[k]), int(placement.second[k]), int(placement.type[k])] = (sorted(slots), *held)
    return tasks


def rounds(made):
    """Each round with the one before."""
    listed = [tasks_of(placement) for placement in made]
    return list(pairwise(listed))


def moved(before, after):
    return [key for key in after if key in before and before[key][0] != after[key][0]]


def all_find_room(before, after):
    """Whether, with everybody in place, those who start find room by first fit in whatever order they come."""
    free = [[4, CPUS, MEMORY] for _ in range(clusters.load(CLUSTER).gpus // 4)]
    for key, (_, cpus, memory) in after.items():
        if key in before:
            ((server, size),) = before[key][0]
            free[server] = [have - take for have, take in zip(free[server], (size, cpus, memory), strict=True)]
    if min(min(server) for server in free) < -1e-6:
        return False
    starting = [task[1:] for key, task in after.items() if key not in before]
    return all(_first_fit([list(server) for server in free], order) for order in permutations(starting))


def _first_fit(free, order):
    for cpus, memory in order:
        server = next((s for s in free if s[0] >= 1 and s[1] >= cpus - 1e-9 and s[2] >= memory - 1e-9), None)
        if server is None:
            return False
        server[0] -= 1
        server[1] -= cpus
        server[2] -= memory
    return True


@pytest.mark.parametrize("mechanism", ["proportional", "tune"])
@pytest.mark.parametrize("policy", ["las", "max-min-fairness"])
@pytest.mark.parametrize("gangs", [False, True])
def test_nobody_moves(tmp_path, policy, mechanism, gangs):
    made = rounds(placements(tmp_path, policy, mechanism, gangs=gangs))

    assert len(made) > 20
    assert [moved(before, after) for before, after in made if moved(before, after)] == []


@pytest.mark.parametrize("policy", ["las", "srtf", "fifo"])
def test_under_greedy_nobody_moves_unless_somebody_would_find_no_room(tmp_path, policy):
    made = rounds(placements(tmp_path, policy, "greedy"))
    few = [(before, after) for before, after in made if sum(key not in before for key in after) <= 4]
    quiet = [(before, after) for before, after in few if all_find_room(before, after)]

    assert len(quiet) > 10
    assert [moved(before, after) for before, after in quiet if moved(before, after)] == []


def test_under_optimal_nobody_moves_if_the_gap_allows_for_that(tmp_path):
    often = sum(len(moved(*pair)) for pair in rounds(placements(tmp_path, "las", "optimal")))
    never = sum(len(moved(*pair)) for pair in rounds(placements(tmp_path, "las", "optimal", gap=0.9)))

    assert never == 0 < often
