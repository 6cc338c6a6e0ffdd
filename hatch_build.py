"""Builds the compiled inner loops (src/rota/kernels) where there is a C compiler; without one Rota is pure Python.

`python hatch_build.py` builds them in place. `python hatch_build.py --sanitize FOLDER` builds them in another folder,
with AddressSanitizer and UBSan (`make sanitize`). ROTA_PURE=1 leaves them out.
"""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

FOLDER = Path("src", "rota", "kernels")
FLAGS = ("-O2", "-std=c11", "-fPIC", "-ffp-contract=off")
"""No fused multiply-add: answers are the same to the bit as NumPy's."""


SANITIZED = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
)
"""Flags that come after the others; the first error ends the process."""


def build(root: Path, into: Path | None = None, more_flags: tuple[str, ...] = ()) -> Path | None:
    """The built module, in another folder if one is given; None where it could not be built, and why is printed."""
    folder = root / FOLDER
    made = (into or folder) / f"_compiled{sysconfig.get_config_var('EXT_SUFFIX')}"
    made.unlink(missing_ok=True)
    if os.environ.get("ROTA_PURE") or os.name != "posix":
        return None
    shared = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    include = f"-I{sysconfig.get_path('include')}"
    temporary = made.with_suffix(".tmp")
    sources = f"-DROTA_SOURCES={runpy.run_path(str(folder / 'sources.py'))['digest'](folder)}"
    command = [
        *compiler,
        *FLAGS,
        *more_flags,
        *shared,
        include,
        sources,
        *map(str, sorted(folder.glob("*.c"))),
        "-o",
        str(temporary),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the compiler
    except OSError as error:
        print(f"rota: no C compiler ({error}); simulations will be slower", file=sys.stderr)
        return None
    if done.returncode:
        print(f"rota: {shlex.join(command)} failed; simulations will be slower\n{done.stderr}", file=sys.stderr)
        return None
    temporary.replace(made)
    return made


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    pass
else:

    class CompiledKernels(BuildHookInterface):  # type: ignore[type-arg]
        """What hatchling calls for wheels, editable ones included."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
            """Build, and say that the wheel is for this Python and platform."""
            made = build(Path(self.root))
            if made is None:
                return
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"].append(str(FOLDER / made.name))


if __name__ == "__main__":
    sanitized = sys.argv[2:] if sys.argv[1:2] == ["--sanitize"] else []
    there = build(Path(__file__).parent, Path(sanitized[0]) if sanitized else None, SANITIZED if sanitized else ())
    sys.exit(0 if there else 1)
