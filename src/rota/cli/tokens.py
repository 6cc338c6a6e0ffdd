"""`rota tokens`: who may submit jobs, and for which tenant."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.options import echo_json, json_option

if TYPE_CHECKING:
    from rota.deploy.security.tokens import TokenFile, TokenRecord

_dir = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    help="The scheduler's folder of certificates (default: ROTA_CERTS, else ~/.config/rota/certs).",
)


@click.group("tokens", epilog="Example: rota tokens create --tenant vision --out vision.token")
def command() -> None:
    """Make, list and revoke the tokens with which tenants submit jobs.

    They are kept, hashed, in DIR/tokens.json, which a running scheduler reads again when it
    changes.
    """


@command.command("create", epilog="Example: rota tokens create --tenant vision --out vision.token")
@click.option(
    "--tenant",
    required=True,
    metavar="NAME",
    help="Tenant whose jobs the holder may submit, see and cancel.",
)
@click.option(
    "--admin",
    is_flag=True,
    help="Let the holder act for every tenant and administer the scheduler.",
)
@click.option(
    "--days",
    type=click.FloatRange(0, min_open=True),
    help="Days for which the token is valid (default: until revoked).",
)
@click.option("--note", default="", metavar="TEXT", help="What the token is for; shown in lists.")
@click.option("--out", metavar="FILE", help="Write the token to a new file that only you can read.")
@_dir
@json_option
def create(
    *,
    tenant: str,
    admin: bool,
    days: float | None,
    note: str,
    out: str | None,
    folder: str | None,
    as_json: bool,
) -> None:
    """Make a token. It is shown once; only a hash of it is kept."""
    from rota.core.errors import OutputError

    if out is not None and Path(out).exists():
        raise OutputError(f"{out} exists already; name a new file")
    token_id, token = _store(folder).add(tenant, admin=admin, days=days, note=note)
    if out is not None:
        from rota.deploy.security import secret_files

        secret_files.write_whole(Path(out), f"{token}\n".encode(), secret_files.PRIVATE)
    if as_json:
        shown = {"file": out} if out is not None else {"token": token}
        echo_json({"id": token_id, "tenant": tenant, "admin": admin, **shown})
        return
    click.echo(token if out is None else f"{token_id}: {out}")


@command.command("list", epilog="Example: rota tokens list")
@_dir
@json_option
def list_(*, folder: str | None, as_json: bool) -> None:
    """All tokens, without their secrets."""
    from rota.deploy.clocks import wall_s

    now = wall_s()
    records = _store(folder).list()
    if as_json:
        echo_json([{**_public(r), "state": _state(r, now)} for r in records])
        return
    from rota.cli.tables import show_table

    rows = [
        (r.id, r.tenant, "admin" if r.admin else "user", _day(r.created), _state(r, now), r.note)
        for r in records
    ]  # fmt: skip
    show_table(None, ("token", "tenant", "role", "made", "state", "note"), rows)


@command.command("revoke", epilog="Example: rota tokens revoke 3f2a9c41d07b")
@click.argument("token_id", metavar="ID")
@_dir
@json_option
def revoke(token_id: str, *, folder: str | None, as_json: bool) -> None:
    """End a token at once."""
    record = _store(folder).revoke(token_id)
    if as_json:
        echo_json({**_public(record), "state": "revoked"})
        return
    click.echo(f"{record.id} of tenant {record.tenant} is revoked")


def _store(folder: str | None) -> TokenFile:
    from rota.deploy.security.places import certs_folder, tokens_file
    from rota.deploy.security.tokens import TokenFile

    return TokenFile(tokens_file(certs_folder(folder)))


def _public(record: TokenRecord) -> dict[str, object]:
    return {k: v for k, v in vars(record).items() if k not in {"salt", "hash"}}


def _state(record: TokenRecord, now: float) -> str:
    if record.revoked is not None:
        return f"revoked {_day(record.revoked)}"
    if record.expires is None:
        return "good"
    end = _day(record.expires)
    return f"good until {end}" if record.good_at(now) else f"ended {end}"


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
