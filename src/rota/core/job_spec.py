"""What a user asks for when submitting a job: all fields with their defaults and checks, in this one place.

A field travels: command line, file or Python -> `JobSpec` -> `rpc/convert` -> `JobSpec` in the scheduler -> event in
the journal -> registry -> task order -> `rpc/convert` -> `JobSpec` in the agent. A new field is a line in the class
below, a line in the table of ranges if it is a number, a line in `rpc/rota.proto`, and its use.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rota.core.errors import ConfigError
from rota.core.job_arrays import array_indices
from rota.core.labels import checked_labels, checked_types

MOST_GPUS = 65536
LEAST_WEIGHT = 1e-3
LARGEST_WEIGHT = 1e6
"""Weights of jobs beyond these make linear programs that no solver can tell apart from nonsense."""
HIGHEST_PRIORITY = 1000
"""The lowest is the same below 0."""
DEFAULT_MAX_RESTARTS = 3
"""Attempts of a job that may fail before it is given up."""
MOST_PREDECESSORS = 1_000
"""Jobs that a job may name in `after`, and as many in `after_any`."""
UNCOUNTED_STEPS = 3600
"""Steps that the scheduler expects of a job for which nobody said how many it has."""
UNPROFILED = "unprofiled"
"""Profile of a job that nobody measured."""
HIDDEN = "***"
"""What is shown and kept in the place of a value of a job's environment."""


class RankLayout(str, Enum):
    """How many processes a job has."""

    SERVER = "server"
    """One on each of its servers."""
    GPU = "gpu"
    """One for each of its GPUs."""


class Preemptible(str, Enum):
    """Whether the scheduler may stop a job for another one, and start it again later."""

    AUTO = "auto"
    """As soon as it is known that the job can save."""
    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as it was asked for. Raises ConfigError for values that no job can have."""

    name: str = ""
    """For people."""
    tenant: str = ""
    """Whose job it is; empty: that of the token it is submitted with."""
    profile: str = ""
    """Name in the catalogue of throughputs; empty: nobody measured it."""
    gpus: int = 1
    steps: int = 0
    """Steps of the whole job; 0: nobody knows."""
    weight: float = 1.0
    """Its part relative to other jobs."""
    deadline_s: float = 0.0
    """Seconds after submission; 0: none."""
    argv: tuple[str, ...] = ()
    """Program and arguments; not run if the job is emulated."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of its environment. Values are secret: only the job itself gets them."""
    cwd: str = ""
    """Folder it runs in; empty: /."""
    image: str = ""
    """Container image; empty: none."""
    emulated: bool = False
    """Whether there is no process, and an emulated device spends the time."""
    max_restarts: int = DEFAULT_MAX_RESTARTS
    checkpoint_every_s: float = 0.0
    """Seconds between two checkpoints; 0: as the agent does it."""
    hung_after_s: float = 0.0
    """Seconds without a step after which it is ended; 0: never."""
    model: str = ""
    """Model of the device catalogue, of an emulated job: its memory and its speed, whatever its profile says."""
    batch: int = 0
    """Batch size of the whole job, with `model`."""
    cpus: float = 0.0
    """CPUs of the whole job that it never goes below; 0: nothing was said."""
    memory_gb: float = 0.0
    """Memory of the whole job in GB (10^9 bytes) that it never goes below; 0: nothing was said."""
    types: tuple[str, ...] = ()
    """Types of GPU on which it may run; empty: any."""
    exclude_types: tuple[str, ...] = ()
    """Types of GPU on which it may not run."""
    labels: tuple[str, ...] = ()
    """Labels that all its servers must have, like `zone=a`."""
    priority: int = 0
    """Jobs with a higher one come first and may preempt it, under every policy."""
    ranks: RankLayout = RankLayout.SERVER
    mps: bool = False
    """Whether its processes share real GPUs with others through NVIDIA's MPS."""
    preemptible: Preemptible = Preemptible.AUTO
    least_turn_s: float = 0.0
    """Wall seconds that it runs at least, once started, before it may be preempted; 0: as the operator says."""
    save_grace_s: float = 0.0
    """Wall seconds that it may take to save after it was asked to stop; 0: learned."""
    array: str = ""
    """Indices of a job array, `FIRST-LAST[:STEP][%LIMIT]`: as many jobs alike; empty: one job."""
    after: tuple[int, ...] = ()
    """Jobs that have to finish before it starts; the first job of an array stands for all of them. Below 0: an entry
    before it in the same submission, -1 the first."""
    after_any: tuple[int, ...] = ()
    """Jobs that have to be over before it starts, however they ended; likewise."""
    hold: bool = False
    """Whether it waits from the start until somebody releases it."""
    time_limit_s: float = 0.0
    """Seconds of the scheduler's clock that it may run, all attempts together; 0: as long as it takes."""

    def __post_init__(self) -> None:
        label = job_label(self.name)
        for spec_field in dataclasses.fields(self):
            value = _typed(label, spec_field.name, getattr(self, spec_field.name))
            object.__setattr__(self, spec_field.name, value)
            _check_range(label, spec_field.name, value)
        _check_together(label, self)

    @property
    def expected_steps(self) -> int:
        """Steps by which it is scheduled."""
        return self.steps or UNCOUNTED_STEPS

    @property
    def scheduled_profile(self) -> str:
        """The profile by which it is scheduled."""
        return self.profile or UNPROFILED

    @property
    def label(self) -> str:
        """How messages call it."""
        return job_label(self.name)


