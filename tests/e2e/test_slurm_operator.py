"""Pilots of an operator: agents that are root, tenants as Unix users, on a real Slurm."""

import pwd
import subprocess
import tempfile
from pathlib import Path

import pytest
from test_slurm_attempts import batch_jobs

import real_slurm
from live import until
from slurm_site import FAST, SlurmSite, processes_of_job, processes_with

pytestmark = pytest.mark.skipif(bool(real_slurm.missing()), reason=f"Slurm: {real_slurm.missing()}")
USERS = {"vision": "nobody", "speech": "daemon"}
"""Users that every machine has, for two tenants."""
STEPPER = """
import os, sys, time
import rota.client

def save(path):
    (path / "step").write_text(str(lease.step))

print(os.getuid(), os.environ.get("SLURM_JOB_USER", ""), flush=True)
with rota.client.lease(save=save, load=lambda path: None) as lease:
    while lease.next():
        time.sleep(0.02)
"""


@pytest.fixture(scope="module", params=["pilots", "attempts"])
def site(request):
    """Root pilots: one batch job per node, or one per attempt."""
    with (
        tempfile.TemporaryDirectory() as name,
        real_slurm.RealSlurm(nodes=1, accounts=True) as slurm,
    ):
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "agent.toml").write_text("[tenants]\n" + "".join(f'{k} = "{v}"\n' for k, v in USERS.items()))
        (folder / "stepper.py").write_text(STEPPER)
        with SlurmSite(folder, slurm, *FAST, python_for=pwd.getpwnam("nobody").pw_uid) as running:
            way = ["--per-attempt"] if request.param == "attempts" else []
            running.per_attempt = bool(way)
            for tenant in USERS:
                running.tenant(tenant)
            running.pool(
                "--gres",
                "gpu:v100:4",
                "--time",
                "30m",
                "--nodes",
                "1",
                *way,
                tenants=f"--agent-config={folder}/agent.toml",
            )
            running.until_up(1)
            yield running


def the_job(site, steps=100):
    env = {"PYTHONPATH": site.path, "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [site.python, str(site.folder / "stepper.py")]
    return {"argv": argv, "steps": steps, "gpus": 1, "env": {**env, "SECRET": "hunter2"}, "cwd": "/", "max_restarts": 0}


def output_of(client, job):
    return until(lambda: b"".join(client.logs(job)).decode().split(), 20)


@pytest.mark.long
def test_each_tenants_jobs_run_as_its_unix_user_and_slurm_accounts_them_to_it(site):
    for tenant, user in USERS.items():
        with site.client(tenant) as client:
            (job,) = client.submit([the_job(site)])
            info = client.wait([job], 60)[0]
            assert info.phase == "finished", b"".join(client.logs(job))
            number = str(pwd.getpwnam(user).pw_uid)
            said = output_of(client, job)
            assert said[0] == number
            saved = site.folder / "checkpoints" / str(job)
            assert {path.stat().st_uid for path in saved.rglob("step")} == {int(number)}
        if site.per_attempt:
            assert said[1] == user
            accounts = site.slurm.accounts_of_jobs()
            assert accounts[f"rota-job-{job}"] == (f"{user}({number})", "COMPLETED")


@pytest.mark.long
def test_a_tenant_reads_neither_folders_nor_variables_nor_checkpoints_of_another_one(site):
    nobody = pwd.getpwnam("nobody").pw_uid
    with site.client("speech") as client:
        (job,) = client.submit([the_job(site, steps=10_000)])
        until(lambda: client.job(job).step > 10, 40)
        mine = [number for number, _ in processes_with(f"ROTA_JOB={job}", "SECRET=hunter2")]
        tasks = [path for path in site.work.glob("rota-pilot-*/agent/work/tasks/*") if path.is_dir()]
        assert mine
        assert tasks
        secret = [*(f"/proc/{number}/environ" for number in mine)]
        secret += [str(path / name) for path in tasks for name in ("spec.json", "launch.json")]
        secret += [str(site.folder / "checkpoints" / str(job) / "1")]
        for path in secret:
            look = [
                *real_slurm.as_user(nobody),
                "/bin/sh",
                "-c",
                f"cat {path} || ls {path}/*",
            ]
            seen = subprocess.run(look, check=False, capture_output=True, text=True)
            assert "hunter2" not in seen.stdout
            assert seen.returncode != 0, path
        shown = site.slurm.run("scontrol", "show", "job", user=nobody) + site.slurm.run(
            "squeue", "-o", "%all", user=nobody
        )
        assert "hunter2" not in shown
        assert "stepper" not in shown
        client.cancel([job])
        client.wait([job], 30)
    if site.per_attempt:
        assert all(processes_of_job(site.slurm, number) == [] for number in batch_jobs(site.slurm, job))


@pytest.mark.long
def test_a_tenant_cannot_lengthen_its_lease_and_ending_its_holder_ends_its_attempt(site):
    if not site.per_attempt:
        pytest.skip("pilots without batch jobs per attempt have no holder")
    with site.client("vision") as client:
        (job,) = client.submit([the_job(site, steps=100_000)])
        until(lambda: client.job(job).step > 10, 40)
        (task,) = site.work.glob(f"rota-pilot-*/agent/work/tasks/{job}.*.0")
        nobody = real_slurm.as_user(pwd.getpwnam("nobody").pw_uid)

        def tried(script):
            return subprocess.run([*nobody, "/bin/sh", "-c", script], check=False, capture_output=True).returncode

        assert tried(f"cat {task}/lease") == 0
        assert tried(f"echo 1e99 0 > {task}/lease") != 0
        assert tried(f"rm -f {task}/lease") != 0
        assert tried(f"echo 0 > {task}/code") != 0
        (number,) = [number for number, row in batch_jobs(site.slurm, job).items() if row[0] == "RUNNING"]
        (holder,) = [process for process, words in processes_of_job(site.slurm, number) if "attempt_holder" in words]
        assert tried(f"kill -9 {holder}") == 0
        until(lambda: processes_of_job(site.slurm, number) == [], 20)
        client.cancel([job])
        client.wait([job], 30)


@pytest.mark.long
def test_a_tenant_without_a_unix_user_is_told_so(site):
    if not site.per_attempt:
        pytest.skip("pilots without batch jobs per attempt give such tenants a number")
    site.tenant("stranger")
    with site.client("stranger") as client:
        (job,) = client.submit([the_job(site)])
        info = client.wait([job], 60)[0]
        assert info.phase == "failed"
        assert "[tenants]" in str(info)
