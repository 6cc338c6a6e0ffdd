"""Who may talk to the gateway: the link that can be used once, the key, the Host and the Origin."""

import pytest

from rota.dashboard.access import HEADERS, Access


@pytest.fixture
def links():
    return []


@pytest.fixture
def access(links):
    return Access(7080, links.append)


def secret_of(link):
    return link.partition("#enter=")[2]


def headers(**more):
    return {"host": "127.0.0.1:7080", **{name.replace("_", "-"): value for name, value in more.items()}}


def test_a_link_can_be_used_once_and_another_one_is_told(access, links):
    first = secret_of(links[0])
    key = access.enter(first)

    assert key
    assert access.enter(first) is None
    assert len(links) == 2
    assert secret_of(links[1]) != first
    assert access.refusal("GET", "/api/stream", headers(x_rota_key=key)) is None


@pytest.mark.parametrize("wrong", ["", "x", "ä" * 10, "A" * 100_000])
def test_a_wrong_secret_or_key_opens_nothing(access, links, wrong):
    assert access.enter(wrong) is None
    assert access.refusal("GET", "/api/stream", headers(x_rota_key=wrong)).status == 401
    assert access.refusal("GET", "/api/stream", headers()).status == 401
    assert len(links) == 1


@pytest.mark.parametrize(
    "host",
    ["evil.example:7080", "127.0.0.1", "127.0.0.1:7081", "localhost", "127.0.0.1:7080.evil.example", "[::1]:7080", ""],
)
def test_a_foreign_host_is_refused_whatever_is_asked_for(access, links, host):
    key = access.enter(secret_of(links[0]))
    for path in ("/", "/assets/dashboard.js", "/api/stream", "/api/enter"):
        refusal = access.refusal("GET", path, {**headers(x_rota_key=key), "host": host})
        assert refusal is not None
        assert refusal.status == 421


@pytest.mark.parametrize("origin", ["", "null", "http://evil.example", "https://127.0.0.1:7080", "http://127.0.0.1:81"])
def test_what_changes_something_comes_from_the_page_itself(access, links, origin):
    key = access.enter(secret_of(links[0]))
    for path in ("/api/cancel", "/api/drain", "/api/enter"):
        assert access.refusal("POST", path, headers(x_rota_key=key, origin=origin)).status == 403
        assert access.refusal("POST", path, headers(x_rota_key=key)).status == 403
    own = headers(x_rota_key=key, origin="http://127.0.0.1:7080")
    assert access.refusal("POST", "/api/cancel", own) is None


def test_a_request_that_another_site_makes_is_refused(access, links):
    key = access.enter(secret_of(links[0]))
    for site in ("cross-site", "same-site"):
        assert access.refusal("GET", "/api/stream", headers(x_rota_key=key, sec_fetch_site=site)).status == 403
    assert access.refusal("GET", "/", headers(sec_fetch_site="none")) is None


def test_the_browser_that_came_first_goes_when_there_are_too_many(access, links):
    keys = [access.enter(secret_of(links[-1])) for _ in range(40)]

    assert access.refusal("GET", "/api/stream", headers(x_rota_key=keys[0])).status == 401
    assert access.refusal("GET", "/api/stream", headers(x_rota_key=keys[-1])) is None


def test_the_policy_of_every_answer_allows_nothing_from_elsewhere():
    policy = HEADERS["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