FIELDS: Mapping[str, dataclasses.Field[Any]] = {known.name: known for known in dataclasses.fields(JobSpec)}


def job_label(name: object) -> str:
    """How messages call a job of this name."""
    return f"job {name!r}" if name else "the job"


def default_of(name: str) -> Any:
    """The value of a field if nothing is said."""
    known = FIELDS[name]
    return known.default if known.default_factory is dataclasses.MISSING else known.default_factory()


def spec_from(values: Mapping[str, Any]) -> JobSpec:
    """A job from plain values by name of field, as the journal, a file or a user of Python has them."""
    label = job_label(values.get("name"))
    for name in values:
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(FIELDS)}"
            raise ConfigError(f"{label}: there is no field {name!r}; {hint}")
    return JobSpec(**{name: value for name, value in values.items() if value is not None})


def bytes_of(spec: JobSpec) -> int:
    """Characters of a job, roughly; each counts as a byte."""
    variables = sum(len(name) + len(value) for name, value in spec.env.items())
    before = 8 * (len(spec.after) + len(spec.after_any))
    return 200 + len(spec.name) + sum(map(len, spec.argv)) + variables + before


def with_hidden_values(spec: JobSpec) -> JobSpec:
    """The job without the values of its environment."""
    return dataclasses.replace(spec, env=dict.fromkeys(spec.env, HIDDEN)) if spec.env else spec


