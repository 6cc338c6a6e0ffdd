"""Trace formats, one per file."""
