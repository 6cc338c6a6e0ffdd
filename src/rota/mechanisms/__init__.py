"""From shares to slots: `select` says which options run and on which type, `divide` says where."""
