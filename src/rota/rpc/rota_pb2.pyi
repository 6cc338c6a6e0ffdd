from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VoteRequest(_message.Message):
    __slots__ = ("node", "silent_s", "term")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SILENT_S_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    node: str
    silent_s: float
    term: int
    def __init__(self, node: _Optional[str] = ..., silent_s: _Optional[float] = ..., term: _Optional[int] = ...) -> None: ...

class VoteReply(_message.Message):
    __slots__ = ("active", "term", "asks_for", "silent_s")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    ASKS_FOR_FIELD_NUMBER: _ClassVar[int]
    SILENT_S_FIELD_NUMBER: _ClassVar[int]
    active: bool
    term: int
    asks_for: int
    silent_s: float
    def __init__(self, active: bool = ..., term: _Optional[int] = ..., asks_for: _Optional[int] = ..., silent_s: _Optional[float] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("node", "request", "valid_s")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    VALID_S_FIELD_NUMBER: _ClassVar[int]
    node: str
    request: bytes
    valid_s: float
    def __init__(self, node: _Optional[str] = ..., request: _Optional[bytes] = ..., valid_s: _Optional[float] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    def __init__(self, certificate: _Optional[bytes] = ...) -> None: ...

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
    __slots__ = ("term", "node", "type", "devices", "cpus", "memory_gb", "storage_mbps", "network_gbps", "rack", "emulated", "version", "limits", "host", "identity", "instance", "replaces", "place", "labels")
    TERM_FIELD_NUMBER: _ClassVar[int]
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
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    term: int
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
    instance: str
    replaces: _containers.RepeatedScalarFieldContainer[str]
    place: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, term: _Optional[int] = ..., node: _Optional[str] = ..., type: _Optional[str] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., storage_mbps: _Optional[float] = ..., network_gbps: _Optional[float] = ..., rack: _Optional[str] = ..., emulated: bool = ..., version: _Optional[str] = ..., limits: _Optional[str] = ..., host: _Optional[str] = ..., identity: _Optional[str] = ..., instance: _Optional[str] = ..., replaces: _Optional[_Iterable[str]] = ..., place: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("term", "session", "heartbeat_s", "dead_after_s", "checkpoints", "time_scale", "job_log_bytes", "log_segment_bytes")
    TERM_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    DEAD_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    TIME_SCALE_FIELD_NUMBER: _ClassVar[int]
    JOB_LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    term: int
    session: str
    heartbeat_s: float
    dead_after_s: float
    checkpoints: str
    time_scale: float
    job_log_bytes: int
    log_segment_bytes: int
    def __init__(self, term: _Optional[int] = ..., session: _Optional[str] = ..., heartbeat_s: _Optional[float] = ..., dead_after_s: _Optional[float] = ..., checkpoints: _Optional[str] = ..., time_scale: _Optional[float] = ..., job_log_bytes: _Optional[int] = ..., log_segment_bytes: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("node", "session")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class Desired(_message.Message):
    __slots__ = ("term", "version", "tasks", "logs", "heard", "heard_ago_s")
    TERM_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    HEARD_AGO_S_FIELD_NUMBER: _ClassVar[int]
    term: int
    version: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskOrder]
    logs: _containers.RepeatedCompositeFieldContainer[LogRequest]
    heard: int
    heard_ago_s: float
    def __init__(self, term: _Optional[int] = ..., version: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskOrder, _Mapping]]] = ..., logs: _Optional[_Iterable[_Union[LogRequest, _Mapping]]] = ..., heard: _Optional[int] = ..., heard_ago_s: _Optional[float] = ...) -> None: ...

