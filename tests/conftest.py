"""Settings for the whole suite. Its place also makes `import builders` work from every folder of tests."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "rota", derandomize=True, deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rota")

# A fork (preexec_fn, user= of subprocess, os.fork) waits in gRPC's handlers for calls of other threads, and channels
# that are opened meanwhile wait for the fork: 63 s were seen. Tests do both in one process; what they fork has no gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
