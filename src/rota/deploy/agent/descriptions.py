"""From an order of the scheduler to what one of its processes is started as."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rota.core.errors import ConfigError
from rota.core.job_spec import HIDDEN, JobSpec, RankLayout
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_of

_LEAST_CPUS = 0.01


def describe(
    order: pb.TaskOrder, task: TaskId, *, root: Path, logs: Path, run: Path, env: Mapping[str, str]
) -> TaskSpec:
    """One rank: `root` holds checkpoints, `run` the agent's sockets, `env` is what this agent says beside the order."""
    spec = spec_of(order.spec)
    hidden = sorted(name for name, value in spec.env.items() if value == HIDDEN)
    if hidden:
        raise ConfigError(f"the scheduler has lost the values of {', '.join(hidden)}; submit the job again")
    local = task.rank - order.first_rank
    cpus, memory_gb = share(order)
    return TaskSpec(
        id=task,
        argv=spec.argv,
        env={**spec.env, **_environment(order, spec, task.rank, local, root), **env},
        cwd=spec.cwd or "/",
        cpus=cpus,
        memory_gb=memory_gb,
        devices=(order.devices[local],) if spec.ranks is RankLayout.GPU else tuple(order.devices),
        checkpoints=str(root / str(order.job) / str(order.epoch)),
        logs=str(logs),
        image=spec.image,
        mounts=_mounts(order, root, run) if spec.image else (),
        mps=spec.mps,
    )


def share(order: pb.TaskOrder) -> tuple[float, float | None]:
    """CPUs and memory of each rank here; None for memory without a limit."""
    return max(order.cpus / order.ranks, _LEAST_CPUS), order.memory_gb / order.ranks if order.memory_gb > 0 else None


def _environment(order: pb.TaskOrder, spec: JobSpec, rank: int, local: int, root: Path) -> dict[str, str]:
    counted = {"ROTA_STEPS": str(spec.steps)} if spec.steps else {}
    return {
        **counted,
        "ROTA_WORLD_SIZE": str(order.world_size),
        "ROTA_LOCAL_RANK": str(local),
        "ROTA_RESUME": resume_from(root, order.resume),
        "ROTA_CHECKPOINT_EVERY_S": f"{spec.checkpoint_every_s or 60.0:g}",
        "RANK": str(rank),
        "WORLD_SIZE": str(order.world_size),
        "LOCAL_RANK": str(local),
        "MASTER_ADDR": order.master_addr,
        "MASTER_PORT": str(order.master_port),
    }


def _mounts(order: pb.TaskOrder, root: Path, run: Path) -> tuple[str, ...]:
    """What a container needs beside its checkpoints: the agent's sockets, and the checkpoint it goes on from."""
    return (str(run), f"{resume_from(root, order.resume)}:ro") if order.resume else (str(run),)


def resume_from(root: Path, checkpoint: str) -> str:
    """Where to go on from. An attempt nobody could hear saved on and cleared away what the scheduler knows of."""
    known = root / checkpoint
    return str(known if known.is_dir() else known.parent) if checkpoint else ""


def check_resume(root: Path, order: pb.TaskOrder) -> None:
    """ConfigError if the checkpoint that a job has to go on from cannot be found on this server."""
    if order.resume and not Path(resume_from(root, order.resume)).is_dir():
        raise ConfigError(
            f"checkpoint {order.resume} (step {order.resume_step}) is not in {root} on this server, so the job cannot "
            "go on here; checkpoints must be in a folder that all servers see: rota serve --checkpoints DIR"
        )
