"""The selecting half: which options run in the coming round, and on which type."""
