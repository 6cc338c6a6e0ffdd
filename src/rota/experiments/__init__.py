"""Many runs: what to vary, a store of results that is never computed twice, and processes that do the work."""
