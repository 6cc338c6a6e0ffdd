"""Why a scheduler cannot be reached.

Tried again step by step, because gRPC only says that it is unavailable.
"""

from __future__ import annotations

import socket
import ssl

from rota.deploy.security.addresses import is_unix, split
from rota.deploy.security.bundles import Bundle
from rota.deploy.security.transport import client_context

_PATIENCE_S = 3.0


def diagnose(address: str, bundle: Bundle | None) -> str:
    """One sentence: what fails between here and the scheduler, and what to check."""
    if is_unix(address):
        return f"nothing answers at {address}; is the scheduler running on this machine?"
    host, port = split(address)
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE_S) as plain:
            finding = _without_tls() if bundle is None else _with_tls(plain, host, bundle)
            return f"{host} port {port} is open, {finding}"
    except socket.gaierror:
        return f"the host name {host!r} is not known; check the address"
    except ConnectionRefusedError:
        return (
            f"nothing listens on {host} port {port}; "
            "is the scheduler running, and is this its port?"
        )
    except TimeoutError:
        return f"{host} port {port} does not answer; check the address, firewalls and the network"
    except OSError as error:
        why = error.strerror or error
        return f"{host} port {port} cannot be reached: {why}; check the address and the network"


def _without_tls() -> str:
    return (
        "but does not speak plain gRPC; "
        "a scheduler with certificates needs a client with certificates"
    )


def _remedy(problem: str) -> str:
    """What the TLS library says about the scheduler's certificate, and what to do."""
    problem = problem.rstrip(".")
    if "expired" in problem or "not yet valid" in problem:
        return f"{problem}; check the clocks of both machines, and renew it with `rota certs renew`"
    if "mismatch" in problem or "not valid for" in problem:
        return f"{problem}; use its host name, or make it for this one (`rota certs init --host`)"
    return f"{problem}; use its host name, and the ca.pem it was made with"


def _with_tls(plain: socket.socket, host: str, bundle: Bundle) -> str:
    context = client_context(bundle)
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(plain, server_hostname=host) as secure:
            # In TLS 1.3 the server judges our certificate after the handshake is over for us.
            secure.settimeout(_PATIENCE_S)
            if secure.recv(1):
                return (
                    "and accepts this certificate; the scheduler may just have started, try again"
                )
    except ssl.SSLCertVerificationError as error:
        return f"but its certificate is not accepted here: {_remedy(error.verify_message)}"
    except TimeoutError:
        return "but does not answer; is it a scheduler?"
    except (ssl.SSLError, ConnectionError):
        pass
    return (
        f"but it does not accept the certificate {bundle.files.certificate} ({bundle.subject}), or "
        "is not a scheduler; use a certificate that was made with the scheduler's ca.pem"
    )
