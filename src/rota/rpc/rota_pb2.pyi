from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Device(_message.Message):
    __slots__ = ("id", "memory_mib")
    ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    id: str
    memory_mib: float
    def __init__(self, id: _Optional[str] = ..., memory_mib: _Optional[float] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("node", "type", "devices", "cpus", "memory_gb", "storage_mbps", "network_gbps", "rack", "emulated", "version", "limits", "host", "identity")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    STORAGE_MBPS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_GBPS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    EMULATED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    node: str
    type: str
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    cpus: float
    memory_gb: float
    storage_mbps: float
    network_gbps: float
    rack: str
    emulated: bool
    version: str
    limits: str
    host: str
    identity: str
    def __init__(self, node: _Optional[str] = ..., type: _Optional[str] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., storage_mbps: _Optional[float] = ..., network_gbps: _Optional[float] = ..., rack: _Optional[str] = ..., emulated: bool = ..., version: _Optional[str] = ..., limits: _Optional[str] = ..., host: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("session", "heartbeat_s", "dead_after_s", "checkpoints", "time_scale")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    DEAD_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    TIME_SCALE_FIELD_NUMBER: _ClassVar[int]
    session: str
    heartbeat_s: float
    dead_after_s: float
    checkpoints: str
    time_scale: float
    def __init__(self, session: _Optional[str] = ..., heartbeat_s: _Optional[float] = ..., dead_after_s: _Optional[float] = ..., checkpoints: _Optional[str] = ..., time_scale: _Optional[float] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("node", "session")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class Desired(_message.Message):
    __slots__ = ("version", "tasks", "logs", "heard", "heard_ago_s")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    HEARD_AGO_S_FIELD_NUMBER: _ClassVar[int]
    version: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskOrder]
    logs: _containers.RepeatedCompositeFieldContainer[LogRequest]
    heard: int
    heard_ago_s: float
    def __init__(self, version: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskOrder, _Mapping]]] = ..., logs: _Optional[_Iterable[_Union[LogRequest, _Mapping]]] = ..., heard: _Optional[int] = ..., heard_ago_s: _Optional[float] = ...) -> None: ...

class TaskOrder(_message.Message):
    __slots__ = ("job", "epoch", "state", "lease_s", "devices", "cpus", "memory_gb", "first_rank", "ranks", "world_size", "master_addr", "master_port", "resume", "resume_step", "spec", "rate", "messages")
    JOB_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    FIRST_RANK_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    MASTER_ADDR_FIELD_NUMBER: _ClassVar[int]
    MASTER_PORT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    RESUME_STEP_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    job: int
    epoch: int
    state: str
    lease_s: float
    devices: _containers.RepeatedScalarFieldContainer[str]
    cpus: float
    memory_gb: float
    first_rank: int
    ranks: int
    world_size: int
    master_addr: str
    master_port: int
    resume: str
    resume_step: int
    spec: JobSpec
    rate: float
    messages: _containers.RepeatedCompositeFieldContainer[GangMessage]
    def __init__(self, job: _Optional[int] = ..., epoch: _Optional[int] = ..., state: _Optional[str] = ..., lease_s: _Optional[float] = ..., devices: _Optional[_Iterable[str]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., first_rank: _Optional[int] = ..., ranks: _Optional[int] = ..., world_size: _Optional[int] = ..., master_addr: _Optional[str] = ..., master_port: _Optional[int] = ..., resume: _Optional[str] = ..., resume_step: _Optional[int] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., rate: _Optional[float] = ..., messages: _Optional[_Iterable[_Union[GangMessage, _Mapping]]] = ...) -> None: ...

class GangMessage(_message.Message):
    __slots__ = ("id", "rank", "json")
    ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    id: int
    rank: int
    json: str
    def __init__(self, id: _Optional[int] = ..., rank: _Optional[int] = ..., json: _Optional[str] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("name", "tenant", "profile", "gpus", "steps", "weight", "deadline_s", "argv", "env", "cwd", "image", "emulated", "max_restarts", "checkpoint_every_s", "hung_after_s", "model", "batch", "cpus", "memory_gb", "ranks", "mps")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    EMULATED_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_EVERY_S_FIELD_NUMBER: _ClassVar[int]
    HUNG_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    MPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    profile: str
    gpus: int
    steps: int
    weight: float
    deadline_s: float
    argv: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    cwd: str
    image: str
    emulated: bool
    max_restarts: int
    checkpoint_every_s: float
    hung_after_s: float
    model: str
    batch: int
    cpus: float
    memory_gb: float
    ranks: str
    mps: bool
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., profile: _Optional[str] = ..., gpus: _Optional[int] = ..., steps: _Optional[int] = ..., weight: _Optional[float] = ..., deadline_s: _Optional[float] = ..., argv: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., image: _Optional[str] = ..., emulated: bool = ..., max_restarts: _Optional[int] = ..., checkpoint_every_s: _Optional[float] = ..., hung_after_s: _Optional[float] = ..., model: _Optional[str] = ..., batch: _Optional[int] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., ranks: _Optional[str] = ..., mps: bool = ...) -> None: ...

class Observed(_message.Message):
    __slots__ = ("node", "session", "sequence", "seen", "tasks", "lateness_s")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_S_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    sequence: int
    seen: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskState]
    lateness_s: float
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ..., sequence: _Optional[int] = ..., seen: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskState, _Mapping]]] = ..., lateness_s: _Optional[float] = ...) -> None: ...

