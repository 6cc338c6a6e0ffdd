"""What an operator sees of a running scheduler without asking it: metrics, and events as lines of the log."""
