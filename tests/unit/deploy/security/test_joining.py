"""Join tickets: one server, once, soon."""

import datetime as dt
import json

import pytest
from cryptography import x509

from rota.core.errors import ConfigError
from rota.deploy.security.joining import (
    JoinAuthority,
    TicketRefused,
    make_request,
    make_ticket,
    withdraw_ticket,
)
from rota.deploy.security.places import joined_file
from secure import NOW, a_site


@pytest.fixture
def site(tmp_path):
    return a_site(tmp_path / "certs")


def a_ticket(site, folder, node="n7", **how):
    make_ticket(site, node, folder, NOW, **how)
    return (folder / "join.pem").read_bytes()


def test_a_ticket_is_exchanged_for_the_certificate_of_its_node(site, tmp_path):
    key, request = make_request("n7")

    made = x509.load_pem_x509_certificate(
        JoinAuthority(site, NOW).exchange(a_ticket(site, tmp_path / "t"), "n7", request, 3600.0, NOW)
    )

    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["rota://agent/n7"]
    assert made.not_valid_after_utc == NOW + dt.timedelta(hours=1)
    assert key.startswith(b"-----BEGIN PRIVATE KEY")


def test_a_ticket_is_refused_the_second_time(site, tmp_path):
    ticket = a_ticket(site, tmp_path / "t")
    authority = JoinAuthority(site, NOW)
    authority.exchange(ticket, "n7", make_request("n7")[1], 60.0, NOW)

    with pytest.raises(TicketRefused, match="used before"):
        authority.exchange(ticket, "n7", make_request("n7")[1], 60.0, NOW)


def test_an_answer_that_got_lost_is_given_again_to_the_same_key_even_by_a_scheduler_started_again(site, tmp_path):
    ticket = a_ticket(site, tmp_path / "t")
    request = make_request("n7")[1]
    JoinAuthority(site, NOW).exchange(ticket, "n7", request, 60.0, NOW)

    assert JoinAuthority(site, NOW).exchange(ticket, "n7", request, 60.0, NOW)


def test_a_ticket_that_was_withdrawn_is_refused(site, tmp_path):
    ticket = a_ticket(site, tmp_path / "t")
    withdraw_ticket(site, tmp_path / "t")

    with pytest.raises(TicketRefused, match="withdrawn"):
        JoinAuthority(site, NOW).exchange(ticket, "n7", make_request("n7")[1], 60.0, NOW)


def test_no_ticket_is_accepted_while_the_list_of_used_ones_is_broken(site, tmp_path):
    ticket = a_ticket(site, tmp_path / "t")
    joined_file(site).write_text("{")

    with pytest.raises(ConfigError, match="no ticket is accepted"):
        JoinAuthority(site, NOW).exchange(ticket, "n7", make_request("n7")[1], 60.0, NOW)


def test_the_list_forgets_tickets_that_have_ended(site, tmp_path):
    authority = JoinAuthority(site, NOW)
    authority.exchange(a_ticket(site, tmp_path / "a", "n1", hours=1), "n1", make_request("n1")[1], 60.0, NOW)
    later = NOW + dt.timedelta(hours=2)

    authority.exchange(a_ticket(site, tmp_path / "b", "n2", hours=9), "n2", make_request("n2")[1], 60.0, later)

    used = json.loads(joined_file(site).read_text())["used"]
    assert [one["node"] for one in used.values()] == ["n2"]


@pytest.mark.parametrize("request_", [b"", b"garbage", b"-----BEGIN CERTIFICATE REQUEST-----\nAA\n"])
def test_what_is_no_request_is_refused(site, tmp_path, request_):
    with pytest.raises(TicketRefused, match="signing request"):
        JoinAuthority(site, NOW).exchange(a_ticket(site, tmp_path / "t"), "n7", request_, 60.0, NOW)


def test_the_key_of_a_ticket_is_for_its_owner_only(site, tmp_path):
    a_ticket(site, tmp_path / "t")

    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "t" / "join.key").stat().st_mode & 0o777 == 0o600


def test_a_scheduler_without_the_key_of_the_authority_says_so_at_its_start(site):
    (site / "ca.key").unlink()

    with pytest.raises(ConfigError, match=r"ca\.key"):
        JoinAuthority(site, NOW)
