"""Certificates and tokens that are revoked or end, with a real scheduler: what is open ends within seconds."""

import contextlib
import datetime as dt
import json
import subprocess
import time

import grpc
import pytest

from faults import Site
from live import ROTA, Live, environment, until
from rota.core.errors import RotaError
from rota.deploy.control import Client
from rota.deploy.security import certs
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile
from rota.rpc import rota_pb2 as pb
from secure import NOW, YEAR, a_site

SOON_S = 6.0
"""A stream is looked at every two seconds."""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """Verbs in the folder of a scheduler with two agents, all behind certificates."""
    cluster = Live(tmp_path_factory.mktemp("revoked"))
    folder = a_site(cluster.folder / "certs")
    for name in ("n0", "n1"):
        certs.issue(folder, Subject(Role.AGENT, name), NOW)
    cluster.run("tokens", "create", "--tenant", "ops", "--admin", "--dir", "certs", "--out", "admin.token")
    with Site(cluster.folder, certs=folder, host="localhost", **{"lease": 4, "dead-after": 2}) as site:
        cluster.address = site.address
        with admin_of(cluster) as admin:
            until(lambda: answers(admin), 30.0, "an answer")
            for name in ("n0", "n1"):
                site.agent(name, wait=False)
            until(lambda: len(admin.nodes()) == 2, 30.0, "two agents")
        yield cluster


def answers(client):
    with contextlib.suppress(RotaError):
        return client.status()
    return None


def admin_of(live):
    return Client(live.address, certs=certificates(live), token_file=live.folder / "admin.token")


def certificates(live):
    return live.folder / "certs"


def a_user(live, name, *, made=None, days=None):
    """A user with a certificate and a token of their own; the client and the number of the token."""
    folder = live.folder / f"for-{name}"
    now = made or dt.datetime.now(dt.timezone.utc).replace(microsecond=0)
    certs.issue(certificates(live), Subject(Role.CLIENT, name), now, out=folder, days=365)
    number, text = TokenFile(certificates(live) / "tokens.json").add(name, days=days)
    path = folder / "token"
    path.write_text(text)
    path.chmod(0o600)
    return Client(live.address, certs=folder, token_file=path), number


def ends(stream):
    """How an open stream ends, and after how many seconds."""
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as error:
        for _ in stream:
            pass
    return error.value.code(), error.value.details(), time.monotonic() - began


def followed(client):
    """An open stream of events that has said something."""
    client.submit([{"emulated": True, "profile": "resnet18-32", "steps": 1}])
    stream = client._stub.Events(pb.EventsRequest(follow=True), timeout=60)
    next(stream)
    return stream


def test_open_streams_of_a_revoked_certificate_end(live):
    alice, _ = a_user(live, "alice")
    bob, _ = a_user(live, "bob")
    with alice, bob:
        stream = followed(alice)
        other = followed(bob)
        live.run("certs", "revoke", "client", "alice", "--dir", "certs")

        code, why, after_s = ends(stream)

        assert (code, "is revoked" in why) == (grpc.StatusCode.UNAUTHENTICATED, True)
        assert after_s < SOON_S
        bob.submit([{"emulated": True, "profile": "resnet18-32", "steps": 1}])
        next(other)
        other.cancel()


def test_open_streams_of_a_revoked_or_ended_token_and_of_an_ended_certificate_end(live):
    now = dt.datetime.now(dt.timezone.utc).replace(microsecond=0)
    carol, number = a_user(live, "carol")
    dave, _ = a_user(live, "dave", days=3.0 / 86400)
    erin, _ = a_user(live, "erin", made=now - YEAR + dt.timedelta(seconds=4))
    with carol, dave, erin:
        streams = [followed(client) for client in (carol, dave, erin)]
        live.run("tokens", "revoke", number, "--dir", "certs")

        ended = [ends(stream) for stream in streams]

        assert [code.name for code, _, _ in ended] == ["UNAUTHENTICATED"] * 3
        assert [why for _, why, _ in ended][:2] == ["the token is unknown, revoked or has ended"] * 2
        assert "the certificate of client:erin ended on" in ended[2][1]
        assert sum(after_s for _, _, after_s in ended) < SOON_S + 4
        with pytest.raises(grpc.RpcError) as error:
            erin._stub.Status(pb.Empty())
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_revoked_agent_loses_its_line_and_its_job_goes_on_elsewhere_after_the_lease(live):
    with admin_of(live) as admin:
        (job,) = admin.submit([{"emulated": True, "profile": "resnet18-32", "steps": 10**9}])
        until(lambda: admin.job(job).phase == "running", 20.0, "the start")
        node = admin.job(job).parts[0].node
        live.run("certs", "revoke", "agent", node, "--dir", "certs")

        until(lambda: {n.node: n.state for n in admin.nodes()}[node] == "lost", 60.0, "the loss of the node")
        until(lambda: admin.job(job).phase == "running" and admin.job(job).epoch == 2, 60.0, "the second attempt")

        assert admin.job(job).parts[0].node != node
        events = [event for _, event in admin.events(job=job)]
        order = [event["event"] for event in events if event["event"] in ("AttemptStarted", "AttemptEnded")]
        assert order == ["AttemptStarted", "AttemptEnded", "AttemptStarted"]
        admin.cancel([job])


def test_revocations_that_run_at_once_are_all_kept_and_deleting_the_list_lifts_none(live):
    folder = certificates(live)
    names = [f"user{number}" for number in range(12)]
    for name in names:
        certs.issue(folder, Subject(Role.CLIENT, name), dt.datetime.now(dt.timezone.utc), out=live.folder / name)
    words = [*ROTA, "certs", "revoke", "client"]
    running = [
        subprocess.Popen([*words, name, "--dir", str(folder)], stdout=subprocess.DEVNULL, env=environment(live.folder))
        for name in names
    ]
    assert [process.wait(60) for process in running] == [0] * 12
    revoked = json.loads((folder / "revoked.json").read_text())["revoked"]
    assert {f"client/{name}" for name in names} <= set(revoked)
    number, text = TokenFile(folder / "tokens.json").add("x")
    (live.folder / "x.token").write_text(text)
    (live.folder / "x.token").chmod(0o600)

    (folder / "revoked.json").unlink()

    with Client(live.address, certs=live.folder / "user3", token_file=live.folder / "x.token") as client:
        with pytest.raises(grpc.RpcError) as error:
            client._stub.Status(pb.Empty())
        assert "is revoked" in error.value.details()
    live.run("certs", "revoke", "client", "user3", "--dir", str(folder))
    assert json.loads((folder / "revoked.json").read_text())["revoked"].keys() == revoked.keys()
    live.run("tokens", "revoke", number, "--dir", str(folder))


def test_a_name_that_has_no_certificate_is_not_revoked_in_silence(live):
    a_user(live, "leonora")
    said = live.run("certs", "revoke", "client", "leonore", "--dir", "certs", code=2)

    assert "nothing was revoked" in said
    assert "did you mean 'leonora'?" in said
    live.run("certs", "revoke", "client", "leonore", "--force", "--dir", "certs")
