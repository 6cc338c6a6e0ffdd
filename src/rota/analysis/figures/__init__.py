"""Figures for papers, one file per family.

Each takes numbers and returns a matplotlib figure; none reads a file.
"""
