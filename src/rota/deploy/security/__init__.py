"""Who may talk to a deployed scheduler: certificates, tokens, the guard in front of every call.

Needs grpcio and cryptography, the extra `deploy`. Importing a module of this package without them
is a ConfigError.
"""

from __future__ import annotations

from importlib.util import find_spec

from rota.core.errors import ConfigError

_missing = [name for name in ("grpc", "cryptography") if find_spec(name) is None]
if _missing:
    raise ConfigError(
        f"a deployed scheduler needs {' and '.join(_missing)}, which is not installed: pip install "
        "'.[deploy]' in a checkout of Rota"
    )
