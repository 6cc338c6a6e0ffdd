"""From speeds that were seen to speeds that policies see, and to what people are told.

A profile of the catalogue is right as long as what was measured is within `TOLERANCE` of it. One that is wrong is
replaced where it was measured, and corrected by the same factor on the other types; never by more than `MOST_OFF`, so
a job that reports nonsense stays within bounds. A job without a profile has the speed that was measured, and on the
other types that of models which are alike (`profiles/inference`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from rota.core.ports import Listed, Throughputs
from rota.deploy.events import ProfileWrong
from rota.deploy.scheduler.learned_speeds import BELIEVED_BLOCKS, Kind, LearnedSpeeds, SeenSpeed
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.speed_names import engine_kind, speed_name
from rota.engine.classes import ClassTable
from rota.profiles.inference import completed, corrected

TOLERANCE = 1.15
"""Factor up to which a profile counts as right."""
NEWS = 1.1
"""Factor by which a speed must have changed before policies are told again."""
MOST_OFF = 100.0
"""Factor up to which a profile of the catalogue is corrected."""
_MOST_REMARKS = 10


class SpeedEstimates:
    """Reads what was seen; changes nothing."""

    def __init__(self, speeds: LearnedSpeeds, catalogue: Throughputs) -> None:
        self._speeds = speeds
        self._catalogue = catalogue

    # For the engine

    def news(self, classes: ClassTable, profile: str, belief: str, gpus: int) -> dict[str, float]:
        """Steps/s by type of a kind of job, if they differ from what the engine knows; else nothing."""
        expected = classes.expected(profile, belief, gpus)
        if not expected:  # no such job has come since the servers changed
            return {}
        seen = self._speeds.of_kind((belief, profile, gpus))
        measured = {name: speed.rate for name, speed in seen.items() if speed.believed}
        if not measured:
            return {}
        known = classes.learned(profile, belief, gpus)
        if self._measured(profile):
            measured = _within_bounds(measured, expected)
            if not known and not any(_off(rate, expected.get(name, 0.0)) for name, rate in measured.items()):
                return {}
            rates = dict(corrected(expected, measured, tuple(expected)))
        else:
            rates = self._without_profile(gpus, measured, expected)
        able = {name: rate for name, rate in rates.items() if expected.get(name, 0.0) > 0}
        changed = any(_off(rate, known.get(name, 0.0), NEWS) for name, rate in able.items())
        return able if changed else {}

    def _without_profile(
        self, gpus: int, measured: Mapping[str, float], expected: Mapping[str, float]
    ) -> dict[str, float]:
        types = tuple(expected)
        catalogue = self._catalogue
        rates = completed(catalogue, gpus, measured, types) if isinstance(catalogue, Listed) else dict(measured)
        return {**corrected(expected, measured, types), **rates}

    # For people

    def wrong_profile(self, job: Job, classes: ClassTable, now: float) -> ProfileWrong | None:
        """How far the profile of a job is off on the type on which it was measured best; None: it is right."""
        kind = engine_kind(job.spec)
        if kind is None or not self._measured(kind[0]):
            return None
        expected = classes.expected(*kind)
        seen = self._speeds.of_kind((kind[1], kind[0], kind[2]))
        wrong = {
            name: speed
            for name, speed in seen.items()
            if speed.believed and expected.get(name, 0.0) > 0 and _off(speed.rate, expected[name])
        }
        if not wrong:
            return None
        gpu_type = max(sorted(wrong), key=lambda name: wrong[name].blocks)
        speed = wrong[gpu_type]
        return ProfileWrong(
            at=now,
            job=job.id,
            profile=kind[0],
            type=gpu_type,
            expected=expected[gpu_type],
            measured=speed.rate,
            error=speed.error,
            blocks=speed.blocks,
        )

    def remark(self, job: Job) -> str:
        """What is known of the speed of a job, for its owner; empty: nothing that its profile does not say."""
        if job.profile_wrong is not None:
            return finding(job)
        name = speed_name(job.spec)
        if not name:
            return ""
        seen = self._speeds.of_kind((job.tenant, name, job.spec.gpus))
        if self._measured(name):
            return f"measured while it ran: {in_words(seen)}" if any(speed.believed for speed in seen.values()) else ""
        return f"learned as {name!r}: {in_words(seen) if seen else 'not seen yet'}"

    def in_catalogue(self, name: str, gpus: int, gpu_type: str) -> float:
        """Steps/s that the catalogue says; 0 if it does not have the profile."""
        return self._catalogue.rate(name, gpus, gpu_type) if self._measured(name) else 0.0

    def _measured(self, name: str) -> bool:
        """Whether the catalogue has a profile, so that there is something to be wrong."""
        return self._catalogue.known(name)


def in_words(seen: Mapping[str, SeenSpeed]) -> str:
    """Speeds by type, those that are believed with their spread."""
    return "; ".join(f"{_speed_in_words(seen[name])} on {name}" for name in sorted(seen))


def _speed_in_words(speed: SeenSpeed) -> str:
    spread = "" if math.isinf(speed.error) else f" +- {100 * speed.error:.0f} %"
    blocks = f"{speed.blocks} of {BELIEVED_BLOCKS}" if speed.blocks < BELIEVED_BLOCKS else f"{speed.blocks}"
    doubt = "" if speed.believed else ", not believed yet"
    return f"{speed.rate:.4g} steps/s{spread} ({blocks} blocks{doubt})"


def finding(job: Job) -> str:
    """How far the profile of a job was found to be off; empty: it was not, or nobody knows."""
    return "" if job.profile_wrong is None else wrong_sentence(job.profile_wrong)


def wrong_sentence(wrong: ProfileWrong) -> str:
    """What the owner of a job should know about its profile."""
    way = "slower" if wrong.measured < wrong.expected else "faster"
    factor = max(wrong.measured / wrong.expected, wrong.expected / wrong.measured)
    return (
        f"{factor:.2g} times {way} than profile {wrong.profile!r} says: {wrong.measured:.4g} steps/s +- "
        f"{100 * wrong.error:.0f} % on {wrong.type} in {wrong.blocks} blocks, not {wrong.expected:.4g}; the measured "
        "speed is used"
    )


def speed_remarks(jobs: Iterable[Job], tenant: str | None) -> list[str]:
    """Profiles that turned out to be wrong, as far as a caller may see the jobs; the newest finding about each."""
    newest: dict[Kind, ProfileWrong] = {}
    for job in jobs:
        wrong = job.profile_wrong
        if wrong is not None and tenant in {None, job.tenant}:
            kind = (job.tenant, wrong.profile, job.spec.gpus)
            newest[kind] = max(newest.get(kind, wrong), wrong, key=lambda finding: finding.at)
    latest = sorted(newest.items(), key=lambda pair: -pair[1].at)
    shown = [f"tenant {kind[0]}, {kind[2]} GPUs: {wrong_sentence(wrong)}" for kind, wrong in latest[:_MOST_REMARKS]]
    more = len(latest) - len(shown)
    return [*shown, f"... and {more} more; `rota profiles --learned` lists all"] if more else shown


def _off(rate: float, other: float, factor: float = TOLERANCE) -> bool:
    """Whether two speeds differ by more than a factor."""
    return other <= 0 or max(rate / other, other / rate) > factor


def _within_bounds(measured: Mapping[str, float], expected: Mapping[str, float]) -> dict[str, float]:
    return {
        name: min(max(rate, expected[name] / MOST_OFF), expected[name] * MOST_OFF)
        for name, rate in measured.items()
        if expected.get(name, 0.0) > 0
    }
