"""A user's own classes, `file.py:Class`, wherever the name of a policy or a mechanism is accepted.

The file is loaded as Python would import it, with its folder (that of its outermost package, if it is part of one) in
front of the search path. The user's code is the file and the modules beside it that it imports, found in its text and
in theirs. A digest of them goes into results, and a line of them is shown when an exception comes out of them.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rota.core.errors import ConfigError, UnknownName

SUFFIX = ".py"


@dataclass(frozen=True, slots=True)
class Reference:
    """A class in a file."""

    path: Path
    """As it was given: relative to the working directory, or absolute."""
    name: str

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.name}"

    @property
    def file(self) -> Path:
        """Where it is."""
        return self.path.resolve()

    def absolute(self) -> Reference:
        """The same from any folder."""
        return Reference(self.file, self.name)

    def short(self) -> Reference:
        """The same as it is written from the working directory, if the file is below it."""
        try:
            return Reference(self.file.relative_to(Path.cwd()), self.name)
        except ValueError:
            return self.absolute()


def reference(text: str) -> Reference | None:
    """`file.py:Class` taken apart; None for a plain name. Raises ConfigError for a file without a class."""
    path, colon, name = text.strip().rpartition(":")
    if colon and path.endswith(SUFFIX):
        if not name.isidentifier():
            raise ConfigError(f"{text!r}: {name!r} is not the name of a class; write it as {path}:ClassName")
        return Reference(Path(path), name)
    if text.strip().endswith(SUFFIX):
        raise ConfigError(f"{text!r} does not say which class of the file; write it as {text.strip()}:ClassName")
    return None


def reference_to(owner: type) -> Reference:
    """Where a class is defined. Raises ConfigError for one that another process could not load."""
    file = _file_of(owner)
    if file is None or owner.__module__ == "__main__":
        raise ConfigError(
            f"class {owner.__name__} is defined in a notebook or in the script that runs, which other processes cannot "
            f"load: move it to a file of its own and give 'file.py:{owner.__name__}' (in a notebook, the first line "
            "%%writefile file.py makes one of a cell)"
        )
    if "." in owner.__qualname__:
        raise ConfigError(f"class {owner.__qualname__} of {file} is inside another one or a function; move it out")
    return Reference(file, owner.__name__).short()


# What belongs to it


def sources(file: Path) -> tuple[Path, ...]:
    """The file and the modules beside it that it imports, directly or by way of others."""
    folder = _search_folder(file)
    found: set[Path] = set()
    packages = file.parents[: len(file.relative_to(folder).parts) - 1]
    waiting = [file, *(package / "__init__.py" for package in packages)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(_imports(path, folder))
    return tuple(sorted(found))


_Stamps = dict[Path, tuple[int, int]]
_digests: dict[Path, tuple[_Stamps, str]] = {}
"""What was found for a file, and the state of all files then: a sweep asks for every run."""


def digest(file: Path) -> str:
    """Changes with the file and with the modules beside it that it imports."""
    stamps, known = _digests.get(file, ({}, ""))
    if known and stamps == _stamps(stamps):
        return known
    files = sources(file)
    stamps = _stamps(files)
    _digests[file] = (stamps, _digest(_search_folder(file), files))
    return _digests[file][1]


def _stamps(files: Iterable[Path]) -> _Stamps:
    """Change when a file does."""
    found: _Stamps = {}
    for file in files:
        with contextlib.suppress(OSError):
            state = file.stat()
            found[file] = (state.st_mtime_ns, state.st_size)
    return found


def _digest(folder: Path, files: Iterable[Path]) -> str:
    sha = hashlib.sha256()
    for path in files:
        text = path.read_bytes()
        sha.update(f"{os.path.relpath(path, folder)}\0{len(text)}\0".encode())
        sha.update(text)
    return sha.hexdigest()


def digest_of(owner: Any) -> str | None:
    """The digest of a class or function: of its file, else of its own text (a notebook); None where there is none."""
    file = _file_of(owner)
    if file is not None:
        return digest(file)
    try:
        return hashlib.sha256(inspect.getsource(owner).encode()).hexdigest()
    except (OSError, TypeError):
        return None


def _file_of(owner: Any) -> Path | None:
    try:
        path = Path(inspect.getsourcefile(owner) or "")
    except (OSError, TypeError):
        return None
    return path.resolve() if path.suffix == SUFFIX and path.is_file() else None


def _search_folder(file: Path) -> Path:
    """The folder from which the file is imported: its own, or the one that holds its outermost package."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _imports(file: Path, folder: Path) -> Iterator[Path]:
    """Files beside it that a file imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # it cannot be loaded either, which is said there
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(folder, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            names = (node.module or "").split(".") if node.module else []
            base = folder if node.level == 0 else file.parents[min(node.level, len(file.parents)) - 1]
            for alias in node.names:
                yield from _files(base, [*names, alias.name])


def _files(folder: Path, names: list[str]) -> Iterator[Path]:
    """The modules that an import runs: each package on the way, and the module."""
    if names and names[0] == folder.name and not (folder / names[0]).exists():
        names = names[1:]  # a folder without __init__.py, imported by its own name from the one above
    at = folder
    for name in names:
        at = at / name
        for file in (at / "__init__.py", at.with_name(name + SUFFIX)):
            if file.is_file():
                yield file


# Loading

_classes: dict[tuple[Path, str], ModuleType] = {}
"""Modules by file and digest."""
_files_of_users: set[str] = set()
_loading: list[str] = []


def load(wanted: Reference, kind: str, method: str) -> type:
    """The class; the file is read again if it, or what it imports from beside it, has changed."""
    file = wanted.file
    said = f"{kind} {str(wanted)!r}"
    if not file.is_file():
        where = "" if wanted.path.is_absolute() else f", seen from {Path.cwd()}"
        raise ConfigError(f"{said}: there is no file {wanted.path}{where}; check the path")
    key = (file, digest(file))
    if key not in _classes:
        _classes[key] = _load(file, said)
    module = _classes[key]
    value = getattr(module, wanted.name, None)
    if value is None:
        own = [name for name, cls in vars(module).items() if _is_own(cls, module, method)]
        raise UnknownName(f"class of {wanted.path.as_posix()}:", wanted.name, own)
    if not isinstance(value, type):
        raise ConfigError(f"{said}: {wanted.name} is a {type(value).__name__}, not a class")
    if not callable(getattr(value, method, None)):
        raise ConfigError(f"{said}: class {wanted.name} is no {kind}: it has no method {method}")
    return value


def _is_own(value: Any, module: ModuleType, method: str) -> bool:
    return isinstance(value, type) and value.__module__ == module.__name__ and callable(getattr(value, method, None))


def _load(file: Path, said: str) -> ModuleType:
    files = sources(file)
    remember(files)
    module = ModuleType(_module_name(file))
    module.__file__ = str(file)
    module.__package__ = module.__name__.rpartition(".")[0]
    _loading.append(str(file))
    try:
        with _searching(_search_folder(file)), _own_namesakes(file, files):
            if module.__package__:
                importlib.import_module(module.__package__)
            sys.modules[module.__name__] = module
            exec(compile(file.read_bytes(), str(file), "exec"), vars(module))  # noqa: S102 - the user asked for it
    except KeyboardInterrupt:
        sys.modules.pop(module.__name__, None)
        raise
    except BaseException as error:
        sys.modules.pop(module.__name__, None)
        raise ConfigError(f"{said} cannot be loaded: {blame(error) or _in_words(error)}") from error
    finally:
        _loading.pop()
    return module


@contextlib.contextmanager
def _own_namesakes(file: Path, files: Iterable[Path]) -> Iterator[None]:
    """What a file imports from beside it is made anew, and modules of the same name from elsewhere stay what they are.

    Two folders may each have a `helper.py`, and a file may have been edited since it was loaded.
    """
    beside = {str(path) for path in files if path != file}
    names = {_dotted(Path(path)) for path in beside}
    names |= {name for name, module in sys.modules.items() if getattr(module, "__file__", None) in beside}
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    try:
        yield
    finally:
        sys.modules.update({n: module for n, module in others.items() if not _is_user_file(module)})


def _is_user_file(module: ModuleType) -> bool:
    return getattr(module, "__file__", None) in _files_of_users


def refuse_while_loading(what: str) -> None:
    """Raise ConfigError if a user's file, while it is loaded, does what only a script may do."""
    if _loading:
        raise ConfigError(f"{_loading[-1]} calls {what} when it is loaded; put that below `if __name__ == '__main__':`")


