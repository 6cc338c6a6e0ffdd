import json
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from rota.core.errors import ConfigError, UnknownName
from rota.deploy.security.tokens import TokenFile, looks_like_a_token


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.json"


def test_a_token_says_its_tenant_and_role(path):
    store = TokenFile(path)
    _, user = store.add("vision")
    _, admin = store.add("ops", admin=True)

    found = [store.verify(t) for t in (user, admin)]

    assert [(r.tenant, r.admin) for r in found] == [("vision", False), ("ops", True)]


def test_the_secret_is_not_in_the_file(path):
    token_id, token = TokenFile(path).add("vision")

    text = path.read_text()

    assert token_id in text
    assert token.rpartition("_")[2] not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_tokens_of_a_tenant_have_nothing_in_common(path):
    store = TokenFile(path)
    store.add("vision")
    store.add("vision")

    first, second = store.list()

    assert not {first.id, first.salt, first.hash} & {second.id, second.salt, second.hash}


def test_a_changed_cut_or_invented_token_opens_nothing(path):
    store = TokenFile(path)
    token_id, token = store.add("vision")
    _, other = store.add("speech")
    changed = [token[:i] + ("0" if token[i] != "0" else "1") + token[i + 1 :] for i in range(len(token))]
    mixed = f"rota_{token_id}_{other.rpartition('_')[2]}"

    wrong = [
        *changed,
        mixed,
        "",
        "rota_",
        token[:-1],
        f"{token}0",
        token.upper(),
        f" {token}",
        f"{token}\n",
        "\0",
        "é" * 82,
    ]

    assert [t for t in wrong if store.verify(t) is not None] == []


def test_a_revoked_token_is_refused_by_a_store_that_had_accepted_it(path):
    running = TokenFile(path)
    token_id, token = TokenFile(path).add("vision")
    assert running.verify(token) is not None

    TokenFile(path).revoke(token_id)

    assert running.verify(token) is None
    assert running.list()[0].revoked is not None


def test_a_token_ends_when_it_was_said_to(path):
    now = [1000.0]
    store = TokenFile(path, clock=lambda: now[0])
    _, token = store.add("vision", days=1)

    now[0] += 86399
    assert store.verify(token) is not None
    now[0] += 1
    assert store.verify(token) is None


def test_a_store_without_a_file_accepts_nothing(path):
    store = TokenFile(path)
    _, token = store.add("vision")
    assert store.verify(token) is not None

    path.unlink()

    assert store.verify(token) is None
    assert store.list() == []


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{}]}'])
def test_a_broken_file_accepts_nothing_and_says_so(path, caplog, content):
    store = TokenFile(path)
    _, token = store.add("vision")
    path.write_text(content)

    with caplog.at_level(logging.ERROR):
        assert store.verify(token) is None

    assert "no token is accepted" in caplog.text
    with pytest.raises(ConfigError, match=r"tokens\.json"):
        store.list()


def test_a_file_that_everybody_can_read_is_refused(path):
    store = TokenFile(path)
    store.add("vision")
    path.chmod(0o644)

    with pytest.raises(ConfigError, match="chmod 600"):
        store.list()


def test_an_unknown_token_cannot_be_revoked(path):
    store = TokenFile(path)
    store.add("vision")
    before = path.read_bytes()

    with pytest.raises(UnknownName):
        store.revoke("000000000000")

    assert path.read_bytes() == before


def test_a_tenant_has_a_name_that_can_be_one(path):
    with pytest.raises(ConfigError, match="cannot be the name of a tenant"):
        TokenFile(path).add("a/b")
    assert not path.exists()


def test_tokens_made_at_the_same_time_are_all_kept(path):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: TokenFile(path).add(f"t{i}")[1], range(40)))

    store = TokenFile(path)

    assert {store.verify(t).tenant for t in made} == {f"t{i}" for i in range(40)}
    assert json.loads(path.read_text())["version"] == 1


def test_a_token_can_be_told_from_other_text(path):
    assert looks_like_a_token(TokenFile(path).add("vision")[1])
    assert not looks_like_a_token("hunter2")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files for others")
def test_tokens_that_root_makes_are_read_by_the_service_whose_folder_it_is(tmp_path):
    folder = tmp_path / "certs"
    folder.mkdir(mode=0o700)
    os.chown(folder, 4711, 4712)

    for _ in range(2):
        TokenFile(folder / "tokens.json").add("vision")

    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in folder.iterdir()}
    assert owners == {"tokens.json": (4711, 4712), ".tokens.json.lock": (4711, 4712)}
    assert stat.S_IMODE((folder / "tokens.json").stat().st_mode) == 0o600
