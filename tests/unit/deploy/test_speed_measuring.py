"""Which blocks of time say how fast a job is, and which do not."""

import pytest
from harness import Harness, ends, runs

RATE = 20.0
COMMAND = {"emulated": False, "argv": ["python", "train.py"], "profile": "", "steps": 100_000, "tenant": "ann"}


@pytest.fixture
def cluster():
    found = Harness()
    found.join("a")
    return found


def a_running_job(cluster, **fields):
    number = cluster.running(**{**COMMAND, **fields})
    cluster.meter.shares = {**cluster.meter.shares, number: 1.0}
    return number


def train(cluster, number, seconds, *, rate=RATE, step=None, node="a", **fields):
    """The job goes on for so many seconds, with a report in each; its step then."""
    step = cluster.heartbeats.live_step((number, cluster.job(number).epoch)) if step is None else step
    for _ in range(seconds):
        cluster.wait(1.0)
        step += round(rate)
        cluster.report(node, {number: runs(step, **fields)})
    return step


def cells(cluster):
    return dict(cluster.registry.speeds.cells)


def only_cell(cluster):
    [(cell, speed)] = cells(cluster).items()
    return cell, speed


def test_a_job_is_measured_in_blocks_of_two_heartbeats(cluster):
    number = a_running_job(cluster)

    train(cluster, number, 40)

    cell, speed = only_cell(cluster)
    assert (cell.tenant, cell.gpus, cell.type, cell.cpus, cell.memory_gb) == ("ann", 1, "v100", 1.0, 4.0)
    assert cell.name.startswith("train.py~")
    assert speed.mean == pytest.approx(RATE)
    assert speed.blocks >= 12


def test_the_start_and_the_first_block_are_left_out(cluster):
    number = a_running_job(cluster)
    for _ in range(30):
        cluster.wait(1.0)
        cluster.report("a", {number: runs(0)})
    train(cluster, number, 2, rate=5.0, step=0)  # its first steps are slow

    train(cluster, number, 30)

    _, speed = only_cell(cluster)
    assert speed.mean == pytest.approx(RATE, rel=0.02)


def test_time_in_which_it_saves_is_left_out(cluster):
    number = a_running_job(cluster)
    step = train(cluster, number, 12)
    for _ in range(20):
        cluster.wait(1.0)
        cluster.report("a", {number: runs(step, saving=True)})

    train(cluster, number, 20, saved_step=step)

    _, speed = only_cell(cluster)
    assert speed.mean == pytest.approx(RATE, rel=0.02)


def test_a_block_with_a_checkpoint_that_no_report_saw_is_left_out(cluster):
    number = a_running_job(cluster)
    step = train(cluster, number, 12)
    for saves in range(1, 11):  # every other block has half a second of saving in it
        cluster.wait(2.0)
        step += round(1.5 * RATE)
        cluster.report("a", {number: runs(step, saved_step=saves, save_s=0.5)})
        step = train(cluster, number, 2, step=step, saved_step=saves, save_s=0.5)

    _, speed = only_cell(cluster)
    assert speed.mean == pytest.approx(RATE, rel=0.02)
    assert speed.blocks >= 12


def test_of_a_job_that_saves_all_the_time_saving_is_part_of_the_speed(cluster):
    number = a_running_job(cluster)
    step = 1
    for saves in range(1, 31):
        cluster.wait(2.0)
        step += round(1.5 * RATE)
        cluster.report("a", {number: runs(step, saved_step=saves, save_s=0.5)})

    _, speed = only_cell(cluster)
    assert speed.mean == pytest.approx(0.75 * RATE, rel=0.02)


def test_blocks_go_from_the_end_of_a_step_to_the_end_of_a_step_by_the_clock_of_the_server(cluster):
    number = a_running_job(cluster)
    late = (0.0, 0.4, 0.1, 0.7, 0.3)
    for second in range(1, 60):  # reports are late, each by another time
        cluster.wait(1.0)
        at = cluster.clock.now() - late[second % 5]
        cluster.report("a", {number: runs(round(at * RATE), step_at_s=1000.0 + round(at * RATE) / RATE)})

    _, speed = only_cell(cluster)
    assert speed.mean == pytest.approx(RATE, rel=0.001)
    assert speed.error < 0.001


def test_a_job_whose_clock_makes_no_sense_is_not_believed(cluster):
    number = a_running_job(cluster)
    for second in range(1, 60):
        cluster.wait(1.0)
        cluster.report("a", {number: runs(second * 20, step_at_s=1e9 / second)})

    assert cells(cluster) == {}


