"""What a newcomer typed, and what is answered: names that are nearly right, arrays in few lines, nobody to ask."""

import io

import pytest

from rota.cli import arrays, cancel, job_text, jobs
from rota.cli.main import main
from rota.core.errors import ConfigError
from rota.deploy.clocks import wall_s
from rota.deploy.local.settings import servers_of
from rota.rpc import rota_pb2 as pb

DONE = job_text.HEADER.index("done")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobz"], "no such command 'jobz'; did you mean 'jobs'?"),
        (["sumbit"], "no such command 'sumbit'; did you mean 'submit'?"),
        (["xyzzy"], "no such command 'xyzzy'."),
        (["simulate", "--rule", "default"], "no such option '--rule'; did you mean '--rules'?"),
    ],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(words, said, capsys):
    code = main(words)

    assert code == 2
    assert said in capsys.readouterr().err


def test_a_change_without_a_terminal_asks_for_yes_before_anything_else(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO())

    code = main(["policy", "set", "srtf", "--scheduler", "nobody.invalid:1"])

    assert code == 2
    assert "no terminal to ask at: give --yes" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["v100=0", "v100=x", "v100=0:cpus=4"])
def test_a_server_that_cannot_be_is_answered_with_what_was_typed(text):
    with pytest.raises(ConfigError) as error:
        servers_of([text])

    assert str(error.value).startswith(f"--server {text!r}: ")
    assert "/0" not in str(error.value)
    assert "/x" not in str(error.value)


def a_job(number, step, phase="queued", steps=1000, **more):
    info = pb.JobInfo(job=number, phase=phase, step=step, array=3, array_index=number - 3, **more)
    info.spec.steps = steps
    info.spec.gpus = 1
    return info


@pytest.mark.parametrize(
    ("steps_done", "total", "shown"), [((500, 250), 1000, "37 %"), ((0, 0), 1000, "-"), ((500, 250), 0, "-")]
)
def test_a_row_of_an_array_shows_how_far_its_jobs_are_on_average(steps_done, total, shown):
    group = [a_job(4 - at, step, steps=total) for at, step in enumerate(steps_done)]

    row = arrays.row(group, 0.0, brief=True)

    assert row[0] == "3-4"
    assert row[DONE] == shown


@pytest.mark.parametrize("phase", ["queued", "waiting", "running"])
def test_jobs_that_wait_show_a_percentage_like_those_that_run(phase):
    assert job_text.done(a_job(3, 250, phase)) == "25 %"


def test_jobs_of_an_array_that_is_over_are_one_line():
    assert cancel.together(list(range(14, 114)), "over already") == "jobs 14 to 113 are over already (100)"
    assert cancel.together([14, 16], "cancelled") == "jobs of the array are cancelled (2)"
    assert cancel.together([14], "cancelled") == "job 14 is cancelled"


def test_failures_of_the_last_hour_are_told_where_nothing_is_live(capsys):
    now = wall_s()

    jobs.tell_of_failures([a_job(3, 0, "failed", ended_at=now - 60), a_job(4, 0, "failed", ended_at=now - 7200)])
    jobs.tell_of_failures([a_job(4, 0, "failed", ended_at=now - 7200)])

    assert capsys.readouterr().err == "1 failed in the last hour; --all shows them\n"
