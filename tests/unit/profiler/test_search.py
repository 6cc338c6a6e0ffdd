"""The search on jobs whose stages are known: how few runs it takes, and how far off the rest is."""

import math

import numpy as np
import pytest

from rota.cli.profile_progress import outcome
from rota.profiler.cell import CONTAMINATED, FAILED, MEASURED, WIDE, Cell, DataSide, JobToProfile, RunRecord
from rota.profiler.document import Where, document
from rota.profiler.fit import modelled, predict, stages_of
from rota.profiler.search import Plan, cpu_axis, grid, memory_axis, next_run, plan_for, reference
from rota.profiles.stages import Stages

HEAVY = Stages(
    device_rate=50.0, cpu_s=0.03, workers=4, prepare_s=0.028, fetch_s=0.004, step_mb=1.0, data_gb=2.0,
    reserve_gb=0.5, reserve_part=0.25, resident_gb=0.3,
)  # fmt: skip
READING = Stages(
    device_rate=50.0, cpu_s=0.03, read_cpu_s=0.015, workers=1, prepare_s=0.004, fetch_s=0.003, step_mb=1.0, data_gb=2.0,
    reserve_gb=0.5, reserve_part=0.25, resident_gb=0.3,
)  # fmt: skip
LIGHT = Stages(device_rate=50.0, cpu_s=0.01, workers=1, resident_gb=0.2)


def run_of(truth, cell, noise=0.0, **changes):
    """What a real run of this job would say."""
    rate = modelled(truth, cell) * (1 + noise)
    missed = 0.0 if truth.data_gb is None or cell.replay else 1 - float(truth.cached(cell.memory_gb))
    used = min(rate * (truth.cpu_s + missed * truth.read_cpu_s), cell.cpus) / rate
    data = None
    if truth.data_gb is not None and not cell.replay:
        fetch = max(truth.fetch_s, truth.step_mb / cell.mbps if cell.mbps else 0.0)
        cache = max(0.0, cell.memory_gb - max(0.5, 0.25 * cell.memory_gb))
        data = DataSide(
            workers=truth.workers, items=8, prepare_s=truth.prepare_s, fetch_s=fetch * missed,
            fetched_mb=truth.step_mb * missed, missed=missed, step_mb=truth.step_mb, data_gb=truth.data_gb,
            cache_gb=cache,
        )  # fmt: skip
    record = {"outcome": MEASURED, "rate": rate, "half_width": 0.01, "cpu_s": used, "data": data}
    return RunRecord(cell=cell, resident_gb=truth.resident_gb, source="client", **{**record, **changes})


def profiled(truth, plan, noise=0.0, seed=1):
    rng = np.random.default_rng(seed)
    records = []
    while (wanted := next_run(plan, records)) is not None:
        records.append(run_of(truth, wanted.cell, noise * rng.standard_normal(), check=wanted.expected))
    return records


@pytest.mark.parametrize("truth", [HEAVY, LIGHT, READING])
def test_at_most_ten_runs_give_the_stages_and_every_cell(truth):
    plan = Plan(cpu_axis=cpu_axis(2), memory_gb=4.0)

    records = profiled(truth, plan)

    found = stages_of(records)
    assert len(records) <= 10
    assert found.device_rate == pytest.approx(50.0)
    assert found.cpu_s == pytest.approx(truth.cpu_s)
    assert found.read_cpu_s == pytest.approx(truth.read_cpu_s)
    for cell in grid(plan, found):
        assert predict(found, records, cell).rate == pytest.approx(modelled(truth, cell), rel=0.02)


def test_stated_errors_cover_what_cells_are_off_by():
    plan = Plan(cpu_axis=cpu_axis(2), memory_gb=4.0)
    covered = []
    for seed in range(20):
        records = profiled(HEAVY, plan, noise=0.01, seed=seed)
        stages = stages_of(records)
        for cell in grid(plan, stages):
            found = predict(stages, records, cell)
            covered.append(abs(modelled(HEAVY, cell) / found.rate - 1) <= found.error)

    assert np.mean(covered) >= 0.9


def test_the_middle_of_three_storage_speeds_follows_from_the_others():
    plan = plan_for(JobToProfile(name="j", argv=("x",), cpus=2, memory_gb=4.0), (5.0, 20.0), 10, ())

    records = profiled(HEAVY, plan)

    cold = memory_axis(stages_of(records), 4.0)[0]
    middle = Cell(2.0, cold, 10.0)
    assert predict(stages_of(records), records, middle).rate == pytest.approx(modelled(HEAVY, middle), rel=0.02)


