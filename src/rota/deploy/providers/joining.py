"""The side of the server that joins: a ticket in, the certificate of an agent out."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import grpc

from rota.core.errors import ConfigError, RotaError
from rota.deploy.security import secret_files
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.diagnosis import diagnose
from rota.deploy.security.joining import make_request
from rota.deploy.security.subjects import Role
from rota.deploy.security.transport import open_channel
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_CALL_S = 10.0
_PASSES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def join(ticket: Path, address: str, out: Path, *, valid_s: float, patience_s: float) -> str:
    """Write agent.pem, agent.key and ca.pem to `out`; the name of the node.

    A scheduler that does not answer is asked again for `patience_s` seconds, always with the same key: should an answer
    get lost, the next one is as good. A ticket that is refused is a ConfigError.
    """
    bundle = load_bundle(ticket, Role.JOIN)
    node = bundle.subject.name
    key, request = make_request(node)
    message = pb.JoinRequest(node=node, request=request, valid_s=valid_s)
    with open_channel(address, bundle=bundle, sync=True) as channel:
        certificate = _asked(stubs.FleetStub(channel), message, address, patience_s)
    secret_files.make_private_folder(out)
    secret_files.write_whole(out / "agent.key", key, secret_files.PRIVATE)
    secret_files.write_whole(out / "agent.pem", certificate, secret_files.PUBLIC)
    secret_files.write_whole(out / "ca.pem", bundle.authority, secret_files.PUBLIC)
    load_bundle(out, Role.AGENT, node)  # what cannot be used is said here
    return node


def _asked(stub: stubs.FleetStub, message: pb.JoinRequest, address: str, patience_s: float) -> bytes:
    until = time.monotonic() + patience_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return bytes(stub.Join(message, timeout=_CALL_S).certificate)
        except grpc.RpcError as error:
            if error.code() not in _PASSES:
                raise ConfigError(
                    f"the scheduler {address} refuses to let {message.node} join: {error.details()}"
                ) from error
            if time.monotonic() >= until:
                why = diagnose(address, None)
                raise RotaError(f"{message.node} cannot join within {patience_s:g} s: {why}") from error
            log.warning("%s waits to join: %s", message.node, error.details())
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
