"""Renewed certificates of an agent, used for new connections without a restart."""

from __future__ import annotations

import logging
from dataclasses import replace

from rota.core.errors import ConfigError
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.client import ClientSettings

log = logging.getLogger(__name__)


class RenewedCertificate:
    """Looks whether the files of a certificate are other ones than those in use."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._seen = self._stamp()
        self._complained: object = None

    def look(self) -> ClientSettings | None:
        """Settings with the new certificate; None: nothing is new, or it cannot be used yet."""
        bundle = self._settings.bundle
        stamp = self._stamp()
        if bundle is None or not stamp or stamp == self._seen:
            return None
        folder = bundle.files.authority.parent
        try:
            renewed = load_bundle(folder, bundle.subject.role, bundle.subject.name)
        except (ConfigError, OSError) as error:  # perhaps only one of its files is there yet
            if stamp != self._complained:
                log.warning("the renewed certificate is not used: %s", error)
                self._complained = stamp
            return None
        self._seen = stamp
        self._settings = replace(self._settings, bundle=renewed)
        log.warning("the certificate that ends on %s is used from here on", renewed.expires)
        return self._settings

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        """What changes when a file is replaced; nothing while one of them is missing."""
        bundle = self._settings.bundle
        try:
            states = [] if bundle is None else [path.stat() for path in bundle.files]
        except OSError:
            return ()
        return tuple((state.st_mtime_ns, state.st_ino) for state in states)
