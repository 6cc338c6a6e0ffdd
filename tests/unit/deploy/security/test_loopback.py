import grpc
import pytest

from rota.core.errors import ConfigError
from rota.deploy.security.addresses import is_loopback, peer_is_local, split
from rota.deploy.security.transport import listen, open_channel

HERE = ["127.0.0.1:1", "127.9.8.7:1", "[::1]:1", "localhost:1", "unix:/tmp/x", "unix-abstract:x", "ipv4:127.0.0.1:1",
        "dns:///localhost:1", "[::ffff:127.0.0.1]:1"]  # fmt: skip
ELSEWHERE = ["0.0.0.0:1", "[::]:1", ":1", "10.0.0.1:1", "example.org:1", "localhost.example.org:1", "128.0.0.1:1",
             "[fe80::1]:1",
             "127.0.0.1.example.org:1", "2130706433:1", "[::ffff:10.0.0.1]:1", "LOCALHOST.:1"]  # fmt: skip


@pytest.mark.parametrize("address", HERE)
def test_addresses_of_this_machine(address):
    assert is_loopback(address)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_addresses_that_others_can_reach_or_that_are_others(address):
    assert not is_loopback(address)
    with pytest.raises(ConfigError, match="only"):
        open_channel(address, insecure=True)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_nobody_listens_there_without_certificates(address):
    with pytest.raises(ConfigError, match="without certificates is refused"):
        listen(None, address, insecure=True)


def test_localhost_that_also_means_another_machine_is_not_trusted(monkeypatch):
    import socket

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 1)) for ip in ("127.0.0.1", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    assert not is_loopback("localhost:1")


def test_without_certificates_and_without_the_flag_nothing_is_opened():
    with pytest.raises(ConfigError, match="rota certs init"):
        listen(None, "127.0.0.1:0")
    with pytest.raises(ConfigError, match="needs certificates"):
        open_channel("127.0.0.1:1")


def test_a_port_in_use_is_one_message():
    import asyncio
    import socket

    async def scenario(address):
        server = grpc.aio.server()
        try:
            listen(server, address, insecure=True)
        finally:
            await server.stop(0)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1"):
            asyncio.run(scenario(f"127.0.0.1:{taken.getsockname()[1]}"))


@pytest.mark.parametrize("address", ["", "host", "host:", "host:x", "host:70000", "::1:80", "host:-1"])
def test_what_is_not_an_address_is_said(address):
    with pytest.raises(ConfigError, match="is not an address"):
        split(address)


@pytest.mark.parametrize(
    ("peer", "local"),
    [("ipv4:127.0.0.1:4", True), ("ipv6:%5B::1%5D:4", True), ("ipv6:[::1]:4", True), ("unix:", True),
     ("ipv4:10.0.0.1:4", False), ("ipv6:%5Bfe80::1%5D:4", False), ("", False), ("nonsense", False)],
)  # fmt: skip
def test_callers_of_this_machine_are_recognised(peer, local):
    assert peer_is_local(peer) is local