def test_a_check_that_is_off_asks_for_another_one():
    plan = Plan(cpu_axis=cpu_axis(2), memory_gb=4.0, most_runs=30)
    records = []
    while (wanted := next_run(plan, records)) is not None:
        off = 0.8 if wanted.why == "check" else 1.0
        record = run_of(HEAVY, wanted.cell, check=wanted.expected)
        records.append(run_of(HEAVY, wanted.cell, off - 1, check=wanted.expected) if record.check else record)

    assert sum(record.check is not None for record in records) > 2


def test_a_job_whose_first_cell_fails_is_not_tried_further():
    plan = Plan(cpu_axis=cpu_axis(2), memory_gb=4.0)

    assert next_run(plan, [RunRecord(cell=reference(plan), outcome=FAILED, reason="x")]) is None


def test_a_cell_that_others_disturbed_is_tried_three_times():
    plan = Plan(cpu_axis=cpu_axis(2), memory_gb=4.0)
    records = []
    while (wanted := next_run(plan, records)) is not None and len(records) < 10:
        records.append(RunRecord(cell=wanted.cell, outcome=CONTAMINATED, reason="burners"))

    assert len(records) == 3


def profiled_with_failure(reason):
    """The profile of a job that fails with the least memory, and the runs behind it."""
    plan = Plan(cpu_axis=cpu_axis(2), memory_gb=4.0)
    records = []
    while (wanted := next_run(plan, records)) is not None:
        failed = {"outcome": FAILED, "rate": 0.0, "reason": reason} if wanted.why == "least memory" else {}
        records.append(run_of(HEAVY, wanted.cell, check=wanted.expected, **failed))
    job = JobToProfile(name="j", argv=("python", "x.py"), cpus=2, memory_gb=4.0)
    return document(job, plan, records, Where(type="cpu", machine="m")).models[0], records


def test_a_cell_that_fails_is_marked_and_the_rest_goes_on():
    model, _ = profiled_with_failure("it failed with exit code 1")

    assert model.cells.count("failed") == 1
    assert model.cells.reasons[-1][0] == "it failed with exit code 1"
    assert math.isnan(model.rates[-1, 0])
    assert np.isfinite(model.rates[-1, 1:]).all()


def test_what_does_not_fit_into_memory_does_not_fit_with_fewer_cpus_either():
    model, records = profiled_with_failure("out of memory: the kernel ended it at its memory limit")

    assert [row[0] for row in model.cells.origin] == ["failed"] * len(model.cpus)
    assert np.isnan(model.rates[:, 0]).all()
    assert np.isfinite(model.rates[:, 1:]).all()
    assert sum(record.cell.memory_gb == model.memory_gb[0] for record in records) == 1


@pytest.mark.parametrize(("half_width", "said"), [(0.02, "fewer than 8 blocks"), (0.04, "intervals wider than 3 %")])
def test_what_was_not_settled_says_why(half_width, said):
    plan = Plan(cpu_axis=cpu_axis(1), memory_gb=3.0)
    record = run_of(LIGHT, reference(plan), outcome=WIDE, half_width=half_width)

    job = JobToProfile(name="j", argv=("python",), cpus=1, memory_gb=3.0)
    about = document(job, plan, [record], Where(type="cpu", machine="m")).about

    assert said in about["remarks"]
    assert outcome(record).count("(") == 1
    assert ("wide" in outcome(record)) == (half_width > 0.03)


def test_a_script_that_reads_by_itself_is_told_from_one_with_workers():
    serial = Stages(device_rate=50.0, cpu_s=0.01, workers=0, prepare_s=0.01, data_gb=1.0, step_mb=0.1, reserve_gb=0.5)
    plan = Plan(cpu_axis=cpu_axis(1), memory_gb=3.0)

    records = profiled(serial, plan)

    assert stages_of(records).workers == 0


def test_batches_of_another_size_are_noticed():
    plan = Plan(cpu_axis=cpu_axis(2), memory_gb=4.0)
    job = JobToProfile(name="j", argv=("x",), cpus=2, memory_gb=4.0, batch=64)

    made = document(job, plan, profiled(HEAVY, plan), Where(type="cpu", machine="m"))

    assert "takes no notice of -b" in made.about["remarks"]
