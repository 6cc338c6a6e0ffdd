"""Everything about one job or one server, for its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.dashboard.picture import Picture, cells, holders
from rota.rpc.convert import spec_fields

_PLAIN = (
    "job", "phase", "reason", "reason_code", "submitted_at", "started_at", "ended_at", "step", "saved_step", "restarts",
    "preemptions", "epoch", "exit_code", "can_save", "can_save_why", "thrown_back", "thrown_back_to_zero", "lost_steps",
    "lost_s", "longest_save_s", "last_cut", "warning", "compute_s", "prepare_s", "storage_s",
    "cpu_used_s", "memory_used_gb",
)  # fmt: skip
_OF_ATTEMPTS = ("attempt", "started_at", "ended_at", "outcome", "exit_code", "detail", "stop_reason")


def job_details(info: Any) -> dict[str, Any]:
    """A job from its message; values of its environment are hidden by the scheduler already."""
    spec = spec_fields(info.spec)
    return {
        **{name: getattr(info, name) for name in _PLAIN},
        "spec": {name: value for name, value in spec.items() if value not in (None, "", 0, 0.0, [], {}, False)},
        "parts": [
            {"node": part.node, "devices": list(part.devices), "cpus": part.cpus, "memory_gb": part.memory_gb}
            for part in info.parts
        ],
        "attempts": [
            {
                **{name: getattr(attempt, name) for name in _OF_ATTEMPTS},
                "nodes": [place.node for place in attempt.places],
            }
            for attempt in info.attempts
        ],
    }


def node_details(picture: Picture, name: str) -> Mapping[str, Any] | None:
    """A server of a picture with the jobs there that the caller may see; None: there is none of that name."""
    node = picture.nodes.get(name)
    if node is None:
        return None
    held = holders(picture.jobs.values()).get(name, {})
    jobs = sorted({job for some in held.values() for job in some})
    fields = ("node", "type", "gpus", "busy", "state", "cpus", "memory_gb", "silent_s", "remark", "limits", "host")
    return {
        **{field: getattr(node, field) for field in fields},
        "emulated": node.emulated,
        "cells": cells(node.gpus, held, node.busy),
        "jobs": [picture.jobs[job].cells(None) for job in jobs],
        "devices": dict(sorted(held.items())),
    }
