"""`rota serve` and `rota agent` as operators watch them: JSON logs, files for DCGM, notifications, refused options."""

import json
import subprocess
import sys

import pytest

from faults import Site, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux to run processes")


def lines_of(site, name):
    """Lines of a log that are JSON, and those that are not."""
    lines = site.log(name).splitlines()
    read = [json.loads(line) for line in lines if line.startswith("{")]
    return read, [line for line in lines if not line.startswith("{")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watching")
    told = folder / "tell.sh"
    told.write_text(f"#!/bin/sh\n{{ cat; echo; }} >> {folder}/told\n")
    told.chmod(0o755)
    (folder / "notify.toml").write_text(f'[[command]]\nname = "file"\nargv = ["{told}"]\nevents = ["*"]\n')
    with Site(folder, log_format="json", notify=folder / "notify.toml", metrics="127.0.0.1:0") as made:
        made.agent("n0", "emulate:v100=2", isolation=("--trust-tenants", "--log-format", "json",
                   "--dcgm-job-mapping", f"{folder}/map"))  # fmt: skip
        yield made


def mapped(site):
    return {path.name: path.read_text() for path in (site.folder / "map").iterdir() if path.name.isdigit()}


def test_files_for_dcgm_follow_jobs_through_the_death_of_the_agent(site):
    job = site.submit(gpus=2)
    until(lambda: mapped(site) == {"0": f"{job}\n", "1": f"{job}\n"}, what="files of the job")
    until(lambda: site.steps(job), what="a step")
    site.kill("n0")
    stays = site.submit(emulated=True, steps=20_000_000)
    assert mapped(site) == {"0": f"{job}\n", "1": f"{job}\n"}  # it runs on
    site.agent("n0", "emulate:v100=2", isolation=("--trust-tenants", "--dcgm-job-mapping", f"{site.folder}/map"))
    assert set(mapped(site).values()) == {f"{job}\n"}

    site.client.cancel([job])
    until(lambda: list(mapped(site).values()) == [f"{stays}\n"], what="files of the other job")
    site.client.cancel([stays])
    until(lambda: mapped(site) == {}, what="no file")


def test_a_job_that_ended_while_the_agent_was_away_leaves_no_file(site):
    job = site.submit(emulated=True, steps=20_000_000)
    kept = site.folder / "n0" / "emulated" / f"{job}.1.json"
    until(lambda: list(mapped(site).values()) == [f"{job}\n"] and kept.exists(), what="its files")
    site.kill("n0")
    kept.unlink()  # as if it had ended and been forgotten
    site.client.cancel([job])
    site.agent("n0", "emulate:v100=2", isolation=("--trust-tenants", "--log-format", "json",
               "--dcgm-job-mapping", f"{site.folder}/map"))  # fmt: skip

    until(lambda: mapped(site) == {}, what="no file")
    site.done(job)


def test_every_line_of_a_json_log_is_json_with_the_ids_it_is_about(site):
    job = site.submit(emulated=True, steps=100, tenant="x")
    site.done(job)

    def told():
        return [line for line in lines_of(site, "scheduler")[0] if line.get("job") == job]

    until(lambda: "JobEnded" in {line["event"] for line in told()}, what="the line of its end")
    started = next(line for line in told() if line["event"] == "AttemptStarted")
    assert (started["tenant"], started["node"], started["level"]) == ("x", "n0", "info")
    assert started["round"] >= 0
    _, other = lines_of(site, "scheduler")
    assert all(line.startswith("rota: ") for line in other), other  # what is said to a terminal
    read, _ = lines_of(site, "n0")
    assert {line["node"] for line in read} == {"n0"}


def test_a_scheduler_that_is_killed_loses_no_notification(site):
    numbers = [site.submit(emulated=True, steps=50) for _ in range(6)]
    site.kill("scheduler")
    site.serve()
    site.done(*numbers)

    def told():
        lines = [json.loads(line) for line in (site.folder / "told").read_text().splitlines() if line]
        return {(one["kind"], one["job"]) for one in lines if one.get("job") in numbers}

    wanted = {(kind, job) for job in numbers for kind in ("job-submitted", "job-started", "job-finished")}
    until(lambda: wanted <= told(), 60, "notifications")


def serve(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "rota.cli", "serve", "--insecure", "--listen", "127.0.0.1:0", *arguments],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--metrics", "0.0.0.0:9464"), "--metrics-public"),
        (("--notify", "/does/not/exist.toml"), "cannot read /does/not/exist.toml"),
    ],
)
def test_options_that_make_no_sense_are_one_message(tmp_path, arguments, says):
    done = serve("--state", str(tmp_path / "state.db"), *arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "state.db").exists()
