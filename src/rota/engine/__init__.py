"""The one loop: state, accounts, the trigger of re-solving, the event log and its replay."""
