"""What is fuzzed: readers of files. Each takes bytes as somebody may have written them into such a file."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import seeds

from rota.analysis.jobs_csv import read_jobs_csv
from rota.clusters import load as load_cluster
from rota.core.errors import ConfigError
from rota.deploy.agent.config_file import read_agent_file
from rota.deploy.job_files import read_jobs
from rota.deploy.notifications.positions import Positions
from rota.deploy.notifications.settings import read_targets
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.certificates import load_authority, read_certificate, subject_of
from rota.deploy.security.client import find_settings
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.subjects import Role
from rota.deploy.security.tokens import TokenFile
from rota.deploy.tenants import read_tenants
from rota.deploy.variables import read_env_file
from rota.engine import checkpoint
from rota.engine.log import read_events
from rota.experiments.spec import read_spec
from rota.experiments.sweeping import plan
from rota.profiles import load as load_profiles
from rota.workloads.lint import lint


@dataclass
class Target:
    """Something that takes input from outside."""

    name: str
    seeds: list[bytes]
    feed: Callable[[bytes], Any]
    """Raises whatever comes out of the reader; oracle.Found if it finds something wrong by itself."""
    make: Callable[[Any], bytes] | None = None
    """Makes an input with a Mutator; by default one of the seeds is mutated."""
    packed: bool = False
    """Whether the reader takes files that were compressed with gzip."""
    close: Callable[[], None] = lambda: None

    def input(self, mutator):
        """The next input."""
        return self.make(mutator) if self.make else mutator.mutated(self.seeds, packed=self.packed)


def _file(name, file_name, good, read, **more):
    """A target that is a reader of one file."""

    def make(folder):
        path = folder / file_name
        kept = [
            text.encode() if isinstance(text, str) else text for text in (good if isinstance(good, list) else [good])
        ]

        def feed(data):
            path.unlink(missing_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)
            read(path)

        return Target(name=name, seeds=kept, feed=feed, **more)

    return name, make


def _linted(path, form=None, settings=None):
    """Read to the end; a trace with errors counts as refused."""
    findings = lint(path, form, settings)
    if findings.errors:
        raise ConfigError(str(findings.errors))


def _traces():
    for form, text in seeds.TRACES.items():
        yield _file(f"trace-{form}", "a.log", text, lambda path, form=form: _linted(path, form), packed=True)
    every = list(seeds.TRACES.values())
    yield _file("trace-any", "a.log", every, _linted, packed=True)
    columns = {"columns": "job_id:JobID,arrival:submit,duration:runtime_min*60,gpus:ngpu"}
    text = "JobID,submit,runtime_min,ngpu\n1,0,5,1\n2,60,7.5,8\n"
    yield _file("trace-columns", "a.log", text, lambda path: _linted(path, "columns", dict(columns)), packed=True)


def _parquet(folder):
    _, make = _file("trace-parquet", "a.parquet", seeds.parquet(folder), _linted)
    return make(folder)


def _plan(path):
    spec = read_spec(path)
    plan(spec, limit=20)


def _drained(path):
    for _ in read_events(path):
        pass


def _replayed(path):
    import rota

    rota.replay(path)


def _run_file(name, file_name, which, read, **more):
    """A reader of something that a run wrote."""

    def make(folder):
        return _file(name, file_name, seeds.a_run(folder)[which], read, **more)[1](folder)

    return name, make


def _checkpoint(path):
    checkpoint.load(path, seeds.CONFIG)


def _report(path):
    from rota.report.reading import read

    read([str(path)])


def _store(folder):
    from rota.experiments.store import ResultStore
    from rota.report.reading import read

    good = seeds.a_store(folder)
    path = folder / "fuzzed.db"

    def feed(data):
        for other in folder.glob("fuzzed.db*"):
            other.unlink()
        path.write_bytes(data)
        with ResultStore(path, create=False) as store:
            store.sweeps()
            list(store.runs(sweep="s"))
            store.result("k1")
        read([str(path)])

    return Target(name="result-store", seeds=[good], feed=feed, make=lambda mutator: mutator.of_database(good, folder))


def _journal(folder):
    from rota.deploy.scheduler.journal_repair import check

    good = seeds.a_journal(folder)
    path = folder / "fuzzed.db"

    def feed(data):
        for other in folder.glob("fuzzed.db*"):
            other.unlink()
        path.write_bytes(data)
        check(path)

    return Target(name="journal", seeds=[good], feed=feed, make=lambda mutator: mutator.of_database(good, folder))


def _certificates(folder):
    site = seeds.certificates(folder / "site")
    names = ("ca.pem", "ca.key", "agents/node1.pem", "agents/node1.key", "scheduler.pem")
    good = {name: (site / name).read_bytes() for name in names}
    where = site / "fuzzed.pem"

    def feed(data):
        where.write_bytes(data)
        where.chmod(0o600)
        subject_of(read_certificate(where), where)

    return Target(
        name="certificate",
        seeds=[content for name, content in good.items() if name.endswith(".pem") and name != "ca.pem"],
        feed=feed,
    )


def _bundle(folder):
    """A certificate, key or authority of an agent that was damaged on the way."""
    site = seeds.certificates(folder / "site")
    names = ("ca.pem", "agents/node1.pem", "agents/node1.key", "ca.key")
    good = {name: (site / name).read_bytes() for name in names}

    def feed(data):
        which, _, content = data.partition(b"\n")
        name = which.decode("ascii", "replace")
        if name not in good:
            return
        try:
            (site / name).write_bytes(content)
            load_bundle(site, Role.AGENT, "node1")
            load_authority(site, seeds.NOW)
        finally:
            (site / name).write_bytes(good[name])

    def make(mutator):
        name = mutator.random.choice(names)
        return name.encode() + b"\n" + mutator.mutated(list(good.values()))

    return Target(name="bundle", seeds=[f"{n}\n".encode() + c for n, c in good.items()], feed=feed, make=make)


def _tokens(folder):
    site = seeds.certificates(folder / "site")
    path = site / "tokens.json"

    def read(data):
        path.write_bytes(data)
        path.chmod(0o600)
        TokenFile(path).verify("rota_" + "0" * 12 + "_" + "0" * 64)
        for record in TokenFile(path).list():
            record.good_at(0.0)

    return Target(name="tokens", seeds=[path.read_bytes()], feed=read)


def _revoked(folder):
    site = seeds.certificates(folder / "site")
    path = site / "revoked.json"

    def read(data):
        path.write_bytes(data)
        Revocations(path).read()

    return Target(name="revoked", seeds=[path.read_bytes()], feed=read)


def _client(folder):
    path = folder / "rota" / "client.toml"
    path.parent.mkdir()
    site = seeds.certificates(folder / "site")

    text = seeds.CLIENT.format(token=folder / "token")
    (folder / "token").write_text(f"rota_{'0' * 12}_{'0' * 64}")
    (folder / "token").chmod(0o600)

    def read(data):
        path.write_bytes(data)
        find_settings(certs=site, environ={"XDG_CONFIG_HOME": str(folder)})

    return Target(name="client-file", seeds=[text.encode()], feed=read)


def _own_checkpoints(folder):
    """The manifest of a job's checkpoint, which the job may write as it likes."""
    from rota.client import checkpoints

    store = checkpoints.CheckpointStore(folder)
    name = store.write(6, 1, 2, lambda draft: (draft / "weights").write_bytes(b"1234") and None)
    path = folder / name / checkpoints.MANIFEST

    def read(data):
        path.write_bytes(data)
        checkpoints.latest(folder)

    return Target(name="job-checkpoint", seeds=[path.read_bytes()], feed=read)


