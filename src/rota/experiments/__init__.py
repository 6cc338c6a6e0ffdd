"""Many runs: what to vary, a store of results, and processes that do the work."""
