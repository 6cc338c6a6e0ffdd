"""Who may talk to the gateway: a browser on this machine that was given the link, and nobody else.

- A request whose Host is not our own address is refused: a name of somebody else that was made to point at this
  machine (DNS rebinding) never reaches a handler.
- The link holds a secret that can be used once. It is behind `#`, so that no request, log or referrer carries it.
  The page exchanges it for a key, which it sends in a header with every request. Not a cookie: browsers send cookies
  to all ports of a machine, and another port may be another user's.
- The key lives as long as the process. Other users of the machine can connect, but have no key.
- A page that stayed open when its gateway was killed gets a key of the next one with a ticket (`tickets`).
- What changes something is a POST from our own origin.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rota.dashboard.tickets import Ticket, Tickets

KEY_HEADER = "x-rota-key"
_WITHOUT_KEY = frozenset({"/api/enter", "/api/return"})
_MOST_KEYS = 32
"""Browsers at the same time; the one that came first has to come again."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Of every answer."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    why: str


class Access:
    """The secret of the link, the keys that were given for it, and the checks."""

    def __init__(self, port: int, told: Callable[[str], None] = lambda _: None, tickets: Tickets | None = None) -> None:
        """`told` hears of every link: the first one, and the next one when a link was used."""
        self._tickets = tickets
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self._origins = frozenset(f"http://{host}" for host in self._hosts)
        self._port = port
        self._told = told
        self._keys: list[str] = []
        self._secret = ""
        self._next_link()

    def _next_link(self) -> None:
        self._secret = secrets.token_urlsafe(32)
        self._told(f"http://127.0.0.1:{self._port}/#enter={self._secret}")

    def enter(self, secret: str) -> str | None:
        """A key for the secret of the link, which is worth nothing from then on; None if it is another one."""
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            return None
        key = secrets.token_urlsafe(32)
        self._add(key)
        self._next_link()
        return key

    def _add(self, key: str) -> None:
        others = [other for other in self._keys if other != key]
        self._keys = [*others[1 - _MOST_KEYS :], key]

    # Pages that were open when a gateway was killed

    def ticket(self) -> Ticket | None:
        """For a page that has a key."""
        return None if self._tickets is None else self._tickets.issue()

    def answer(self, name: str, number: str) -> tuple[str, str] | None:
        """A number and the proof that this is the gateway of the ticket; None if it is not."""
        return None if self._tickets is None else self._tickets.answer(name, number)

    def come_back(self, name: str, number: str, theirs: str, proof: str) -> bool:
        """Whether a page has proved that the ticket is its own; its key counts from then on."""
        key = None if self._tickets is None else self._tickets.key_for(name, number, theirs, proof)
        if key is not None:
            self._add(key)
        return key is not None

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request is refused; None: it is not. Names of headers are in small letters."""
        if headers.get("host", "") not in self._hosts:
            return Refusal(421, "this is the dashboard of a user of this machine, under its own address only")
        site = headers.get("sec-fetch-site", "none")
        if site not in {"none", "same-origin"}:
            return Refusal(403, "requests from other sites are not answered")
        if method not in {"GET", "HEAD"} and headers.get("origin", "") not in self._origins:
            return Refusal(403, "what changes something has to come from the page itself")
        if path.startswith("/api/") and path not in _WITHOUT_KEY and not self._has_key(headers):
            return Refusal(401, "open the link that `rota dashboard` printed last")
        return None

    def _has_key(self, headers: Mapping[str, str]) -> bool:
        given = headers.get(KEY_HEADER, "").encode()
        return any(hmac.compare_digest(given, key.encode()) for key in self._keys)
