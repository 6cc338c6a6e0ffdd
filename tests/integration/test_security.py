"""The ports of a real server, attacked: whoever should not get in does not, it is told, and nothing changes."""

import asyncio
import datetime as dt
import gc
import os
import random
import socket
from dataclasses import replace

import grpc
import psutil
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from rota.core.errors import ConfigError
from rota.deploy.security import certs
from rota.deploy.security.audit import Audit
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.client import ClientSettings, connect, explained
from rota.deploy.security.handshakes import HandshakeWatch
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile
from rota.deploy.security.transport import client_context
from secure import (
    NOW,
    YEAR,
    a_client,
    a_site,
    an_agent,
    code_of,
    method,
    served,
    throw,
    throw_bare_tls,
    throw_frames,
)  # fmt: skip

OK = grpc.StatusCode.OK
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def folder(tmp_path):
    return a_site(tmp_path / "certs")


def test_a_good_client_and_a_good_agent_are_served(folder):
    async def scenario():
        async with served(folder) as site:
            _, token = site.tokens.add("vision")
            async with site.channel(a_client(folder), token) as user, site.channel(an_agent(folder)) as agent:
                said = await method(user, "Submit")(StringValue(value="a"))
                seen = [m.value async for m in method(user, "Watch", "unary_stream")(StringValue())]
                messages = [StringValue(value=x) for x in "xyz"]
                report = await method(agent, "Report", "stream_unary")(iter(messages))
                talk = [m.value async for m in method(agent, "Talk", "stream_stream")(iter(messages))]
            return said.value, seen, report.value, talk, site.audit.total()

    said, seen, report, talk, refused = asyncio.run(scenario())

    assert said.startswith("client:alice (tenant vision, token ")
    assert (seen, report, talk, refused) == (["a"], "x y z", ["x", "y", "z"], 0)


def test_strangers_fail_in_the_handshake_and_are_counted(folder, tmp_path):
    foreign = a_client(a_site(tmp_path / "foreign"))
    ours = a_client(folder)
    strangers = {
        "foreign": replace(foreign, authority=ours.authority),
        "expired": a_client(folder, "late", now=NOW - 2 * YEAR),
        "scheduler": load_bundle(folder, Role.SCHEDULER),
    }

    async def scenario():
        async with served(folder) as site:
            _, token = site.tokens.add("vision")
            codes = {}
            for name, bundle in strangers.items():
                async with site.channel(bundle, token) as channel:
                    codes[name] = await code_of(channel, "Submit")
            bare = grpc.ssl_channel_credentials(ours.authority)
            async with grpc.aio.secure_channel(site.address, bare) as channel:
                codes["none"] = await code_of(channel, "Submit")
            async with grpc.aio.insecure_channel(site.address) as channel:
                codes["plain"] = await code_of(channel, "Submit")
            return codes, site

    trail = []
    audit = Audit(trail.append)
    with HandshakeWatch(audit):
        codes, site = asyncio.run(scenario())

    assert codes == dict.fromkeys(["foreign", "expired", "scheduler", "none", "plain"], UNAVAILABLE)
    assert site.jobs.handled == 0
    assert site.certificates.connections >= 5
    counts = audit.counts()
    assert counts["bad-certificate"] >= 3
    assert counts["no-certificate"] >= 1
    assert counts["not-tls"] >= 1
    assert any("VERIFY_FAILED" in t.why for t in trail)


@pytest.mark.parametrize(
    ("who", "name", "expected", "reason"),
    [
        ("agent", "Submit", DENIED, "wrong-role"),
        ("user", "Drain", DENIED, "wrong-role"),
        ("client", "Submit", UNAUTHENTICATED, "no-token"),
        ("garbage token", "Submit", UNAUTHENTICATED, "bad-token"),
        ("invented token", "Submit", UNAUTHENTICATED, "bad-token"),
        ("bound to another tenant", "Submit", DENIED, "wrong-tenant"),
        ("user", "NoRule", DENIED, "wrong-role"),
        ("user", "NoSuchMethod", grpc.StatusCode.UNIMPLEMENTED, "unknown-method"),
    ],
)
def test_a_caller_that_may_not_is_refused_and_told(folder, who, name, expected, reason):
    async def scenario():
        async with served(folder) as site:
            _, token = site.tokens.add("vision")
            bundle, sent = {
                "agent": (an_agent(folder), None),
                "user": (a_client(folder), token),
                "client": (a_client(folder), None),
                "garbage token": (a_client(folder), "rota_%%%"),
                "invented token": (a_client(folder), token[:-1] + ("0" if token[-1] != "0" else "1")),
                "bound to another tenant": (a_client(folder, "bob", "speech"), token),
            }[who]
            async with site.channel(bundle, sent) as channel:
                return await code_of(channel, name), site

    code, site = asyncio.run(scenario())

    assert code is expected
    assert site.jobs.handled == 0
    assert site.audit.counts() == {reason: 1}
    (told,) = site.told
    assert told.method.endswith(f"/{name}")
    assert told.peer.startswith("ipv4:127.0.0.1:")


