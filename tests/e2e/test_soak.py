"""A busy afternoon of a small cluster in a minute; a week in an hour is `make soak`."""

import pytest

import soak


def test_whatever_happens_to_a_cluster_every_job_ends_with_its_result(tmp_path):
    plan = soak.Plan(seconds=45.0, seed=3, servers=2, pauses=(0.5, 2.0), drain_s=180.0, once=True)

    report = soak.run(tmp_path, plan)

    assert report.problems == [], str(report)
    assert report.jobs["finished"] > 20
    assert sum(report.happened.values()) >= 8, str(report)
    if not report.happened["full disk of the scheduler"]:
        pytest.xfail("no small disk can be mounted here: everything else was tried")
