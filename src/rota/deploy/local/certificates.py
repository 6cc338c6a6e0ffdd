"""Certificates and the administrator's token of a cluster on this machine."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from rota.deploy.clocks import wall_date
from rota.deploy.security import certs, secret_files
from rota.deploy.security.places import tokens_file
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile


def secure(folder: Path, agents: Sequence[str]) -> None:
    """Make what is not there yet: authority, certificates of scheduler, client and agents, an administrator's token."""
    now = wall_date().replace(microsecond=0)
    place = folder / "certs"
    hosts = ("localhost", "127.0.0.1", "::1", socket.gethostname())
    if not (place / "ca.pem").exists():
        certs.create_authority(place, now)
    if not (place / "scheduler.pem").exists():
        certs.issue(place, Subject(Role.SCHEDULER, "scheduler"), now, hosts=hosts, out=place)
    if not (place / "client.pem").exists():
        certs.issue(place, Subject(Role.CLIENT, "admin"), now, out=place)
    for name in agents:
        if not (place / "agents" / f"{name}.pem").exists():
            certs.issue(place, Subject(Role.AGENT, name), now)
    certs.renew(place, now)
    token = folder / "token"
    if not token.exists():
        _, text = TokenFile(tokens_file(place)).add("default", admin=True, note="made by rota up")
        secret_files.write_whole(token, f"{text}\n".encode(), secret_files.PRIVATE)
