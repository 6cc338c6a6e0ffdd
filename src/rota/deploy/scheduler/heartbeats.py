"""What agents said last, when they said it, and what they were told. After a restart they say it again.

Kept in memory only, and by the thread that owns the registry.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from rota.client.stalls import NOTHING_SPENT, StallTimes, mean_times
from rota.core.lifecycle import AttemptOutcome, TaskPhase
from rota.deploy.scheduler.own_stalls import OwnStalls
from rota.deploy.scheduler.records import AttemptKey

Monotonic = Callable[[], float]
"""Wall seconds from any point in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """What processes of a task use, as far as its agent measures it; 0: it does not."""

    cpu_s: float = 0.0
    """CPU seconds so far."""
    memory_gb: float = 0.0
    """Memory that they hold now, GB (10^9 bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """The part of an attempt on one server, as its agent sees it."""

    phase: TaskPhase = TaskPhase.STARTING
    step: int = 0
    saved_step: int = 0
    saved_path: str = ""
    outcome: AttemptOutcome | None = None
    """None as long as it has not ended."""
    exit_code: int = 0
    detail: str = ""
    answers: tuple[tuple[int, str], ...] = ()
    """(rank, JSON): what ranks of a gang said about where to stop."""
    can_save: bool = False
    """Whether its ranks use `rota.client` and said that they save."""
    saving: bool = False
    """Whether a checkpoint is being written."""
    save_progress: int = 0
    """Grows while a checkpoint is written."""
    save_s: float = 0.0
    """Wall seconds that the longest checkpoint of this attempt took; 0: none yet."""
    start_s: float = 0.0
    """Wall seconds from the order to the first step; 0: not known."""
    spent: StallTimes = NOTHING_SPENT
    """Wall seconds of computing and waiting of its ranks, in the mean; nothing if they do not say."""
    step_at_s: float = 0.0
    """When `step` was finished, by the clock of the server in seconds since its boot; 0: not known."""
    used: ResourceUse = ResourceUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """What an agent says it runs: the whole picture."""

    node: str
    session: str
    sequence: int
    acknowledged: int
    """Version of the newest list of orders that it carried out."""
    tasks: Mapping[AttemptKey, TaskReport]
    lateness_s: float = 0.0
    trouble: str = ""
    """Why nothing new can start there; empty: nothing is wrong."""
    leaving: str = ""
    """Why the agent goes for good; empty: it stays."""


@dataclass(slots=True, kw_only=True)
class AgentContact:
    """One agent."""

    heard: float
    """When its last sign of life came, monotonic seconds."""
    sequence: int = 0
    acknowledged: int = 0
    tasks: Mapping[AttemptKey, TaskReport] = field(default_factory=dict)
    ordered: dict[AttemptKey, int] = field(default_factory=dict)
    """Version of the list of orders since which a task is on it."""
    lateness_s: float = 0.0
    stalled_s: float = 0.0
    """How long the scheduler itself had not listened by then, wall seconds since it started."""
    spoke: bool = False
    """Whether it was really heard since this scheduler started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProgress:
    """The last step of an attempt that was heard of, whether it is saved or not."""

    step: int
    changed: float
    """Monotonic seconds; time in which nobody was heard is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveProgress:
    """A checkpoint that is being written, as far as was heard."""

    amount: int
    grew: float
    """When it was last heard that it grew, monotonic seconds."""


class Heartbeats:
    """All agents."""

    def __init__(self, heartbeat_s: float = 2.0, monotonic: Monotonic = time.monotonic) -> None:
        self._contacts: dict[str, AgentContact] = {}
        self.stalls = OwnStalls(heartbeat_s / 2, monotonic)
        """Time in which the scheduler itself did not listen."""
        self._longest_gap_s = 2 * heartbeat_s
        self.monotonic = monotonic
        self._progress: dict[AttemptKey, LiveProgress] = {}
        self._saves: dict[AttemptKey, SaveProgress] = {}

    def of(self, node: str) -> AgentContact:
        """The contact of a node; one that was never heard counts as heard now, so that it gets its time."""
        if node not in self._contacts:
            self._contacts[node] = AgentContact(heard=self.monotonic(), stalled_s=self.stalls.total_s())
        return self._contacts[node]

    def renew(self, node: str) -> None:
        """The agent registered: forget what its predecessor said."""
        self._contacts[node] = AgentContact(heard=self.monotonic(), stalled_s=self.stalls.total_s(), spoke=True)

    def was_heard(self, node: str) -> bool:
        """Whether an agent was heard since this scheduler started. For any thread."""
        contact = self._contacts.get(node)
        return contact is not None and contact.spoke

    def silent_s(self, node: str) -> float:
        """Seconds since the last sign of life."""
        return self.monotonic() - self.of(node).heard

    def unanswered_s(self, node: str) -> float:
        """Seconds since the last sign of life in which the scheduler listened; its own stalls do not count."""
        contact = self.of(node)
        return self.monotonic() - contact.heard - (self.stalls.total_s() - contact.stalled_s)

    def silences_s(self) -> dict[str, float]:
        """Seconds since the last sign of life of every agent. For any thread: a copy of a moment."""
        now = self.monotonic()
        return {node: now - contact.heard for node, contact in dict(self._contacts).items()}

    def live_step(self, key: AttemptKey) -> int:
        """The last step of an attempt that was heard of; 0 if none was."""
        progress = self._progress.get(key)
        return 0 if progress is None else progress.step

    def live_spent(self, key: AttemptKey) -> StallTimes:
        """What the ranks of an attempt spent so far, in the mean over its servers."""
        tasks = (contact.tasks.get(key) for contact in self._contacts.values())
        return mean_times([task.spent for task in tasks if task is not None])

    def live_use(self, key: AttemptKey) -> ResourceUse:
        """What the processes of an attempt use, all its servers together."""
        tasks = [contact.tasks[key] for contact in self._contacts.values() if key in contact.tasks]
        cpu_s = sum(task.used.cpu_s for task in tasks)
        return ResourceUse(cpu_s=cpu_s, memory_gb=sum(task.used.memory_gb for task in tasks))

    def live_steps(self) -> dict[int, int]:
        """The last steps of all attempts that were heard of, by job. For any thread: a copy of a moment."""
        steps: dict[int, int] = {}
        for (job, _), progress in dict(self._progress).items():
            steps[job] = max(steps.get(job, 0), progress.step)
        return steps

    def take(self, report: AgentReport) -> bool:
        """Take over a report; False if a newer one was there already."""
        contact = self.of(report.node)
        if report.sequence <= contact.sequence:
            return False
        now = self.monotonic()
        unheard_s = max(0.0, now - contact.heard - self._longest_gap_s)
        contact.heard = now
        contact.stalled_s = self.stalls.total_s()
        contact.spoke = True
        contact.sequence = report.sequence
        contact.acknowledged = report.acknowledged
        contact.lateness_s = report.lateness_s
        gone = contact.tasks.keys() - report.tasks.keys()
        contact.tasks = report.tasks
        for key, task in report.tasks.items():
            self._follow(key, task.step, now, unheard_s)
            self._follow_save(key, task, now)
        for key in gone:
            self._let_go(key)
        return True

    def _let_go(self, key: AttemptKey) -> None:
        """Forget the progress of an attempt that no agent speaks of: agents report an end until it is acknowledged."""
        if not any(key in contact.tasks for contact in self._contacts.values()):
            self._progress.pop(key, None)
            self._saves.pop(key, None)

    def _follow_save(self, key: AttemptKey, task: TaskReport, now: float) -> None:
        before = self._saves.get(key)
        if not task.saving:
            return
        grows = before is None or task.save_progress > before.amount
        grew = now if before is None or grows else before.grew  # an agent that was started again counts anew
        self._saves[key] = SaveProgress(amount=task.save_progress, grew=grew)

    def is_saving(self, node: str, key: AttemptKey) -> bool:
        """Whether a node said that it writes a checkpoint of an attempt."""
        task = self.of(node).tasks.get(key)
        return task is not None and task.saving

    def save_idle_s(self, key: AttemptKey) -> float:
        """Seconds since a checkpoint of an attempt was last heard to grow; infinite if none is being written."""
        save = self._saves.get(key)
        saving = any(self.is_saving(node, key) for node in self._contacts)
        return self.monotonic() - save.grew if saving and save is not None else math.inf

    def _follow(self, key: AttemptKey, step: int, now: float, unheard_s: float) -> None:
        before = self._progress.get(key)
        if before is None or step > before.step:
            self._progress[key] = LiveProgress(step=step, changed=now)
        elif unheard_s:
            self._progress[key] = LiveProgress(step=before.step, changed=before.changed + unheard_s)

    def idle_s(self, key: AttemptKey, nodes: Iterable[str]) -> float:
        """How long an attempt makes no step, as far as its agents say so: a line that is cut is no job that hangs."""
        progress = self._progress.get(key)
        if progress is None:
            return 0.0
        return min(self.of(node).heard for node in nodes) - progress.changed

    def ordered(self, node: str, keys: Iterable[AttemptKey], version: int) -> None:
        """These tasks are on the list of a node, at the latest since this version of it."""
        known = self.of(node).ordered
        for key in keys:
            known.setdefault(key, version)

    def forget(self, key: AttemptKey) -> None:
        """An attempt is over."""
        self._progress.pop(key, None)
        self._saves.pop(key, None)
        for contact in self._contacts.values():
            contact.ordered.pop(key, None)
