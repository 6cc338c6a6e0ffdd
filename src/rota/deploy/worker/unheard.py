"""The newest checkpoint of a job that ended while no agent was there to hear of it.

The folder belongs to the job, which may have put anything there: pipes, files without end, links to
what it may not read, texts that no reader stands. So a process of its own looks, with the rights of
the job's user and for a limited time.

    python -m rota.deploy.worker.unheard FOLDER [UID GID GROUP ...]
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import resource
import subprocess
import sys
from pathlib import Path

from rota.client import checkpoints
from rota.client.wire import LARGEST_STEP
from rota.deploy.worker.users import JobUser

log = logging.getLogger(__name__)

_WITHIN_S = 5.0
_MOST_BYTES = 1 << 29


def newest(folder: Path, user: JobUser | None) -> int | None:
    """Step of the newest whole checkpoint in a folder; None if none can be found."""
    rights = () if user is None else (user.uid, user.gid, *user.groups)
    own = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    try:
        completed = subprocess.run(
            [sys.executable, "-m", __name__, str(folder), *map(str, rights)],
            env=own,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WITHIN_S,
            check=True,
        )
        step = json.loads(completed.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("checkpoints in %s cannot be looked at: %s", folder, error)
        return None
    return step if isinstance(step, int) and 0 <= step <= LARGEST_STEP else None


def look(folder: str, rights: list[int]) -> int | None:
    """What `newest` asks for, in its process."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    hashlib.sha256()  # `checkpoints` needs it, and the user may not be able to read Python's files
    if rights:
        uid, gid, *groups = rights
        os.setgroups(groups or [gid])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    found = checkpoints.latest(folder)
    return None if found is None else found.step


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look(sys.argv[1], [int(word) for word in sys.argv[2:]])))
