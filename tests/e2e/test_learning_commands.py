"""Real processes and real verbs: a profile that `rota profile` wrote, commands that are learned, and who sees what."""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from faults import Site, until
from learning import BATCH, true_rate
from live import Live
from rota import profiles
from rota.cli.main import main
from rota.deploy.worker.limits import pick

WRONG = "profile,gpus,type,rate\nhopeful,1,v100,{}\n"
ROUNDS = ("--emulate", "--time-scale", "60", "--round", "60", "--heartbeat", "0.2")
COMMAND = (sys.executable, "stepper.py", "steps")
WRITTEN_BY_ROTA_PROFILE = Path(__file__).parent.parent / "data" / "stepper_profile.toml"
MODEL = {"emulated": True, "model": "resnet50", "batch": BATCH, "steps": 10**6}


@pytest.fixture
def rota(capsys):
    """A verb in this process; its output, or its message if it is to fail."""

    def run(*words, code=0):
        capsys.readouterr()
        assert main([str(word) for word in words]) == code, capsys.readouterr()
        told = capsys.readouterr()
        return told.out if code == 0 else told.err

    return run


def known_to(live, tenant=""):
    """Options by which a verb finds the cluster, as a tenant or as its administrator."""
    token = live.folder / (f"{tenant}.token" if tenant else ".rota/token")
    return ("--scheduler", live.address, "--certs", live.folder / ".rota/certs", "--token-file", token)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A cluster on which tenant ann runs a job with a wrong profile, and both tenants one that nobody measured."""
    cluster = Live(tmp_path_factory.mktemp("learning"))
    (cluster.folder / "wrong.csv").write_text(WRONG.format(2 * true_rate("resnet50", "v100")))
    cluster.up("--server", "v100=4", *ROUNDS, "--profiles", "wrong.csv")
    for tenant in ("ann", "bob"):
        cluster.run("tokens", "create", "--tenant", tenant, "--dir", ".rota/certs", "--out", f"{tenant}.token")
    with cluster.client() as client:
        jobs = [("ann", "hopeful"), ("ann", "mystery"), ("bob", "mystery")]
        cluster.numbers = client.submit([{**MODEL, "tenant": tenant, "profile": name} for tenant, name in jobs])
        until(lambda: sum(speed.believed for speed in client.learned_speeds().speeds) == 3, 60, "three speeds")
        until(lambda: client.job(cluster.numbers[0]).speed_remark.startswith("2"), 20, "a remark about a factor of 2")
    yield cluster
    cluster.down()


def test_a_tenant_sees_the_speeds_of_its_own_jobs_and_no_others(live, rota):
    for tenant, names in (("ann", ["hopeful", "mystery"]), ("bob", ["mystery"])):
        ask = ("profiles", "--learned", "--json", *known_to(live, tenant))
        mine = json.loads(rota(*ask))["speeds"]
        theirs = json.loads(rota(*ask, "--tenant", "ann"))["speeds"]

        assert [(speed["tenant"], speed["profile"]) for speed in mine] == [(tenant, name) for name in names]
        assert [speed["tenant"] for speed in theirs] == [speed["tenant"] for speed in mine]
        for speed in mine:
            assert speed["rate"] == pytest.approx(true_rate("resnet50", "v100"), rel=0.1)
            assert speed["believed"]


def test_a_wrong_profile_is_told_to_its_tenant_by_jobs_status_and_an_event(live, rota):
    hopeful = live.numbers[0]
    job = rota("jobs", hopeful, *known_to(live, "ann"))
    events = rota("events", "--job", hopeful, "--json", *known_to(live, "ann"))

    assert "slower than profile 'hopeful' says" in job
    assert "the measured speed is used" in job
    assert "slower than profile 'hopeful' says" in rota("status", *known_to(live, "ann"))
    assert "hopeful" not in rota("status", *known_to(live, "bob"))
    assert '"ProfileWrong"' in events


def test_learned_speeds_are_a_profile_file_that_other_verbs_take(live, rota, tmp_path):
    learned = ("profiles", "--learned", *known_to(live))
    said = rota(*learned, "-o", tmp_path / "all.toml", code=2)
    rota(*learned, "--tenant", "ann", "-o", tmp_path / "ann.toml")

    assert "write one file for each with --tenant NAME" in said
    assert [path.name for path in tmp_path.iterdir()] == ["ann.toml"]
    catalogue = profiles.load(tmp_path / "ann.toml")
    assert catalogue.names == ("hopeful", "mystery")
    assert catalogue.origin("mystery", 1, "v100") == "learned"
    assert catalogue.errors["mystery", 1, "v100", False] < 0.1
    assert "learned from jobs while they ran" in rota("profiles", tmp_path / "ann.toml")
    (tmp_path / "trace.csv").write_text("arrival_s,profile,gpus,steps\n0,mystery,1,1000\n")
    run = rota(
        "simulate", "--trace", tmp_path / "trace.csv", "--profiles", tmp_path / "ann.toml", "--cluster", "v100=2",
        "--policy", "fifo", "--json",
    )  # fmt: skip
    assert json.loads(run)["mean_jct_s"] == pytest.approx(1000 / true_rate("resnet50", "v100"), rel=0.1)


def test_a_table_of_what_was_learned_is_shown_and_bad_files_are_refused(live, rota, tmp_path):
    learned = ("profiles", "--learned", *known_to(live))

    assert "mystery" in rota(*learned, "--tenant", "bob")
    assert "nothing was learned" in rota(*learned, "--tenant", "carol")
    assert "does not end in .toml" in rota(*learned, "--tenant", "bob", "-o", tmp_path / "b.csv", code=2)
    assert "no speed is sure enough" in rota(*learned, "--tenant", "carol", "-o", tmp_path / "c.toml", code=2)
    rota(*learned, "--tenant", "bob", "-o", tmp_path / "no" / "such" / "b.toml", code=2)
    assert list(tmp_path.iterdir()) == []


def test_a_profile_of_rota_profile_is_served_and_a_command_without_one_is_learned_for_good(tmp_path, rota, monkeypatch):
    """`rota serve` takes a file that `rota profile` wrote; what is learned survives kill -9."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stepper.toml").write_text(WRITTEN_BY_ROTA_PROFILE.read_text())
    with Site(tmp_path, profiles="stepper.toml", policy="srtf-perf") as site:
        jobs = two_jobs(site, rota)

        site.kill("scheduler")
        site.serve()

        assert {speed.profile for speed in believed(site, 2)} == {"stepper", jobs.learned_as}
        assert f"learned as {jobs.learned_as!r}" in site.job(jobs.without).speed_remark
        site.client.cancel([jobs.with_profile, jobs.without])


