"""`rota certs` and `rota tokens` as a user runs them."""

import json
import subprocess
import sys

import pytest

from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.subjects import Role
from rota.deploy.security.tokens import TokenFile


@pytest.fixture
def rota(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("ROTA_CERTS", raising=False)

    def run(*arguments, code=0):
        command = [sys.executable, "-m", "rota.cli", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def test_a_site_is_set_up_by_commands(rota, tmp_path):
    rota("certs", "init", "site", "--host", "head.example.org", "--host", "10.0.0.5")
    rota("certs", "agent", "node1", "--dir", "site", "--out", "for-node1")
    rota("certs", "client", "alice", "--tenant", "vision", "--dir", "site")
    rota("tokens", "create", "--tenant", "vision", "--dir", "site", "--out", "alice.token")

    shown = json.loads(rota("certs", "show", "site", "--json"))

    assert [(s["file"], s["holder"]) for s in shown] == [
        ("ca.pem", "authority"),
        ("scheduler.pem", "scheduler:scheduler"),
        ("client.pem", "client:admin"),
        ("clients/alice.pem", "client:alice (tenant vision)"),
    ]
    assert {"localhost", "127.0.0.1", "::1", "head.example.org", "10.0.0.5"} <= set(shown[1]["hosts"].split())
    assert load_bundle(tmp_path / "for-node1", Role.AGENT).subject.name == "node1"
    token = (tmp_path / "alice.token").read_text().strip()
    assert TokenFile(tmp_path / "site/tokens.json").verify(token).tenant == "vision"


def test_without_a_folder_the_user_s_own_is_used(rota, tmp_path):
    rota("certs", "init")

    assert (tmp_path / ".config/rota/certs/ca.pem").exists()
    assert "no certificate ends within 30 days" in rota("certs", "renew")
    assert len(json.loads(rota("certs", "renew", "--within", "1000", "--json"))) == 2


def test_a_certificate_made_after_a_revocation_is_good(rota, tmp_path):
    rota("certs", "init", "site")
    rota("certs", "agent", "node1", "--dir", "site")
    old = load_bundle(tmp_path / "site", Role.AGENT)

    rota("certs", "revoke", "agent", "node1", "--dir", "site")
    rota("certs", "agent", "node1", "--dir", "site", "--force")

    revoked, new = Revocations(tmp_path / "site/revoked.json"), load_bundle(tmp_path / "site", Role.AGENT)
    assert revoked.covers(old.subject, old.certificate)
    assert not revoked.covers(new.subject, new.certificate)


def test_tokens_are_made_listed_and_revoked(rota):
    token = rota("tokens", "create", "--tenant", "vision", "--note", "laptop of Alice").strip()
    rota("tokens", "create", "--tenant", "ops", "--admin", "--days", "30")

    listed = json.loads(rota("tokens", "list", "--json"))
    rota("tokens", "revoke", listed[0]["id"])

    assert [(t["tenant"], t["admin"], t["note"]) for t in listed] == [
        ("vision", False, "laptop of Alice"),
        ("ops", True, ""),
    ]
    assert not {"hash", "salt"} & set(listed[0])
    text = rota("tokens", "list")
    assert "revoked" in text
    assert token.rpartition("_")[2] not in text


def test_mistakes_are_one_message_and_change_nothing(rota, tmp_path):
    rota("certs", "init", "site")
    before = {p: p.read_bytes() for p in (tmp_path / "site").iterdir() if p.suffix != ".lock"}

    for arguments, expected in {
        ("certs", "init", "site"): "would be overwritten",
        ("certs", "init", "other", "--host", "http://x"): "neither a host name nor an IP address",
        ("certs", "agent", "../x", "--dir", "site"): "cannot be the name of an agent",
        ("certs", "agent", "x", "--dir", "nowhere"): "ca.pem does not exist",
        ("certs", "show", "nowhere"): "ca.pem does not exist",
        ("certs", "revoke", "agent", "x", "--dir", "nowhere"): "ca.pem does not exist",
        ("tokens", "create", "--tenant", "a b", "--dir", "site"): "cannot be the name of a tenant",
        ("tokens", "revoke", "x", "--dir", "site"): "unknown token",
    }.items():
        said = rota(*arguments, code=2)
        assert expected in said
        assert len(said.splitlines()) == 1
    assert {p: p.read_bytes() for p in (tmp_path / "site").iterdir() if p.suffix != ".lock"} == before
    assert not (tmp_path / "other").exists()


def test_without_the_extra_there_is_one_message_with_the_command():
    script = (
        "import sys; sys.modules['grpc'] = None\nfrom rota.cli.main import main\nsys.exit(main(['certs', 'show', '.']))"
    )

    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert done.returncode == 2
    assert done.stderr == (
        "rota: error: a deployed scheduler needs grpc, which is not installed: "
        "pip install '.[deploy]' in a checkout of Rota\n"
    )
