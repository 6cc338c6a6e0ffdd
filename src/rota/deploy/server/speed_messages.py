"""Learned speeds as messages."""

from __future__ import annotations

import math

from rota.deploy.scheduler.learned_speeds import LearnedSpeeds
from rota.deploy.scheduler.speed_estimates import SpeedEstimates
from rota.rpc import rota_pb2 as pb

_MOST_SPEEDS = 20_000
"""Cells in one answer, which has to fit into a message."""


def speeds_message(speeds: LearnedSpeeds, estimates: SpeedEstimates, tenant: str | None) -> pb.LearnedSpeedsReply:
    """The cells that a caller may see, by tenant, profile, GPUs, type, CPUs and memory."""
    visible = [(cell, speed) for cell, speed in speeds.visible(tenant) if speed.blocks]
    visible.sort(key=lambda pair: (*pair[0].kind, pair[0].type, pair[0].cpus, pair[0].memory_gb, pair[0].servers))
    seen = {kind: speeds.of_kind(kind) for kind in {cell.kind for cell, _ in visible[:_MOST_SPEEDS]}}
    messages = [
        pb.LearnedSpeed(
            tenant=cell.tenant,
            profile=cell.name,
            gpus=cell.gpus,
            type=cell.type,
            cpus=cell.cpus,
            memory_gb=cell.memory_gb,
            servers=cell.servers,
            rate=speed.mean,
            error=-1.0 if math.isinf(speed.error) else speed.error,
            blocks=speed.blocks,
            share=speed.share,
            believed=seen[cell.kind][cell.type].believed,
            expected=estimates.in_catalogue(cell.name, cell.gpus, cell.type),
        )
        for cell, speed in visible[:_MOST_SPEEDS]
    ]
    return pb.LearnedSpeedsReply(speeds=messages, truncated=len(visible) > _MOST_SPEEDS)
