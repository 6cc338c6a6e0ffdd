"""Small clusters, jobs, views and runs for tests, and the laws that every decision has to obey."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np

from rota.core.allocation import NO_OPTIONS, Allocation, Options, Traits
from rota.core.cluster import AcceleratorType, uniform
from rota.core.events import (
    Allocated,
    Event,
    JobsDropped,
    JobsFinished,
    JobsRejected,
    JobsSubmitted,
    Planned,
    RoundsRan,
)
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE
from rota.core.jobs import TableSource, table
from rota.core.placement import Placement
from rota.core.ports import EveryEvent
from rota.core.rules import Rules, preset
from rota.engine.loop import Engine
from rota.engine.state import State
from rota.mechanisms.registry import build
from rota.policies.registry import policies
from rota.sim.world import World

TOLERANCE = 1e-7
FAST, SLOW = "fast", "slow"
"""Profiles that the table below knows."""


class Speeds:
    """Throughputs written out in a test: steps/s by profile and type, the same for any number of GPUs."""

    name = "speeds of a test"

    def __init__(self, rates=None, pairs=None, spread=0.5):
        self.rates = rates or {
            FAST: {"v100": 4.0, "p100": 2.0, "k80": 1.0},
            SLOW: {"v100": 0.4, "p100": 0.3, "k80": 0.2},
        }
        self.pairs = pairs
        self.spread = spread

    def rate(self, profile, _gpus, type_, *, spread=False):
        return self.rates[profile][type_] * (self.spread if spread else 1.0)

    def pair_rate(self, profile, partner, _gpus, type_):
        if self.pairs is not None:
            return self.pairs.get((profile, partner, type_), 0.0)
        return 0.75 * self.rates[profile][type_]

    def known(self, profile):
        return profile in self.rates


def a_cluster(*, per_server=1, **gpus):
    """`a_cluster(v100=4, k80=2, per_server=2)`; two v100 and two k80 unless told otherwise."""
    wanted = gpus or {"v100": 2, "k80": 2}
    priced = tuple(AcceleratorType(name=kind, hourly_price=1.0) for kind in wanted)
    return uniform("test", [(kind, count, per_server) for kind, count in wanted.items()], priced)


def some_jobs(count=3, *, profiles=FAST, gpus=1, steps=1000.0, arrivals=0.0, **columns):
    """A table of jobs; a single value stands for all of them."""
    return table(
        profile_names=[profiles] * count if isinstance(profiles, str) else profiles,
        gpus=np.broadcast_to(gpus, count),
        total_steps=np.broadcast_to(steps, count).astype(float),
        submitted=np.broadcast_to(arrivals, count).astype(float),
        **columns,
    )


def a_state(jobs=3, *, cluster=None, speeds=None, rules=None, now=0.0):
    """A state in which the jobs have just arrived."""
    asked = some_jobs(jobs) if isinstance(jobs, int) else jobs
    state = State(cluster or a_cluster(), speeds or Speeds(), rules or Rules())
    if len(asked):
        state.apply(JobsSubmitted(at=now, first_id=0, jobs=asked))
    return state


def accounts_of(state):
    """Time received and promised, as a mechanism sees it."""
    return state.view(state.now).accounts


def owe(state, kind, seconds):
    """Make the state owe its jobs so much on a type."""
    columns = state._jobs
    progress = columns.progress.copy()
    progress[columns.owed][kind] = seconds
    columns.set_progress(progress)


def a_view(jobs=3, *, now=0.0, **parts):
    """What a policy sees of `a_state(...)`."""
    return a_state(jobs, now=now, **parts).view(now)


def shares(view, rows, *, pairs=(), traits=None):
    """An allocation from plain rows; `pairs` are (first id, second id, row)."""
    matrix = np.array([*rows, *(row for *_, row in pairs)], dtype=float).reshape(-1, len(view.types))
    extras = NO_OPTIONS
    if pairs:
        first = np.array([a for a, *_ in pairs], dtype=np.int64)
        second = np.array([b for _, b, _ in pairs], dtype=np.int64)
        extras = Options(first=first, second=second, gpus=view.gpus[view.position(first)])
    traits = traits or Traits(packs=bool(pairs))
    return Allocation(
        jobs=view.jobs.copy(), types=view.types, share=matrix, extras=extras, traits=traits, horizon=UNTIL_JOBS_CHANGE
    )


def a_placement(*tasks, servers=None, kept=False, horizon=EVERY_ROUND):
    """Tasks are (first, second, type, gpus); each on the server of its row unless `servers` says [(server, gpus)]."""
    first, second, kind, gpus = (np.array(c, dtype=np.int64) for c in zip(*tasks, strict=True))
    slots = servers or [[(row, int(size))] for row, size in enumerate(gpus)]
    flat = np.array([slot for task in slots for slot in task], dtype=np.int64).reshape(-1, 2)
    return Placement(
        first=first,
        second=second,
        type=kind,
        gpus=gpus,
        kept=np.broadcast_to(kept, len(first)).copy(),
        slot_start=np.concatenate([[0], np.cumsum([len(task) for task in slots])]).astype(np.int64),
        slot_server=flat[:, 0],
        slot_gpus=flat[:, 1],
        horizon=horizon,
    )


def ids(*values):
    return np.array(values, dtype=np.int64)


@dataclass
class Run:
    """Everything that happened in a run, in order."""

    cluster: object
    state: State
    events: list[Event] = field(default_factory=list)
    reason: str = ""

    def of(self, kind):
        return [e for e in self.events if isinstance(e, kind)]

    @property
    def jobs(self):
        """The tables that arrived, one after the other."""
        return [e.jobs for e in self.of(JobsSubmitted)]

    @property
    def finished(self):
        """Finish by job id."""
        return {int(j): float(t) for e in self.of(JobsFinished) for j, t in zip(e.jobs, e.finished_at, strict=True)}

    @property
    def given_up(self):
        """Reason by job id, for jobs that were dropped or refused."""
        return {int(j): e.reason for e in self.of((JobsDropped, JobsRejected)) for j in e.jobs}

    @property
    def placements(self):
        return [e.plan.placement for e in self.of(Planned)]

    @property
    def solves(self):
        return [e.at for e in self.of(Allocated)]

    @property
    def rounds(self):
        """(placement, what its tasks did), in order."""
        pairs, placement = [], None
        for event in self.events:
            if isinstance(event, Planned):
                placement = event.plan.placement
            elif isinstance(event, RoundsRan):
                pairs.append((placement, event))
        return pairs

    def steps(self):
        """Steps credited, by job id."""
        done = np.zeros(sum(len(jobs) for jobs in self.jobs))
        for placement, ran in self.rounds:
            np.add.at(done, placement.first, ran.steps)
            shared = placement.second >= 0
            np.add.at(done, placement.second[shared], ran.partner_steps[shared])
        return done

    def gpu_seconds(self):
        """GPU-seconds held, by type."""
        held = np.zeros(len(self.cluster.types))
        for placement, ran in self.rounds:
            np.add.at(held, placement.type, ran.seconds * placement.gpus)
        return held


def a_run(
    jobs=3, *, cluster=None, policy="fifo-perf", mechanism=None, rules="default", speeds=None, seed=0, until=np.inf,
    observe=None, observers=(),
):  # fmt: skip
    """Simulate in memory, with every event kept; `observe(event, run)` looks at each as it happens."""
    asked = some_jobs(jobs) if isinstance(jobs, int) else jobs
    how = preset(rules) if isinstance(rules, str) else rules
    machines = cluster or a_cluster()
    state = State(machines, speeds or Speeds(), how)
    run = Run(cluster=machines, state=state)

    def note(event):
        run.events.append(event)
        if observe is not None:
            observe(event, run)

    world = World(TableSource(asked), how)
    engine = Engine(
        state=state,
        policy=policies.create(policy) if isinstance(policy, str) else policy,
        mechanism=build(mechanism or how.mechanism, how, seed),
        clock=world,
        executor=world,
        observers=(EveryEvent(note), *observers),
    )
    run.reason = engine.run(lambda: False, until)
    return run


def assert_feasible(allocation, view):
    """Nobody gets more time than there is, and no type hands out more GPUs than it has."""
    count, share, extras = len(view), allocation.share, allocation.extras
    assert share.shape == (count + len(extras), len(view.types))
    assert np.isfinite(share).all()
    assert (share >= -1e-12).all()
    time, used = share[:count].sum(axis=1), view.gpus @ share[:count]
    if len(extras):
        together = share[count:]
        for members in (extras.first, extras.second):
            at = view.position(members)
            assert (at >= 0).all(), "a pair with a job that is not here"
            assert (view.gpus[at] == extras.gpus).all()
            np.add.at(time, at, together.sum(axis=1))
        assert (extras.first < extras.second).all()
        used = used + extras.gpus @ together
    assert (time <= 1 + TOLERANCE).all(), time.max()
    assert (used <= view.capacity * (1 + TOLERANCE)).all(), (used, view.capacity)
    if allocation.order is not None:
        assert sorted(allocation.order.tolist()) == list(range(count))


def assert_same_allocation(one, other):
    """Equal to the last bit, the report included."""
    assert one == other
    assert one.report.objective == other.report.objective or np.isnan(one.report.objective)


def assert_fits(placement, view):
    """No server over its GPUs, nobody twice, and every task on as many GPUs of its type as it has."""
    members = np.concatenate([placement.first, placement.second[placement.second >= 0]])
    assert (view.position(members) >= 0).all(), "a task of a job that is not here"
    sizes = view.gpus[view.position(placement.first)] if len(placement) else placement.gpus
    assert (placement.gpus == sizes).all()
    if placement.fraction is not None:
        _assert_fits_fluid(placement, view, members)
        return
    assert len(np.unique(members)) == len(members), "a job twice"
    assert placement.slot_start[0] == 0
    assert placement.slot_start[-1] == len(placement.slot_server) == len(placement.slot_gpus)
    task = np.repeat(np.arange(len(placement)), np.diff(placement.slot_start))
    held = np.bincount(task, weights=placement.slot_gpus, minlength=len(placement))
    assert (held == placement.gpus).all(), "slots do not add up to a task's GPUs"
    assert (placement.slot_gpus > 0).all()
    assert (view.cluster.server_type[placement.slot_server] == placement.type[task]).all(), "a slot of another type"
    servers = len(view.cluster.server_gpus)
    used = np.bincount(placement.slot_server, weights=placement.slot_gpus, minlength=servers)
    assert (used <= view.cluster.server_gpus).all(), "a server over its GPUs"
    for held, there, what in (
        (placement.cpus, view.cluster.server_cpus, "CPUs"),
        (placement.memory_gb, view.cluster.server_memory_gb, "memory"),
    ):
        if held is not None:
            part = held[task] * placement.slot_gpus / placement.gpus[task]
            used = np.bincount(placement.slot_server, weights=part, minlength=servers)
            assert (used <= there * (1 + 1e-12) + 1e-6).all(), f"a server over its {what}"


def _assert_fits_fluid(placement, view, members):
    """Without slots: fractions of time add up to one at most, and GPUs by type to what is there."""
    assert len(placement.slot_server) == 0
    shared = placement.second >= 0
    time = np.zeros(len(view))
    parts = np.concatenate([placement.fraction, placement.fraction[shared]])
    np.add.at(time, view.position(members), parts)
    assert (time <= 1 + TOLERANCE).all()
    used = np.bincount(placement.type, weights=placement.fraction * placement.gpus, minlength=len(view.types))
    assert (used <= view.capacity * (1 + TOLERANCE)).all()


ROTA = (sys.executable, "-m", "rota.cli")
TIMES = frozenset({"cpu_s", "wall_s", "peak_rss_mb"})
"""What differs between two runs that are the same."""


def command(*arguments, before=(), **options):
    """The real command line in a process of its own, started by the program `before` if one is given."""
    words = [*before, *ROTA, *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True, text=True, **options)


def started(*arguments, **options):
    """The same, still running. Ctrl-C reaches it even if the tests themselves run in the background."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return subprocess.Popen([*ROTA, *map(str, arguments)], **streams)
    finally:
        signal.signal(signal.SIGINT, before)


def summary_of(*arguments, **options):
    """The numbers of a run, without the time and memory it took."""
    done = command(*arguments, "--json", **options)
    assert done.returncode == 0, done.stderr
    return comparable(json.loads(done.stdout))


def comparable(summary):
    return {key: value for key, value in summary.items() if key not in TIMES}


def wait_for(path, process, *, times=1):
    """Until the file is there and was replaced so often; fails if the process ends before."""
    seen = set()
    while len(seen) < times:
        with contextlib.suppress(FileNotFoundError):
            seen.add(path.stat().st_ino)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
            raise AssertionError(f"the run ended before {path.name} was written: {process.communicate()}")