def test_a_tenant_neither_sees_nor_cancels_jobs_of_another(folder):
    async def scenario():
        async with served(folder) as site:
            tokens = {t: site.tokens.add(t, admin=t == "root")[1] for t in ("vision", "speech", "root")}
            bundle = a_client(folder)
            vision, speech, root = (site.channel(bundle, tokens[t]) for t in ("vision", "speech", "root"))
            async with vision, speech, root:
                assert await code_of(vision, "Submit", "v1") is OK
                refused = await code_of(speech, "Cancel", "v1")
                seen = [m.value async for m in method(speech, "Watch", "unary_stream")(StringValue())]
                left = dict(site.jobs.tenant_of)
                allowed = await code_of(root, "Cancel", "v1")
            return refused, seen, left, allowed

    refused, seen, left, allowed = asyncio.run(scenario())

    assert (refused, seen, left) == (DENIED, [], {"v1": "vision"})
    assert allowed is OK


def test_a_revoked_token_ends_at_once_in_a_running_server(folder):
    async def scenario():
        async with served(folder) as site:
            token_id, token = site.tokens.add("vision")
            async with site.channel(a_client(folder), token) as channel:
                before = await code_of(channel, "Submit")
                TokenFile(folder / "tokens.json").revoke(token_id)  # as another process would
                return before, await code_of(channel, "Submit")

    assert asyncio.run(scenario()) == (OK, UNAUTHENTICATED)


def test_a_revoked_certificate_is_refused_by_a_running_server_and_a_new_one_is_good(folder):
    async def scenario():
        async with served(folder) as site:
            _, token = site.tokens.add("vision")
            codes = []
            async with site.channel(a_client(folder), token) as channel, site.channel(an_agent(folder)) as other:
                codes.append(await code_of(channel, "Submit"))
                Revocations(folder / "revoked.json").revoke(Role.CLIENT, "alice", dt.datetime.now(dt.timezone.utc))
                codes.append(await code_of(channel, "Submit"))
                messages = iter([StringValue(value="x")])
                untouched = (await method(other, "Report", "stream_unary")(messages)).value
            renewed, late = a_client(folder), a_client(folder, "zoe")
            async with site.channel(renewed, token) as channel:
                codes.append(await code_of(channel, "Submit"))
            (folder / "revoked.json").write_text("{")
            async with site.channel(late, token) as channel:
                codes.append(await code_of(channel, "Submit"))
            return codes, untouched, site.audit.counts()

    codes, untouched, counts = asyncio.run(scenario())

    assert codes == [OK, UNAUTHENTICATED, OK, UNAUTHENTICATED]
    assert untouched == "x"
    assert counts == {"bad-certificate": 2}


@pytest.mark.parametrize("kind", ["stream_unary", "stream_stream"])
def test_garbage_inside_a_stream_ends_it_and_is_told(folder, kind):
    name = {"stream_unary": "Report", "stream_stream": "Talk"}[kind]

    async def scenario():
        async with served(folder) as site, site.channel(an_agent(folder)) as channel:
            call = method(channel, name, kind, raw=True)(
                iter([StringValue(value="x").SerializeToString(), b"\xff\xff"])
            )
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                assert await (call if kind == "stream_unary" else collect(call)) is None
            return refused.value.code(), site.audit.counts()

    assert asyncio.run(scenario()) == (INVALID, {"malformed": 1})


async def collect(call):
    return [m async for m in call]


@pytest.mark.parametrize(
    ("name", "kind"), [("Watch", "unary_stream"), ("Report", "stream_unary"), ("Talk", "stream_stream")]
)
def test_streams_are_guarded_like_single_calls(folder, name, kind):
    async def scenario():
        async with served(folder) as site, site.channel(a_client(folder)) as channel:
            message = StringValue(value="x")
            call = method(channel, name, kind)(message if kind == "unary_stream" else iter([message]))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                assert await (call if kind == "stream_unary" else collect(call)) is None
            return refused.value.code(), site.jobs.handled, site.audit.total()

    assert asyncio.run(scenario()) == (UNAUTHENTICATED if name == "Watch" else DENIED, 0, 1)


def test_a_renewed_certificate_is_used_without_a_restart(folder):
    async def scenario():
        async with served(folder) as site:
            first = await asyncio.to_thread(serial_of_server, folder, site.port)
            certs.renew(folder, NOW, within_days=1000)
            second = await asyncio.to_thread(serial_of_server, folder, site.port)
            _, token = site.tokens.add("vision")
            async with site.channel(a_client(folder), token) as channel:
                return first, second, await code_of(channel, "Submit")

    first, second, code = asyncio.run(scenario())

    assert first != second
    assert code is OK


def serial_of_server(folder, port):
    context = client_context(load_bundle(folder, Role.CLIENT))
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        return secure.getpeercert()["serialNumber"]


