"""Messages between scheduler, agents and users: the proto, its committed stubs (made by scripts/stubs.sh)."""
