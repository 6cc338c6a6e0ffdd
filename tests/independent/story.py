"""What was held when, read from the lines of an event log (docs/event-log.md); plain Python."""

import json
from collections import Counter
from dataclasses import dataclass, field

ROUND_S = 360.0
INSTANT_S = 1e-6


@dataclass(frozen=True)
class Task:
    """One line of a plan."""

    jobs: tuple[int, ...]
    type: str
    gpus: int
    slots: tuple[tuple[int, int], ...]


@dataclass
class Stretch:
    """A time without decisions, from `start_s` to `end_s`; each task holds its GPUs until `held_until_s`."""

    start_s: float
    end_s: float
    tasks: list[Task]
    held_until_s: list[float]


@dataclass
class Story:
    """What a log says."""

    capacity: Counter
    arrival_s: dict[int, float] = field(default_factory=dict)
    gpus: dict[int, int] = field(default_factory=dict)
    finish_s: dict[int, float] = field(default_factory=dict)
    plans: list[tuple[float, list[Task]]] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)


def story_of(path):
    """Read a log."""
    with path.open(encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    cluster = events[0]["config"]["cluster"]
    names = cluster.get("types") or sorted({server[1] for server in cluster["servers"]})
    capacity = Counter()
    for server in cluster["servers"]:
        capacity[server[1]] += server[2]
    story = Story(capacity)
    for event in events:
        kind = event["event"]
        if kind == "JobsSubmitted":
            for k, submitted in enumerate(event["submitted"]):
                story.arrival_s[event["first_id"] + k] = submitted
                story.gpus[event["first_id"] + k] = event["gpus"][k]
        elif kind == "Planned":
            tasks = story.plans[-1][1] if event.get("same") else tasks_of(event, names)
            story.plans.append((event["at"], tasks))
        elif kind == "RoundsRan":
            until = [event["start"] + seconds for seconds in event["seconds"]]
            story.stretches.append(Stretch(event["start"], event["at"], story.plans[-1][1], until))
        elif kind == "JobsFinished":
            story.finish_s.update(zip(event["jobs"], event["finished_at"], strict=True))
    return story


def tasks_of(plan, names):
    """The tasks of a plan that is written out."""
    tasks = []
    for k, (one, two) in enumerate(zip(plan["first"], plan["second"], strict=True)):
        slots = range(plan["slot_start"][k], plan["slot_start"][k + 1])
        held = tuple((plan["slot_server"][s], plan["slot_gpus"][s]) for s in slots)
        jobs = (one,) if two < 0 else (one, two)
        tasks.append(Task(jobs, names[plan["type"][k]], plan["gpus"][k], held))
    return tasks


def between_rounds(second):
    """Whether no round begins then."""
    return min(second % ROUND_S, -second % ROUND_S) > INSTANT_S


def disturbed(story):
    """(second, task before, task after) of jobs that were stopped, moved or given a partner between two rounds."""
    found = []
    for (_, before), (now_s, after) in zip(story.plans, story.plans[1:], strict=False):
        if not between_rounds(now_s):
            continue
        later = {job: task for task in after for job in task.jobs}
        for task in before:
            there = tuple(job for job in task.jobs if story.finish_s.get(job, now_s + 1) > now_s + INSTANT_S)
            for job in there:
                new = later.get(job)
                same = new is not None and sorted(new.jobs) == sorted(there)
                if not same or (new.type, new.gpus, sorted(new.slots)) != (task.type, task.gpus, sorted(task.slots)):
                    found.append((now_s, task, new))
    return found


def idle_beside_waiting(story, can_run):
    """(job, type, seconds, until) where a GPU is idle while a job of one GPU waits that can run there."""
    found = []
    for stretch in story.stretches:
        running = {job for task in stretch.tasks for job in task.jobs}
        for job, arrival_s in story.arrival_s.items():
            gone = story.finish_s.get(job, stretch.end_s) < stretch.end_s - INSTANT_S
            if job in running or gone or story.gpus[job] > 1:
                continue
            for name in story.capacity:
                since_s = max(free_from(stretch, name, story.capacity[name]), arrival_s)
                if can_run(job, name) and stretch.end_s - since_s > INSTANT_S:
                    found.append((job, name, stretch.end_s - since_s, stretch.end_s))
    return found


def free_from(stretch, name, capacity):
    """The first second of a stretch at which a GPU of the type is free; its end if none is."""
    tasks = zip(stretch.tasks, stretch.held_until_s, strict=True)
    held = [(until, task.gpus) for task, until in tasks if task.type == name]
    if sum(gpus for _, gpus in held) < capacity:
        return stretch.start_s
    return min([until for until, _ in held], default=stretch.end_s)