class TaskState(_message.Message):
    __slots__ = ("job", "epoch", "phase", "step", "saved_step", "saved_path", "outcome", "exit_code", "detail", "answers")
    JOB_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SAVED_STEP_FIELD_NUMBER: _ClassVar[int]
    SAVED_PATH_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    job: int
    epoch: int
    phase: str
    step: int
    saved_step: int
    saved_path: str
    outcome: str
    exit_code: int
    detail: str
    answers: _containers.RepeatedCompositeFieldContainer[GangMessage]
    def __init__(self, job: _Optional[int] = ..., epoch: _Optional[int] = ..., phase: _Optional[str] = ..., step: _Optional[int] = ..., saved_step: _Optional[int] = ..., saved_path: _Optional[str] = ..., outcome: _Optional[str] = ..., exit_code: _Optional[int] = ..., detail: _Optional[str] = ..., answers: _Optional[_Iterable[_Union[GangMessage, _Mapping]]] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: bool
    def __init__(self, known: bool = ...) -> None: ...

class LogRequest(_message.Message):
    __slots__ = ("id", "job", "rank", "offset", "follow")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    id: int
    job: int
    rank: int
    offset: int
    follow: bool
    def __init__(self, id: _Optional[int] = ..., job: _Optional[int] = ..., rank: _Optional[int] = ..., offset: _Optional[int] = ..., follow: bool = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("id", "data", "end", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    data: bytes
    end: bool
    error: str
    def __init__(self, id: _Optional[int] = ..., data: _Optional[bytes] = ..., end: bool = ..., error: _Optional[str] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("jobs", "request")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobSpec]
    request: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ..., request: _Optional[str] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, jobs: _Optional[_Iterable[int]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("phases", "limit", "tenant", "jobs", "below")
    PHASES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    BELOW_FIELD_NUMBER: _ClassVar[int]
    phases: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    tenant: str
    jobs: _containers.RepeatedScalarFieldContainer[int]
    below: int
    def __init__(self, phases: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., tenant: _Optional[str] = ..., jobs: _Optional[_Iterable[int]] = ..., below: _Optional[int] = ...) -> None: ...

class JobRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: int
    def __init__(self, job: _Optional[int] = ...) -> None: ...

class JobInfo(_message.Message):
    __slots__ = ("job", "spec", "phase", "reason", "submitted_at", "started_at", "ended_at", "step", "saved_step", "restarts", "preemptions", "epoch", "parts", "exit_code", "submitted_s", "ended_s")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SAVED_STEP_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    job: int
    spec: JobSpec
    phase: str
    reason: str
    submitted_at: float
    started_at: float
    ended_at: float
    step: int
    saved_step: int
    restarts: int
    preemptions: int
    epoch: int
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    exit_code: int
    submitted_s: float
    ended_s: float
    def __init__(self, job: _Optional[int] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., phase: _Optional[str] = ..., reason: _Optional[str] = ..., submitted_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., step: _Optional[int] = ..., saved_step: _Optional[int] = ..., restarts: _Optional[int] = ..., preemptions: _Optional[int] = ..., epoch: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., exit_code: _Optional[int] = ..., submitted_s: _Optional[float] = ..., ended_s: _Optional[float] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("node", "devices", "cpus", "memory_gb")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    node: str
    devices: _containers.RepeatedScalarFieldContainer[str]
    cpus: float
    memory_gb: float
    def __init__(self, node: _Optional[str] = ..., devices: _Optional[_Iterable[str]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ...) -> None: ...

class JobList(_message.Message):
    __slots__ = ("jobs", "total")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobInfo]
    total: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobInfo, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, jobs: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("cancelled", "over")
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    over: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cancelled: _Optional[_Iterable[int]] = ..., over: _Optional[_Iterable[int]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("node", "undo")
    NODE_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    node: str
    undo: bool
    def __init__(self, node: _Optional[str] = ..., undo: bool = ...) -> None: ...

class NodeInfo(_message.Message):
    __slots__ = ("node", "type", "gpus", "busy", "cpus", "memory_gb", "storage_mbps", "state", "last_seen_s", "jobs", "emulated", "limits", "lateness_s")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    STORAGE_MBPS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_S_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    EMULATED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_S_FIELD_NUMBER: _ClassVar[int]
    node: str
    type: str
    gpus: int
    busy: int
    cpus: float
    memory_gb: float
    storage_mbps: float
    state: str
    last_seen_s: float
    jobs: _containers.RepeatedScalarFieldContainer[int]
    emulated: bool
    limits: str
    lateness_s: float
    def __init__(self, node: _Optional[str] = ..., type: _Optional[str] = ..., gpus: _Optional[int] = ..., busy: _Optional[int] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., storage_mbps: _Optional[float] = ..., state: _Optional[str] = ..., last_seen_s: _Optional[float] = ..., jobs: _Optional[_Iterable[int]] = ..., emulated: bool = ..., limits: _Optional[str] = ..., lateness_s: _Optional[float] = ...) -> None: ...

class NodeList(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeInfo]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeInfo, _Mapping]]] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("after", "follow")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    after: int
    follow: bool
    def __init__(self, after: _Optional[int] = ..., follow: bool = ...) -> None: ...

class EventLine(_message.Message):
    __slots__ = ("sequence", "json")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    json: str
    def __init__(self, sequence: _Optional[int] = ..., json: _Optional[str] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("job", "rank", "follow", "tail")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    job: int
    rank: int
    follow: bool
    tail: int
    def __init__(self, job: _Optional[int] = ..., rank: _Optional[int] = ..., follow: bool = ..., tail: _Optional[int] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("version", "now_s", "time_scale", "round_s", "policy", "mechanism", "rounds", "queued", "running", "finished", "events", "last_decision_s", "late_solves", "tenant", "admin", "failed_decisions", "last_failed_decision_s", "last_failed_decision", "failed", "cancelled", "archived")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NOW_S_FIELD_NUMBER: _ClassVar[int]
    TIME_SCALE_FIELD_NUMBER: _ClassVar[int]
    ROUND_S_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LAST_DECISION_S_FIELD_NUMBER: _ClassVar[int]
    LATE_SOLVES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ADMIN_FIELD_NUMBER: _ClassVar[int]
    FAILED_DECISIONS_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILED_DECISION_S_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILED_DECISION_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    version: str
    now_s: float
    time_scale: float
    round_s: float
    policy: str
    mechanism: str
    rounds: int
    queued: int
    running: int
    finished: int
    events: int
    last_decision_s: float
    late_solves: int
    tenant: str
    admin: bool
    failed_decisions: int
    last_failed_decision_s: float
    last_failed_decision: str
    failed: int
    cancelled: int
    archived: int
    def __init__(self, version: _Optional[str] = ..., now_s: _Optional[float] = ..., time_scale: _Optional[float] = ..., round_s: _Optional[float] = ..., policy: _Optional[str] = ..., mechanism: _Optional[str] = ..., rounds: _Optional[int] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., finished: _Optional[int] = ..., events: _Optional[int] = ..., last_decision_s: _Optional[float] = ..., late_solves: _Optional[int] = ..., tenant: _Optional[str] = ..., admin: bool = ..., failed_decisions: _Optional[int] = ..., last_failed_decision_s: _Optional[float] = ..., last_failed_decision: _Optional[str] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., archived: _Optional[int] = ...) -> None: ...
