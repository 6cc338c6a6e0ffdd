"""From which C the compiled module was built, so that one left over from an older checkout is not called.

Standard library only: the build reads this file before anything is installed.
"""

from __future__ import annotations

import zlib
from pathlib import Path


def digest(folder: Path) -> int:
    """A number that changes with any byte of the C sources there; 0 if there are none."""
    number = 0
    for path in sorted(folder.glob("*.[ch]")):
        number = zlib.crc32(path.name.encode() + b"\0" + path.read_bytes(), number)
    return number
