"""Jobs of a deployment in words and plain values: what `rota jobs` and `rota submit --wait` say about one.

Nothing is said that cannot be: a share of the work only of jobs that run or are done, if the number of steps is known.
"""

from __future__ import annotations

import time
from typing import Any

from rota.core.control_characters import visible
from rota.core.job_spec import UNPROFILED
from rota.core.lifecycle import JobPhase

HEADER = ("job", "name", "tenant", "phase", "profile", "where", "GPUs", "done", "time", "reason")
NUMBERS = frozenset({6, 7, 8})
"""Columns that are right-aligned."""
MAY_GO = ("profile", "tenant", "GPUs", "name", "time")
"""Columns that a narrow window does without, the first first."""
_WITH_SHARE = frozenset({JobPhase.RUNNING.value, JobPhase.STOPPING.value, JobPhase.FINISHED.value})
_PLAIN = (
    "phase", "reason", "reason_code", "submitted_at", "started_at", "ended_at", "step", "saved_step", "restarts",
    "preemptions", "epoch", "exit_code", "submitted_s", "ended_s", "can_save", "can_save_why", "thrown_back",
    "thrown_back_to_zero", "lost_steps", "lost_s", "longest_save_s", "restart_cost_s", "last_cut", "warning",
    "compute_s", "prepare_s", "storage_s", "ran_s", "speed_remark",
)  # fmt: skip
_OR_NULL = ("started_at", "ended_at", "ended_s")


def row(info: Any, now: float, *, brief: bool = False) -> tuple[str, ...]:
    """A job as a row of the table; `now` is the wall time in seconds since 1970, `brief` leaves out sentences."""
    spec = info.spec
    reason = (brief and info.reason_code) or info.reason
    return (
        str(info.job),
        name(info) or "-",
        printable(spec.tenant) or "-",
        info.phase,
        profile(spec),
        " ".join(f"{part.node}:{len(part.devices)}" for part in info.parts) or "-",
        str(spec.gpus),
        done(info),
        short((info.ended_at or now) - info.submitted_at),
        printable(reason) or "-",
    )


def name(info: Any) -> str:
    """The name of a job, with its index if it is in an array."""
    index = f"[{info.array_index}]" if info.HasField("array") else ""
    return printable(info.spec.name) + index


def fields(info: Any) -> dict[str, Any]:
    """A job as plain values."""
    from rota.rpc.convert import spec_fields

    values = {"job": info.job, "argv": [], "env": {}, **spec_fields(info.spec)}
    values.update((name, getattr(info, name)) for name in _PLAIN)
    for name in _OR_NULL:
        values[name] = values[name] or None
    values["done"] = share_done(info)
    values["held_by"] = info.held_by or None
    if info.HasField("array"):
        values["array_job"] = info.array
        values["array_index"] = info.array_index
    values["parts"] = [
        {"node": part.node, "devices": list(part.devices), "cpus": part.cpus, "memory_gb": part.memory_gb}
        for part in info.parts
    ]
    return values


def share_done(info: Any) -> float | None:
    """The part of the work that is done, at most 1; None if nobody knows, or if the job does not run."""
    if info.phase not in _WITH_SHARE or not info.spec.steps:
        return None
    return float(min(1.0, info.step / info.spec.steps))


def done(info: Any) -> str:
    """How far the job is: a share where there is one, else the steps that are known of."""
    if info.spec.steps and (info.step or info.phase in _WITH_SHARE):
        return percent(min(1.0, info.step / info.spec.steps))
    return _steps(info.step) if info.step else "-"


def percent(part: float) -> str:
    """A part of the work, rounded down."""
    return f"{int(100 * part)} %"


def steps(info: Any) -> str:
    """The same in full, with what is saved."""
    total = info.spec.steps
    saved = f"; saved {info.saved_step:,}"
    if not total:
        return f"{info.step:,}{saved}; how many it has is not known" if info.step else "- (not known)"
    if info.step > total:
        return f"{info.step:,}, more than the {total:,} that were announced{saved}"
    return f"{info.step:,} of {total:,}{saved}"


def _steps(count: int) -> str:
    return f"{count:,} step" if count == 1 else f"{count:,} steps"


def profile(spec: Any) -> str:
    """The profile, or a sign that there is none."""
    return "-" if spec.profile in ("", UNPROFILED) else printable(spec.profile)


def printable(text: str) -> str:
    """A text of a user's in one line, without characters by which it could command a terminal."""
    return text if text.isprintable() else visible(" ".join(text.split("\n")))


def how(info: Any) -> str:
    """The phase of a job, and why, without saying it twice."""
    phase = str(info.phase)
    reason = printable(info.reason)
    return reason if reason.startswith(phase) else phase + (f": {reason}" if reason else "")


