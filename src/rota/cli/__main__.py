"""The process `rota`; also `python -m rota.cli`, where the script is not on the path.

Ctrl-C ends it quietly at every moment: by the signal itself while nothing but imports has happened, as `main` says from
then on, and not at all once everything is done and Python comes to its end.
"""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

_hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""Not where Ctrl-C is to be ignored: in the background of a script."""
if _hears:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from rota.cli.main import INTERRUPTED, main  # noqa: E402 - from here on Ctrl-C finds somebody


def run() -> NoReturn:
    """Run the command line as a process."""
    code = INTERRUPTED
    try:
        if _hears:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main()
    except KeyboardInterrupt:  # on the way in or out
        pass
    finally:
        if _hears:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    run()
