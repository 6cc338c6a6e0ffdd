"""Refusals that happen inside gRPC.

Connections without a certificate, with a foreign one, or without TLS.

gRPC ends them before any code of ours runs and says so only on the standard error of the process, a
line each, without limit. This reads those lines, counts them in the audit and passes everything
else on. If a later gRPC words them in another way they are passed on like other lines;
`ServerCertificates.connections` still counts the connections.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from types import TracebackType

from rota.deploy.security.audit import Audit, RefusalReason

_MARK = b"Handshake failed with"
"""Older versions go on with "fatal error", newer ones with "error"."""
_NOT_TLS = (
    b"WRONG_VERSION_NUMBER",
    b"HTTP_REQUEST",
    b"HTTPS_PROXY_REQUEST",
    b"EXCESSIVE_MESSAGE_SIZE",
    b"UNEXPECTED_RECORD",
    b"UNEXPECTED_MESSAGE",
    b"DECODE_ERROR",
    b"RECORD_OVERFLOW",
    b"INVALID_OUTER_RECORD_TYPE",
    b"UNSUPPORTED_PROTOCOL",
)
_NO_CERTIFICATE = b"PEER_DID_NOT_RETURN_A_CERTIFICATE"
METHOD = "TLS handshake"
_MOST_WAITING = 10_000
_PATIENCE_S = 5.0


class HandshakeWatch:
    """A context manager around the life of a server.

    While it lasts, standard error goes through a pipe.

    One thread empties the pipe and does nothing else, because whoever writes to standard error, a
    sink that logs included, waits for it. A second thread tells the audit.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._refusals: queue.Queue[tuple[RefusalReason, str] | None] = queue.Queue(
            maxsize=_MOST_WAITING
        )
        self._threads: list[threading.Thread] = []
        self._real = -1
        self.dropped = 0
        """Refusals that were neither counted nor told, because they came faster than they can
        be."""

    def __enter__(self) -> HandshakeWatch:
        sys.stderr.flush()
        self._real = os.dup(2)
        read_end, write_end = os.pipe()
        os.dup2(write_end, 2)
        os.close(write_end)
        self._threads = [
            threading.Thread(target=self._relay, args=(read_end,), name="rota-stderr", daemon=True),
            threading.Thread(target=self._tell, name="rota-handshakes", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stderr.flush()
        os.dup2(
            self._real, 2
        )  # closes our writing end; the pipe ends when children that inherited it are gone too
        for thread in self._threads:
            thread.join(timeout=_PATIENCE_S)
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self._real)

    def _relay(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb") as lines:
            for line in lines:
                before, mark, why = line.partition(_MARK)
                if not mark:
                    os.write(self._real, before)
                    continue
                try:
                    self._refusals.put_nowait(classify(why))
                except queue.Full:
                    self.dropped += 1
        self._refusals.put(None)

    def _tell(self) -> None:
        while (refusal := self._refusals.get()) is not None:
            reason, why = refusal
            with contextlib.suppress(Exception):  # a sink that fails must not end the counting
                self._audit.refused("-", METHOD, reason, why)


def classify(why: bytes) -> tuple[RefusalReason, str]:
    """Reason and words for what the TLS library said."""
    if _NO_CERTIFICATE in why:
        return RefusalReason.NO_CERTIFICATE, "the client has no certificate"
    if any(mark in why for mark in _NOT_TLS):
        return RefusalReason.NOT_TLS, "the bytes are not TLS"
    problem = why.decode("ascii", "replace").strip().rpartition("OPENSSL_internal:")[2]
    return RefusalReason.BAD_CERTIFICATE, f"the certificate is not accepted: {problem}"
