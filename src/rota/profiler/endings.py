"""Why a run came to no speed, in words for whoever profiles."""

from __future__ import annotations

from collections.abc import Sequence

from rota.deploy.worker.status import ExitReason, Status
from rota.profiler.blocks import LEAST_S, LEAST_STEPS, Block
from rota.profiler.cell import OUT_OF_MEMORY
from rota.profiler.steps import OutputSteps, StepCount

_SHOWN = 200


def too_few(count: StepCount, steps: float) -> str:
    """The time of a run is over, and no block of steps was."""
    if count.epochs:
        fix = "let --steps-regex match a number that counts on, or a rate"
        return f"its steps begin anew before {LEAST_S:g} s and {LEAST_STEPS} steps are over; {fix}"
    return f"only {steps:g} steps in the time of a run; give it longer (--run-seconds)"


def contamination(blocks: Sequence[Block]) -> str:
    """Other programs disturbed it."""
    worst = max(block.denied for block in blocks)
    stolen = max(block.stolen for block in blocks)
    slowed = max(block.slowed for block in blocks)
    return (
        f"other programs took up to {100 * worst:.0f} % of its CPU time, the hypervisor {100 * stolen:.0f} %, and its "
        f"CPUs were up to {100 * slowed:.0f} % slower than at their best; measure when the machine is idle"
    )


def why_ended(status: Status, output: OutputSteps, count: StepCount) -> str:
    """The command came to its end before its speed was known."""
    told = output.last_error or output.last_line
    said = f"; its last line: {told[:_SHOWN]!r}" if told else "; it printed nothing"
    after = (status.ended_at or 0.0) - (status.started_at or 0.0)
    how = f"after {count.step:g} steps in {after:.1f} s"
    ended_well = status.exit is not None and status.exit.reason is ExitReason.COMPLETED
    if ended_well and not count.step:
        said += "; the command must stay until its job is done: what it leaves running is ended with it"
    return f"{_exit(status)} {how}{said}"


def _exit(status: Status) -> str:
    end = status.exit
    if end is None:
        return "it ended"
    if end.reason is ExitReason.OUT_OF_MEMORY:
        return f"{OUT_OF_MEMORY}: the kernel ended it at its memory limit"
    if end.reason is ExitReason.COMPLETED:
        return "it ended by itself"
    if end.detail:
        return f"it could not run or was ended ({end.detail})"
    return f"it failed with exit code {end.code}" if end.code is not None else f"it was ended by signal {end.signal}"