def short(seconds: float) -> str:
    """A time in few characters."""
    whole = max(0, round(seconds))
    for size, unit, small, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small:02d}{name}"
    return f"{whole}s"


def pairs(info: Any) -> list[tuple[str, str]]:
    """Everything about one job, as names and values."""
    return [*_progress(info), *_wishes(info), *_interruptions(info)]


def _progress(info: Any) -> list[tuple[str, str]]:
    """What the job is, where it runs and how far it is."""
    spec = info.spec
    rows = [
        ("phase", how(info)),
        ("tenant", printable(spec.tenant)),
        ("command", printable(" ".join(spec.argv)) if spec.argv else "- (emulated)"),
        ("profile", profile(spec)),
        ("GPUs", str(spec.gpus)),
        ("steps", steps(info)),
    ]
    if info.HasField("array"):
        rows.append(("array", f"{info.array} ({spec.array}), index {info.array_index}"))
    for part in info.parts:
        devices = ", ".join(part.devices)
        rows.append((f"on {part.node}", f"{devices}; {part.cpus:g} CPUs, {part.memory_gb:g} GB"))
    moments = {"submitted": info.submitted_at, "started": info.started_at, "ended": info.ended_at}
    for name, at in moments.items():
        rows.append((name, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else "-"))
    rows += _stalls(info)
    rows += [("speed", printable(info.speed_remark))] if info.speed_remark else []
    rows.append(("attempts", f"{info.epoch}; {info.restarts} failed, {info.preemptions} preempted"))
    return rows


def _stalls(info: Any) -> list[tuple[str, str]]:
    """What its training loop spent its time on, if it was measured."""
    spent = {"computing": info.compute_s, "waiting for preparation": info.prepare_s, "for storage": info.storage_s}
    total_s = sum(spent.values())
    if total_s <= 0:
        return []
    parts = ", ".join(f"{seconds / total_s:.0%} {name}" for name, seconds in spent.items())
    return [("time", f"{parts} (of {total_s:,.0f} s)")]


def _wishes(info: Any) -> list[tuple[str, str]]:
    """What was asked for beyond the usual, and how the job ended."""
    spec = info.spec
    rows = []
    asked = [f"{spec.cpus:g} CPUs"] if spec.cpus else []
    asked += [f"{spec.memory_gb:g} GB"] if spec.memory_gb else []
    asked += [f"on {' or '.join(spec.types)}"] if spec.types else []
    asked += [f"not on {' or '.join(spec.exclude_types)}"] if spec.exclude_types else []
    asked += [f"servers with {', '.join(spec.labels)}"] if spec.labels else []
    if asked:
        rows.append(("asks for", ", ".join(asked)))
    if spec.env:
        rows.append(("environment", ", ".join(f"{name}={spec.env[name]}" for name in sorted(spec.env))))
    rows += _queueing(info)
    if spec.deadline_s:
        rows.append(("deadline", f"{spec.deadline_s:g} s after submission"))
    if spec.weight and spec.weight != 1:
        rows.append(("weight", f"{spec.weight:g}"))
    if info.exit_code:
        rows.append(("exit code", str(info.exit_code)))
    return rows


def _queueing(info: Any) -> list[tuple[str, str]]:
    """What was said about when it starts and how long it runs."""
    spec = info.spec
    rows = []
    if spec.time_limit_s:
        rows.append(("time limit", f"{spec.time_limit_s:,.0f} s; ran {info.ran_s:,.0f} s"))
    if info.held_by:
        rows.append(("held by", printable(info.held_by)))
    for word, numbers in (("after", spec.after), ("after any", spec.after_any)):
        if numbers:
            rows.append((word, ", ".join(str(number) for number in numbers)))
    if spec.priority:
        rows.append(("priority", f"{spec.priority}"))
    return rows


def _interruptions(info: Any) -> list[tuple[str, str]]:
    """Whether the job may be stopped and go on, and what stops cost it so far."""
    rows = [("can save", f"{'yes' if info.can_save else 'no'}: {info.can_save_why}")] if info.can_save_why else []
    if info.spec.least_turn_s:
        rows.append(("least turn", f"{info.spec.least_turn_s:g} s"))
    if info.spec.save_grace_s:
        rows.append(("save grace", f"{info.spec.save_grace_s:g} s"))
    if info.longest_save_s:
        rows.append(("longest save", f"{info.longest_save_s:.1f} s"))
    if info.lost_s or info.lost_steps:
        back = f"{info.thrown_back} attempts thrown back, {info.thrown_back_to_zero} of them to the start"
        rows.append(("lost work", f"{info.lost_steps:,} steps, {info.lost_s:,.0f} s; {back}"))
    rows += [("last cut", printable(info.last_cut))] if info.last_cut else []
    rows += [("warning", info.warning)] if info.warning else []
    return rows
