"""What sites do to pilots in earnest: maintenance, and preemption that would start a batch job again."""

import sys
import time

import pytest

import real_slurm
from live import until
from rota.core.slurm_text import record
from slurm_site import SlurmSite
from slurm_steps import SERVE, Belongings, Steps, busy_pilot, ended

pytestmark = pytest.mark.skipif(bool(real_slurm.missing()), reason=f"Slurm: {real_slurm.missing()}")


def submitted_and_ended(slurm, row):
    """When a batch job was submitted and when it ended, as Slurm says."""
    job = record(slurm.run("scontrol", "show", "job", "-o", row["slurm_job"]).strip())
    return job["SubmitTime"], job["EndTime"]


def why_it_waits(site, pool):
    return next(row["remark"] for row in site.pilots().values() if row["pool"] == pool)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_pilots_end_before_a_maintenance_and_their_successors_go_to_other_nodes(tmp_path, capsys):
    with real_slurm.RealSlurm(nodes=2) as slurm, SlurmSite(tmp_path, slurm, *SERVE) as site:
        maintenance = ("scontrol", "create", "reservation", "reservationname=m", "flags=maint", "user=root", "nodes=n1")
        slurm.run(*maintenance, "starttime=now+150", "duration=60")
        site.pool("--gres", "gpu:v100:4", "--nodes", "1", "--time", "2m", "--replace-before", "75")
        steps = Steps(site)
        with site.client() as client:
            (job,) = steps.submit(client, 1, steps=6000)
            first = busy_pilot(site)
            assert first["host"] == "n1"

            until(lambda: ended(slurm, first), 180)

            second = busy_pilot(site)
            assert second["host"] == "n2"
            assert submitted_and_ended(slurm, second)[0] < submitted_and_ended(slurm, first)[1]
            site.pool("--gres", "gpu:v100:4", "--nodes", "1", "--time", "4h", "--nodelist", "n1", name="long")
            until(lambda: why_it_waits(site, "long").startswith("ReqNodeNotAvail"), 20)
            until(lambda: slurm.states()[0] in {"maint", "reserved"}, 120)
            steps.check(client, [job], steps=6000)
        with capsys.disabled():
            sys.stdout.write(
                "\nmaintenance: the pilot ended before it, its successor was asked for before and is elsewhere"
            )


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["pilots", "attempts"])
def test_preemption_that_requeues_ends_a_pilot_and_its_successor_is_asked_for_at_once(way, tmp_path, capsys):
    """Slurm requeues what it preempts, if the batch job lets it: pilots and attempts do not."""
    with real_slurm.RealSlurm(nodes=2, preempt="REQUEUE") as slurm, SlurmSite(tmp_path, slurm, *SERVE) as site:
        more = ["--per-attempt"] if way == "attempts" else []
        site.pool("--gres", "gpu:v100:4", "--nodes", "1", "--time", "30m", *more)
        site.until_up(1)
        steps = Steps(site)
        (tmp_path / "urgent.sh").write_text("#!/bin/sh\nsleep 20\n")
        with site.client() as client:
            (job,) = steps.submit(client, 1, steps=700)
            row = busy_pilot(site)
            belongings = Belongings(slurm, row)
            refused = slurm.run("scontrol", "requeue", row["slurm_job"], code=1)
            began = time.monotonic()
            slurm.run(
                "sbatch", "-p", "urgent", "--gres=gpu:v100:4", "--mem=31000", "--cpus-per-task=8", "--chdir=/",
                "--output=/dev/null", f"--nodelist={row['host']}", str(tmp_path / "urgent.sh"),
            )  # fmt: skip
            until(lambda: ended(slurm, row), 60)
            took = time.monotonic() - began
            assert belongings.alive() == {}
            assert slurm.jobs()[int(row["slurm_job"])] in {"PREEMPTED", "COMPLETED", "CANCELLED", "FAILED"}
            steps.check(client, [job], steps=700)
            after = [one for one in site.pilots().values() if one["state"] == "up"]
            assert [one["host"] for one in after] == ["n2"]
            assert refused == ""
        with capsys.disabled():
            sys.stdout.write(f"\nREQUEUE preemption of {way}: over after {took:.1f} s, not requeued, no step lost")
