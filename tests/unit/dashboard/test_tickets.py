"""A page that stayed open comes back to its gateway, and to nobody else's; nothing that is told opens anything."""

import hashlib
import hmac
import stat

import pytest

from rota.dashboard.access import Access
from rota.dashboard.tickets import LASTS_S, KeyFile, Tickets

KEY = bytes(range(32))
NUMBER = "0123456789abcdef"


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def of(clock, *, port=7080, key=KEY, rights="lab"):
    return Tickets(port, key, rights, clock)


def proof(ticket, what, theirs, port=7080):
    text = f"{what}|127.0.0.1:{port}|{ticket.name}|{NUMBER}|{theirs}"
    return hmac.new(ticket.secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def test_both_sides_prove_that_they_know_the_secret_and_get_the_same_key(clock):
    ticket = of(clock).issue()
    after = of(clock)  # the gateway that was started again

    theirs, shown = after.answer(ticket.name, NUMBER)
    key = after.key_for(ticket.name, NUMBER, theirs, proof(ticket, "page", theirs))

    assert shown == proof(ticket, "gateway", theirs)
    assert key == proof(ticket, "key", theirs)
    assert key not in (shown, theirs, proof(ticket, "page", theirs))


@pytest.mark.parametrize("what", ["gateway", "key", "other"])
def test_no_other_proof_opens_anything(clock, what):
    ticket = of(clock).issue()
    after = of(clock)
    theirs, _ = after.answer(ticket.name, NUMBER)

    assert after.key_for(ticket.name, NUMBER, theirs, proof(ticket, what, theirs)) is None


@pytest.mark.parametrize("other", [{"port": 7081}, {"key": bytes(32)}, {"rights": "an administrator"}])
def test_a_gateway_on_another_port_with_another_key_or_other_rights_proves_nothing(clock, other):
    ticket = of(clock).issue()
    after = of(clock, **other)
    theirs, shown = after.answer(ticket.name, NUMBER) or ("", "")

    assert shown != proof(ticket, "gateway", theirs)
    assert after.key_for(ticket.name, NUMBER, theirs, proof(ticket, "page", theirs)) is None
    assert bool(theirs) == ("port" in other)  # which port it was is not in the name of a ticket


def test_tickets_and_answers_end(clock):
    ticket = of(clock).issue()
    after = of(clock)
    theirs, _ = after.answer(ticket.name, NUMBER)
    clock.now += 31.0
    assert after.key_for(ticket.name, NUMBER, theirs, proof(ticket, "page", theirs)) is None
    clock.now += LASTS_S
    assert after.answer(ticket.name, NUMBER) is None


def test_an_answer_of_another_gateway_cannot_be_used_again(clock):
    ticket = of(clock).issue()
    first = of(clock)
    theirs, _ = first.answer(ticket.name, NUMBER)

    assert of(clock).key_for(ticket.name, NUMBER, theirs, proof(ticket, "page", theirs)) is None


@pytest.mark.parametrize(
    "name",
    ["", "x", "99999999999999.aaaaaaaaaaaaaaaaaaaa", "1.aaaaaaaaaaaaaaaaaaaa", f"9999999999.{16 * 'a'}.{64 * '0'}"],
)
def test_a_name_that_cannot_be_is_not_answered(clock, name):
    assert of(clock).answer(name, NUMBER) is None
    assert of(clock).answer(of(clock).issue().name, "x|y") is None


def test_a_page_that_came_back_has_a_key_of_its_own(clock):
    access = Access(7080, tickets=of(clock))
    ticket = access.ticket()
    theirs, _ = access.answer(ticket.name, NUMBER)
    headers = {"host": "127.0.0.1:7080", "x-rota-key": proof(ticket, "key", theirs)}

    assert access.refusal("GET", "/api/stream", headers).status == 401
    assert not access.come_back(ticket.name, NUMBER, theirs, "0" * 64)
    assert access.come_back(ticket.name, NUMBER, theirs, proof(ticket, "page", theirs))
    assert access.refusal("GET", "/api/stream", headers) is None
    assert access.refusal("POST", "/api/return", {"host": "127.0.0.1:7080"}).status == 403  # from another origin
    assert access.refusal("POST", "/api/ticket", {"host": "127.0.0.1:7080"}).status == 403


def test_the_key_is_for_the_user_alone_and_one_that_is_not_is_made_anew(tmp_path):
    file = KeyFile(7080, tmp_path / "state")
    path = tmp_path / "state" / "dashboard-7080.key"
    key = file.read_or_make()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert KeyFile(7080, tmp_path / "state").read_or_make() == key
    path.chmod(0o640)
    assert file.read_or_make() != key
    file.remove()
    assert not path.exists()
    (tmp_path / "other").write_bytes(KEY)
    path.symlink_to(tmp_path / "other")
    assert file.read_or_make() != KEY
    assert not path.is_symlink()


def test_a_gateway_without_a_folder_of_state_goes_on(tmp_path):
    (tmp_path / "file").write_text("")

    assert len(KeyFile(7080, tmp_path / "file" / "state").read_or_make()) == 32
