import os
import sys

from rota.deploy.security.audit import Audit, RefusalReason, harmless
from rota.deploy.security.handshakes import HandshakeWatch, classify


def test_a_flood_is_counted_in_full_and_told_at_a_bounded_rate():
    now, told = [0.0], []
    audit = Audit(told.append, burst=5, per_minute=60, clock=lambda: now[0])

    for _ in range(1000):
        audit.refused("p", "/m", RefusalReason.BAD_TOKEN, "why")
    now[0] = 1.0
    audit.refused("p", "/m", RefusalReason.BAD_TOKEN, "why")

    assert audit.counts() == {"bad-token": 1001}
    assert [t.suppressed for t in told] == [0, 0, 0, 0, 0, 995]


def test_a_flood_of_one_kind_does_not_hide_another():
    told = []
    audit = Audit(told.append, burst=2, clock=lambda: 0.0)

    for _ in range(100):
        audit.refused("p", "/m", RefusalReason.NOT_TLS, "noise")
    audit.refused("p", "/m", RefusalReason.WRONG_TENANT, "the one that matters")

    assert [t.reason for t in told] == [RefusalReason.NOT_TLS, RefusalReason.NOT_TLS, RefusalReason.WRONG_TENANT]


def test_what_was_only_counted_is_told_in_the_end():
    told = []
    audit = Audit(told.append, burst=1, clock=lambda: 0.0)
    for _ in range(10):
        audit.refused("p", "/m", RefusalReason.NOT_TLS, "noise")

    audit.flush()
    audit.flush()

    assert [t.suppressed for t in told] == [0, 9]


def test_words_of_strangers_cannot_forge_lines_of_a_log():
    assert harmless("a\nroot logged in\x1b[31m") == "a?root logged in?[31m"
    assert len(harmless("x" * 10_000)) == 203


def test_handshake_lines_are_counted_and_other_lines_pass(capfd):
    told = []
    audit = Audit(told.append)

    with HandshakeWatch(audit):
        os.write(2, b"a line of somebody else\n")
        os.write(
            2, b"I x.cc:1] Handshake failed with error SSL: OPENSSL_internal:PEER_DID_NOT_RETURN_A_CERTIFICATE: x\n"
        )
        sys.__stderr__.flush()
        os.write(2, b"the last line")
    os.write(2, b"\nafterwards\n")

    assert audit.counts() == {"no-certificate": 1}
    assert capfd.readouterr().err == "a line of somebody else\nthe last line\nafterwards\n"


def test_a_sink_that_writes_to_standard_error_does_not_block_a_flood(capfd):
    audit = Audit(lambda _: os.write(2, b"told\n" * 1000), burst=10_000)

    with HandshakeWatch(audit) as watch:
        for _ in range(3000):
            os.write(2, b"Handshake failed with error WRONG_VERSION_NUMBER " + b"x" * 200 + b"\n")

    assert audit.total() + watch.dropped <= 3000
    assert audit.total() > 0


def test_reasons_of_the_tls_library_are_understood():
    assert classify(b"error: OPENSSL_internal:HTTP_REQUEST: x")[0] is RefusalReason.NOT_TLS
    reason, words = classify(b"error: OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired\n")
    assert reason is RefusalReason.BAD_CERTIFICATE
    assert "certificate has expired" in words
