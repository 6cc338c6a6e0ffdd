"""The scheduler of a deployment in memory: events in, events out; no thread, no SQLite, no network, no real time.

Everything is the real thing but the clock, which a test moves, the journal, which is a list, and the policy: a test
says what should run. Agents are played: a test says what they report.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from builders import Speeds
from rota.core.job_spec import spec_from
from rota.core.lifecycle import AttemptOutcome, JobPhase, TaskPhase
from rota.core.rules import Rules
from rota.deploy.scheduler.catalogue import opened
from rota.deploy.scheduler.control_loop import ControlLoop
from rota.deploy.scheduler.gang_stops import GangStops
from rota.deploy.scheduler.heartbeats import AgentReport, Heartbeats, TaskReport
from rota.deploy.scheduler.inbox import Inbox
from rota.deploy.scheduler.journal import StoredSnapshot
from rota.deploy.scheduler.leases import LeaseKeeper
from rota.deploy.scheduler.options import Options, Retention, Timing
from rota.deploy.scheduler.order_board import OrderBoard
from rota.deploy.scheduler.reconciliation import DesiredAttempt
from rota.deploy.scheduler.recorder import Recorder
from rota.deploy.scheduler.recovery import Recovery
from rota.deploy.scheduler.requests import OfferedNode, Requests
from rota.deploy.scheduler.round_report import RoundReport, cluster_now
from rota.deploy.scheduler.secrets import SecretStore
from rota.deploy.scheduler.speed_measuring import SpeedMeter
from rota.engine.live_state import LiveState

TIMING = Timing(heartbeat_s=1.0, dead_after_s=5.0, lease_s=20.0)
ROUND_S = 10.0


@dataclass
class ManualClock:
    """Engine seconds that pass when a test says so; the wall runs with them."""

    seconds: float = 0.0
    scale: float = 1.0

    def now(self):
        return self.seconds

    def wall_was_set(self):
        return 0.0


@dataclass
class MemoryJournal:
    """Committed rows, and the jobs that left memory."""

    rows: list = field(default_factory=list)
    finished: dict = field(default_factory=dict)
    path: Path = Path("in memory")
    stored: list = field(default_factory=list)
    begins_after: int = 0

    def append(self, rows, archived=(), forgotten=()):
        self.rows += [json.loads(body) for _, _, body in rows]
        self.finished.update({job.id: job for job in archived})
        for number in forgotten:
            del self.finished[number]
        return len(self.rows)

    def events(self, after=0):
        return [(number, dict(row)) for number, row in enumerate(self.rows[after:], after + 1)]

    def snapshots(self):
        return self.stored

    def save_snapshot(self, format_, body):
        self.stored = [StoredSnapshot(number=len(self.rows), format=format_, body=body), *self.stored[:1]]

    def job(self, number):
        return self.finished.get(number)

    def phases(self, numbers):
        return {number: self.finished[number].phase for number in numbers if number in self.finished}

    def request(self, request):
        return [job.id for job in self.finished.values() if job.request == request] or None


@dataclass
class PlayedAgent:
    """What an agent would say."""

    session: str = ""
    sequence: int = 0
    tasks: dict = field(default_factory=dict)


class Harness:
    """One scheduler."""

    def __init__(self, *, journal=None, clock=None, agents=None, retention=None, catalogue=None, secrets=None):
        self.journal = journal or MemoryJournal()
        self.clock = clock or ManualClock()
        self.agents: dict[str, PlayedAgent] = agents or {}
        self.desired: dict[int, DesiredAttempt] = {}
        self.trouble: dict[str, str] = {}
        self.catalogue = catalogue or opened(Speeds())
        self.rules = replace(Rules(), round_s=ROUND_S)
        self.retention = retention or Retention()
        self.state = None
        self.secrets = secrets or SecretStore()
        self._put_together()

    def _put_together(self):
        self.recovery = Recovery(self.journal, self.catalogue, self.rules, self._make_state)
        self.recovered = self.recovery.recover()
        self.registry = self.recovered.registry
        self.heartbeats = Heartbeats(TIMING.heartbeat_s, monotonic=self.clock.now)
        self.meter = SpeedMeter(self.registry, self.heartbeats, TIMING.heartbeat_s, self.clock.scale)
        self.requests = Requests(
            registry=self.registry, heartbeats=self.heartbeats, catalogue=self.catalogue, archive=self.journal,
            secrets=self.secrets,
            dead_after_s=TIMING.dead_after_s,
            meter=self.meter,
        )  # fmt: skip
        gang_stops = GangStops()
        self.board = OrderBoard(self.registry, self.heartbeats, gang_stops, self.secrets)
        self.recorder = Recorder(self.registry, self.heartbeats, self.journal)
        self.inbox = Inbox()
        self.loop = ControlLoop(
            options=Options(state="in memory", timing=TIMING, retention=self.retention),
            clock=self.clock,
            inbox=self.inbox,
            registry=self.registry,
            heartbeats=self.heartbeats,
            recorder=self.recorder,
            gang_stops=gang_stops,
            board=self.board,
            leases=LeaseKeeper(self.clock, TIMING, ROUND_S),
            secrets=self.secrets,
        )
        self.loop.desired = lambda: self.desired
        self.report_to_engine = RoundReport(self.registry, self.catalogue, None, ROUND_S)
        self.board.publish()

    def _make_state(self, cluster):
        return LiveState(cluster, self.catalogue, self.rules)

    def restarted(self, rows=None):
        """Another scheduler that reads this one's journal, or the first rows of it."""
        kept = MemoryJournal(rows=list(self.journal.rows[:rows]), finished=dict(self.journal.finished))
        clock = ManualClock(seconds=self.clock.seconds)
        agents = {node: replace(agent, tasks=dict(agent.tasks)) for node, agent in self.agents.items()}
        again = Harness(journal=kept, clock=clock, agents=agents, retention=self.retention, secrets=self.secrets)
        again.desired = dict(self.desired)
        again.loop.round_start = self.loop.round_start
        return again

    # What a test does

    def ask(self, work):
        """Let the owner do something; its answer."""
        answer = self.inbox.post("test", work)
        self.loop.turn(0.0)
        return answer.result(0)

    def wait(self, seconds):
        """Let time pass, then let the loop look."""
        self.clock.seconds += seconds
        self.loop.turn(0.0)

    def join(self, node, gpus=4, *, identity="folder", kind="v100"):
        """A server registers; what ran there is still known to it if it has the same identity.

        With another one it is another agent, which is let in when the one before is silent for long enough.
        """
        before = self.agents.get(node)
        if node in self.registry.nodes and self.registry.nodes[node].joined.identity != identity:
            self.wait(TIMING.dead_after_s + 1.0)
        offered = OfferedNode(
            node=node, type=kind, devices=tuple(f"gpu{i}" for i in range(gpus)), cpus=8.0, memory_gb=64.0,
            host=node, identity=identity,
        )  # fmt: skip
        session = self.ask(lambda now: self.requests.register(offered, now))
        known = before is not None and self.registry.nodes[node].joined.identity == identity
        self.agents[node] = PlayedAgent(session=session, tasks=dict(before.tasks) if known else {})
        return session

    def submit(self, *, request="", **fields):
        """A job; its number."""
        spec = spec_from({"steps": 1000, "profile": "fast", "emulated": True, **fields})
        return self.ask(lambda now: self.requests.submit([spec], "tester", request, now))[0]

    def cancel(self, job):
        return self.ask(lambda now: self.requests.cancel([job], "tester", None, now))

    def want(self, **placement):
        """What should run from now on: `want(j0={"a": 2}, j1={"a": 2, "b": 1})`."""
        self.desired = {int(name[1:]): desired(gpus) for name, gpus in placement.items()}
        self.loop.carry_out()

    def share(self, first, second, gpus):
        """Two jobs should run on the same GPUs."""
        self.desired = {first: desired(gpus, partner=second), second: desired(gpus, partner=first)}
        self.loop.carry_out()

    def round(self):
        """The end of a round: the engine is told what happened, and leases are extended. Nobody decides anew."""
        since = self.loop.round_start
        self.loop.round_start = self.clock.now()
        cluster = cluster_now(self.registry, None, self.catalogue)
        if self.state is None and cluster is not None:
            self.state = self._state_of_now(cluster)
        if self.state is not None:
            for event in self.report_to_engine.events(self.state, self.clock.now(), since):
                self.recorder.commit_engine_event(event)
                self.state.apply(event)
                self.recorder.apply_engine_event(event)
        self.loop.carry_out()
        self.loop.turn(0.0)

    def _state_of_now(self, cluster):
        """A state that has heard of all jobs that the registry says were admitted."""
        state = self._make_state(cluster)
        for row in self.journal.rows:
            if row["event"] in ("JobsSubmitted", "JobsFinished", "JobsDropped", "JobsParked", "JobsReturned"):
                state.apply(_engine_event(row))
        return state

    def report(self, node, tasks=None, **changes):
        """A report of an agent. `tasks` are TaskReports by job or (job, epoch); what it said before stays."""
        agent = self.agents[node]
        for key, task in (tasks or {}).items():
            agent.tasks[key if isinstance(key, tuple) else (key, self.registry.jobs[key].epoch)] = task
        agent.sequence += 1
        fields = {
            "node": node, "session": agent.session, "sequence": agent.sequence, "tasks": dict(agent.tasks),
            "acknowledged": self.board.published[node].version, "trouble": self.trouble.get(node, ""), **changes,
        }  # fmt: skip
        return self.ask(lambda now: self.requests.report(AgentReport(**fields), now))

    # What a test looks at

    def names(self, first=0):
        """Kinds of the committed events."""
        return [row["event"] for row in self.journal.rows[first:]]

    def of(self, kind):
        """Committed events of a kind."""
        return [row for row in self.journal.rows if row["event"] == kind]

    def job(self, number):
        return self.registry.jobs[number]

    def phase(self, number) -> JobPhase:
        return self.registry.jobs[number].phase

    def phases(self):
        return {number: job.phase for number, job in self.registry.jobs.items()}

    def commands(self, node):
        """What an agent is told, by job."""
        return {task.job: task.command.value for task in self.board.published[node].tasks}

    def running(self, **fields):
        """A job that runs on server a since now; its number."""
        if "a" not in self.agents:
            self.join("a")
        number = self.submit(**fields)
        self.round()
        self.want(**{**{f"j{job}": as_gpus(d) for job, d in self.desired.items()}, f"j{number}": {"a": 1}})
        self.report("a", {number: runs()})
        return number


def _engine_event(row):
    from rota.engine.log import LineReader

    return LineReader().read(dict(row))


def desired(gpus, *, partner=-1, rate=1.0):
    """So many GPUs by node, with a CPU and 4 GB for each."""
    shape = tuple(sorted(gpus.items(), key=lambda part: (-part[1], part[0])))
    cpus = {node: float(count) for node, count in gpus.items()}
    memory_gb = {node: 4.0 * count for node, count in gpus.items()}
    return DesiredAttempt(gpus_by_node=shape, cpus=cpus, memory_gb=memory_gb, partner=partner, rate=rate)


def as_gpus(wanted):
    return dict(wanted.gpus_by_node)


def runs(step=1, saved_step=0, **fields):
    """A task that runs."""
    return TaskReport(phase=TaskPhase.RUNNING, step=step, saved_step=saved_step, **fields)


def ends(outcome, step=1, saved_step=0, **fields):
    """A task that has ended."""
    word = AttemptOutcome(outcome)
    return TaskReport(phase=TaskPhase.ENDED, outcome=word, step=step, saved_step=saved_step, **fields)
