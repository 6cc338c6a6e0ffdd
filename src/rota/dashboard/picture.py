"""How a cluster is at one moment, as far as the caller may see it: values, made of the scheduler's messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.core.lifecycle import JobPhase

RUNNING = frozenset({JobPhase.RUNNING.value, JobPhase.STOPPING.value})
OVER = frozenset(phase.value for phase in JobPhase if phase.final)
SHOWN: Mapping[str, Callable[[JobRow], bool]] = {
    "waiting": lambda row: row.phase not in RUNNING and row.phase not in OVER,
    "running": lambda row: row.phase in RUNNING,
    "over": lambda row: row.phase in OVER,
    "all": lambda _: True,
}
"""Which jobs a table has, by name."""
OTHERS = -2
"""A GPU that is held by a job which the caller may not see."""
IDLE = -1
_NUMBER_AT_END = re.compile(r"(\d+)$")
_MOST_TEXT = 200
"""Characters of a text of a user's in a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job, as a table shows it."""

    job: int
    name: str
    tenant: str
    phase: str
    gpus: int
    profile: str
    done: float | None
    """Share of its steps; None: nobody knows."""
    submitted_at: float
    """Wall clock, seconds since 1970."""
    ended_at: float
    code: str
    reason: str
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """(server, devices)"""
    warning: str = ""

    @property
    def live(self) -> bool:
        """Whether it is not over."""
        return self.phase not in OVER

    def cells(self, eta: Eta | None) -> list[Any]:
        """As the columns of the page's table."""
        where = " ".join(f"{node}:{len(devices)}" for node, devices in self.parts)
        band = None if eta is None else [eta.at, eta.low, eta.high, eta.unknown]
        done = None if self.done is None else round(self.done, 3)
        return [
            self.job, self.name, self.tenant, self.phase, self.gpus, self.profile, done, round(self.submitted_at),
            round(self.ended_at), self.code, self.reason, where, band,
        ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Eta:
    """When a job that waits is thought to start; wall clock, seconds since 1970, None: nobody can say, or later."""

    at: float | None
    low: float | None
    high: float | None
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One server."""

    node: str
    type: str
    gpus: int
    busy: int
    state: str
    cpus: float
    memory_gb: float
    silent_s: float
    remark: str
    emulated: bool
    limits: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the cluster is, in one sentence."""

    level: str
    """good, warn or bad"""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that is known; nothing in it changes."""

    version: int = 0
    away: str = ""
    """Why the scheduler does not answer; empty: it does, or was not asked yet."""
    away_since: float = 0.0
    """Wall clock, seconds since 1970."""
    status: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, NodeRow] = field(default_factory=dict)
    jobs: Mapping[int, JobRow] = field(default_factory=dict)
    etas: Mapping[int, Eta] = field(default_factory=dict)
    eta_problem: str = ""
    """Why there are no estimates."""
    usage: Mapping[str, Any] | None = None
    usage_number: int = 0
    usage_problem: str = ""
    decisions: tuple[tuple[float, float, float], ...] = ()
    """(engine second, wall seconds to decide, of these in the policy)"""

    @property
    def known(self) -> bool:
        """Whether the scheduler was heard at least once."""
        return bool(self.status)


def job_row(info: Any) -> JobRow:
    """A job from its message."""
    spec = info.spec
    steps = spec.steps
    known = info.step or info.phase in RUNNING or info.phase == JobPhase.FINISHED.value
    return JobRow(
        job=info.job,
        name=spec.name[:_MOST_TEXT],
        tenant=spec.tenant or "default",
        phase=info.phase,
        gpus=spec.gpus,
        profile=spec.profile or spec.model,
        done=min(1.0, info.step / steps) if steps and known else None,
        submitted_at=info.submitted_at,
        ended_at=info.ended_at,
        code=info.reason_code,
        reason=info.reason[:_MOST_TEXT],
        parts=tuple((part.node, tuple(part.devices)) for part in info.parts),
        warning=info.warning,
    )


def node_row(info: Any) -> NodeRow:
    """A server from its message."""
    return NodeRow(
        node=info.node,
        type=info.type,
        gpus=info.gpus,
        busy=info.busy,
        state=info.state,
        cpus=info.cpus,
        memory_gb=info.memory_gb,
        silent_s=round(info.last_seen_s, 1),
        remark=info.remark,
        emulated=info.emulated,
        limits=info.limits,
        host=info.host,
    )


def etas_of(answer: Mapping[str, Any], now: float) -> dict[int, Eta]:
    """Estimates of starts from an answer of the scheduler; `now` is the wall time of the answer."""
    scale = float(answer["time_scale"])
    found = {}
    for job in answer["jobs"]:
        if not job["running"]:
            band = job["start_band_s"] or {}
            times = (job["start_in_s"], band.get("p10"), band.get("p90"))
            at, low, high = (None if seconds is None else now + seconds / scale for seconds in times)
            found[int(job["job"])] = Eta(at=at, low=low, high=high, unknown=str(job["unknown"]))
    return found


# The map of GPUs


def holders(jobs: Iterable[JobRow]) -> dict[str, dict[str, list[int]]]:
    """Jobs that hold devices, by server and device."""
    found: dict[str, dict[str, list[int]]] = {}
    for row in jobs:
        for node, devices in row.parts:
            held = found.setdefault(node, {})
            for device in devices:
                held.setdefault(device, []).append(row.job)
    return found


def cells(gpus: int, held: Mapping[str, Sequence[int]], busy: int) -> list[int]:
    """One job per GPU of a server, IDLE, or OTHERS for those that are busy with jobs the caller does not see.

    A device is where the number at the end of its name says; others are where there is room.
    """
    row = [IDLE] * gpus
    homeless = []
    for device in sorted(held):
        number = _NUMBER_AT_END.search(device)
        place = int(number[1]) if number else -1
        if 0 <= place < gpus and row[place] == IDLE:
            row[place] = held[device][0]
        else:
            homeless.append(held[device][0])
    hidden = max(0, busy - len(held))
    free = [place for place, job in enumerate(row) if job == IDLE]
    for place, job in zip(free, [*homeless, *([OTHERS] * hidden)], strict=False):
        row[place] = job
    return row


# Health


def health(picture: Picture) -> Health:
    """The sentence at the top."""
    if not picture.away_since and not picture.known:
        return Health(level="warn", sentence="Asking the scheduler ...")
    if picture.away:
        return Health(level="bad", sentence=f"The scheduler does not answer: {picture.away}")
    nodes = list(picture.nodes.values())
    states = Counter(node.state for node in nodes)
    problems = [
        *(["no server has joined"] if not nodes else []),
        *([_lost(nodes)] if states["lost"] else []),
        *_remarks(nodes),
        *_decisions(picture.status),
    ]
    up = [node for node in nodes if node.state == "up"]
    gpus = sum(node.gpus for node in up)
    busy = sum(min(node.busy, node.gpus) for node in up)
    facts = [f"{len(up):,} of {len(nodes):,} servers are up, {busy:,} of {gpus:,} GPUs busy"] if nodes else []
    away = states["draining"] + states["drained"]
    facts += [f"{away} drained or draining"] if away else []
    facts.append(_queue(picture))
    level = "bad" if not up and nodes else "warn" if problems else "good"
    return Health(level=level, sentence="; ".join([*problems, *facts])[:1000] + ".")


def _lost(nodes: Iterable[NodeRow]) -> str:
    names = sorted(node.node for node in nodes if node.state == "lost")
    return f"{_some(names)} lost"


def _remarks(nodes: Iterable[NodeRow]) -> list[str]:
    names = sorted(node.node for node in nodes if node.remark and node.state != "lost")
    return [f"{_some(names)} in trouble"] if names else []


def _some(names: Sequence[str]) -> str:
    """Servers by name, as long as they are few."""
    if len(names) > 2:
        return f"{len(names)} servers ({names[0]}, ...) are"
    return f"server {names[0]} is" if len(names) == 1 else f"servers {names[0]} and {names[1]} are"


def _decisions(status: Mapping[str, Any]) -> list[str]:
    """Decisions that failed within the last ten rounds."""
    recent_s = 10 * float(status.get("round_s", 0.0))
    ago_s = float(status.get("now_s", 0.0)) - float(status.get("last_failed_decision_s", 0.0))
    if status.get("failed_decisions") and ago_s <= recent_s:
        return ["the last decision failed, the one before it stays in force"]
    return []


def _queue(picture: Picture) -> str:
    waiting = [row for row in picture.jobs.values() if SHOWN["waiting"](row)]
    running = sum(1 for row in picture.jobs.values() if SHOWN["running"](row))
    jobs = "jobs" if picture.status.get("admin") else "of your jobs"
    if not waiting:
        return f"{running:,} {jobs} run and none wait"
    reasons = Counter(row.code for row in waiting)
    code, count = reasons.most_common(1)[0]
    most = f", {count:,} of them {code}" if code else ""
    return f"{running:,} {jobs} run and {len(waiting):,} wait{most}"


# Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """Which part of the jobs somebody looks at."""

    show: str = "waiting"
    search: str = ""
    sort: str = "job"
    down: bool = False
    page: int = 0
    size: int = 50


SORTS: Mapping[str, Callable[[JobRow, Mapping[int, Eta]], Any]] = {
    "job": lambda row, _: row.job,
    "name": lambda row, _: row.name,
    "tenant": lambda row, _: (row.tenant, row.job),
    "phase": lambda row, _: (row.phase, row.job),
    "gpus": lambda row, _: (row.gpus, row.job),
    "done": lambda row, _: (row.done if row.done is not None else -1.0, row.job),
    "time": lambda row, _: -row.submitted_at,
    "reason": lambda row, _: (row.code, row.job),
    "eta": lambda row, etas: _eta_key(etas.get(row.job)),
}


def _eta_key(eta: Eta | None) -> float:
    return float("inf") if eta is None or eta.at is None else eta.at


def table(picture: Picture, query: TableQuery) -> tuple[list[JobRow], int]:
    """The rows of one page, and how many there are on all pages."""
    wanted = SHOWN[query.show]
    text = query.search.casefold()
    rows = [row for row in picture.jobs.values() if wanted(row) and (not text or _matches(row, text))]
    key = SORTS[query.sort]
    rows.sort(key=lambda row: key(row, picture.etas), reverse=query.down)
    first = query.page * query.size
    return rows[first : first + query.size], len(rows)


def _matches(row: JobRow, text: str) -> bool:
    if text.isdecimal() and str(row.job) == text:
        return True
    words = (row.name, row.tenant, row.phase, row.profile, row.code, *(node for node, _ in row.parts))
    return any(text in word.casefold() for word in words)
