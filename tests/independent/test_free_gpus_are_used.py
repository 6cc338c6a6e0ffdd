"""Small instances in which GPUs once stood idle beside jobs that should have had them, or the wrong job waited."""

import json
from io import BytesIO

import pytest

import rota
from rota import profiles
from rota.core.jobs import table


def finishes(**run):
    return [round(float(x), 1) for x in rota.simulate(**run).jobs["finish_s"]]


@pytest.mark.parametrize("at_once", [True, False])
def test_an_older_job_of_fifo_is_not_stopped_by_one_that_took_its_type_between_rounds(tmp_path, at_once):
    """y has its share on p100 but starts on the v100 that is free; at the round they change places."""
    catalogue = tmp_path / "cat.csv"
    catalogue.write_text("profile,gpus,type,rate\nx,1,v100,2\nx,1,p100,1\ny,1,v100,1\ny,1,p100,1\n")
    jobs = table(
        profile_names=["x", "x", "y"], gpus=[1] * 3, total_steps=[200.0, 6000.0, 3000.0], submitted=[0, 0, 50.0]
    )

    ends = finishes(
        jobs=jobs,
        cluster="v100=1/1,p100=1/1",
        profiles=catalogue,
        policy="fifo-perf",
        rule_settings={"at_once": at_once},
    )

    assert ends[:2] == [100.0, 3180.0]
    assert ends[2] == (3100.0 if at_once else 3360.0)


def test_a_gang_takes_gpus_that_become_free_because_others_change_types():
    catalogue = profiles.load("gavel")
    model = "ResNet-50 (batch size 64)"
    rate = catalogue.rate(model, 1, "v100")
    steps = [rate * 5000, rate * 100, rate * 4000, catalogue.rate(model, 2, "v100") * 900]
    jobs = table(profile_names=[model] * 4, gpus=[1, 1, 1, 2], total_steps=steps, submitted=[0, 0, 0, 10.0])
    log = BytesIO()

    rota.simulate(jobs=jobs, cluster="v100=2/2,k80=2/2", policy="drf-perf", profiles="gavel", events=log)

    plans = [json.loads(line) for line in log.getvalue().decode().splitlines() if '"Planned"' in line]
    assert min(plan["at"] for plan in plans if 3 in (plan.get("first") or [])) == 360.0


@pytest.mark.parametrize("cluster", ["v100=2/2", "v100=2/2,k80=2/2"])
def test_the_first_job_that_fits_nowhere_blocks_whatever_types_it_cannot_use(cluster):
    nan = float("nan")
    jobs = table(
        profile_names=["recorded"] * 3, gpus=[1, 2, 1], total_steps=[nan] * 3, duration=[1000.0] * 3,
        submitted=[0.0] * 3, allowed_types=[["v100"]] * 3, recorded_on=["v100"] * 3,
    )  # fmt: skip

    assert finishes(jobs=jobs, cluster=cluster, policy="fifo-perf") == [1000.0, 2000.0, 3000.0]
