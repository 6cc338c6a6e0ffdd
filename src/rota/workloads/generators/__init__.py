"""Generated workloads, one family per file."""
