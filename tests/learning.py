"""Emulated clusters whose scheduler does not know how fast jobs are: a trace with the true table and with mistakes.

Jobs are emulated and name a model, so their speed is that of the emulated devices, whatever the scheduler believes.
The same names of profiles are right in the true table; in the other one some are missing and some are wrong.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from live import Live, until
from rota.profiles import load

TYPES = ("k80", "p100", "v100")
BATCH = 32
MODELS = (
    "alexnet", "densenet121", "googlenet", "mobilenet_v3_small", "resnet18", "resnet50", "resnet152",
    "shufflenet_v2_x0_5", "vgg16", "wide_resnet101_2",
)  # fmt: skip


@dataclass(frozen=True)
class TraceJob:
    """One arrival."""

    at: float
    """Engine seconds."""
    model: str
    kind: str
    """right, none, fast or slow: what the mistaken table says of its profile."""
    steps: int

    @property
    def profile(self):
        return f"{self.model} {self.kind}"


def true_rate(model, gpu_type):
    return load("gpemu").rate(f"{model} (batch size {BATCH})", 1, gpu_type)


def a_trace(jobs, *, seed, interarrival_s, mean_s):
    """Jobs of which 30 % have no profile and 20 % one that is wrong by a factor of 2; `mean_s` on a V100."""
    draw = random.Random(seed)
    kinds = ["none"] * round(0.3 * jobs) + ["fast"] * round(0.1 * jobs) + ["slow"] * round(0.1 * jobs)
    kinds += ["right"] * (jobs - len(kinds))
    draw.shuffle(kinds)
    at = 0.0
    trace = []
    for kind in kinds:
        model = draw.choice(MODELS)
        seconds = mean_s * draw.choice([0.25, 0.5, 1.0, 1.0, 2.25])
        trace.append(TraceJob(at, model, kind, max(20, round(seconds * true_rate(model, "v100")))))
        at += draw.expovariate(1 / interarrival_s)
    return trace


def write_table(path, trace, *, mistaken):
    factors = {"right": 1.0, "fast": 2.0, "slow": 0.5, "none": 1.0}
    rows = ["profile,gpus,type,rate"]
    for model, kind in sorted({(job.model, job.kind) for job in trace}):
        if mistaken and kind == "none":
            continue
        factor = factors[kind] if mistaken else 1.0
        rows += [f"{model} {kind},1,{gpu_type},{factor * true_rate(model, gpu_type)!r}" for gpu_type in TYPES]
    path.write_text("\n".join(rows) + "\n")


@dataclass(frozen=True)
class Outcome:
    mean_jct_s: float
    learned: list
    remarks: dict
    """By profile, what the owner of a job was told about its speed."""
    lateness_s: float


def emulated(folder, trace, *, mistaken, gpus_per_type, scale, round_s, policy, heartbeat_s=0.15, limit_s=600.0):
    """Run the trace on a cluster of its own; what came of it."""
    folder.mkdir()
    write_table(folder / "table.csv", trace, mistaken=mistaken)
    servers = [word for gpu_type in TYPES for word in ("--server", f"{gpu_type}={gpus_per_type}")]
    live = Live(folder).up(
        *servers, "--emulate", "--policy", policy, "--time-scale", str(scale), "--round", str(round_s),
        "--heartbeat", str(heartbeat_s), "--profiles", "table.csv",
    )  # fmt: skip
    try:
        until(lambda: len(live.nodes()) == len(TYPES), what="all agents")
        with live.client() as client:
            numbers = _submitted(client, trace, scale)
            infos = client.wait(numbers, limit_s, every_s=0.5)
            assert {info.phase for info in infos} == {"finished"}
            learned = list(client.learned_speeds().speeds)
            lateness_s = max(node.lateness_s for node in client.nodes())
            remarks = {info.spec.profile: info.speed_remark for info in infos}
        jct = [info.ended_s - info.submitted_s for info in infos]
        return Outcome(sum(jct) / len(jct), learned, remarks, lateness_s)
    finally:
        live.down()


def _submitted(client, trace, scale):
    """Submit jobs when they arrive; their numbers."""
    begin = time.monotonic()
    numbers = []
    for job in trace:
        time.sleep(max(0.0, begin + job.at / scale - time.monotonic()))
        spec = {
            "emulated": True, "model": job.model, "batch": BATCH, "profile": job.profile, "steps": job.steps,
            "checkpoint_every_s": 1.0,
        }  # fmt: skip
        numbers += client.submit([spec])
    return numbers
