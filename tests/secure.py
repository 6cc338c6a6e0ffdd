"""A small site for tests of security: an authority, certificates, tokens, and a real server behind the guard."""

import contextlib
import datetime as dt
import random
import socket
import ssl
import struct

import grpc
from google.protobuf.wrappers_pb2 import StringValue

from rota.deploy.security import certs
from rota.deploy.security.audit import Audit
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.guard import ADMIN, AGENT, USER, AuthInterceptor
from rota.deploy.security.identity import current_identity
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile
from rota.deploy.security.transport import SERVER_OPTIONS, ServerCertificates, client_context, open_channel

NOW = dt.datetime.now(dt.timezone.utc).replace(microsecond=0)
YEAR = dt.timedelta(days=365)
HOSTS = ("localhost", "127.0.0.1", "::1")
SERVICE = "rota.test.Jobs"
RULES = {
    f"/{SERVICE}/Submit": frozenset({USER}),
    f"/{SERVICE}/Cancel": frozenset({USER}),
    f"/{SERVICE}/Watch": frozenset({USER}),
    f"/{SERVICE}/Drain": frozenset({ADMIN}),
    f"/{SERVICE}/Report": frozenset({AGENT}),
    f"/{SERVICE}/Talk": frozenset({AGENT}),
}


def a_site(folder):
    certs.create_authority(folder, NOW - 3 * YEAR)
    certs.issue(folder, Subject(Role.SCHEDULER, "scheduler"), NOW, hosts=HOSTS, out=folder)
    certs.issue(folder, Subject(Role.CLIENT, "admin"), NOW, out=folder)
    certs.issue(folder, Subject(Role.AGENT, "node1"), NOW)
    return folder


def a_client(folder, name="alice", tenant=None, now=NOW):
    certs.issue(folder, Subject(Role.CLIENT, name, tenant), now, force=True)
    return load_bundle(folder, Role.CLIENT, name, now)


def an_agent(folder):
    return load_bundle(folder, Role.AGENT, "node1")


def may_act_for(caller, tenant):
    return caller.admin or caller.tenant == tenant


class Jobs:
    """A service that remembers what it was asked to do."""

    def __init__(self):
        self.tenant_of, self.handled = {}, 0

    async def submit(self, request, _context):
        self.handled += 1
        self.tenant_of[request.value] = current_identity().tenant
        return StringValue(value=str(current_identity()))

    async def cancel(self, request, context):
        if not may_act_for(current_identity(), self.tenant_of[request.value]):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the job is another tenant's")
        self.handled += 1
        del self.tenant_of[request.value]
        return StringValue()

    async def watch(self, _request, _context):
        self.handled += 1
        for job, tenant in self.tenant_of.items():
            if may_act_for(current_identity(), tenant):
                yield StringValue(value=job)

    async def report(self, requests, _context):
        values = [r.value async for r in requests]
        self.handled += 1
        return StringValue(value=" ".join(values))

    async def talk(self, requests, _context):
        async for request in requests:
            self.handled += 1
            yield request

    async def ping(self, request, _context):
        self.handled += 1
        return request

    def handlers(self):
        decode, encode = StringValue.FromString, StringValue.SerializeToString
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Submit": grpc.unary_unary_rpc_method_handler(self.submit, decode, encode),
                "Cancel": grpc.unary_unary_rpc_method_handler(self.cancel, decode, encode),
                "Watch": grpc.unary_stream_rpc_method_handler(self.watch, decode, encode),
                "Drain": grpc.unary_unary_rpc_method_handler(self.ping, decode, encode),
                "NoRule": grpc.unary_unary_rpc_method_handler(self.ping, decode, encode),
                "Report": grpc.stream_unary_rpc_method_handler(self.report, decode, encode),
                "Talk": grpc.stream_stream_rpc_method_handler(self.talk, decode, encode),
            },
        )


class Served:
    """A running server, its trail and its service."""

    def __init__(self, folder, *, insecure=False):
        self.jobs, self.told = Jobs(), []
        self.audit = Audit(self.told.append)
        self.tokens = TokenFile(folder / "tokens.json")
        self.certificates = None if insecure else ServerCertificates(folder)
        guard = AuthInterceptor(
            RULES, self.tokens, self.audit, revoked=Revocations(folder / "revoked.json"), insecure=insecure
        )
        self.server = grpc.aio.server(interceptors=[guard], options=SERVER_OPTIONS)
        self.server.add_generic_rpc_handlers((self.jobs.handlers(),))
        if insecure:
            self.port = self.server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self.server.add_secure_port("127.0.0.1:0", self.certificates.credentials())
        self.address = f"localhost:{self.port}"

    def channel(self, bundle=None, token=None, **how):
        return open_channel(self.address, bundle=bundle, token=token, **how)


@contextlib.asynccontextmanager
async def served(folder, **how):
    site = Served(folder, **how)
    await site.server.start()
    try:
        yield site
    finally:
        await site.server.stop(0)


def method(channel, name, kind="unary_unary", *, raw=False):
    """A callable; with `raw` it sends bytes as they are."""
    encode = None if raw else StringValue.SerializeToString
    return getattr(channel, kind)(f"/{SERVICE}/{name}", encode, StringValue.FromString)


async def code_of(channel, name, value="job", *, raw=False):
    """The status of one call."""
    try:
        await method(channel, name, raw=raw)(value if raw else StringValue(value=value), timeout=5)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


# Floods

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def not_tls(random_):
    """Bytes that no client of ours sends: noise, other protocols, broken TLS."""
    return random_.choice(
        [
            random_.randbytes(random_.randint(1, 400)),
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            PREFACE + frame(random_),
            b"\x16\x03\x01" + struct.pack(">H", random_.randint(0, 60)) + random_.randbytes(60),
            b"\x16\x03\x03\xff\xff" + random_.randbytes(100),
            b"\x00" * 64,
            b"",
        ]
    )


def frame(random_):
    """An HTTP/2 frame of a random kind whose length may lie."""
    body = random_.randbytes(random_.randint(0, 60))
    length = len(body) if random_.random() < 0.5 else random_.randint(0, 1 << 24 - 1)
    head = struct.pack(">I", length)[1:] + bytes([random_.randint(0, 12), random_.randint(0, 255)])
    return head + struct.pack(">I", random_.randint(0, 1 << 31)) + body


def throw(port, count, seed):
    """Connections that say something wrong and go."""
    random_ = random.Random(seed)
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            try:
                plain.sendall(not_tls(random_))
            except OSError:
                continue
    return count


def throw_frames(port, bundle, connections, frames, seed):
    """Garbage HTTP/2 inside good TLS: what a thief of a certificate could send."""
    random_ = random.Random(seed)
    context = client_context(bundle)
    context.set_alpn_protocols(["h2"])
    sent = 0
    for i in range(connections):
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            try:
                if i % 4:
                    secure.sendall(PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
                for _ in range(frames):
                    secure.sendall(frame(random_))
                    sent += 1
            except OSError:
                sent += 1
    return sent


def throw_bare_tls(port, authority, count):
    """TLS without a certificate of the client."""
    context = ssl.create_default_context(cadata=authority.decode())
    context.set_alpn_protocols(["h2"])
    for _ in range(count):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.recv(1)
    return count
