"""Real files of other systems, read whole; they are not shipped and skipped where they are not beside this checkout."""

import time
from pathlib import Path

import numpy as np
import pytest

from rota.workloads import read_trace
from rota.workloads.lint import lint

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SAMPLES = {
    # file: (format, jobs, last arrival)
    "elasticflow_195job.csv.gz": ("elasticflow", 195, 172045.0),
    "elasticflow_cluster01.csv.gz": ("elasticflow", 1595, 2916375.0),
    "elasticflow_raw_cluster01.csv.gz": ("elasticflow", 1595, 2916375.0),
    "gavel_msr_0e4a51_7col.trace.gz": ("gavel-legacy", 1181, 7363956.0),
    "openb_pod_list_default.csv.gz": ("openb", 6203, 12901761.0),
    "sia_newtrace_workload-1.csv.gz": ("sia", 960, 172603.693348),
    "sia_philly_workload-1.csv.gz": ("sia", 160, 27695.0),
    "sia_saturn_workload-1.csv.gz": ("sia", 160, 28098.0),
}


def sample(path):
    if not path.exists():
        pytest.skip(f"the sample {path.name} is not beside this checkout")
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_a_published_trace_is_recognised_and_read_whole(name):
    form, count, last = SAMPLES[name]

    found = lint(sample(DATA / "traces" / name))
    jobs = read_trace(DATA / "traces" / name)

    assert (found.format, found.error_count, found.jobs) == (form, 0, count)
    assert jobs.submitted[-1] == last
    assert (np.diff(jobs.submitted) >= 0).all()
    assert (jobs.total_steps > 0).all()


def test_both_files_of_an_elasticflow_cluster_have_the_same_jobs():
    raw, made = (read_trace(sample(DATA / "traces" / f"elasticflow_{n}cluster01.csv.gz")) for n in ("raw_", ""))

    assert raw.submitted.tolist() == made.submitted.tolist()
    assert raw.gpus.tolist() == made.gpus.tolist()
    assert (~np.isnan(made.slo)).all()


def test_eighty_thousand_lines_take_a_few_seconds():
    path = sample(DATA / "philly_jobs.csv.gz")
    before = time.process_time()

    jobs = read_trace(path)

    assert len(jobs) == 82_247
    assert time.process_time() - before < 5