FILES = dict(
    [
        *_traces(),
        ("trace-parquet", _parquet),
        _file("cluster", "a.toml", seeds.CLUSTER, load_cluster),
        _file("cluster-ini", "a.ini", seeds.CLUSTER_INI, load_cluster),
        _file("node-list", "a.csv", seeds.NODE_LIST, load_cluster, packed=True),
        _file("profile-csv", "a.csv", seeds.PROFILE_CSV, load_profiles),
        _file("profile-toml", "a.toml", [seeds.PROFILE_TOML, seeds.PROFILE_MODELS], load_profiles),
        _file("profile-json", "a.json", seeds.PROFILE_JSON, load_profiles),
        _file("profile-packed", "a.csv.gz", [seeds.packed(seeds.PROFILE_CSV)], load_profiles, packed=True),
        _file("tenants", "a.toml", seeds.TENANTS, read_tenants),
        _file("notify-file", "a.toml", seeds.NOTIFY, read_targets),
        _file("notified", "a.json", seeds.NOTIFIED, lambda path: Positions(Path(path), "journal")),
        _file("agent-file", "a.toml", seeds.AGENT_FILE, read_agent_file),
        _file("job-file", "a.toml", seeds.JOBS, read_jobs),
        _file("env-file", "a.env", seeds.ENV_FILE, read_env_file),
        _file("sweep", "a.toml", seeds.SWEEP, _plan),
        _run_file("event-log", "a.jsonl", 0, _drained, packed=True),
        _run_file("replay", "a.jsonl", 0, _replayed, packed=True),
        _run_file("jobs-csv", "a.csv", 1, read_jobs_csv, packed=True),
        _run_file("checkpoint", "a.checkpoint", 2, _checkpoint),
        _run_file("summary", "a.json", 3, _report, packed=True),
        ("result-store", _store),
        ("journal", _journal),
        ("certificate", _certificates),
        ("bundle", _bundle),
        ("tokens", _tokens),
        ("revoked", _revoked),
        ("client-file", _client),
        ("job-checkpoint", _own_checkpoints),
    ]
)
"""Name to what makes the target in a folder."""


def _fails(data):
    if b"(" in data:
        raise KeyError("a bracket")


def _dies(data):
    if data != b"fx=":
        os._exit(9)


SELF = {
    "self-fails": lambda _: Target(name="self-fails", seeds=[b"fx="], feed=_fails, make=lambda m: m.mutated([b"f(x)"])),
    "self-dies": lambda _: Target(name="self-dies", seeds=[b"fx="], feed=_dies, make=lambda m: m.mutated([b"f(x)"])),
}
"""Targets with faults, to test the fuzzer."""
