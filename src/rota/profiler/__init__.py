"""Offline profiler: from a training command to a profile file that `--profiles` takes (docs/profiler.md)."""