class TaskOrder(_message.Message):
    __slots__ = ("job", "epoch", "state", "lease_s", "devices", "cpus", "memory_gb", "first_rank", "ranks", "world_size", "master_addr", "master_port", "resume", "resume_step", "spec", "rate", "messages", "grace_s", "array", "time_left_s", "job_over")
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
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_S_FIELD_NUMBER: _ClassVar[int]
    JOB_OVER_FIELD_NUMBER: _ClassVar[int]
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
    grace_s: float
    array: int
    time_left_s: float
    job_over: bool
    def __init__(self, job: _Optional[int] = ..., epoch: _Optional[int] = ..., state: _Optional[str] = ..., lease_s: _Optional[float] = ..., devices: _Optional[_Iterable[str]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., first_rank: _Optional[int] = ..., ranks: _Optional[int] = ..., world_size: _Optional[int] = ..., master_addr: _Optional[str] = ..., master_port: _Optional[int] = ..., resume: _Optional[str] = ..., resume_step: _Optional[int] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., rate: _Optional[float] = ..., messages: _Optional[_Iterable[_Union[GangMessage, _Mapping]]] = ..., grace_s: _Optional[float] = ..., array: _Optional[int] = ..., time_left_s: _Optional[float] = ..., job_over: bool = ...) -> None: ...

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
    __slots__ = ("name", "tenant", "profile", "gpus", "steps", "weight", "deadline_s", "argv", "env", "cwd", "image", "emulated", "max_restarts", "checkpoint_every_s", "hung_after_s", "model", "batch", "cpus", "memory_gb", "ranks", "mps", "preemptible", "least_turn_s", "save_grace_s", "array", "after", "after_any", "hold", "time_limit_s", "types", "exclude_types", "labels", "priority")
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
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    LEAST_TURN_S_FIELD_NUMBER: _ClassVar[int]
    SAVE_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_ANY_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_TYPES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
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
    preemptible: str
    least_turn_s: float
    save_grace_s: float
    array: str
    after: _containers.RepeatedScalarFieldContainer[int]
    after_any: _containers.RepeatedScalarFieldContainer[int]
    hold: bool
    time_limit_s: float
    types: _containers.RepeatedScalarFieldContainer[str]
    exclude_types: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.RepeatedScalarFieldContainer[str]
    priority: int
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., profile: _Optional[str] = ..., gpus: _Optional[int] = ..., steps: _Optional[int] = ..., weight: _Optional[float] = ..., deadline_s: _Optional[float] = ..., argv: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., image: _Optional[str] = ..., emulated: bool = ..., max_restarts: _Optional[int] = ..., checkpoint_every_s: _Optional[float] = ..., hung_after_s: _Optional[float] = ..., model: _Optional[str] = ..., batch: _Optional[int] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., ranks: _Optional[str] = ..., mps: bool = ..., preemptible: _Optional[str] = ..., least_turn_s: _Optional[float] = ..., save_grace_s: _Optional[float] = ..., array: _Optional[str] = ..., after: _Optional[_Iterable[int]] = ..., after_any: _Optional[_Iterable[int]] = ..., hold: bool = ..., time_limit_s: _Optional[float] = ..., types: _Optional[_Iterable[str]] = ..., exclude_types: _Optional[_Iterable[str]] = ..., labels: _Optional[_Iterable[str]] = ..., priority: _Optional[int] = ...) -> None: ...

class Observed(_message.Message):
    __slots__ = ("term", "node", "session", "sequence", "seen", "tasks", "lateness_s", "trouble", "leaving")
    TERM_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_S_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    term: int
    node: str
    session: str
    sequence: int
    seen: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskState]
    lateness_s: float
    trouble: str
    leaving: str
    def __init__(self, term: _Optional[int] = ..., node: _Optional[str] = ..., session: _Optional[str] = ..., sequence: _Optional[int] = ..., seen: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskState, _Mapping]]] = ..., lateness_s: _Optional[float] = ..., trouble: _Optional[str] = ..., leaving: _Optional[str] = ...) -> None: ...

