import pytest

from rota.core.errors import ConfigError
from rota.core.job_spec import JobSpec
from rota.deploy.job_files import read_jobs


def jobs(tmp_path, text):
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    return read_jobs(path)


def test_jobs_become_what_a_client_submits(tmp_path):
    found = jobs(
        tmp_path,
        '[[job]]\ncount = 2\ngpus = 2\ncommand = "python train.py --lr 0.1"\ndeadline = 60\n'
        '[[job]]\nemulated = true\nsteps = 5\nenv = { SEED = "1" }\ncommand = ["a", "b c"]\n',
    )

    command = JobSpec(gpus=2, argv=("python", "train.py", "--lr", "0.1"), deadline_s=60.0)
    assert found == [command, command, JobSpec(emulated=True, steps=5, env={"SEED": "1"}, argv=("a", "b c"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[job]]\ncommand = "a"\n[[job]]\ngpu = 2\n', r"jobs.toml:4: a job has no 'gpu'; did you mean 'gpus'\?"),
        ('[[job]]\ngpus = "two"\n', r"jobs.toml:2: gpus = 'two' is not a whole number"),
        ("[[job]]\ngpus = true\n", r"jobs.toml:2: gpus = True is not a whole number"),
        ("[[job]]\nemulated = 1\n", r"jobs.toml:2: emulated = 1 is not true or false"),
        ('[[job]]\ncommand = "it\'s"\n', r"jobs.toml:2: .*check the quotes"),
        ("[[job]]\ncommand = []\n", r"jobs.toml:2: give a text or a list"),
        ("[[job]]\nenv = { A = 1 }\n", r"jobs.toml:2: values of env are texts"),
        ("[[job]]\nweight = nan\nemulated = true\nsteps = 1\n", r"jobs.toml:1: the job: weight is nan; give a number"),
        ("[[job]]\ncount = 0\n", r"jobs.toml:2: count = 0"),
        ("[job]\ngpus = 1\n", "there is no job in it"),
        ("jobs = 1\n", "'jobs' is not known"),
        ("[[job\n", "is not a TOML file"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        jobs(tmp_path, text)


def test_how_a_job_may_be_stopped_can_be_said_in_a_file(tmp_path):
    path = tmp_path / "jobs.toml"
    path.write_text('[[job]]\ncommand = "train"\npreemptible = "no"\nleast_turn = 60\nsave_grace = 2.5\n')

    (job,) = read_jobs(path)

    assert (job.preemptible.value, job.least_turn_s, job.save_grace_s) == ("no", 60.0, 2.5)
    path.write_text('[[job]]\ncommand = "train"\npreemptible = "maybe"\n')
    with pytest.raises(ConfigError, match="preemptible is 'maybe'; give yes, no or auto"):
        read_jobs(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[job]]\nemulated = true\nsteps = 5\ncount = 1000000000", ":4: count = 1000000000; give a number from 1 to"),
        ("[[job]]\nemulated = true\nsteps = 5\ncount = 700000\n" * 2, ":8: these are more than 1,000,000 jobs"),
        (f"[[job]]\nsteps = {'9' * 5000}", "is not a TOML file: a whole number has thousands of digits"),
        (f"[[job]]\ncommand = {'[' * 5000}", "is not a TOML file: tables and lists are nested"),
    ],
    ids=["count", "several counts", "digits", "nesting"],
)
def test_numbers_and_nesting_beyond_reason_are_refused_with_a_message(tmp_path, text, says):
    path = tmp_path / "jobs.toml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=says):
        read_jobs(path)
