import datetime as dt
import os
import stat
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from rota.core.errors import ConfigError, OutputError
from rota.deploy.security import certs
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.certificates import read_certificate
from rota.deploy.security.proof import BundleFiles, prove
from rota.deploy.security.subjects import Role, Subject, parse
from secure import HOSTS, NOW, YEAR, a_client, a_site


@pytest.fixture
def folder(tmp_path):
    return a_site(tmp_path / "certs")


def test_keys_are_for_their_owner_only(folder):
    keys = sorted(folder.rglob("*.key"))

    assert [k.relative_to(folder).as_posix() for k in keys] == [
        "agents/node1.key",
        "ca.key",
        "client.key",
        "scheduler.key",
    ]
    assert {stat.S_IMODE(k.stat().st_mode) for k in keys} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_certificate_serves_one_purpose_and_names_its_holder(folder):
    expected = {"scheduler": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}

    for role, purpose in expected.items():
        found = read_certificate(folder / f"{role}.pem").extensions
        assert list(found.get_extension_for_class(x509.ExtendedKeyUsage).value) == [purpose]
        assert not found.get_extension_for_class(x509.BasicConstraints).value.ca
    assert tuple(certs.hosts_of(read_certificate(folder / "scheduler.pem"))) == HOSTS
    assert load_bundle(folder, Role.CLIENT).subject == Subject(Role.CLIENT, "admin")


def test_nothing_is_overwritten_unless_asked(folder):
    before = {p: p.read_bytes() for p in folder.rglob("*.*")}

    with pytest.raises(OutputError, match="would be overwritten"):
        certs.create_authority(folder, NOW)
    with pytest.raises(OutputError, match=r"node1\.pem"):
        certs.issue(folder, Subject(Role.AGENT, "node1"), NOW)

    assert {p: p.read_bytes() for p in folder.rglob("*.*")} == before
    certs.issue(folder, Subject(Role.AGENT, "node1"), NOW, force=True)
    assert (folder / "agents/node1.pem").read_bytes() != before[folder / "agents/node1.pem"]


def test_a_folder_to_hand_over_is_enough_and_has_no_key_of_the_authority(folder, tmp_path):
    out = tmp_path / "for-bob"
    certs.issue(folder, Subject(Role.CLIENT, "bob", "speech"), NOW, out=out)

    assert sorted(p.name for p in out.iterdir()) == ["ca.pem", "client.key", "client.pem"]
    assert load_bundle(out, Role.CLIENT).subject == Subject(Role.CLIENT, "bob", "speech")


def test_a_folder_of_another_authority_is_not_mixed_up(folder, tmp_path):
    other = a_site(tmp_path / "other")

    with pytest.raises(OutputError, match="another authority"):
        certs.issue(folder, Subject(Role.CLIENT, "bob"), NOW, out=other, force=True)


def test_renewal_keeps_holder_and_hosts_and_only_touches_what_ends_soon(folder):
    a_client(folder, "soon", tenant="vision", now=NOW - YEAR + dt.timedelta(days=10))

    renewed = certs.renew(folder, NOW, within_days=30)

    assert [r.subject for r in renewed] == [Subject(Role.CLIENT, "soon", "vision")]
    assert load_bundle(folder, Role.CLIENT, "soon", NOW + YEAR - dt.timedelta(days=1))
    assert len(certs.renew(folder, NOW, within_days=400)) == 4
    assert tuple(certs.hosts_of(read_certificate(folder / "scheduler.pem"))) == HOSTS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files for others")
def test_a_key_that_root_renews_stays_with_the_service_that_reads_it(folder):
    before = {}
    os.chown(folder, 4711, 4712)
    for path in folder.iterdir():
        before[path.name] = (0, 0) if path.name == "ca.key" else (4711, 4712)
        os.chown(path, *before[path.name])

    certs.renew(folder, NOW, within_days=400)

    after = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in folder.iterdir()}
    assert {name: after[name] for name in before} == before


def test_a_certificate_does_not_outlive_its_authority(folder):
    issued = certs.issue(folder, Subject(Role.AGENT, "node2"), NOW, days=36500)

    assert issued.expires == read_certificate(folder / "ca.pem").not_valid_after_utc


@pytest.mark.parametrize("host", ["", "https://x", "a b", "x:7070", "exämple"])
def test_a_host_that_cannot_be_one_is_refused(folder, host):
    with pytest.raises(ConfigError, match="neither a host name nor an IP address"):
        certs.issue(folder, Subject(Role.SCHEDULER, "s"), NOW, hosts=[host], force=True, out=folder)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-a", "a b", "x" * 64, "a\n", "ä"])
def test_a_name_that_could_leave_its_folder_is_refused(folder, name):
    with pytest.raises(ConfigError, match="cannot be the name of an agent"):
        certs.issue(folder, Subject(Role.AGENT, name), NOW)


@pytest.mark.parametrize(
    "uri",
    ["", "http://agent/x", "rota://", "rota://agent", "rota://agent/", "rota://root/x", "rota://agent/a/tenant/b",
     "rota://client/a/tenant", "rota://client/a/tenant/", "rota://client/a/b/c", "rota://client/a/tenant/b/c"],
)  # fmt: skip
def test_a_uri_that_is_not_ours_names_nobody(uri):
    assert parse(uri) is None


