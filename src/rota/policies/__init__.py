"""Policies: who deserves what. One policy (with its variants) per module; `registry` finds them by name."""
