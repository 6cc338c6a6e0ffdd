"""A job stops in order with its lease while its agent is dead: that is no end of the job."""

from faults import Site, results, until


def test_a_job_that_stopped_while_nobody_was_there_is_not_taken_for_finished(tmp_path):
    with Site(tmp_path, lease=3, dead_after=60) as site:
        site.agent("n0")
        number = site.submit(steps=400)
        until(lambda: site.job(number).saved_step >= 20, 30, "a checkpoint")

        site.kill("n0")
        until(lambda: not site.tasks(number), 60, "its end with the lease")
        done = len(site.steps(number))
        assert done < 400
        site.agent("n0")
        (job,) = site.done(number, seconds=90)

        steps = site.steps(number)
        assert (job.phase, job.saved_step, steps[-1][1]) == ("finished", 400, 399)
        assert steps[-1][4] == results(400)[-1]
