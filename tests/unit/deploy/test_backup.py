"""Backups are made while jobs come and go, and what they give back is whole, for its owner only, and never mixed up."""

import io
import resource
import shutil
import subprocess
import sys
import tarfile
import threading

import pytest

from deployed import PlayedAgent, a_scheduler, jobs_of, look, submit, until
from rota.core.errors import ConfigError, OutputError
from rota.deploy.scheduler.backup import Places, check_backup, restore_backup, write_backup


def places(folder, certs=None):
    return Places(state=folder / "state.db", logs=folder / "state.db.logs", certs=certs)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.fixture
def site(tmp_path):
    """A scheduler that runs a job, with some output and certificates beside it."""
    folder = tmp_path / "first"
    folder.mkdir()
    scheduler = a_scheduler(folder / "state.db")
    scheduler.start()
    agents = [PlayedAgent(scheduler, "n0")]
    submit(scheduler, {"steps": 10**9, "env": {"TOKEN": "of job 0"}})
    until(lambda: look(scheduler, lambda registry: registry.running), scheduler, agents)
    output = folder / "state.db.logs" / "0" / "1.0"
    output.mkdir(parents=True)
    (output / "0.log").write_bytes(b"a line\n")
    certs = folder / "certs"
    certs.mkdir()
    (certs / "ca.key").write_text("a key")
    yield scheduler, folder, agents
    scheduler.stop()


def test_a_backup_under_load_has_the_values_of_every_job_that_it_knows(site, tmp_path):
    scheduler, folder, _ = site
    stop = threading.Event()

    def load():
        number = 0
        while not stop.is_set():
            number += 1
            jobs = submit(scheduler, *[{"steps": 10**9, "env": {"TOKEN": f"{number} {i}"}} for i in range(5)])
            ask = jobs[:2]
            scheduler.post("test", lambda now, ask=ask: scheduler.requests.cancel(ask, "tester", None, now)).result(10)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        made = [write_backup(places(folder), tmp_path / f"{number}.tar") for number in range(8)]
    finally:
        stop.set()
        thread.join()

    assert made[-1].last_event > made[0].last_event
    for number, manifest in enumerate(made):
        target = tmp_path / f"restored-{number}"
        target.mkdir()
        assert restore_backup(tmp_path / f"{number}.tar", places(target)) == manifest
        again = a_scheduler(target / "state.db")
        live = again.registry.live.values()
        missing = [job.id for job in live if again._secrets.missing(job)]
        values = {again._secrets.filled(job).env["TOKEN"] for job in live}
        again.stop()
        assert missing == []
        assert len(values) == len(live) > 0


def test_a_restored_scheduler_is_whole_for_its_owner_only_and_gives_no_number_twice(site, tmp_path):
    scheduler, folder, _ = site
    write_backup(places(folder, folder / "certs"), tmp_path / "b.tar")
    after = submit(scheduler, {"steps": 10})
    target = tmp_path / "second"
    target.mkdir()
    restore_backup(tmp_path / "b.tar", places(target, target / "certs"))
    again = a_scheduler(target / "state.db")
    again.start()
    try:
        new = submit(again, {"steps": 10**9})
        agents = [PlayedAgent(again, "n1")]
        until(lambda: jobs_of(again)[new[0]].attempt, again, agents)
        registry = look(again, lambda registry: registry)

        assert mode(tmp_path / "b.tar") == 0o600
        for name in ("state.db", "state.db.secrets", "certs/ca.key", "state.db.logs/0/1.0/0.log"):
            assert mode(target / name) == 0o600
        assert (target / "certs/ca.key").read_text() == "a key"
        assert (target / "state.db.logs/0/1.0/0.log").read_bytes() == b"a line\n"
        assert new[0] > after[0] + 1000
        assert registry.jobs[new[0]].epoch > 1000
        assert registry.jobs[0].attempt.epoch == 1
        assert not (target / "state.db.events-lost").exists()
    finally:
        again.stop()


