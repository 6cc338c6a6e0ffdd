"""Short time slices for the threads of a job, so that they run as soon as they wake.

Since Linux 6.12 a thread may ask for a slice of its own (sched_setattr), and one with a shorter slice
than the running thread takes its place at once when it wakes. The weight of its group alone lets it
wait for the end of the other's slice, some milliseconds, at every wake-up. Older kernels take no
notice.
"""

from __future__ import annotations

import ctypes
import platform
import struct

SLICE_NS = 100_000
_NUMBERS = {"x86_64": 314, "aarch64": 274}
_ATTRIBUTES = struct.Struct("<IIQiIQQQ")
"""struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period."""
_libc = ctypes.CDLL(None, use_errno=True)


def shorten(thread: int) -> bool:
    """Give a thread of ordinary priority a short slice; what it starts later has one too."""
    number = _NUMBERS.get(platform.machine())
    if number is None:
        return False
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, 0, 0, 0, 0, SLICE_NS, 0, 0)
    return bool(_libc.syscall(number, thread, attributes, 0) == 0)
