"""The port of a real `rota serve`, attacked: strangers, other tenants, and thousands of messages that make no sense."""

import asyncio
import contextlib
import os
from dataclasses import replace

import grpc
import pytest

from faults import Site, until
from rota.core.errors import ConfigError, RotaError
from rota.deploy.control import Client
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.client import ClientSettings
from rota.deploy.security.places import tokens_file
from rota.deploy.security.subjects import Role
from rota.deploy.security.tokens import TokenFile
from rota.deploy.security.transport import open_channel
from secure import a_client, a_site, throw, throw_bare_tls, throw_frames

QUIET = {"RoundsRan", "LeasesExtended", "Planned", "Allocated", "ProgressMade", "StepsSaved"}
"""Events of a job that runs meanwhile."""


def connected(site, token):
    return Client(settings=ClientSettings(site.address, site.bundle, token))


def output(client, number):
    """What a job wrote so far."""
    with contextlib.suppress(ConfigError):  # it has not begun
        return b"".join(client.logs(number))
    return b""


@pytest.fixture
def site(tmp_path):
    folder = a_site(tmp_path / "certs")
    with Site(tmp_path, certs=folder) as found:
        tokens = TokenFile(tokens_file(folder))
        bundle = load_bundle(folder, Role.CLIENT, "admin")
        found.tokens = {t: tokens.add(t, admin=t == "root")[1] for t in ("root", "vision", "speech")}
        found.bundle = bundle
        found.clients = {t: connected(found, token) for t, token in found.tokens.items()}
        found.client = found.clients["root"]
        until(found._answers, 30, "the scheduler's answer")
        found.agent("node1", "emulate:v100=2", certs=folder)
        yield found
        for client in found.clients.values():
            client.close()


def refused(call):
    """The message of a request that is refused."""
    with pytest.raises((ConfigError, RotaError)) as caught:
        call()
    return str(caught.value)


def test_who_has_no_certificate_of_ours_gets_nowhere(site, tmp_path):
    foreign = a_client(a_site(tmp_path / "foreign"))
    stranger = replace(foreign, authority=site.bundle.authority)
    before = len(site.client.jobs())

    for settings in (
        ClientSettings(site.address, stranger, site.tokens["root"]),
        ClientSettings(site.address, insecure=True),
        ClientSettings(site.address, site.bundle),
        ClientSettings(site.address, site.bundle, "rota_" + "0" * 12 + "_" + "0" * 64),
    ):
        with Client(settings=settings) as client:
            assert refused(client.status)
            assert refused(lambda client=client: client.submit([{"emulated": True, "steps": 1}], tries=1))
    bare = grpc.secure_channel(site.address, grpc.ssl_channel_credentials(site.bundle.authority))
    with contextlib.closing(bare), pytest.raises(grpc.RpcError):
        bare.unary_unary("/rota.v1.Control/Status")(b"", timeout=5)

    assert len(site.client.jobs()) == before
    assert site.client.status().running == 0


def test_a_tenant_neither_sees_nor_touches_what_belongs_to_another(site):
    vision, speech = site.clients["vision"], site.clients["speech"]
    spec = {"argv": ["sh", "-c", "echo secret; sleep 600"], "name": "hidden"}
    (number,) = vision.submit([spec])
    until(lambda: vision.job(number).phase == "running" and b"secret" in output(vision, number), 30, "output")

    assert speech.jobs() == []
    assert speech.jobs(tenant="vision") == []
    assert "there is no job 0" in refused(lambda: speech.job(number))
    assert "there is no job 0" in refused(lambda: speech.cancel([number]))
    assert "there is no job 0" in refused(lambda: list(speech.logs(number)))
    assert list(speech.events()) == []
    assert "there is no job 0" in refused(lambda: list(speech.events(job=number)))
    assert {event["job"] for _, event in vision.events(job=number)} == {number}
    assert "vision" in refused(lambda: speech.submit([{**spec, "tenant": "vision"}]))
    assert "refuses" in refused(lambda: speech.drain("node1"))

    assert vision.job(number).phase == "running"
    assert [event["event"] for _, event in vision.events()].count("JobAccepted") == 1
    assert vision.cancel([number]) == ([number], [])


def test_a_certificate_of_a_user_is_none_of_an_agent(site):
    async def scenario():
        async with open_channel(site.address, bundle=site.bundle, token=site.tokens["root"]) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary("/rota.v1.Fleet/Register")(b"", timeout=5)
            return caught.value.code()

    assert asyncio.run(scenario()) is grpc.StatusCode.PERMISSION_DENIED


async def garbage(site, token, count, methods):
    """Calls whose bodies are no messages; the codes they got."""
    codes = set()
    async with open_channel(site.address, bundle=site.bundle, token=token) as channel:

        async def one(name):
            try:
                await channel.unary_unary(f"/rota.v1.{name}")(b"\xff" + os.urandom(40), timeout=10)
            except grpc.aio.AioRpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        for start in range(0, count, 50):
            codes |= set(await asyncio.gather(*(one(methods[(start + i) % len(methods)]) for i in range(50))))
    return codes


def flood(site, scale):
    """Bad messages of all kinds; how many."""
    port = int(site.address.rpartition(":")[2])
    sent = throw(port, 40 * scale, scale)
    sent += throw_bare_tls(port, site.bundle.authority, 3 * scale)
    sent += throw_frames(port, site.bundle, 2 * scale, 10, scale)
    names = ["Control/Submit", "Control/Cancel", "Control/Drain", "Control/GetJob", "Fleet/Report", "Nothing/There"]
    expected = {
        None: {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED},
        site.tokens["vision"]: {
            grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED,
        },
    }  # fmt: skip
    for token, allowed in expected.items():
        assert asyncio.run(garbage(site, token, 100 * scale, names)) <= allowed
        sent += 100 * scale
    return sent


def survive(site, scale, least):
    (number,) = site.clients["vision"].submit([{"emulated": True, "profile": "A3C", "steps": 10**7}])
    until(lambda: site.client.job(number).phase == "running", 30, "a start")
    before = [event for event in site.events() if event["event"] not in QUIET]

    assert flood(site, scale) >= least

    more = [event for event in site.events() if event["event"] not in QUIET][len(before) :]
    assert {event["event"] for event in more} == {"Audited"}
    assert len(more) < 500, "told at a bounded rate"
    job = site.client.job(number)
    assert (job.phase, job.epoch) == ("running", 1)
    assert site.clients["vision"].cancel([number]) == ([number], [])
    (good,) = site.clients["vision"].submit([{"emulated": True, "profile": "A3C", "steps": 5}])
    assert site.clients["vision"].wait([good], 30, every_s=0.1)[0].phase == "finished"
    assert site.node("node1") == "up"


def test_a_thousand_bad_messages_leave_nothing_but_audit_events(site):
    survive(site, 4, 1000)


@pytest.mark.long
def test_ten_thousand_bad_messages_leave_nothing_but_audit_events(site):
    survive(site, 40, 10_000)