def test_without_certificates_this_machine_is_admin_of_the_tenant_it_names(folder):
    async def scenario():
        async with served(folder, insecure=True) as site:
            settings = ClientSettings(site.address, insecure=True)
            async with connect(settings, tenant="vision") as one, connect(settings) as other:
                named = await method(one, "Submit")(StringValue(value="a"))
                default = await method(other, "Submit")(StringValue(value="b"))
                async with connect(settings, agent="node7") as agent:
                    report = await method(agent, "Report", "stream_unary")(iter([StringValue(value="x")]))
                bad = one.unary_unary("/rota.test.Jobs/Submit")
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await bad(b"", metadata=(("rota-tenant", "../x"),))
            return named.value, default.value, report.value, refused.value.code()

    named, default, report, code = asyncio.run(scenario())

    assert named == "client:local (tenant vision, admin, insecure)"
    assert default == "client:local (tenant default, admin, insecure)"
    assert report == "x"
    assert code in {INVALID, UNAUTHENTICATED}


def test_a_blocking_channel_works_and_its_failures_are_one_message(folder):
    async def scenario():
        async with served(folder) as site:
            _, token = site.tokens.add("vision")
            good = ClientSettings(site.address, a_client(folder), token)
            late = ClientSettings(site.address, a_client(folder, "late", now=NOW - 2 * YEAR), token)
            plain = ClientSettings(site.address, insecure=True)
            tokenless = ClientSettings(site.address, a_client(folder))
            return await asyncio.to_thread(lambda: [outcome(s) for s in (good, late, plain, tokenless)]), good

    (good, late, plain, tokenless), settings = asyncio.run(scenario())
    gone = outcome(settings)

    assert good.startswith("client:alice")
    assert "does not accept the certificate" in late
    assert "late.pem" in late
    assert "does not speak plain gRPC" in plain
    assert "this needs a token" in tokenless
    assert "no token" in tokenless
    assert "nothing listens on localhost port" in gone


def outcome(settings):
    try:
        with explained(settings), connect(settings, sync=True) as channel:
            return method(channel, "Submit")(StringValue(value="s"), timeout=5).value
    except ConfigError as error:
        return str(error)


def test_a_scheduler_with_another_host_name_is_not_trusted(folder):
    certs.issue(folder, Subject(Role.SCHEDULER, "scheduler"), NOW, hosts=["elsewhere.example"], out=folder, force=True)

    async def scenario():
        async with served(folder) as site:
            return await asyncio.to_thread(outcome, ClientSettings(site.address, a_client(folder)))

    assert "its certificate is not accepted here" in asyncio.run(scenario())


# --- a flood ----------------------------------------------------------------------------------------------------------


async def throw_calls(channel, count, seed, *, expected, together=50):
    """Garbage requests by somebody with a certificate; every one must get the same answer."""
    random_ = random.Random(seed)
    for start in range(0, count, together):
        bodies = [b"\xff" + random_.randbytes(random_.randint(0, 300)) for _ in range(min(together, count - start))]
        codes = await asyncio.gather(*(code_of(channel, "Submit", body, raw=True) for body in bodies))
        assert set(codes) == {expected}
    return count


def resident_mb():
    gc.collect()
    return psutil.Process(os.getpid()).memory_info().rss / 2**20


def test_ten_thousand_bad_messages_change_nothing(folder):
    async def flood(site, scale, token):
        bundle = a_client(folder)
        sent = await asyncio.to_thread(throw, site.port, 40 * scale, scale)
        sent += await asyncio.to_thread(throw_bare_tls, site.port, bundle.authority, 3 * scale)
        sent += await asyncio.to_thread(throw_frames, site.port, bundle, 2 * scale, 10, scale)
        calls = {
            UNAUTHENTICATED: [None, "rota_" + "0" * 12 + "_" + "0" * 64, "x" * 300],
            INVALID: [token],
        }
        for expected, tokens in calls.items():
            for given in tokens:
                async with site.channel(bundle, given) as channel:
                    sent += await throw_calls(channel, 20 * scale, scale, expected=expected)
        return sent

    async def scenario():
        async with served(folder) as site:
            _, token = site.tokens.add("vision")
            async with site.channel(a_client(folder), token) as good:
                assert await code_of(good, "Submit", "before") is OK
                sent = await flood(site, 40, token)
                start = resident_mb()
                sent += await flood(site, 40, token)  # what a flood needs once, the second one finds
                grown = resident_mb() - start
                still = await code_of(good, "Submit", "after")
            async with site.channel(a_client(folder), token) as fresh:
                new = await code_of(fresh, "Submit", "new")
            return sent, grown, still, new, site

    handshakes = []
    audit = Audit(handshakes.append)
    with HandshakeWatch(audit):
        sent, grown, still, new, site = asyncio.run(scenario())

    assert sent >= 10_000
    assert (still, new) == (OK, OK)
    assert set(site.jobs.tenant_of) == {"before", "after", "new"}
    assert site.jobs.handled == 3
    counts = site.audit.counts()
    assert counts["no-token"] == counts["malformed"] == 20 * 80
    assert counts["bad-token"] == 2 * 20 * 80
    assert audit.counts()["no-certificate"] >= 3 * 75
    assert audit.counts()["not-tls"] >= 40 * 75 / 2
    assert len(site.told) + len(handshakes) < 500  # told at a bounded rate
    assert grown < 64, f"{grown:.0f} MB"
