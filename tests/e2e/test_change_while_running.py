"""`rota policy set` and `rota tenants set` on a live cluster of real processes."""

import json
import subprocess
import sys

import pytest

from faults import Site, results, until

POLICIES = ["srtf", "max-min-fairness-perf", "fifo", "las", "finish-time-fairness-perf"]
MECHANISMS = ["tune", "proportional"]


def rota(site, *arguments, code=0):
    """A verb as a process; its output, or its message if it is to fail."""
    command = [sys.executable, "-m", "rota.cli", *arguments, "--scheduler", site.address, "--insecure"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def test_settings_change_while_jobs_run_and_are_kept_by_a_scheduler_that_is_killed_at_once(tmp_path):
    file = tmp_path / "tenants.toml"
    file.write_text("[tenants.default]\nmax_running = 2\n")
    with Site(tmp_path, policy="las", tenants=file) as site:
        site.agent("n0", "emulate:v100=3")
        jobs = [site.submit(steps=150) for _ in range(3)]
        until(lambda: all(site.steps(job) for job in jobs[:2]))
        held = site.job(jobs[2]).reason
        preview = rota(site, "policy", "set", "srtf", "--mechanism", "tune", "--preview")
        before = json.loads(rota(site, "policy", "--json"))
        rota(site, "policy", "set", "srtf", "--mechanism", "tune", "--yes")
        site.kill("scheduler")
        site.serve()
        told = rota(site, "policy")
        file.write_text("[tenants.default]\nmax_running = two\n")
        refused = rota(site, "tenants", "reload", "--yes", code=2)
        file.write_text("[tenants.default]\nmax_running = 3\n")
        reloaded = rota(site, "tenants", "reload", "--yes")
        over = site.done(*jobs)
        after = json.loads(rota(site, "policy", "--json"))

        assert "max_running" in held
        assert "policy: las -> srtf" in preview
        assert "running jobs stopped or moved in the next 3 rounds: 0" in preview
        assert before["policy"] == "las"
        assert (after["policy"], after["mechanism"]) == ("srtf", "tune")
        assert "policy: srtf -> las" in told
        assert "stay in force and count more than the command line" in site.log("scheduler")
        assert f"{file} is not a TOML file" in refused
        assert "tenant default: max_running: 2 -> 3" in reloaded
        assert [job.phase for job in over] == ["finished"] * 3
        for job in jobs:
            assert {attempt for attempt, *_ in site.steps(job)} == {1}
            assert [row[4] for row in site.steps(job)] == results(150)


@pytest.mark.long
def test_fifty_switches_under_a_running_trace_of_real_processes(tmp_path):
    with Site(tmp_path, policy="las") as site:
        site.agent("n0", "emulate:v100=2")
        site.agent("n1", "emulate:v100=2")
        site.agent("n2", "emulate:k80=2")
        jobs = []
        for number in range(50):
            chosen = [POLICIES[number % len(POLICIES)], "--mechanism", MECHANISMS[number % len(MECHANISMS)]]
            rota(site, "policy", "set", *chosen, "--yes")
            if number % 4 == 0:
                jobs.append(site.submit(steps=200 + number, gpus=1 + number // 4 % 2))
        over = site.done(*jobs, seconds=300)

        assert [job.phase for job in over] == ["finished"] * len(jobs)
        for at, job in enumerate(jobs):
            steps = 200 + 4 * at
            assert site.credited_in_order(job)[-1] == steps
            assert {row[1]: row[4] for row in site.steps(job)} == dict(enumerate(results(steps)))
        planned = True
        for event in site.events():
            planned = (planned and event["event"] != "SettingsChanged") or event["event"] == "Planned"
            assert planned or event["event"] != "AttemptStopping", event
