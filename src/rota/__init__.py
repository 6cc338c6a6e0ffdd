"""Rota: a scheduler for multi-tenant GPU clusters."""

from rota._version import __version__

__all__ = ["__version__"]