def test_nothing_is_measured_after_the_request_to_stop_and_what_was_is_kept(cluster):
    number = a_running_job(cluster)
    step = train(cluster, number, 8)
    cluster.want()
    for _ in range(30):
        cluster.wait(1.0)
        cluster.report("a", {number: runs(step)})
    cluster.report("a", {number: ends("stopped", step, saved_step=step)})

    _, speed = only_cell(cluster)
    assert speed.mean == pytest.approx(RATE)
    assert 1 <= speed.blocks <= 4


def test_jobs_that_share_gpus_teach_nothing(cluster):
    first = a_running_job(cluster)
    second = a_running_job(cluster, argv=["python", "other.py"])
    cluster.share(first, second, {"a": 1})
    cluster.report("a", {first: ends("stopped"), second: ends("stopped")})
    cluster.share(first, second, {"a": 1})
    before = cells(cluster)
    for _ in range(20):
        cluster.wait(1.0)
        cluster.report("a", {first: runs(1000), second: runs(1000)})

    assert cluster.job(first).attempt.parts[0].devices == cluster.job(second).attempt.parts[0].devices
    assert cells(cluster) == before == {}


def test_a_silent_agent_makes_no_block(cluster):
    number = a_running_job(cluster)
    step = train(cluster, number, 12)
    cluster.wait(4.5)  # it stood still meanwhile, or the line was cut: nobody knows

    train(cluster, number, 20, step=step)

    _, speed = only_cell(cluster)
    assert speed.mean == pytest.approx(RATE, rel=0.02)


def test_other_cpus_are_another_cell(cluster):
    number = a_running_job(cluster)
    train(cluster, number, 20)
    cluster.desired = {number: cluster.desired[number].__class__(
        gpus_by_node=(("a", 1),), cpus={"a": 3.0}, memory_gb={"a": 4.0}, partner=-1, rate=2.0
    )}  # fmt: skip
    cluster.loop.carry_out()
    cluster.meter.shares = {number: 2.0}
    train(cluster, number, 20, rate=2 * RATE)

    found = {cell.cpus: (speed.mean, speed.share) for cell, speed in cells(cluster).items()}
    assert found == {1.0: (pytest.approx(RATE), 1.0), 3.0: (pytest.approx(2 * RATE), 2.0)}
    [seen] = cluster.registry.speeds.of_kind(("ann", cluster.of("SpeedMeasured")[0]["name"], 1)).values()
    assert seen.rate == pytest.approx(RATE)


@pytest.mark.parametrize("rate", [1e9, 1e15])
def test_a_job_that_reports_nonsense_is_not_believed(cluster, rate):
    number = a_running_job(cluster)

    train(cluster, number, 30, rate=rate)

    assert cells(cluster) == {}


def test_steps_that_go_back_or_stand_still_make_no_block(cluster):
    number = a_running_job(cluster)
    for step in (1000, 10, 1000, 10, 1000, 10, 10, 10, 10, 10, 10):
        cluster.wait(1.0)
        cluster.report("a", {number: runs(step)})

    assert cells(cluster) == {}


def test_slow_steps_make_longer_blocks(cluster):
    number = a_running_job(cluster)

    for second in range(200):
        cluster.wait(1.0)
        cluster.report("a", {number: runs(1 + second // 5)})

    _, speed = only_cell(cluster)
    assert speed.mean == pytest.approx(0.2, rel=0.05)
    assert speed.blocks == 4


def test_a_gang_is_measured_by_its_first_rank_and_counts_as_on_two_servers(cluster):
    cluster.join("b")
    number = a_running_job(cluster, gpus=2)
    cluster.want(**{f"j{number}": {"a": 1, "b": 1}})
    cluster.report("a", {number: ends("stopped")})
    cluster.want(**{f"j{number}": {"a": 1, "b": 1}})
    step = 1
    for _ in range(24):
        cluster.wait(1.0)
        step += 20
        cluster.report("a", {number: runs(step)})
        cluster.report("b", {number: runs(step - 10)})

    cell, speed = only_cell(cluster)
    assert (cell.servers, cell.gpus, cell.cpus) == (2, 2, 2.0)
    assert speed.mean == pytest.approx(20.0)


def test_emulated_jobs_without_a_model_run_as_fast_as_they_are_told_and_teach_nothing(cluster):
    number = a_running_job(cluster, emulated=True, argv=[], profile="fast")

    train(cluster, number, 30)

    assert cells(cluster) == {}


def test_a_restart_loses_a_few_blocks_and_no_more(cluster):
    number = a_running_job(cluster)
    train(cluster, number, 30)
    known = cells(cluster)

    again = cluster.restarted()

    assert cells(again) == known