@pytest.mark.long
@pytest.mark.skipif("cpu" not in pick(folder="rota-profile").bases, reason="no control groups that may be written")
def test_from_rota_profile_to_a_scheduler_that_was_given_what_another_one_learned(tmp_path, rota, monkeypatch):
    monkeypatch.chdir(tmp_path)
    site = Site(tmp_path, profiles="stepper.toml", policy="srtf-perf")
    rota("profile", "--job-name", "stepper", "--cpu", "1", "--memory", "0.5", "--max-runs", "1", "--", *COMMAND)
    with site:
        jobs = two_jobs(site, rota)
        where = ("--scheduler", site.address, "--insecure")
        rota("profiles", "--learned", *where, "-o", "learned.toml")
        site.stop("scheduler")
        site._serve[site._serve.index("stepper.toml")] = "learned.toml"
        site.serve()

        third = int(rota("submit", *where, "--steps", "10", "--", *COMMAND, "--other"))

        assert site.job(third).spec.profile == jobs.learned_as
        site.client.cancel([jobs.with_profile, jobs.without])
        assert site.done(third)[0].phase == "finished"


class TwoJobs(NamedTuple):
    with_profile: int
    without: int
    learned_as: str


def two_jobs(site, rota):
    """The same script with and without a profile, once it is known how fast they are."""
    site.agent("a", "emulate:cpu=2")
    submit = ("submit", "--scheduler", site.address, "--insecure", "--steps", "100000")
    with_profile = int(rota(*submit, "--profile", "stepper", "--", *COMMAND))
    without = int(rota(*submit, "--", *COMMAND, "--other"))
    speeds = until(lambda: believed(site, 2), 60, "two speeds that are believed")
    by_name = {speed.profile: speed.rate for speed in speeds}
    [learned_as] = by_name.keys() - {"stepper"}
    assert by_name[learned_as] == pytest.approx(by_name["stepper"], rel=0.15)
    assert by_name["stepper"] == pytest.approx(1 / 0.05, rel=0.3), "a step takes 50 ms, and this machine may be busy"
    assert learned_as.startswith("stepper.py~")
    return TwoJobs(with_profile, without, learned_as)


def believed(site, count):
    speeds = [speed for speed in site.client.learned_speeds().speeds if speed.believed]
    return speeds if len(speeds) >= count else None