def spec_values(spec: JobSpec) -> dict[str, Any]:
    """The job as plain values, ready for JSON. What is empty or 0 and is so by default is left out."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(spec, name)
        if value or default_of(name):
            values[name] = _plain(value)
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


# Types

_TYPE_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple[str, ...]": "a list of texts",
    "tuple[int, ...]": "a list of whole numbers",
    "Mapping[str, str]": "texts by name",
    "RankLayout": "server or gpu",
    "Preemptible": "yes, no or auto",
}


def _typed(label: str, name: str, value: Any) -> Any:
    """The value in the type of its field; ConfigError if it has another."""
    type_name = str(FIELDS[name].type)
    try:
        return _CONVERSIONS[type_name](value)
    except (TypeError, ValueError):
        shown = "something else" if name == "env" else repr(value)
        raise ConfigError(f"{label}: {name} is {shown}; give {_TYPE_NAMES[type_name]}") from None


def _exactly(wanted: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, str):
            value.encode()  # a UnicodeError is a ValueError: bytes that are no text
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise TypeError
        return value

    return convert


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(word, str) for word in value):
        raise TypeError
    "".join(value).encode()
    return tuple(value)


def _whole_numbers(value: Any) -> tuple[int, ...]:
    if isinstance(value, str) or not all(type(number) is int for number in value):
        raise TypeError
    return tuple(value)


def _texts_by_name(value: Any) -> dict[str, str]:
    if not all(isinstance(text, str) for pair in dict(value).items() for text in pair):
        raise TypeError
    "".join(text for pair in dict(value).items() for text in pair).encode()
    return dict(value)


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "str": _exactly(str),
    "int": _exactly(int),
    "float": _number,
    "bool": _exactly(bool),
    "tuple[str, ...]": _texts,
    "tuple[int, ...]": _whole_numbers,
    "Mapping[str, str]": _texts_by_name,
    "RankLayout": lambda value: RankLayout(value or RankLayout.SERVER),
    "Preemptible": lambda value: Preemptible(value or Preemptible.AUTO),
}


# Ranges

_LARGEST_NUMBER = 2**53
_FROM_ZERO = (0, _LARGEST_NUMBER, "give a number from 0 on")
_RANGES: Mapping[str, tuple[float, float, str]] = {
    "gpus": (1, MOST_GPUS, f"give a number from 1 to {MOST_GPUS}"),
    "steps": (0, _LARGEST_NUMBER, "give a number above 0, or leave it out"),
    "weight": (LEAST_WEIGHT, LARGEST_WEIGHT, f"give a number from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"),
    "deadline_s": _FROM_ZERO,
    "max_restarts": (0, 2**31 - 1, "give a number from 0 on"),
    "checkpoint_every_s": _FROM_ZERO,
    "hung_after_s": _FROM_ZERO,
    "batch": (0, 2**31 - 1, "give a number above 0, or leave it out"),
    "priority": (-HIGHEST_PRIORITY, HIGHEST_PRIORITY, f"give a number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}"),
    "cpus": _FROM_ZERO,
    "memory_gb": _FROM_ZERO,
    "least_turn_s": _FROM_ZERO,
    "save_grace_s": _FROM_ZERO,
    "time_limit_s": _FROM_ZERO,
}
"""Field to its least value, its largest one, and what to do about others."""


def _check_range(label: str, name: str, value: Any) -> None:
    if name not in _RANGES:
        return
    least, most, advice = _RANGES[name]
    if not least <= value <= most:
        raise ConfigError(f"{label}: {name} is {value!r}; {advice}")


def _check_together(label: str, spec: JobSpec) -> None:
    """What fields say about each other, names of types, labels and variables."""
    _check_queueing(label, spec)
    checked_labels(spec.labels, label)
    types = checked_types(spec.types, "types", label)
    excluded = checked_types(spec.exclude_types, "exclude_types", label)
    both = sorted(set(types) & set(excluded))
    if both:
        raise ConfigError(f"{label}: {both[0]} is in types and in exclude_types; leave it out of one of them")
    for variable, value in spec.env.items():
        if not variable or "=" in variable or "\0" in variable:
            raise ConfigError(f"{label}: {variable!r} cannot be the name of an environment variable")
        if "\0" in value:
            raise ConfigError(f"{label}: the value of the environment variable {variable} has a NUL character in it")
    if not (spec.argv or spec.emulated):
        raise ConfigError(f"{label} has nothing to run: give a command, or make it an emulated job")
    if spec.emulated and spec.steps == 0:
        raise ConfigError(f"{label}: steps is 0; an emulated job needs a number above 0")
    if spec.batch and not spec.model:
        raise ConfigError(f"{label}: a batch of {spec.batch} says nothing without a model; give one, or a profile")
    if spec.model and not spec.emulated:
        raise ConfigError(
            f"{label}: model {spec.model!r} is for emulated jobs; a command says by itself what it trains"
        )
    if spec.model and spec.batch < spec.gpus:
        raise ConfigError(
            f"{label}: model {spec.model!r} on {spec.gpus} GPUs needs a batch of at least {spec.gpus}, not {spec.batch}"
        )


def _check_queueing(label: str, spec: JobSpec) -> None:
    """Indices of an array, and jobs before this one."""
    if spec.array:
        try:
            array_indices(spec.array)
        except ConfigError as error:
            raise ConfigError(f"{label}: {error}") from error
    for name, numbers in (("after", spec.after), ("after_any", spec.after_any)):
        if len(numbers) > MOST_PREDECESSORS:
            raise ConfigError(
                f"{label}: {name} has {len(numbers):,} jobs; give at most {MOST_PREDECESSORS:,}, or a job array instead"
            )
        if any(abs(number) > _LARGEST_NUMBER for number in numbers):
            raise ConfigError(f"{label}: {name} has {max(numbers, key=abs)}; give numbers of jobs")
