"""Tokens on channels: metadata of every call, and nothing that gRPC's own threads have to ask Python about."""

import asyncio

import grpc
import pytest

from rota.deploy.security.transport import open_channel
from secure import a_client, a_site

ANY = "rota_x"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return a_client(a_site(tmp_path_factory.mktemp("certs")))


@pytest.mark.parametrize("sync", [True, False])
def test_a_channel_has_no_call_credentials(monkeypatch, bundle, sync):
    """Closing a channel with them has waited for ever: a thread of gRPC needs Python's lock to let go of them."""

    def never(*_arguments, **_named):
        raise AssertionError("call credentials are a plugin in Python")

    for name in ("access_token_call_credentials", "metadata_call_credentials", "composite_channel_credentials"):
        monkeypatch.setattr(grpc, name, never)

    async def opened():
        channel = open_channel("localhost:1", bundle=bundle, token=ANY, sync=sync)
        done = channel.close()
        if not sync:
            await done

    asyncio.run(opened())
