"""The agent of a server: runs what the scheduler's list says, and reports what runs. No numpy: agents stay small."""
