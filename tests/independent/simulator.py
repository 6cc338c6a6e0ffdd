"""A simulator of rankings, written from docs/rules.md alone: plain Python, one round after the other, nothing skipped.

Rounds begin at multiples of 360 s. At the beginning of each, the jobs that have arrived are put in order, and
whoever finds room runs until the end of the round, or its own. On several types the jobs that run get the types
with the largest sum of speeds in the coming round, each relative to the job's best type; a start or a move costs
`restart_s` of the round. Then whoever ends sooner by it moves to a faster type that would stay idle.
"""

from dataclasses import dataclass

ROUND_S = 360.0


@dataclass
class Job:
    """One job; `rate` is steps/s by type, 0 where it cannot run."""

    number: int
    arrival_s: float
    gpus: int
    steps: float
    rate: dict[str, float]
    left: float = 0.0
    held_gpu_s: float = 0.0
    last_type: str | None = None
    finish_s: float | None = None

    def __post_init__(self):
        self.left = self.steps

    def starts_after_s(self, name, restart_s):
        """Seconds without progress at the beginning of a round on a type."""
        return 0.0 if self.last_type == name else restart_s

    def needs_s(self, name, restart_s):
        """Seconds until the end of the job if it stays on a type from now on."""
        return self.starts_after_s(name, restart_s) + self.left / self.rate[name]

    def worth(self, name, restart_s):
        """Speed in the coming round, relative to the best type."""
        useful = 1 - self.starts_after_s(name, restart_s) / ROUND_S
        return useful * self.rate[name] / max(self.rate.values())


ORDERS = {
    "fifo": lambda job: job.arrival_s,
    "srtf": lambda job: job.left / max(job.rate.values()),
    "srsf": lambda job: job.left / max(job.rate.values()) * job.gpus,
    "las": lambda job: job.held_gpu_s,
}


def completion_times(jobs, capacity, order, restart_s=0.0):
    """Seconds from arrival to finish of the jobs on `capacity` (GPUs by type); the jobs are used up."""
    start_s = 0.0
    while any(job.finish_s is None for job in jobs):
        present = [job for job in jobs if job.finish_s is None and job.arrival_s <= start_s]
        present.sort(key=lambda job: (ORDERS[order](job), job.number))
        types = types_of(who_runs(present, capacity), capacity, restart_s)
        for job in present:
            run(job, types.get(job.number), start_s, restart_s)
        start_s += ROUND_S
    return [job.finish_s - job.arrival_s for job in jobs]


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


def run(job, name, start_s, restart_s):
    """One round of a job on a type; None: a pause."""
    if name is not None:
        needs_s = job.needs_s(name, restart_s)
        if needs_s <= ROUND_S + 1e-9:
            job.finish_s = start_s + needs_s
        job.left -= job.rate[name] * (ROUND_S - job.starts_after_s(name, restart_s))
        job.held_gpu_s += job.gpus * min(needs_s, ROUND_S)
    job.last_type = name
