"""What containers may be made of: images and folders of this machine that its operator has listed.

A job names an image; it cannot name a folder to be mounted. Paths are compared after links in them
were followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rota.core.errors import ConfigError
from rota.deploy.worker.launcher import HOST
from rota.deploy.worker.spec import TaskSpec

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,510}")
"""The name of an image; it cannot begin like an option of an engine."""
_PATH = re.compile(r"/[^\0:,\n\r\"\\]*")
"""A path that an engine cannot take for something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRules:
    """An operator's list."""

    images: tuple[str, ...] = ()
    """Names, folders or `host`; `*` stands for anything but a slash, `**` for anything."""
    mounts: tuple[str, ...] = ()
    """Folders that every container sees: PATH, or PATH:ro."""
    everything: bool = False
    """Whether any image is allowed, and the working folder is mounted: jobs are trusted."""

    def image(self, text: str) -> str:
        """The image that a job asks for, links followed. ConfigError if it is not on the list."""
        name = text if text == HOST else _resolved(text)
        if self.everything or any(_matches(name, pattern) for pattern in self.images):
            return name
        allowed = ", ".join(self.images) or "none is"
        raise ConfigError(
            f"image {text!r} is not allowed on this server ({allowed} allowed); its operator lists "
            "images under [containers] in the agent's file"
        )

    def mounted(self) -> tuple[str, ...]:
        """Folders of the list that are there, links followed."""
        found = []
        for text in self.mounts:
            path, _, mode = text.partition(":")
            if Path(path).is_dir():
                found.append(f"{Path(path).resolve()}{':' + mode if mode else ''}")
        return tuple(found)


def check_mount(text: str) -> None:
    """ConfigError if this cannot be a folder to mount."""
    path, _, mode = text.partition(":")
    if not _PATH.fullmatch(path) or mode not in ("", "ro", "rw"):
        raise ConfigError(f"mount {text!r} is not PATH, PATH:ro or PATH:rw with an absolute path")
    if path == "/":
        raise ConfigError("mount '/' would give jobs the whole machine; name a folder")


def check_paths(*paths: str) -> None:
    """ConfigError if an engine could take a path for something else."""
    for path in paths:
        if path and not _PATH.fullmatch(path):
            raise ConfigError(
                f"folder {path!r} cannot be used with a container: it has to be absolute and "
                'without `:`, `,`, `"`, `\\` and line breaks'
            )


def check_working_folder(spec: TaskSpec) -> None:
    """ConfigError if the engine, which is root, would make the working folder in one of others.

    Engines make it if it is not there, and follow links: so it may be a folder that is mounted to
    be written to, but not be below one, where users make folders and links.
    """
    if spec.user is None:
        return
    cwd = PurePosixPath(spec.cwd)
    mounted = [text.partition(":") for text in (*spec.mounts, spec.checkpoints) if text]
    writable = [PurePosixPath(path) for path, _, mode in mounted if mode != "ro"]
    below = [path for path in (PurePosixPath("/proc"), *writable) if path in cwd.parents]
    if below or ".." in cwd.parts:
        advice = f"give {below[-1]} itself" if below and below[-1] in writable else "give /"
        raise ConfigError(
            f"folder {spec.cwd!r} cannot be the working folder of a container, which would be made "
            f"there as root; {advice}, and change the folder in the command"
        )


def _resolved(text: str) -> str:
    if text.startswith("/"):
        try:
            root = Path(text).resolve(strict=True)
        except (OSError, RuntimeError):
            root = None
        if root is None or not root.is_dir() or root == Path("/"):
            raise ConfigError(f"image {text!r} is not a folder with a root file system")
        return str(root)
    if not _REFERENCE.fullmatch(text):
        raise ConfigError(f"{text[:200]!r} cannot be the name of an image")
    return text


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern stands for a name; a folder on the list may itself be a link."""
    if pattern.startswith("/") and "*" not in pattern:
        return name == str(Path(pattern).resolve())
    stands_for = {"**": ".*", "*": "[^/]*"}
    parts = [stands_for.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*)", pattern)]
    return re.fullmatch("".join(parts), name) is not None