def _module_name(file: Path) -> str:
    """Of a module of a package the name that its relative imports need; else one that nobody else has."""
    name = _dotted(file)
    if "." in name:
        return name
    return f"own_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"


def _dotted(file: Path) -> str:
    """As which module Python would import it."""
    inside = file.relative_to(_search_folder(file)).with_suffix("").parts
    return ".".join(inside[:-1] if inside[-1] == "__init__" else inside)


@contextlib.contextmanager
def _searching(folder: Path) -> Iterator[None]:
    """Modules beside the file are found first; no bytecode is written, which could outlive an edit."""
    writes_not = sys.dont_write_bytecode
    before = list(sys.path)
    sys.path[:] = [str(folder), *before, str(Path.cwd())]
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    linecache.checkcache()
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes_not
        late = [] if str(folder) in before else [str(folder)]  # for what is imported when a method runs
        sys.path[:] = [*before, *late]


# Whose mistake it was


def remember(files: tuple[Path, ...]) -> None:
    """Lines of these files are the user's."""
    _files_of_users.update(map(str, files))


def remember_class(owner: Any) -> None:
    """The same for a class of an installed package."""
    file = _file_of(owner)
    if file is not None:
        remember(sources(file))


def blame(error: BaseException) -> str | None:
    """An exception that came out of a user's code: file, line, method, what it says and the text of the line.

    None if no line of a user had a part in it.
    """
    if isinstance(error, SyntaxError) and error.filename in _files_of_users:
        return _shown(str(error.filename), error.lineno or 1, None, error.text, _in_words(error))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in _files_of_users]
    if not frames:
        return None
    last = frames[-1]
    return _shown(last.filename, last.lineno or 1, last.name, last.line, _in_words(error))


def _shown(file: str, line: int, method: str | None, text: str | None, words: str) -> str:
    where = f"{Reference(Path(file), '').short().path.as_posix()}, line {line}"
    inside = "" if method in {None, "<module>"} else f", in {method}"
    return f"{where}{inside}: {words}\n    {(text or '').strip()}"


def _in_words(error: BaseException) -> str:
    try:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception as another:  # noqa: BLE001 - the text of an exception is made by its class, which may be a user's
        said = f"(its text cannot be shown: {type(another).__name__})"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