@pytest.mark.parametrize(
    "subject", [Subject(Role.SCHEDULER, "s"), Subject(Role.AGENT, "node-1.rack_2"), Subject(Role.CLIENT, "a", "t")]
)
def test_a_holder_survives_its_uri(subject):
    assert parse(subject.uri) == subject


def test_an_expired_certificate_says_so_and_what_to_do(folder):
    with pytest.raises(ConfigError, match=r"node1\.pem ended on .*`rota certs renew`"):
        load_bundle(folder, Role.AGENT, now=NOW + 2 * YEAR)


def test_a_certificate_from_the_future_points_to_the_clock(folder):
    with pytest.raises(ConfigError, match="check the clock"):
        load_bundle(folder, Role.AGENT, now=NOW - YEAR)


def test_the_wrong_role_or_name_is_said(folder):
    (folder / "agent.pem").write_bytes((folder / "client.pem").read_bytes())

    with pytest.raises(ConfigError, match="certificate of client:admin, not of the role agent"):
        load_bundle(folder, Role.AGENT)
    with pytest.raises(ConfigError, match="client:admin, not of client:zoe"):
        load_bundle(folder, Role.CLIENT, "zoe")


def test_a_key_of_another_certificate_is_noticed(folder):
    (folder / "client.key").write_bytes((folder / "scheduler.key").read_bytes())

    with pytest.raises(ConfigError, match=r"client\.key does not belong to .*client\.pem"):
        load_bundle(folder, Role.CLIENT)


def test_a_certificate_of_another_authority_is_noticed(folder, tmp_path):
    other = a_site(tmp_path / "other")
    (folder / "ca.pem").write_bytes((other / "ca.pem").read_bytes())

    with pytest.raises(ConfigError, match="was not signed by"):
        load_bundle(folder, Role.CLIENT)


def test_a_key_that_everybody_can_read_is_refused(folder):
    (folder / "client.key").chmod(0o644)

    with pytest.raises(ConfigError, match="chmod 600"):
        load_bundle(folder, Role.CLIENT)


def test_missing_and_broken_files_are_one_message(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"ca\.pem does not exist; make certificates with `rota certs init`"):
        load_bundle(tmp_path / "nowhere", Role.CLIENT)
    (folder / "client.pem").write_text("nonsense")
    with pytest.raises(ConfigError, match="not a certificate in PEM form"):
        load_bundle(folder, Role.CLIENT)


def test_several_agents_in_a_folder_need_a_name(folder):
    certs.issue(folder, Subject(Role.AGENT, "node2"), NOW)

    with pytest.raises(ConfigError, match=r"several certificates \(node1, node2\)"):
        load_bundle(folder, Role.AGENT)
    assert load_bundle(folder, Role.AGENT, "node2").subject.name == "node2"


def test_a_bundle_does_not_show_its_key(folder):
    assert "PRIVATE" not in repr(load_bundle(folder, Role.CLIENT))


def test_certificates_in_order_are_seen_without_loading_cryptography(folder):
    program = (
        "import sys; from pathlib import Path; from rota.deploy.security.client import find_settings; "
        "from rota.deploy.security.subjects import Role; "
        "found = find_settings('127.0.0.1:1', sys.argv[1], role=Role.AGENT, name='node1', environ={}); "
        "print(found.bundle.subject, found.bundle.expires.isoformat(), 'cryptography' in sys.modules)"
    )

    ran = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)

    expires = read_certificate(folder / "agents/node1.pem").not_valid_after_utc
    assert ran.stdout.split() == ["agent:node1", expires.isoformat(), "False"]


def test_both_ways_to_look_at_a_certificate_find_the_same(folder):
    quick, careful = load_bundle(folder, Role.CLIENT), load_bundle(folder, Role.CLIENT, now=NOW)

    assert quick == careful


def test_what_is_not_in_order_is_not_proved(folder, tmp_path):
    other = a_site(tmp_path / "other")
    good = BundleFiles(folder / "ca.pem", folder / "client.pem", folder / "client.key")
    certs.issue(folder, Subject(Role.CLIENT, "old"), NOW - 2 * YEAR)
    (tmp_path / "two.pem").write_bytes(good.authority.read_bytes() + good.certificate.read_bytes())
    key = serialization.load_pem_private_key(good.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"x")
    (tmp_path / "locked.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )

    assert prove(good) is not None
    assert prove(good._replace(authority=other / "ca.pem")) is None
    assert prove(good._replace(key=other / "client.key")) is None
    assert prove(BundleFiles(good.authority, folder / "clients/old.pem", folder / "clients/old.key")) is None
    assert prove(good._replace(authority=tmp_path / "two.pem")) is None
    assert prove(good._replace(key=tmp_path / "locked.key")) is None
    assert prove(BundleFiles(good.authority, folder / "scheduler.pem", folder / "scheduler.key")) is None