def test_nothing_is_overwritten(site, tmp_path):
    _, folder, _ = site
    write_backup(places(folder), tmp_path / "b.tar")

    with pytest.raises(ConfigError, match=r"b\.tar is there already"):
        write_backup(places(folder), tmp_path / "b.tar")
    with pytest.raises(ConfigError, match=r"state\.db is there already, and nothing is overwritten"):
        restore_backup(tmp_path / "b.tar", places(folder))
    other = tmp_path / "other"
    (other / "state.db.logs").mkdir(parents=True)
    (other / "state.db.logs" / "x").write_text("of somebody")
    with pytest.raises(ConfigError, match="nothing is overwritten"):
        restore_backup(tmp_path / "b.tar", places(other))
    assert not (other / "state.db").exists()


def test_a_restore_into_a_folder_that_is_not_there_says_so(site, tmp_path):
    _, folder, _ = site
    write_backup(places(folder), tmp_path / "b.tar")

    with pytest.raises(ConfigError, match="nowhere does not exist; create it first"):
        restore_backup(tmp_path / "b.tar", places(tmp_path / "nowhere"))


def test_damage_anywhere_is_found_and_leaves_nothing(site, tmp_path):
    _, folder, _ = site
    write_backup(places(folder), tmp_path / "b.tar")
    whole = (tmp_path / "b.tar").read_bytes()
    target = tmp_path / "second"
    target.mkdir()
    broken = tmp_path / "broken.tar"
    cuts = [whole[:-11_000], whole[: len(whole) // 2], whole[:100], b"", b"x" * 5000]
    flips = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(600, len(whole), len(whole) // 12)]
    refused = 0
    for content in [*cuts, *flips]:
        broken.write_bytes(content)
        try:
            check_backup(broken)
        except ConfigError:
            refused += 1
            with pytest.raises(ConfigError):
                restore_backup(broken, places(target))
            assert list(target.iterdir()) == []
        else:
            # A byte that says nothing, such as the padding between members.
            assert content not in cuts
    assert refused >= len(cuts) + len(flips) // 2


@pytest.mark.parametrize("name", ["../escaped", "logs/../../escaped", "/etc/escaped", "certs", "other.db"])
def test_members_that_no_backup_has_are_refused(tmp_path, name):
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO(b""))

    with pytest.raises(ConfigError, match="cannot be restored"):
        restore_backup(tmp_path / "b.tar", places(tmp_path))
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize(
    "manifest", [b"[" * 100_000, b'{"format": 1, "last_event": 1e999}', b'{"format": 1e999}', b"[]"]
)
def test_a_manifest_that_makes_no_sense_is_one_message(tmp_path, manifest):
    fields = b'{"version": "", "made": "", "journal_id": "", "members": {}, '
    body = manifest.replace(b"{", fields, 1) if manifest.startswith(b"{") else manifest
    with tarfile.open(tmp_path / "odd.tar", "w") as tar:
        for name, content in (("state.db", b"x"), ("manifest.json", body)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

    with pytest.raises(ConfigError, match=r"its manifest cannot be read|it has format"):
        check_backup(tmp_path / "odd.tar")


def test_a_full_disk_is_one_message_and_leaves_nothing(site, tmp_path):
    _, folder, _ = site
    full = tmp_path / "full"
    full.mkdir()
    command = [sys.executable, "-m", "rota.cli", "backup", str(full / "b.tar"), "--state", str(folder / "state.db")]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    done = subprocess.run(command, check=False, capture_output=True, text=True, preexec_fn=limit)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(full / "b.tar") in done.stderr or "state.db" in done.stderr
    assert list(full.iterdir()) == []
    shutil.rmtree(full)


def test_a_backup_to_a_full_disk_does_not_blame_the_state_file(site, tmp_path):
    _, folder, _ = site
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        with pytest.raises(OutputError, match=r"cannot write backup .*: the disk of .* is full"):
            write_backup(places(folder), disk / "b.tar")
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