class TaskState(_message.Message):
    __slots__ = ("job", "epoch", "phase", "step", "saved_step", "saved_path", "outcome", "exit_code", "detail", "answers", "can_save", "saving", "save_progress", "save_s", "start_s", "compute_s", "prepare_s", "storage_s", "step_at_s", "cpu_used_s", "memory_used_gb")
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
    CAN_SAVE_FIELD_NUMBER: _ClassVar[int]
    SAVING_FIELD_NUMBER: _ClassVar[int]
    SAVE_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SAVE_S_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_S_FIELD_NUMBER: _ClassVar[int]
    PREPARE_S_FIELD_NUMBER: _ClassVar[int]
    STORAGE_S_FIELD_NUMBER: _ClassVar[int]
    STEP_AT_S_FIELD_NUMBER: _ClassVar[int]
    CPU_USED_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_GB_FIELD_NUMBER: _ClassVar[int]
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
    can_save: bool
    saving: bool
    save_progress: int
    save_s: float
    start_s: float
    compute_s: float
    prepare_s: float
    storage_s: float
    step_at_s: float
    cpu_used_s: float
    memory_used_gb: float
    def __init__(self, job: _Optional[int] = ..., epoch: _Optional[int] = ..., phase: _Optional[str] = ..., step: _Optional[int] = ..., saved_step: _Optional[int] = ..., saved_path: _Optional[str] = ..., outcome: _Optional[str] = ..., exit_code: _Optional[int] = ..., detail: _Optional[str] = ..., answers: _Optional[_Iterable[_Union[GangMessage, _Mapping]]] = ..., can_save: bool = ..., saving: bool = ..., save_progress: _Optional[int] = ..., save_s: _Optional[float] = ..., start_s: _Optional[float] = ..., compute_s: _Optional[float] = ..., prepare_s: _Optional[float] = ..., storage_s: _Optional[float] = ..., step_at_s: _Optional[float] = ..., cpu_used_s: _Optional[float] = ..., memory_used_gb: _Optional[float] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: bool
    def __init__(self, known: bool = ...) -> None: ...

class LogUpload(_message.Message):
    __slots__ = ("node", "pieces")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    node: str
    pieces: _containers.RepeatedCompositeFieldContainer[LogPiece]
    def __init__(self, node: _Optional[str] = ..., pieces: _Optional[_Iterable[_Union[LogPiece, _Mapping]]] = ...) -> None: ...

class LogPiece(_message.Message):
    __slots__ = ("job", "epoch", "rank", "segment", "before", "offset", "data", "end")
    JOB_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    job: int
    epoch: int
    rank: int
    segment: int
    before: int
    offset: int
    data: bytes
    end: bool
    def __init__(self, job: _Optional[int] = ..., epoch: _Optional[int] = ..., rank: _Optional[int] = ..., segment: _Optional[int] = ..., before: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., end: bool = ...) -> None: ...

class LogUploadReply(_message.Message):
    __slots__ = ("stored", "pause_s")
    STORED_FIELD_NUMBER: _ClassVar[int]
    PAUSE_S_FIELD_NUMBER: _ClassVar[int]
    stored: _containers.RepeatedCompositeFieldContainer[LogStored]
    pause_s: float
    def __init__(self, stored: _Optional[_Iterable[_Union[LogStored, _Mapping]]] = ..., pause_s: _Optional[float] = ...) -> None: ...

class LogStored(_message.Message):
    __slots__ = ("segment", "size", "end", "refused")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    segment: int
    size: int
    end: bool
    refused: str
    def __init__(self, segment: _Optional[int] = ..., size: _Optional[int] = ..., end: bool = ..., refused: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("id", "data", "end", "error", "attempt", "rank", "segment", "before", "offset", "caught_up", "begins", "ends", "outcome")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    id: int
    data: bytes
    end: bool
    error: str
    attempt: int
    rank: int
    segment: int
    before: int
    offset: int
    caught_up: bool
    begins: LogAttempt
    ends: LogAttempt
    outcome: LogOutcome
    def __init__(self, id: _Optional[int] = ..., data: _Optional[bytes] = ..., end: bool = ..., error: _Optional[str] = ..., attempt: _Optional[int] = ..., rank: _Optional[int] = ..., segment: _Optional[int] = ..., before: _Optional[int] = ..., offset: _Optional[int] = ..., caught_up: bool = ..., begins: _Optional[_Union[LogAttempt, _Mapping]] = ..., ends: _Optional[_Union[LogAttempt, _Mapping]] = ..., outcome: _Optional[_Union[LogOutcome, _Mapping]] = ...) -> None: ...

class LogAttempt(_message.Message):
    __slots__ = ("attempt", "places", "started_at", "ended_at", "outcome", "exit_code", "detail", "last", "stop_reason")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    places: _containers.RepeatedCompositeFieldContainer[LogPlace]
    started_at: float
    ended_at: float
    outcome: str
    exit_code: int
    detail: str
    last: int
    stop_reason: str
    def __init__(self, attempt: _Optional[int] = ..., places: _Optional[_Iterable[_Union[LogPlace, _Mapping]]] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., outcome: _Optional[str] = ..., exit_code: _Optional[int] = ..., detail: _Optional[str] = ..., last: _Optional[int] = ..., stop_reason: _Optional[str] = ...) -> None: ...

class LogPlace(_message.Message):
    __slots__ = ("node", "first_rank", "ranks")
    NODE_FIELD_NUMBER: _ClassVar[int]
    FIRST_RANK_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    node: str
    first_rank: int
    ranks: int
    def __init__(self, node: _Optional[str] = ..., first_rank: _Optional[int] = ..., ranks: _Optional[int] = ...) -> None: ...

class LogOutcome(_message.Message):
    __slots__ = ("phase", "reason", "exit_code")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    phase: str
    reason: str
    exit_code: int
    def __init__(self, phase: _Optional[str] = ..., reason: _Optional[str] = ..., exit_code: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("json", "event", "cpu_s")
    JSON_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    json: str
    event: int
    cpu_s: float
    def __init__(self, json: _Optional[str] = ..., event: _Optional[int] = ..., cpu_s: _Optional[float] = ...) -> None: ...

class EtaRequest(_message.Message):
    __slots__ = ("jobs", "futures", "accuracy", "starts_only", "cpu_s")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    FUTURES_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    STARTS_ONLY_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[int]
    futures: int
    accuracy: bool
    starts_only: bool
    cpu_s: float
    def __init__(self, jobs: _Optional[_Iterable[int]] = ..., futures: _Optional[int] = ..., accuracy: bool = ..., starts_only: bool = ..., cpu_s: _Optional[float] = ...) -> None: ...

class WhatIfRequest(_message.Message):
    __slots__ = ("job", "gpus", "weight", "add_servers", "drain", "undrain", "policy", "mechanism", "submit", "cancel", "release", "cpus", "memory_gb", "priority", "tenant_settings")
    JOB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ADD_SERVERS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    UNDRAIN_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TENANT_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    job: int
    gpus: int
    weight: float
    add_servers: _containers.RepeatedCompositeFieldContainer[AddedServer]
    drain: str
    undrain: str
    policy: str
    mechanism: str
    submit: _containers.RepeatedCompositeFieldContainer[JobSpec]
    cancel: _containers.RepeatedScalarFieldContainer[int]
    release: _containers.RepeatedScalarFieldContainer[int]
    cpus: float
    memory_gb: float
    priority: int
    tenant_settings: _containers.RepeatedCompositeFieldContainer[TenantSetting]
    def __init__(self, job: _Optional[int] = ..., gpus: _Optional[int] = ..., weight: _Optional[float] = ..., add_servers: _Optional[_Iterable[_Union[AddedServer, _Mapping]]] = ..., drain: _Optional[str] = ..., undrain: _Optional[str] = ..., policy: _Optional[str] = ..., mechanism: _Optional[str] = ..., submit: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ..., cancel: _Optional[_Iterable[int]] = ..., release: _Optional[_Iterable[int]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., priority: _Optional[int] = ..., tenant_settings: _Optional[_Iterable[_Union[TenantSetting, _Mapping]]] = ...) -> None: ...

class TenantSetting(_message.Message):
    __slots__ = ("tenant", "name", "number")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    number: int
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class AddedServer(_message.Message):
    __slots__ = ("type", "gpus")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    type: str
    gpus: int
    def __init__(self, type: _Optional[str] = ..., gpus: _Optional[int] = ...) -> None: ...

class LedgerRequest(_message.Message):
    __slots__ = ("last_s",)
    LAST_S_FIELD_NUMBER: _ClassVar[int]
    last_s: float
    def __init__(self, last_s: _Optional[float] = ...) -> None: ...

class UsageRequest(_message.Message):
    __slots__ = ("last_s", "points")
    LAST_S_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    last_s: float
    points: int
    def __init__(self, last_s: _Optional[float] = ..., points: _Optional[int] = ...) -> None: ...

class OccupancyRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: int
    def __init__(self, after: _Optional[int] = ...) -> None: ...

class ReplicaBaseRequest(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    def __init__(self, address: _Optional[str] = ...) -> None: ...

class FileChunk(_message.Message):
    __slots__ = ("file", "data")
    FILE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    file: str
    data: bytes
    def __init__(self, file: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReplicaRequest(_message.Message):
    __slots__ = ("after", "crc", "journal", "snapshot", "address", "seen", "term")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    after: int
    crc: int
    journal: str
    snapshot: int
    address: str
    seen: int
    term: int
    def __init__(self, after: _Optional[int] = ..., crc: _Optional[int] = ..., journal: _Optional[str] = ..., snapshot: _Optional[int] = ..., address: _Optional[str] = ..., seen: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...

class ReplicaBatch(_message.Message):
    __slots__ = ("number", "base_needed", "events", "archived", "snapshot", "removed", "rounds_removed", "oldest_end", "secrets", "nodes", "last", "term", "lease_s")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BASE_NEEDED_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_END_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    number: int
    base_needed: bool
    events: _containers.RepeatedCompositeFieldContainer[JournalRow]
    archived: _containers.RepeatedCompositeFieldContainer[ArchivedRow]
    snapshot: SnapshotRow
    removed: int
    rounds_removed: int
    oldest_end: float
    secrets: _containers.RepeatedCompositeFieldContainer[SealedSecret]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    last: int
    term: int
    lease_s: float
    def __init__(self, number: _Optional[int] = ..., base_needed: bool = ..., events: _Optional[_Iterable[_Union[JournalRow, _Mapping]]] = ..., archived: _Optional[_Iterable[_Union[ArchivedRow, _Mapping]]] = ..., snapshot: _Optional[_Union[SnapshotRow, _Mapping]] = ..., removed: _Optional[int] = ..., rounds_removed: _Optional[int] = ..., oldest_end: _Optional[float] = ..., secrets: _Optional[_Iterable[_Union[SealedSecret, _Mapping]]] = ..., nodes: _Optional[_Iterable[str]] = ..., last: _Optional[int] = ..., term: _Optional[int] = ..., lease_s: _Optional[float] = ...) -> None: ...

class ReplicaFilesRequest(_message.Message):
    __slots__ = ("list", "after", "wanted", "files")
    LIST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    list: str
    after: int
    wanted: _containers.RepeatedCompositeFieldContainer[ReplicaLogPlace]
    files: _containers.RepeatedCompositeFieldContainer[SideFile]
    def __init__(self, list: _Optional[str] = ..., after: _Optional[int] = ..., wanted: _Optional[_Iterable[_Union[ReplicaLogPlace, _Mapping]]] = ..., files: _Optional[_Iterable[_Union[SideFile, _Mapping]]] = ...) -> None: ...

class ReplicaLogPlace(_message.Message):
    __slots__ = ("job", "epoch", "rank", "segment", "offset", "end", "tenant")
    JOB_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    job: int
    epoch: int
    rank: int
    segment: int
    offset: int
    end: bool
    tenant: str
    def __init__(self, job: _Optional[int] = ..., epoch: _Optional[int] = ..., rank: _Optional[int] = ..., segment: _Optional[int] = ..., offset: _Optional[int] = ..., end: bool = ..., tenant: _Optional[str] = ...) -> None: ...

class SideFile(_message.Message):
    __slots__ = ("name", "sha256", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    sha256: bytes
    data: bytes
    def __init__(self, name: _Optional[str] = ..., sha256: _Optional[bytes] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReplicaFilesReply(_message.Message):
    __slots__ = ("list", "after", "more", "places", "pieces", "files", "pause_s")
    LIST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    PAUSE_S_FIELD_NUMBER: _ClassVar[int]
    list: str
    after: int
    more: bool
    places: _containers.RepeatedCompositeFieldContainer[ReplicaLogPlace]
    pieces: _containers.RepeatedCompositeFieldContainer[LogPiece]
    files: _containers.RepeatedCompositeFieldContainer[SideFile]
    pause_s: float
    def __init__(self, list: _Optional[str] = ..., after: _Optional[int] = ..., more: bool = ..., places: _Optional[_Iterable[_Union[ReplicaLogPlace, _Mapping]]] = ..., pieces: _Optional[_Iterable[_Union[LogPiece, _Mapping]]] = ..., files: _Optional[_Iterable[_Union[SideFile, _Mapping]]] = ..., pause_s: _Optional[float] = ...) -> None: ...

class JournalRow(_message.Message):
    __slots__ = ("seq", "at", "kind", "body", "crc")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: float
    kind: str
    body: str
    crc: int
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[float] = ..., kind: _Optional[str] = ..., body: _Optional[str] = ..., crc: _Optional[int] = ...) -> None: ...

class ArchivedRow(_message.Message):
    __slots__ = ("job", "tenant", "phase", "request", "body", "crc", "ended")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    job: int
    tenant: str
    phase: str
    request: str
    body: str
    crc: int
    ended: float
    def __init__(self, job: _Optional[int] = ..., tenant: _Optional[str] = ..., phase: _Optional[str] = ..., request: _Optional[str] = ..., body: _Optional[str] = ..., crc: _Optional[int] = ..., ended: _Optional[float] = ...) -> None: ...

class SnapshotRow(_message.Message):
    __slots__ = ("seq", "format", "checksum", "body")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    seq: int
    format: int
    checksum: str
    body: bytes
    def __init__(self, seq: _Optional[int] = ..., format: _Optional[int] = ..., checksum: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class SealedSecret(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class SettingsRequest(_message.Message):
    __slots__ = ("policy", "policy_settings", "mechanism", "mechanism_settings", "rules", "rule_settings", "round_s", "fair_by", "tenants", "reload_tenants", "discard", "version")
    class PolicySettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MechanismSettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RuleSettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    RULE_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    ROUND_S_FIELD_NUMBER: _ClassVar[int]
    FAIR_BY_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    RELOAD_TENANTS_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    policy: str
    policy_settings: _containers.ScalarMap[str, str]
    mechanism: str
    mechanism_settings: _containers.ScalarMap[str, str]
    rules: str
    rule_settings: _containers.ScalarMap[str, str]
    round_s: float
    fair_by: str
    tenants: str
    reload_tenants: bool
    discard: bool
    version: int
    def __init__(self, policy: _Optional[str] = ..., policy_settings: _Optional[_Mapping[str, str]] = ..., mechanism: _Optional[str] = ..., mechanism_settings: _Optional[_Mapping[str, str]] = ..., rules: _Optional[str] = ..., rule_settings: _Optional[_Mapping[str, str]] = ..., round_s: _Optional[float] = ..., fair_by: _Optional[str] = ..., tenants: _Optional[str] = ..., reload_tenants: bool = ..., discard: bool = ..., version: _Optional[int] = ...) -> None: ...

class SettingsReply(_message.Message):
    __slots__ = ("json", "version")
    JSON_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    json: str
    version: int
    def __init__(self, json: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("jobs", "request", "dry_run")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobSpec]
    request: str
    dry_run: bool
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ..., request: _Optional[str] = ..., dry_run: bool = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("jobs", "remarks")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REMARKS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[int]
    remarks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[int]] = ..., remarks: _Optional[_Iterable[str]] = ...) -> None: ...

class LearnedSpeedsRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class LearnedSpeedsReply(_message.Message):
    __slots__ = ("speeds", "truncated")
    SPEEDS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    speeds: _containers.RepeatedCompositeFieldContainer[LearnedSpeed]
    truncated: bool
    def __init__(self, speeds: _Optional[_Iterable[_Union[LearnedSpeed, _Mapping]]] = ..., truncated: bool = ...) -> None: ...

class LearnedSpeed(_message.Message):
    __slots__ = ("tenant", "profile", "gpus", "type", "cpus", "memory_gb", "servers", "rate", "error", "blocks", "share", "believed", "expected")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    BELIEVED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    profile: str
    gpus: int
    type: str
    cpus: float
    memory_gb: float
    servers: int
    rate: float
    error: float
    blocks: int
    share: float
    believed: bool
    expected: float
    def __init__(self, tenant: _Optional[str] = ..., profile: _Optional[str] = ..., gpus: _Optional[int] = ..., type: _Optional[str] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., servers: _Optional[int] = ..., rate: _Optional[float] = ..., error: _Optional[float] = ..., blocks: _Optional[int] = ..., share: _Optional[float] = ..., believed: bool = ..., expected: _Optional[float] = ...) -> None: ...

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
    __slots__ = ("job", "spec", "phase", "reason", "submitted_at", "started_at", "ended_at", "step", "saved_step", "restarts", "preemptions", "epoch", "parts", "exit_code", "submitted_s", "ended_s", "reason_code", "can_save", "can_save_why", "thrown_back", "thrown_back_to_zero", "lost_steps", "lost_s", "longest_save_s", "restart_cost_s", "warning", "last_cut", "compute_s", "prepare_s", "storage_s", "array", "array_index", "ran_s", "held_by", "speed_remark", "attempts", "cpu_used_s", "memory_used_gb")
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
    REASON_CODE_FIELD_NUMBER: _ClassVar[int]
    CAN_SAVE_FIELD_NUMBER: _ClassVar[int]
    CAN_SAVE_WHY_FIELD_NUMBER: _ClassVar[int]
    THROWN_BACK_FIELD_NUMBER: _ClassVar[int]
    THROWN_BACK_TO_ZERO_FIELD_NUMBER: _ClassVar[int]
    LOST_STEPS_FIELD_NUMBER: _ClassVar[int]
    LOST_S_FIELD_NUMBER: _ClassVar[int]
    LONGEST_SAVE_S_FIELD_NUMBER: _ClassVar[int]
    RESTART_COST_S_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    LAST_CUT_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_S_FIELD_NUMBER: _ClassVar[int]
    PREPARE_S_FIELD_NUMBER: _ClassVar[int]
    STORAGE_S_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    RAN_S_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    SPEED_REMARK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CPU_USED_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_GB_FIELD_NUMBER: _ClassVar[int]
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
    reason_code: str
    can_save: bool
    can_save_why: str
    thrown_back: int
    thrown_back_to_zero: int
    lost_steps: int
    lost_s: float
    longest_save_s: float
    restart_cost_s: float
    warning: str
    last_cut: str
    compute_s: float
    prepare_s: float
    storage_s: float
    array: int
    array_index: int
    ran_s: float
    held_by: str
    speed_remark: str
    attempts: _containers.RepeatedCompositeFieldContainer[LogAttempt]
    cpu_used_s: float
    memory_used_gb: float
    def __init__(self, job: _Optional[int] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., phase: _Optional[str] = ..., reason: _Optional[str] = ..., submitted_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., step: _Optional[int] = ..., saved_step: _Optional[int] = ..., restarts: _Optional[int] = ..., preemptions: _Optional[int] = ..., epoch: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., exit_code: _Optional[int] = ..., submitted_s: _Optional[float] = ..., ended_s: _Optional[float] = ..., reason_code: _Optional[str] = ..., can_save: bool = ..., can_save_why: _Optional[str] = ..., thrown_back: _Optional[int] = ..., thrown_back_to_zero: _Optional[int] = ..., lost_steps: _Optional[int] = ..., lost_s: _Optional[float] = ..., longest_save_s: _Optional[float] = ..., restart_cost_s: _Optional[float] = ..., warning: _Optional[str] = ..., last_cut: _Optional[str] = ..., compute_s: _Optional[float] = ..., prepare_s: _Optional[float] = ..., storage_s: _Optional[float] = ..., array: _Optional[int] = ..., array_index: _Optional[int] = ..., ran_s: _Optional[float] = ..., held_by: _Optional[str] = ..., speed_remark: _Optional[str] = ..., attempts: _Optional[_Iterable[_Union[LogAttempt, _Mapping]]] = ..., cpu_used_s: _Optional[float] = ..., memory_used_gb: _Optional[float] = ...) -> None: ...

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
    __slots__ = ("jobs", "arrays")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[int]
    arrays: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, jobs: _Optional[_Iterable[int]] = ..., arrays: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("cancelled", "over")
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    over: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cancelled: _Optional[_Iterable[int]] = ..., over: _Optional[_Iterable[int]] = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ("jobs", "arrays", "undo", "force")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[int]
    arrays: _containers.RepeatedScalarFieldContainer[int]
    undo: bool
    force: bool
    def __init__(self, jobs: _Optional[_Iterable[int]] = ..., arrays: _Optional[_Iterable[int]] = ..., undo: bool = ..., force: bool = ...) -> None: ...

class HoldReply(_message.Message):
    __slots__ = ("changed", "unchanged", "over")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    changed: _containers.RepeatedScalarFieldContainer[int]
    unchanged: _containers.RepeatedScalarFieldContainer[int]
    over: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, changed: _Optional[_Iterable[int]] = ..., unchanged: _Optional[_Iterable[int]] = ..., over: _Optional[_Iterable[int]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("node", "undo")
    NODE_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    node: str
    undo: bool
    def __init__(self, node: _Optional[str] = ..., undo: bool = ...) -> None: ...

class RemoveNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class NodeInfo(_message.Message):
    __slots__ = ("node", "type", "gpus", "busy", "cpus", "memory_gb", "storage_mbps", "state", "last_seen_s", "jobs", "emulated", "limits", "lateness_s", "host", "remark", "labels")
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
    HOST_FIELD_NUMBER: _ClassVar[int]
    REMARK_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
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
    host: str
    remark: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., type: _Optional[str] = ..., gpus: _Optional[int] = ..., busy: _Optional[int] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., storage_mbps: _Optional[float] = ..., state: _Optional[str] = ..., last_seen_s: _Optional[float] = ..., jobs: _Optional[_Iterable[int]] = ..., emulated: bool = ..., limits: _Optional[str] = ..., lateness_s: _Optional[float] = ..., host: _Optional[str] = ..., remark: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeList(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeInfo]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeInfo, _Mapping]]] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("after", "follow", "job")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    after: int
    follow: bool
    job: int
    def __init__(self, after: _Optional[int] = ..., follow: bool = ..., job: _Optional[int] = ...) -> None: ...

class EventLine(_message.Message):
    __slots__ = ("sequence", "json")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    json: str
    def __init__(self, sequence: _Optional[int] = ..., json: _Optional[str] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("job", "rank", "follow", "tail", "attempt", "all_ranks", "since", "framed", "after")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ALL_RANKS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    FRAMED_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    job: int
    rank: int
    follow: bool
    tail: int
    attempt: int
    all_ranks: bool
    since: float
    framed: bool
    after: _containers.RepeatedCompositeFieldContainer[LogPosition]
    def __init__(self, job: _Optional[int] = ..., rank: _Optional[int] = ..., follow: bool = ..., tail: _Optional[int] = ..., attempt: _Optional[int] = ..., all_ranks: bool = ..., since: _Optional[float] = ..., framed: bool = ..., after: _Optional[_Iterable[_Union[LogPosition, _Mapping]]] = ...) -> None: ...

class LogPosition(_message.Message):
    __slots__ = ("attempt", "rank", "segment", "offset")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    rank: int
    segment: int
    offset: int
    def __init__(self, attempt: _Optional[int] = ..., rank: _Optional[int] = ..., segment: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("term", "standby", "standby_in_step", "standby_behind", "standby_silent_s", "version", "now_s", "time_scale", "round_s", "policy", "mechanism", "rounds", "queued", "running", "finished", "events", "last_decision_s", "late_solves", "tenant", "admin", "failed_decisions", "last_failed_decision_s", "last_failed_decision", "failed", "cancelled", "archived", "events_removed", "rounds_removed", "clock_sets", "last_clock_set_s", "last_clock_set_by_s", "decisions", "speed_remarks")
    TERM_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    STANDBY_IN_STEP_FIELD_NUMBER: _ClassVar[int]
    STANDBY_BEHIND_FIELD_NUMBER: _ClassVar[int]
    STANDBY_SILENT_S_FIELD_NUMBER: _ClassVar[int]
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
    EVENTS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SETS_FIELD_NUMBER: _ClassVar[int]
    LAST_CLOCK_SET_S_FIELD_NUMBER: _ClassVar[int]
    LAST_CLOCK_SET_BY_S_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    SPEED_REMARKS_FIELD_NUMBER: _ClassVar[int]
    term: int
    standby: str
    standby_in_step: bool
    standby_behind: int
    standby_silent_s: float
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
    events_removed: int
    rounds_removed: int
    clock_sets: int
    last_clock_set_s: float
    last_clock_set_by_s: float
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    speed_remarks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, term: _Optional[int] = ..., standby: _Optional[str] = ..., standby_in_step: bool = ..., standby_behind: _Optional[int] = ..., standby_silent_s: _Optional[float] = ..., version: _Optional[str] = ..., now_s: _Optional[float] = ..., time_scale: _Optional[float] = ..., round_s: _Optional[float] = ..., policy: _Optional[str] = ..., mechanism: _Optional[str] = ..., rounds: _Optional[int] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., finished: _Optional[int] = ..., events: _Optional[int] = ..., last_decision_s: _Optional[float] = ..., late_solves: _Optional[int] = ..., tenant: _Optional[str] = ..., admin: bool = ..., failed_decisions: _Optional[int] = ..., last_failed_decision_s: _Optional[float] = ..., last_failed_decision: _Optional[str] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., archived: _Optional[int] = ..., events_removed: _Optional[int] = ..., rounds_removed: _Optional[int] = ..., clock_sets: _Optional[int] = ..., last_clock_set_s: _Optional[float] = ..., last_clock_set_by_s: _Optional[float] = ..., decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., speed_remarks: _Optional[_Iterable[str]] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("at_s", "decided_s", "solve_s")
    AT_S_FIELD_NUMBER: _ClassVar[int]
    DECIDED_S_FIELD_NUMBER: _ClassVar[int]
    SOLVE_S_FIELD_NUMBER: _ClassVar[int]
    at_s: float
    decided_s: float
    solve_s: float
    def __init__(self, at_s: _Optional[float] = ..., decided_s: _Optional[float] = ..., solve_s: _Optional[float] = ...) -> None: ...
