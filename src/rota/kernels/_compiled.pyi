from array import array

from rota.core.arrays import IntArray
from rota.kernels.plain import append as append
from rota.kernels.plain import arrange as arrange
from rota.kernels.plain import book as book
from rota.kernels.plain import by_gpus as by_gpus
from rota.kernels.plain import charge as charge
from rota.kernels.plain import choose_ones as choose_ones
from rota.kernels.plain import is_permutation as is_permutation
from rota.kernels.plain import look_up as look_up
from rota.kernels.plain import seat as seat
from rota.kernels.plain import slowest_full as slowest_full
from rota.kernels.plain import slowest_many as slowest_many
from rota.kernels.plain import slowest_one as slowest_one
from rota.kernels.plain import stay as stay
from rota.kernels.plain import whole as whole
from rota.kernels.plain import without as without
from rota.kernels.plain_types import by_chance as by_chance
from rota.kernels.plain_types import by_speed as by_speed
from rota.kernels.queues import queue_up as queue_up

SIGNATURES: dict[str, tuple[tuple[str, str, str | None, str, int], ...]]
"""Of every kernel, its arguments: name, kind, shape, in which dimension numbers are positions, the smallest of them."""
SOURCES: int
"""See `sources`; built before there was such a number, a module does not have it."""

def walk(
    gpus: array[int],
    cpus: array[float],
    memory: array[float],
    hold_cpus: array[float],
    hold_memory: array[float],
    sizes: IntArray,
    wishes: IntArray,
    cut: IntArray,
    task_of: IntArray,
    config_of: IntArray,
    start_of: IntArray,
    server_of: IntArray,
    part_of: IntArray,
    stay_start: IntArray,
    stay_server: IntArray,
    stay_part: IntArray,
    at: int,
    rows: int,
    free: int,
    fair_cpus: float,
    fair_memory: float,
    squeezes: bool,
) -> tuple[int, int]: ...
