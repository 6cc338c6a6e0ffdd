"""Places where agents run: processes of this machine, batch jobs of Slurm. `port` says what a place can do."""
