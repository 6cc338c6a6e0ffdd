"""From the values of a point to a run for a worker, and to the key of its result.

The key is a digest of everything that decides the result: the description that `rota.simulate` puts
into results (jobs of a trace and servers of a cluster included), the contents of a catalogue file,
and the code: of the package all files but those of the command line, of the report and of this
package, which cannot change a number; of a user's policy or mechanism its file and the modules
beside it that it imports, wherever they are and whatever the file is called.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import rota
from rota import clusters, workloads
from rota._version import __version__
from rota.analysis.warmup import AUTO
from rota.assembly import Request, default_seed, describe, make_rules, priced
from rota.core import own_code, packed
from rota.core.cluster import Cluster
from rota.core.errors import ConfigError, UnknownName
from rota.core.registry import Registry
from rota.core.rules import Rules
from rota.experiments.keys import GROUPS, LOAD, PARAMETERS, plain
from rota.experiments.spec import Values
from rota.mechanisms.registry import mechanisms
from rota.policies.registry import policies
from rota.profiles.loading import parts_of

OWN_CODE = ("policy_sha256", "mechanism_sha256")
"""Parts of a configuration that are there for code of users only."""
_NAMES = ("trace", "trace_format", "workload", "cluster", "policy", "mechanism", "profiles", "rules")
NOT_IN_THE_CODE = ("cli", "report", "experiments", "__pycache__")


@dataclass(frozen=True, kw_only=True)
class SweepTask:
    """One run."""

    key: str
    values: Values
    """What the sweep says about it, by the names of `rota.experiments.keys`."""
    parameters: dict[str, Any]
    """Keywords of `rota.simulate`."""
    config: dict[str, Any]
    """All that decides the result."""
    overload: str
    problem: str | None = None
    """Why it cannot even be started."""


@cache
def code_digest() -> str:
    """Sixteen hexadecimal digits that change with the code and the data of the package."""
    root = Path(rota.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        name = path.relative_to(root)
        if not set(name.parts[:-1]) & set(NOT_IN_THE_CODE):
            digest.update(f"{name.as_posix()}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def version() -> str:
    """Release and digest of the code, as results have it."""
    return f"{__version__}+{code_digest()}"


def make_task(values: Values, overload: str = "auto") -> SweepTask:
    """The run of a point; raises ConfigError for what no run can be made of.

    A trace or a catalogue that cannot be read is a problem of this run alone and is kept with it.
    """
    parameters = parameters_of(values)
    check_names(parameters)
    try:
        config = _described(parameters)
        problem = None
    except OSError as error:
        config = {"version": __version__, **{k: plain(v) for k, v in parameters.items()}}
        problem = f"ConfigError: cannot read {error.filename}: {error.strerror}; check the path"
    decides = dict(config)
    if config.get("jobs_sha256"):
        decides.pop("trace", None)
    for part in ("policy", "mechanism"):
        own = own_code.reference(str(config.get(part)))
        if own is not None:
            decides[part] = own.name
            parameters[part] = str(own.absolute())
    identity = {"config": plain(decides), "code": code_digest()}
    if any(config.get(part, "") is None for part in OWN_CODE):
        identity["never the same"] = uuid.uuid4().hex  # nobody can tell whether the code has changed
    if overload != "auto":
        identity["overload"] = overload
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    key = hashlib.sha256(text.encode()).hexdigest()
    return SweepTask(
        key=key,
        values=values,
        parameters=parameters,
        config=config,
        overload=overload,
        problem=problem,
    )


def parameters_of(values: Values) -> dict[str, Any]:
    """Keywords of `rota.simulate`."""
    given = [key for key in PARAMETERS if values.get(key) is not None]
    parameters: dict[str, Any] = {key: values[key] for key in given}
    for key, value in values.items():
        prefix, dot, name = key.partition(".")
        if dot:
            parameters.setdefault(GROUPS[prefix], {})[name] = value
    if values.get(LOAD) is not None:
        load = _load(parameters.get("workload"), values[LOAD])
        parameters.setdefault("settings", {}).update(load)
    _check_complete(parameters)
    for key in _NAMES:
        if key in parameters:
            parameters[key] = _name(key, parameters[key])
    if "measure" in parameters:
        parameters["measure"] = _measure(parameters["measure"])
    for key, number_type in (("seed", int), ("round_s", float), ("until", float)):
        if key in parameters:
            parameters[key] = _number(key, parameters[key], number_type)
    parameters.setdefault("rules", "default")
    parameters.setdefault("seed", default_seed(parameters.get("workload")))
    return parameters


def _check_complete(parameters: Mapping[str, Any]) -> None:
    for key in ("cluster", "policy"):
        if key not in parameters:
            fix = "give it for all runs or as an axis"
            raise ConfigError(f"the sweep does not say which {key}; {fix}")
    if ("trace" in parameters) == ("workload" in parameters):
        raise ConfigError("the sweep must say where jobs come from: give either workload or trace")


def _name(key: str, value: Any) -> str:
    if not isinstance(value, str | Path):
        fix = "runs of a sweep are made in other processes"
        kinds = "a name, file.py:Class or the class" if key in {"policy", "mechanism"} else "a name or a file"
        raise ConfigError(f"{key} = {value!r}: give {kinds}; {fix}")
    return str(value)


def _load(workload: str | None, load: Any) -> dict[str, Any]:
    """The setting of a workload that gives this number of jobs per hour."""
    rate = _number(LOAD, load, float)
    if not rate > 0:
        raise ConfigError(f"load = {load!r}: give jobs per hour, a number > 0")
    if workload is None:
        raise ConfigError("load is for workloads; a trace has its own arrivals")
    known = workloads.workloads.entry(workload).parameters()
    if "jobs_per_hour" in known:
        return {"jobs_per_hour": rate}
    if "interarrival_s" in known:
        return {"interarrival_s": 3600.0 / rate}
    fix = "vary its number of jobs instead (jobs, or set.jobs)"
    raise ConfigError(f"workload {workload!r} has no load to set; {fix}")


def _number(key: str, value: Any, number_type: type) -> Any:
    number = plain(value)
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float)
        or (number_type is int and not isinstance(number, int))
    ):
        problem = f"{key} = {value!r} is not a {'whole ' if number_type is int else ''}number"
        raise ConfigError(problem)
    return number_type(number)


def _measure(value: Any) -> tuple[int, int] | str:
    if value == AUTO:
        return AUTO
    parts = value.split(":") if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    numbers = [plain(p) for p in parts]
    if len(numbers) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        fix = "write [A, B], 'A:B' (e.g. '4000:5000') or 'auto'"
        raise ConfigError(f"measure = {value!r} is not a range of job ids; {fix}")
    first, last = numbers
    if not 0 <= first < last:
        raise ConfigError(f"measure {first}:{last} is empty; give A:B with 0 <= A < B")
    return first, last


def check_names(parameters: Mapping[str, Any]) -> None:
    """Refuse a name or a setting that no part knows, before the first run."""
    registries: tuple[tuple[str, str, Registry[Any]], ...] = (
        ("policy", "policy_settings", policies),
        ("mechanism", "mechanism_settings", mechanisms),
        ("workload", "settings", workloads.workloads),
    )
    for key, group, registry in registries:
        settings = parameters.get(group) or {}
        name = parameters.get(key)
        if name is None:
            if settings and key == "workload":
                fix = "settings of a trace are trace.KEY"
                raise ConfigError(f"set.{next(iter(settings))} is for a workload; {fix}")
            continue
        known = registry.entry(name).parameters()
        for setting in settings:
            if setting.replace("-", "_") not in known:
                raise UnknownName(f"parameter of {registry.kind} {name!r}:", setting, known)


@cache
def _cluster(spec: str, stamp: tuple[int, int] | None) -> Cluster:
    del stamp
    return clusters.load(spec)


def _stamp(path: str) -> tuple[int, int] | None:
    """Changes when a file does."""
    file = Path(path)
    if not file.is_file():
        return None
    state = file.stat()
    return state.st_mtime_ns, state.st_size


@cache
def _digest(path: str, stamp: tuple[int, int] | None) -> str:
    del stamp
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _described(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What `rota.simulate` says about a run, without building it."""
    absent = dict.fromkeys(f.name for f in dataclasses.fields(Request))
    request = Request(**{**absent, **parameters, "trace": None})
    changed = parameters.get("rule_settings")
    rules: Rules = make_rules(parameters["rules"], parameters.get("round_s"), changed)
    cluster = priced(_cluster(parameters["cluster"], _stamp(parameters["cluster"])), rules)
    profiles = parameters.get("profiles")
    description = describe(
        request, parameters.get("mechanism") or rules.mechanism, profiles or "default", cluster, rules
    )
    trace = parameters.get("trace")
    if trace is not None:
        description["trace"] = trace
        description["trace_format"] = parameters.get("trace_format")
        description["jobs_sha256"] = _digest(trace, _stamp(trace))
    files = [Path(part) for part in parts_of(profiles or ()) if Path(part).is_file()]
    if files:
        digests = [_catalogue_digest(path) for path in files]
        description["profiles_sha256"] = digests[0] if len(digests) == 1 else ",".join(digests)
    return description


def _catalogue_digest(path: Path) -> str:
    """Of a catalogue and of the files beside it that it mentions (its pairs)."""
    data = path.read_bytes()
    text = packed.read_bytes(path).decode(errors="replace")
    files = [file for file in path.parent.iterdir() if file.is_file() and file != path]
    beside = sorted(file for file in files if file.name in text)
    return hashlib.sha256(b"".join([data, *(p.read_bytes() for p in beside)])).hexdigest()
