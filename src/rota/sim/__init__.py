"""Simulation: a virtual clock and an executor that computes progress instead of making it."""
