"""Names to classes: policies, mechanisms, workloads and trace formats are found here.

A class registers itself by a decorator when its module is imported; `Registry` imports the modules of its
package on first use, and asks installed distributions for entry points of its group. A class in a file of the user's
is named `file.py:Class` (`core/own_code.py`). Parameters of a component are its constructor's keywords, so `create` can
check names and convert `key=value` text from a command line.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from rota.core import own_code
from rota.core.errors import ConfigError, UnknownName

T = TypeVar("T")
_UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered name."""

    name: str
    factory: Callable[..., T]
    summary: str
    preset: Mapping[str, Any]
    from_run: tuple[str, ...] = ()
    """Parameters that a run fills in unless the user does: its seed, its rules, the GPUs there are."""
    built_in: bool = False
    """Whether it comes with Rota."""

    def parameters(self) -> dict[str, inspect.Parameter]:
        """The constructor keywords a user may set."""
        parameters = inspect.signature(self.factory).parameters
        return {
            name: parameter
            for name, parameter in parameters.items()
            if name not in self.preset and parameter.kind not in _UNNAMED
        }

    def code_digest(self) -> str | None:
        """Changes with the code of a component that does not come with Rota; None for one that does, or unknown."""
        return None if self.built_in else own_code.digest_of(self.factory)


class Registry(Generic[T]):
    """A table of named components of one kind, filled on first use."""

    def __init__(self, kind: str, package: str, group: str | None = None, method: str | None = None) -> None:
        """`method` is what a class of the user's must have; without it there are registered names only."""
        self.kind = kind
        self._package = package
        self._group = group
        self._method = method
        self._entries: dict[str, Entry[T]] = {}
        self._loaded = False

    def register(
        self, name: str, *, summary: str | None = None, from_run: tuple[str, ...] = (), **preset: Any
    ) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Register the decorated class under `name`, with some constructor keywords fixed by `preset`.

        `from_run` names those that a run fills in: `seed`, `order` (how rankings sort), `capacity` (GPUs by type),
        `slots` (whether somebody watches the servers).
        """

        def keep(factory: Callable[..., T]) -> Callable[..., T]:
            built_in = factory.__module__.startswith(f"{self._package}.")
            line = summary or _first_line(factory)
            self._entries[name] = self._checked(Entry(name, factory, line, preset, from_run, built_in))
            return factory

        return keep

    def _checked(self, entry: Entry[T]) -> Entry[T]:
        unknown = set(entry.from_run) - set(entry.parameters())
        if unknown:
            missing = ", ".join(sorted(unknown))
            raise TypeError(f"{self.kind} {entry.name!r} has no parameter {missing} to be filled in")
        return entry

    def of_class(self, factory: Callable[..., T], name: str | None = None) -> Entry[T]:
        """The entry of a class that has no name; what a run fills in is its attribute `from_run`."""
        from_run = tuple(getattr(factory, "from_run", ()))
        label = getattr(factory, "__name__", "?") if name is None else name
        return self._checked(Entry(label, factory, _first_line(factory), {}, from_run))

    def names(self) -> list[str]:
        """All known names, sorted."""
        self._load()
        return sorted(self._entries)

    def entry(self, name: str) -> Entry[T]:
        """The entry of a name; snake_case and upper case are accepted, and `file.py:Class` where it can be."""
        own = None if self._method is None else own_code.reference(name)
        if own is not None:
            return self.of_class(own_code.load(own, self.kind, str(self._method)), str(own))
        self._load()
        key = name.strip().lower().replace("_", "-")
        if key not in self._entries:
            kind = self.kind if self._method is None or ":" not in name else f"{self.kind} (your own is file.py:Class)"
            raise UnknownName(kind, name, self._entries)
        return self._entries[key]

    def create_for_run(self, name: str | Callable[..., T], run: Mapping[str, Any], /, **parameters: Any) -> T:
        """The same, with what the run fills in where the user says nothing."""
        entry = self.entry(name) if isinstance(name, str) else self.of_class(name)
        filled = {key: run[key] for key in entry.from_run if key in run and key not in parameters}
        return self._create(entry, {**parameters, **filled})

    def create(self, name: str, /, **parameters: Any) -> T:
        """Build a component; text values are converted to the type the constructor declares."""
        return self._create(self.entry(name), parameters)

    def _create(self, entry: Entry[T], parameters: Mapping[str, Any]) -> T:
        allowed = entry.parameters()
        values = dict(entry.preset)
        hints = _hints(entry.factory)
        for key, value in parameters.items():
            plain = key.replace("-", "_")
            if plain not in allowed:
                if not allowed:
                    raise ConfigError(f"{self.kind} {entry.name!r} has no parameters; {key!r} was given")
                raise UnknownName(f"parameter of {self.kind} {entry.name!r}:", key, allowed)
            values[plain] = convert(value, hints.get(plain, str), f"{self.kind} {entry.name!r}: {key}")
        missing = [p.name for p in allowed.values() if p.default is p.empty and p.name not in values]
        if missing:
            how = "" if self._method is None else f"; give it by --set-{self.kind} {missing[0]}=VALUE"
            raise ConfigError(f"{self.kind} {entry.name!r} needs its parameter {missing[0]}, which was not given{how}")
        return entry.factory(**values)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        if self._group is not None:
            for point in entry_points(group=self._group):
                factory = point.load()
                if point.name not in self._entries:
                    self.register(point.name)(factory)
                    own_code.remember_class(factory)


def _first_line(factory: Callable[..., Any]) -> str:
    return (inspect.getdoc(factory) or "").split("\n\n")[0].replace("\n", " ")


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    """Types of the parameters: as declared, else that of the default."""
    defaults = {n: p.default for n, p in inspect.signature(factory).parameters.items() if p.default is not p.empty}
    hints: dict[str, Any] = {name: type(value) for name, value in defaults.items() if value is not None}
    target = factory.__init__ if inspect.isclass(factory) else factory
    with contextlib.suppress(NameError, TypeError):  # names that only a type checker knows
        hints.update(get_type_hints(target))
    return hints


def convert(value: Any, hint: Any, where: str) -> Any:
    """Text to the declared type; a value that is not text passes unchanged."""
    if not isinstance(value, str):
        return value
    options = [h for h in get_args(hint) if h is not type(None)] or [hint]
    if len(options) < len(get_args(hint)) and value.lower() in {"none", ""}:
        return None
    for option in options:
        with contextlib.suppress(ValueError):
            return _from_text(value, option)
    wanted = " or ".join(getattr(o, "__name__", str(o)) for o in options)
    raise ConfigError(f"{where}={value!r} is not a valid {wanted}")


def _from_text(value: str, option: Any) -> Any:
    if option is bool:
        if value.lower() in {"true", "yes", "1", "on"}:
            return True
        if value.lower() in {"false", "no", "0", "off"}:
            return False
        raise ValueError(value)
    if option is int:
        return int(value)
    if option is float:
        return float(value)
    return value
