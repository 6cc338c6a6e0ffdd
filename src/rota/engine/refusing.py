"""Why a job can never run on a cluster, in a sentence with numbers."""

from __future__ import annotations

from collections.abc import Iterator

from rota.core.gpu_types import permits, types_in_words
from rota.core.needs import types_that_hold, why_not
from rota.core.view import View

_OTHER_TYPES = (
    "Types of a log: --set-trace rename=OLD:NEW gives them other names, types=ignore forgets them, and elsewhere=same "
    "lets jobs run as fast on any"
)


def reason_to_refuse(view: View, job: int) -> str:
    """Why the job at this position of the view can run on no type: the first of the reasons that is one."""
    gpus = int(view.gpus[job])
    profile = view.classes.profile[view.job_class[job]]
    otherwise = f"profile {profile!r} with {gpus} GPUs has no measured speed on any type that could hold it"
    return next(_reasons(view, job), f"{otherwise} ({_sizes(view)})")


def _reasons(view: View, job: int) -> Iterator[str]:
    gpus = int(view.gpus[job])
    group = int(view.job_class[job])
    allowed = view.classes.allowed[group]
    there = [n for t, n in zip(view.types, view.capacity.tolist(), strict=True) if permits(allowed, t)]
    if allowed and not there:
        yield f"may only run {types_in_words(allowed)}; the cluster has {_sizes(view)}. {_OTHER_TYPES}"
    if allowed and gpus > max(there, default=0):
        yield f"asks for {gpus} GPUs and may only run {types_in_words(allowed)}; the cluster has {_sizes(view)}"
    if gpus > view.capacity.max():
        yield f"asks for {gpus} GPUs of one type; the cluster has {_sizes(view)}"
    needs = view.classes.needs[group]
    types = [t for t in view.types if permits(allowed, t)]
    able = zip(view.types, types_that_hold(view.cluster, gpus, needs), strict=True)
    if needs and not any(held for gpu_type, held in able if gpu_type in types):
        where = f"; it may only run {types_in_words(allowed)}" if allowed else ""
        yield why_not(view.cluster, gpus, needs, types) + where
    problem = view.classes.configurations.problems.get(group)
    if problem is not None:
        yield problem


def _sizes(view: View) -> str:
    return ", ".join(f"{t}={n}" for t, n in zip(view.types, view.capacity.tolist(), strict=True))
