"""From a question to its answer: plain values in, plain values out, against a journal that was read up to now."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.core.job_spec import spec_from
from rota.deploy.questions import eta, ledger, usage, what_if, why
from rota.deploy.questions.changes import Change
from rota.deploy.questions.following import Follower
from rota.deploy.questions.forecasts import Forecasts, accuracy
from rota.deploy.questions.fork import Fork
from rota.deploy.questions.futures import MOST_REMEMBERED, History, history_of
from rota.deploy.questions.setup import Setup
from rota.deploy.scheduler import archive
from rota.deploy.scheduler.archive import JobArchive, JobFilter
from rota.deploy.scheduler.predecessors import PredecessorCheck
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.submission import numbered_jobs

_MOST_JOBS = 500
"""Waiting jobs in one answer; the oldest."""
_FUTURES_OF_CPU = 0.6
"""Part of the CPU time after which no further future is sampled."""

Fields = dict[str, Any]


class Answers:
    """Answers questions about one journal."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._archive = JobArchive(follower.path)

    def answer(self, question: Mapping[str, Any], cpu_s: float = math.inf) -> Fields:
        """The answer. Raises ConfigError for a question that has none."""
        kinds = {"why": self._why, "eta": self._eta, "accuracy": self._accuracy, "what-if": self._what_if}
        kinds |= {"ledger": self._ledger, "usage": self._usage, "occupancy": self._occupancy}
        answer: Fields = kinds[question["kind"]](question, cpu_s)
        return {"event": self._follower.event, **answer}

    def _fork(self, question: Mapping[str, Any]) -> Fork:
        steps = {int(number): int(step) for number, step in question.get("live_steps", {}).items()}
        return self._follower.fork(float(question["now"]), steps)

    def _times(self, fork: Fork) -> Fields:
        return {"now_s": fork.now, "round_s": fork.setup.rules.round_s, "time_scale": fork.setup.time_scale}

    # Jobs

    def _job(self, number: int, tenant: str | None) -> Job:
        """A job that is not over, as far as the caller may see it."""
        job = self._follower.recovered.registry.jobs.get(number) or self._archive.job(number)
        if job is None or (tenant is not None and job.tenant != tenant):
            raise ConfigError(f"there is no job {number}")
        if job.over or job.final_phase is not None:
            raise ConfigError(f"job {number} is over: {(job.final_phase or job.phase).value}")
        return job

    def _any_job(self, number: int, tenant: str) -> Job:
        """A job of a tenant, over or not."""
        job = self._follower.recovered.registry.jobs.get(number) or self._archive.job(number)
        if job is None or job.tenant != tenant:
            raise ConfigError(f"there is no job {number}")
        return job

    def _why(self, question: Mapping[str, Any], _: float) -> Fields:
        tenant = question.get("tenant")
        job = self._job(int(question["job"]), tenant)
        fork = self._fork(question)
        return {**self._times(fork), **why.why(fork, job.id, tenant=tenant)}

    def _eta(self, question: Mapping[str, Any], cpu_s: float) -> Fields:
        tenant = question.get("tenant")
        asked = [self._job(int(number), tenant).id for number in question.get("jobs", ())]
        fork = self._fork(question)
        jobs = asked or self._waiting(fork, tenant)
        futures = int(question.get("futures", eta.FUTURES))
        history = self._history()
        starts_only = bool(question.get("starts_only"))
        budget_s = _FUTURES_OF_CPU * cpu_s
        found = eta.estimates(fork, history, jobs, futures=futures, cpu_s=budget_s, starts_only=starts_only)
        tenants = {number: fact.tenant for number, fact in fork.facts.items()}
        with contextlib.suppress(ConfigError):  # `rota eta --accuracy` says so; the estimate is as good without
            Forecasts(self._follower.path).keep(found, tenants.__getitem__, fork.now, fork.setup.rules.round_s)
        return {**self._times(fork), "jobs": [eta.as_fields(fork, estimate) for estimate in found]}

    def _waiting(self, fork: Fork, tenant: str | None) -> list[int]:
        facts = fork.facts.values()
        seen = [fact.job for fact in facts if not fact.runs and (tenant is None or fact.tenant == tenant)]
        return sorted(seen)[:_MOST_JOBS]

    def _history(self) -> History:
        jobs = dict(self._follower.recovered.registry.jobs)
        if len(jobs) < MOST_REMEMBERED:
            older, _ = self._archive.select(JobFilter(), MOST_REMEMBERED - len(jobs))
            jobs |= {job.id: job for job in older if job.id not in jobs}
        return history_of(jobs.values())

    def _accuracy(self, question: Mapping[str, Any], _: float) -> Fields:
        del question
        registry = self._follower.recovered.registry
        scored = Forecasts(self._follower.path).score(
            lambda number: registry.jobs.get(number) or self._archive.job(number)
        )
        return accuracy(scored)

    def _what_if(self, question: Mapping[str, Any], _: float) -> Fields:
        tenant = question.get("tenant")
        fields = dict(question["change"])
        again = [fields["job"]] if fields.get("job", -1) != -1 else []
        for number in (*again, *fields.get("cancel", ()), *fields.get("release", ())):
            self._job(int(number), tenant)
        fork = self._fork(question)
        change = change_from(fields)
        registry = self._follower.recovered.registry
        check = PredecessorCheck(registry, self._any_job, self._archive.phases)
        check.check(numbered_jobs(change.submit, registry.next_job))
        return {**self._times(fork), **what_if.what_if(fork, change, tenant=tenant)}

    # Who had how much

    def _ledger(self, question: Mapping[str, Any], _: float) -> Fields:
        setup, begins, until = self._span(question)
        book = ledger.Ledger(weights=setup.tenants.weights(), prices=self._prices(), begins=begins)
        book.read(self._events_since(ledger.KINDS, begins), self._jobs_since(begins), until)
        times = {"time_scale": setup.time_scale}
        return {**times, **ledger.as_fields(book, tenant=question.get("tenant"))}

    def _usage(self, question: Mapping[str, Any], _: float) -> Fields:
        setup, begins, until = self._span(question)
        points = int(question["points"])
        used = usage.Usage(weights=setup.tenants.weights(), begins=begins, until=until, points=points)
        used.read(self._events_since(usage.KINDS, begins), self._jobs_since(begins), until)
        times = {"time_scale": setup.time_scale}
        return {**times, **usage.as_fields(used, begins, until, tenant=question.get("tenant"))}

    def _occupancy(self, question: Mapping[str, Any], _: float) -> Fields:
        setup, begins, until = self._span(question)
        told = self._follower.occupancy.told(int(question["after"]), question.get("tenant"))
        times = {"from_s": begins, "to_s": until, "round_s": setup.rules.round_s, "time_scale": setup.time_scale}
        return {**times, **told}

    def _span(self, question: Mapping[str, Any]) -> tuple[Setup, float, float]:
        """The settings, and the first and the last engine second of which there is something to tell."""
        follower = self._follower
        setup = follower.setup
        if setup is None:
            raise ConfigError("no scheduler has started on this journal yet")
        until = max(float(question["now"]), follower.recovered.last_at)
        with archive.reading(follower.path) as db:
            (first,) = db.execute(
                "SELECT coalesce(min(at), 0.0) FROM (SELECT at FROM events ORDER BY seq LIMIT 1)"
            ).fetchone()
        return setup, max(float(first), until - float(question.get("last_s") or math.inf)), until

    def _jobs_since(self, begins: float) -> list[Job]:
        """Jobs that were not over by then: nothing of the others counts."""
        archived = {job.id: job for job in self._archive.ended_since(begins)}
        return list((archived | dict(self._follower.recovered.registry.jobs)).values())

    def _events_since(self, kinds: tuple[str, ...], begins: float) -> list[Mapping[str, Any]]:
        rows = list(_rows(self._follower.path, kinds, self._follower.event))
        return [*ledger.before(rows, self._follower.recovered.registry, begins), *rows]

    def _prices(self) -> dict[str, float]:
        state = self._follower.recovered.state
        known = () if state is None else state.cluster.accelerators
        return {kind.name: kind.hourly_price for kind in known if kind.hourly_price is not None}


def change_from(fields: Mapping[str, Any]) -> Change:
    """A change from plain values. Raises ConfigError."""
    values = dict(fields)
    limits = values.pop("tenant_settings", ())
    return Change(
        submit=tuple(spec_from(spec) for spec in values.pop("submit", ())),
        add_servers=tuple((str(gpu_type), int(gpus)) for gpu_type, gpus in values.pop("add_servers", ())),
        cancel=tuple(int(number) for number in values.pop("cancel", ())),
        release=tuple(int(number) for number in values.pop("release", ())),
        tenant_settings=tuple((str(tenant), str(name), int(number)) for tenant, name, number in limits),
        **values,
    )


def _rows(path: Path, kinds: tuple[str, ...], last: int) -> Iterator[Mapping[str, Any]]:
    """Events of some kinds, up to a number."""
    marks = ", ".join("?" * len(kinds))
    query = f"SELECT body FROM events WHERE seq <= ? AND kind IN ({marks}) ORDER BY seq"  # noqa: S608 - marks only
    with archive.reading(path) as db:
        for (body,) in db.execute(query, (last, *kinds)):
            yield json.loads(body)
