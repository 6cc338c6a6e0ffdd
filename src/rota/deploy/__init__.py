"""The loop on real processes: scheduler service, durable journal, agents, launchers. Needs the extra `deploy`."""
