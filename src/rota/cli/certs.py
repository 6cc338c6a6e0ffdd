"""`rota certs`: a certificate authority and certificates for a deployed scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.connection import needs_deploy
from rota.cli.options import echo_json, json_option

if TYPE_CHECKING:
    from rota.deploy.security.certs import Issued

_dir = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    help="Folder of the authority (default: ROTA_CERTS, else ~/.config/rota/certs).",
)
_out = click.option(
    "--out",
    metavar="FOLDER",
    help="Folder to write for the holder: ca.pem, certificate and key.",
)
_days = click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=365,
    show_default=True,
    help="Days for which the certificates are valid.",
)
_force = click.option("--force", is_flag=True, help="Replace files that are there.")


@click.group("certs", epilog="Example: rota certs init ./certs --host gpu-head.example.org")
def command() -> None:
    """Make and renew the certificates of a deployed scheduler, its agents and clients."""


@command.command(
    "init",
    epilog="Example: rota certs init ./certs --host gpu-head.example.org --host 10.0.0.5",
)
@click.argument("folder", metavar="[DIR]", required=False)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME|IP",
    help="Name or address of the scheduler's host; repeatable.",
)
@_days
@_force
@json_option
def init(
    folder: str | None,
    *,
    hosts: tuple[str, ...],
    days: int,
    force: bool,
    as_json: bool,
) -> None:
    """Make an authority, the scheduler's certificate and one for a client, `admin`.

    localhost, 127.0.0.1, ::1 and the name of this machine are always among the hosts. With --force,
    everything that the old authority signed is worthless from then on.
    """
    import socket  # kept off the path of --help

    from rota.deploy.security import certs
    from rota.deploy.security.subjects import Role, Subject

    place = _place(folder)
    now = _now()
    every = ("localhost", "127.0.0.1", "::1", socket.gethostname(), *hosts)
    certs.check_hosts(every)
    certs.create_authority(place, now, force=force)
    made = [
        certs.issue(
            place,
            Subject(Role.SCHEDULER, "scheduler"),
            now,
            hosts=every,
            days=days,
            force=force,
            out=place,
        ),
        certs.issue(place, Subject(Role.CLIENT, "admin"), now, days=days, force=force, out=place),
    ]
    _show_issued(made, as_json=as_json)
    if not as_json:
        key = place / "ca.key"
        click.echo(f"The key of the authority is {key}: keep it, and keep it to yourself.")


@command.command("agent", epilog="Example: rota certs agent node17 --out ./for-node17")
@click.argument("name")
@_dir
@_out
@_days
@_force
@json_option
def agent(
    name: str,
    *,
    folder: str | None,
    out: str | None,
    days: int,
    force: bool,
    as_json: bool,
) -> None:
    """Make the certificate of an agent."""
    _issue("agent", name, None, folder=folder, out=out, days=days, force=force, as_json=as_json)


@command.command(
    "client",
    epilog="Example: rota certs client alice --tenant vision --out ./for-alice",
)
@click.argument("name")
@click.option(
    "--tenant",
    metavar="NAME",
    help="Only tokens of this tenant work with the certificate.",
)
@_dir
@_out
@_days
@_force
@json_option
def client(
    name: str,
    *,
    tenant: str | None,
    folder: str | None,
    out: str | None,
    days: int,
    force: bool,
    as_json: bool,
) -> None:
    """Make the certificate of a user."""
    _issue("client", name, tenant, folder=folder, out=out, days=days, force=force, as_json=as_json)


@command.command("renew", epilog="Example: rota certs renew ./certs --within 60")
@click.argument("folder", metavar="[DIR]", required=False)
@click.option(
    "--within",
    type=click.IntRange(0, 3650),
    default=30,
    show_default=True,
    help="Days: renew certificates that end within them.",
)
@_days
@json_option
def renew(folder: str | None, *, within: int, days: int, as_json: bool) -> None:
    """Replace certificates that end soon. A running scheduler takes its new one by itself."""
    from rota.deploy.security import certs

    made = certs.renew(_place(folder), _now(), within_days=within, days=days)
    if not made and not as_json:
        click.echo(f"no certificate ends within {within} days")
        return
    _show_issued(made, as_json=as_json)


@command.command("revoke", epilog="Example: rota certs revoke agent node17")
@click.argument("role", type=click.Choice(["agent", "client"]))
@click.argument("name")
@_dir
@click.option("--force", is_flag=True, help="Also if no certificate of that name is known to have been made.")
@json_option
def revoke(role: str, name: str, *, folder: str | None, force: bool, as_json: bool) -> None:
    """Refuse every certificate that a holder has now. One that is made later is good again."""
    import difflib

    from rota.core.errors import ConfigError
    from rota.deploy.security import certs
    from rota.deploy.security.certificates import read_certificate
    from rota.deploy.security.places import revoked_file
    from rota.deploy.security.revocations import Revocations
    from rota.deploy.security.subjects import Role

    place = _place(folder)
    now = _now()
    read_certificate(place / "ca.pem")  # a wrong folder is noticed, not filled
    known = {holder.partition(":")[2] for holder in certs.holders(place) if holder.startswith(f"{role}:")}
    if name not in known and not force:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? Else " if near else ""
        problem = f"nothing was revoked: {place} has made no certificate for {role} {name!r}"
        raise ConfigError(f"{problem}; {hint}give --force to refuse that name all the same")
    Revocations(revoked_file(place)).revoke(Role(role), name, now)
    if as_json:
        echo_json({"holder": f"{role}:{name}", "made_until": now.isoformat()})
        return
    click.echo(f"certificates of {role}:{name} made up to {now:%Y-%m-%d %H:%M:%S} UTC are refused")


@command.command("ticket", epilog="Example: rota certs ticket node17 --dir ./certs --out ./ticket17")
@click.argument("name")
@click.option("--out", required=True, metavar="DIR", help="Folder to write it to; only you can enter it.")
@click.option(
    "--hours",
    type=click.FloatRange(0, 24 * 30, min_open=True),
    default=24.0,
    show_default=True,
    help="Hours within which it has to be used.",
)
@_dir
def ticket(name: str, *, out: str, hours: float, folder: str | None) -> None:
    """Make a join ticket: a server exchanges it, once, for the certificate of the agent NAME."""
    from rota.deploy.security.joining import make_ticket

    ends = make_ticket(_place(folder), name, Path(out), _now(), hours=hours)
    click.echo(f"join:{name}: {out}, to be used until {ends:%Y-%m-%d %H:%M} UTC")


@command.command("join", epilog="Example: rota certs join ./ticket17 --scheduler gpu-head:7070 --out ./certs")
@click.argument("ticket_folder", metavar="TICKET")
@click.option("--scheduler", required=True, metavar="HOST:PORT", help="Address of the scheduler (with --sign-joins).")
@click.option("--out", required=True, metavar="DIR", help="Folder for the certificate and the key that is made here.")
@click.option(
    "--valid",
    "valid_s",
    type=click.FloatRange(60),
    default=365 * 86_400.0,
    metavar="SECONDS",
    help="Seconds for which the certificate is needed (at most 30 days are given).",
)
@click.option(
    "--patience",
    "patience_s",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds to wait for a scheduler that does not answer.",
)
def join(ticket_folder: str, *, scheduler: str, out: str, valid_s: float, patience_s: float) -> None:
    """Exchange a join ticket for the certificate of an agent. The key is made here and stays here."""
    joining = needs_deploy("rota.deploy.providers.joining")
    node = joining.join(Path(ticket_folder), scheduler, Path(out), valid_s=valid_s, patience_s=patience_s)
    click.echo(f"agent:{node}: {out}/agent.pem", err=True)


@command.command("show", epilog="Example: rota certs show ./certs")
@click.argument("folder", metavar="[DIR]", required=False)
@json_option
def show(folder: str | None, *, as_json: bool) -> None:
    """List the certificates of a folder, whose they are and when they end."""
    from rota.deploy.security import certificates, certs

    place = _place(folder)
    now = _now()
    authority = certificates.read_certificate(place / "ca.pem")
    certificates_there = [("ca.pem", "authority", authority, "")]
    for path in certs.certificates_in(place):
        certificate = certificates.read_certificate(path)
        holder = str(certificates.subject_of(certificate, path))
        hosts = " ".join(certs.hosts_of(certificate))
        certificates_there.append((path.relative_to(place).as_posix(), holder, certificate, hosts))
    rows = [
        (file, holder, c.not_valid_after_utc, hosts, (c.not_valid_after_utc - now).days)
        for file, holder, c, hosts in certificates_there
    ]
    if as_json:
        keys = ("file", "holder", "expires", "hosts", "days_left")
        echo_json([dict(zip(keys, (f, h, e.isoformat(), hosts, d), strict=True)) for f, h, e, hosts, d in rows])
        return
    from rota.cli.tables import show_table

    table = [(file, holder, f"{ends:%Y-%m-%d}", hosts, str(days)) for file, holder, ends, hosts, days in rows]
    show_table(str(place), ("file", "holder", "ends", "hosts", "days left"), table, numbers=1)


def _issue(
    role: str,
    name: str,
    tenant: str | None,
    *,
    folder: str | None,
    out: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    from rota.deploy.security import certs
    from rota.deploy.security.subjects import Role, Subject

    target = Path(out) if out is not None else None
    made = certs.issue(_place(folder), Subject(Role(role), name, tenant), _now(), out=target, **how)
    _show_issued([made], as_json=as_json)


def _show_issued(made: list[Issued], *, as_json: bool) -> None:
    if as_json:
        echo_json(
            [
                {
                    "holder": str(m.subject),
                    "certificate": str(m.certificate),
                    "key": str(m.key),
                    "expires": m.expires.isoformat(),
                }
                for m in made
            ]
        )
        return
    for m in made:
        click.echo(f"{m.subject}: {m.certificate}, good until {m.expires:%Y-%m-%d}")


def _place(folder: str | None) -> Path:
    from rota.deploy.security.places import certs_folder

    return certs_folder(folder)


def _now() -> Any:
    from rota.deploy.clocks import wall_date

    return wall_date().replace(microsecond=0)
