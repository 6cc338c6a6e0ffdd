"""The batch script of a pilot.

Slurm stores it and may show it to others (`scontrol write batch_script`, the spool folder), so it holds no secret: it
names the folder of the join ticket, which only its owner can enter.
"""

from __future__ import annotations

import shlex

from rota.deploy.providers.port import PilotOrder

JOB_NAME = "rota-"
"""Before the name of the pool: the name of a pilot's batch job."""
COMMENT = "rota-pilot="
"""Before the name of the pilot: the comment of its batch job."""
_SCRIPT = """#!/bin/sh
# Rota pilot {name}: the agent of one server. It leaves by itself on USR1 (notice) and on TERM.
exec {command}
"""


def batch_script(order: PilotOrder) -> str:
    """The script for an order."""
    return _SCRIPT.format(name=order.name, command=shlex.join(order.command))
