"""From an order of the scheduler to what one of its processes is started as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rota.core.errors import ConfigError
from rota.core.job_arrays import array_environment
from rota.core.job_spec import HIDDEN, JobSpec, RankLayout
from rota.deploy.worker.container_rules import ContainerRules
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.users import JobUser
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_of

_LEAST_CPUS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where tasks of a tenant live on this server."""

    root: Path
    """Folder of all checkpoints."""
    logs: Path
    run: Path
    """Folder with the sockets of the agent."""
    user: JobUser | None = None
    """Whom they run as; None: the agent's own."""
    containers: ContainerRules = field(default_factory=ContainerRules)
    data: tuple[str, ...] = ()
    """Folders in memory that the job may fill."""


def describe(order: pb.TaskOrder, task: TaskId, place: Place, env: Mapping[str, str]) -> TaskSpec:
    """One rank; `env` is what this agent says beside the order."""
    root = place.root
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
        logs=str(place.logs),
        image=place.containers.image(spec.image) if spec.image else "",
        mounts=_mounts(order, place) if spec.image else (),
        mps=spec.mps,
        user=place.user,
    )


def share(order: pb.TaskOrder) -> tuple[float, float | None]:
    """CPUs and memory of each rank here; None for memory without a limit."""
    return max(order.cpus / order.ranks, _LEAST_CPUS), order.memory_gb / order.ranks if order.memory_gb > 0 else None


def _environment(order: pb.TaskOrder, spec: JobSpec, rank: int, local: int, root: Path) -> dict[str, str]:
    counted = {"ROTA_STEPS": str(spec.steps)} if spec.steps else {}
    of_array = array_environment(spec.array, order.array, order.job) if order.HasField("array") else {}
    limited = {"ROTA_TIME_LEFT_S": f"{order.time_left_s:.1f}"} if spec.time_limit_s else {}
    return {
        **counted,
        **limited,
        **of_array,
        "ROTA_WORLD_SIZE": str(order.world_size),
        "ROTA_LOCAL_RANK": str(local),
        "ROTA_LOCAL_WORLD_SIZE": str(order.ranks),
        "ROTA_RESUME": resume_from(root, order),
        "ROTA_CHECKPOINT_EVERY_S": f"{spec.checkpoint_every_s or 60.0:g}",
        "RANK": str(rank),
        "WORLD_SIZE": str(order.world_size),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(order.ranks),
        "MASTER_ADDR": order.master_addr,
        "MASTER_PORT": str(order.master_port),
    }


def _mounts(order: pb.TaskOrder, place: Place) -> tuple[str, ...]:
    """What a container sees beside what its attempt saves: sockets, what the operator lists, its earlier attempts.

    Of those the folder of the job is mounted, which is the agent's: in folders that belong to the job, a link could
    stand for any other.
    """
    job = place.root / str(order.job)
    home = [place.user.home] if place.user is not None and Path(place.user.home).is_dir() else []
    return (str(place.run), *home, *place.containers.mounted(), f"{job}:ro", *place.data)


def resume_from(root: Path, order: pb.TaskOrder) -> str:
    """Where to go on from. An attempt nobody could hear saved on and cleared away what the scheduler knows of."""
    if not order.resume:
        return ""
    parts = PurePosixPath(order.resume).parts
    if len(parts) < 3 or parts[0] != str(order.job) or not parts[1].isdecimal() or ".." in parts:  # JOB/ATTEMPT/NAME
        raise ConfigError(f"{order.resume[:200]!r} cannot be a checkpoint of job {order.job}; submit it again")
    known = root / order.resume
    return str(known if known.is_dir() else known.parent)


def check_resume(root: Path, order: pb.TaskOrder) -> None:
    """ConfigError if the checkpoint that a job has to go on from cannot be found on this server."""
    if order.resume and not Path(resume_from(root, order)).is_dir():
        raise ConfigError(
            f"checkpoint {order.resume} (step {order.resume_step}) is not in {root} on this server, so the job cannot "
            "go on here; checkpoints must be in a folder that all servers see: rota serve --checkpoints DIR"
        )
