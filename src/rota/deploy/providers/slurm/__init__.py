"""Agents as batch jobs of Slurm, one for each server: pilots."""
