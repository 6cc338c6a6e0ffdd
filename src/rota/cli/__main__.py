"""`python -m rota.cli`, where the `rota` script is not on the path."""

from __future__ import annotations

import sys

from rota.cli.main import main

sys.exit(main())
