"""`rota up`: a whole cluster on this machine, in one folder."""
