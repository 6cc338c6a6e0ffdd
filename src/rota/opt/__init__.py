"""Linear programs over time shares: the only package that imports a solver."""
