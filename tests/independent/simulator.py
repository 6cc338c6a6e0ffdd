"""A simulator of rankings, written from docs/rules.md alone: plain Python, one moment after the other.

Rounds begin at multiples of 360 s. At the beginning of each, the jobs that have arrived are put in order, and
whoever finds room runs until the end of the round, or its own. On several types the jobs that run get the types
with the largest sum of speeds in the coming round, each relative to the job's best type; a start or a move costs
`restart_s` of the round. Then whoever ends sooner by it moves to a faster type that would stay idle.

With `at_once`, jobs that wait get the GPUs that are free at every arrival and every end between two rounds as well, as
if these GPUs were all there are; whoever runs stays where it is.
"""

from dataclasses import dataclass

ROUND_S = 360.0
INSTANT_S = 1e-9


@dataclass
class Job:
    """One job; `rate` is steps/s by type, 0 where it cannot run.

    While it runs it is on the type `on`, makes progress from `ready_s` and would end at `end_s`.
    """

    number: int
    arrival_s: float
    gpus: int
    steps: float
    rate: dict[str, float]
    left: float = 0.0
    held_gpu_s: float = 0.0
    on: str | None = None
    ready_s: float = 0.0
    end_s: float = 0.0
    finish_s: float | None = None

    def __post_init__(self):
        self.left = self.steps

    def starts_after_s(self, name, restart_s):
        """Seconds without progress on a type; a start that is under way counts as over."""
        return 0.0 if self.on == name else restart_s

    def needs_s(self, name, restart_s):
        """Seconds until the end of the job if it stays on a type from now on."""
        return self.starts_after_s(name, restart_s) + self.left / self.rate[name]

    def worth(self, name, restart_s):
        """Speed in the coming round, relative to the best type."""
        useful = 1 - self.starts_after_s(name, restart_s) / ROUND_S
        return useful * self.rate[name] / max(self.rate.values())

    def runs_on(self, name, now_s, restart_s):
        """Start, move, go on or (None) pause."""
        if name not in (None, self.on):
            self.ready_s = now_s + restart_s
            self.end_s = self.ready_s + self.left / self.rate[name]
        self.on = name


ORDERS = {
    "fifo": lambda job: job.arrival_s,
    "srtf": lambda job: job.left / max(job.rate.values()),
    "srsf": lambda job: job.left / max(job.rate.values()) * job.gpus,
    "las": lambda job: job.held_gpu_s,
}


def completion_times(jobs, capacity, order, restart_s=0.0, *, at_once):
    """Seconds from arrival to finish of the jobs on `capacity` (GPUs by type); the jobs are used up."""
    now_s = 0.0
    rounds = 0
    while any(job.finish_s is None for job in jobs):
        present = [job for job in jobs if job.finish_s is None and job.arrival_s <= now_s]
        present.sort(key=lambda job: (ORDERS[order](job), job.number))
        if now_s == rounds * ROUND_S:
            rounds += 1
            decide(present, capacity, now_s, restart_s)
        elif at_once:
            waiting = [job for job in present if job.on is None]
            decide(waiting, free_of(capacity, present), now_s, restart_s)
        until_s = next_moment(jobs, now_s, rounds * ROUND_S)
        for job in present:
            go_on(job, now_s, until_s)
        now_s = until_s
    return [job.finish_s - job.arrival_s for job in jobs]


def decide(queue, capacity, now_s, restart_s):
    """Down the queue: who runs on the GPUs by type, and on which type; the others pause."""
    types = types_of(who_runs(queue, capacity), capacity, restart_s)
    for job in queue:
        job.runs_on(types.get(job.number), now_s, restart_s)


def free_of(capacity, present):
    """GPUs by type that nobody runs on."""
    return {name: gpus - sum(job.gpus for job in present if job.on == name) for name, gpus in capacity.items()}


def next_moment(jobs, now_s, round_s):
    """The next arrival, end or round."""
    ends = [job.end_s for job in jobs if job.on is not None]
    arrivals = [job.arrival_s for job in jobs if job.arrival_s > now_s]
    return min([*ends, *arrivals, round_s])


def go_on(job, now_s, until_s):
    """Run or wait until the next moment."""
    if job.on is None:
        return
    job.held_gpu_s += job.gpus * (until_s - now_s)
    job.left = (job.end_s - max(until_s, job.ready_s)) * job.rate[job.on]
    if job.end_s <= until_s + INSTANT_S:
        job.finish_s = job.end_s
        job.on = None


def who_runs(queue, capacity):
    """Down the queue, whoever finds room beside those before it, who make way for it where they can."""
    chosen = []
    for job in queue:
        together = [*chosen, job]
        enough = sum(one.gpus for one in together) <= sum(capacity.values())
        if enough and next(ways(together, capacity), None):
            chosen = together
    return chosen


def ways(jobs, free):
    """All ways to give jobs types on which they can run, with the GPUs that are free: {number of a job: type}."""
    if not jobs:
        yield {}
        return
    job, *others = jobs
    for name, gpus in free.items():
        if job.gpus <= gpus and job.rate[name] > 0:
            for way in ways(others, {**free, name: gpus - job.gpus}):
                yield {job.number: name, **way}


def types_of(chosen, capacity, restart_s):
    """The type of each job that runs, by its number."""
    best = max(ways(chosen, capacity), key=lambda way: sum(job.worth(way[job.number], restart_s) for job in chosen))
    while restart_s and moved_to_idle(best, chosen, capacity, restart_s):
        pass
    return best


def idle(way, chosen, capacity):
    """GPUs by type that nobody holds."""
    return {name: gpus - sum(j.gpus for j in chosen if way[j.number] == name) for name, gpus in capacity.items()}


def moved_to_idle(way, chosen, capacity, restart_s):
    """Let the first job move that ends sooner on idle GPUs of a faster type; whether there was one."""
    for job in chosen:
        here = way[job.number]
        free = idle(way, chosen, capacity)
        faster = [name for name in capacity if free[name] >= job.gpus and job.rate[name] > job.rate[here]]
        there = min(faster, key=lambda name: job.needs_s(name, restart_s), default=here)
        if job.needs_s(there, restart_s) < job.needs_s(here, restart_s) - 1e-9:
            way[job.number] = there
            return True
    return False
