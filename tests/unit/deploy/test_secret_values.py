"""Values of environments: nobody but the job gets them, and a job never starts without them."""

import json
import os
import stat

import pytest
from harness import Harness, ends

from rota.core.errors import ConfigError, OutputError
from rota.core.job_spec import HIDDEN, JobSpec, spec_from
from rota.core.lifecycle import JobPhase
from rota.deploy.agent.descriptions import Place, describe
from rota.deploy.job_files import read_jobs
from rota.deploy.scheduler.reasons import Explanation
from rota.deploy.scheduler.records import job_from, job_values
from rota.deploy.scheduler.requests import Refused
from rota.deploy.scheduler.secrets import SecretStore, secrets_file, without_values
from rota.deploy.server.handlers import _shown
from rota.deploy.server.messages import job_message
from rota.deploy.variables import given_secret, merged, read_env_file, secret_from_file
from rota.deploy.worker.spec import TaskId
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_message

VALUE = "hunter2-hunter2"


class WallTimes:
    @staticmethod
    def wall_time(at):
        return at

    @staticmethod
    def now():
        return 0.0


def with_store(harness, store):
    """The same scheduler with a place for secrets."""
    for part in (harness.requests, harness.board, harness.loop):
        part._secrets = store
    return harness


@pytest.fixture
def store(tmp_path):
    kept = SecretStore(secrets_file(tmp_path / "rota.db"))
    yield kept
    kept.close()


def test_the_journal_and_the_registry_have_names_only(store):
    harness = with_store(Harness(), store)
    number = harness.submit(env={"TOKEN": VALUE})

    assert VALUE not in json.dumps(harness.journal.rows)
    assert harness.job(number).spec.env == {"TOKEN": HIDDEN}
    assert store.filled(harness.job(number)).env == {"TOKEN": VALUE}
    assert VALUE not in repr(store.filled(harness.job(number)))


def test_the_order_for_the_agent_has_the_values(store):
    harness = with_store(Harness(), store)
    harness.running(env={"TOKEN": VALUE})

    assert harness.board.published["a"].tasks[0].spec.env == {"TOKEN": VALUE}


def test_the_file_is_for_its_owner_only_also_if_somebody_opened_it(tmp_path):
    path = secrets_file(tmp_path / "rota.db")
    path.touch(mode=0o644)
    store = SecretStore(path)
    store.put({0: {"A": VALUE}})
    store.close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.name == "rota.db.secrets"


def test_without_variables_there_is_no_file(tmp_path):
    path = secrets_file(tmp_path / "rota.db")
    store = SecretStore(path)

    assert store.put({0: {}}) == {}
    assert not path.exists()


def test_values_outlast_a_restart_and_go_when_the_job_is_over(tmp_path):
    path = secrets_file(tmp_path / "rota.db")
    harness = with_store(Harness(), SecretStore(path))
    number = harness.running(env={"TOKEN": VALUE})

    again = with_store(harness.restarted(), SecretStore(path))
    again.loop._secrets.let_go(again.registry)
    assert again.requests._secrets.filled(again.job(number)).env == {"TOKEN": VALUE}

    again.report("a", {number: ends("completed", step=1000, saved_step=1000)})
    again.round()
    again.wait(1.0)
    assert again.phase(number) is JobPhase.FINISHED
    assert VALUE.encode() not in path.read_bytes()


def test_values_of_a_submission_that_was_never_committed_are_deleted(tmp_path):
    path = secrets_file(tmp_path / "rota.db")
    SecretStore(path).put({0: {"TOKEN": VALUE}})  # and then the scheduler died

    harness = with_store(Harness(), SecretStore(path))
    number = harness.submit()
    harness.wait(1.0)

    assert number == 0
    assert VALUE.encode() not in path.read_bytes()
    assert harness.requests._secrets.filled(harness.job(0)).env == {}


def test_an_older_copy_of_the_journal_does_not_find_the_values_of_another_job(tmp_path):
    path = secrets_file(tmp_path / "rota.db")
    before = with_store(Harness(), SecretStore(path))
    before.submit(env={"TOKEN": VALUE}, tenant="a")
    restored = with_store(before.restarted(rows=0), SecretStore(path))

    number = restored.submit(env={"TOKEN": "mine"}, tenant="b")

    assert number == 0
    assert restored.requests._secrets.filled(restored.job(0)).env == {"TOKEN": "mine"}


def test_a_job_whose_values_are_lost_waits_and_others_run(tmp_path):
    path = secrets_file(tmp_path / "rota.db")
    harness = with_store(Harness(), SecretStore(path))
    harness.join("a")
    number = harness.submit(env={"TOKEN": VALUE})
    other = harness.submit()
    path.unlink()

    again = with_store(harness.restarted(), SecretStore(path))
    again.round()
    again.want(j0={"a": 1}, j1={"a": 1})

    assert (again.phase(number), again.phase(other)) == (JobPhase.WAITING, JobPhase.RUNNING)
    assert again.requests._secrets.missing(again.job(number)) == ["TOKEN"]
    again.want(j0={"a": 1}, j1={"a": 1})  # again and again
    assert again.phase(number) is JobPhase.WAITING
    assert again.job(number).epoch == 0


def test_a_job_that_runs_while_the_file_is_lost_runs_on(tmp_path):
    path = secrets_file(tmp_path / "rota.db")
    harness = with_store(Harness(), SecretStore(path))
    number = harness.running(env={"TOKEN": VALUE})
    path.unlink()

    again = with_store(harness.restarted(), SecretStore(path))
    again.loop.carry_out()

    assert again.phase(number) is JobPhase.RUNNING
    assert again.commands("a") == {number: "run"}


def test_an_agent_starts_nothing_with_hidden_values(tmp_path):
    spec = JobSpec(argv=("true",), env={"TOKEN": HIDDEN})
    order = pb.TaskOrder(job=1, epoch=1, ranks=1, world_size=1, devices=["gpu0"], spec=spec_message(spec))

    with pytest.raises(ConfigError, match="lost the values of TOKEN"):
        describe(order, TaskId("1", 1, 0), Place(root=tmp_path, logs=tmp_path, run=tmp_path), {})


def test_a_full_disk_refuses_the_job_and_nothing_is_accepted(store, monkeypatch):
    harness = with_store(Harness(), store)

    def full(*_):
        raise OutputError("no room")

    monkeypatch.setattr(store, "_write", full)
    with pytest.raises(Refused, match="no job was accepted: no room"):
        harness.submit(env={"TOKEN": VALUE})

    assert harness.registry.jobs == {}
    assert harness.submit() == 0  # without variables it goes on


def test_a_damaged_file_is_one_message(tmp_path):
    path = secrets_file(tmp_path / "rota.db")
    path.write_bytes(b"not a database" * 100)

    with pytest.raises(ConfigError, match=r"the file of secrets .* cannot be read"):
        SecretStore(path)


def test_values_of_an_old_journal_reach_the_job_and_nobody_else():
    harness = Harness()
    harness.join("a")
    number = harness.submit(env={"TOKEN": VALUE})
    accepted = next(row for row in harness.journal.rows if row["event"] == "JobAccepted")
    accepted["spec"]["env"] = {"TOKEN": VALUE}
    del accepted["secrets"]

    old = harness.restarted()
    old.round()
    old.want(j0={"a": 1})

    assert old.board.published["a"].tasks[0].spec.env == {"TOKEN": VALUE}
    job = old.job(number)
    assert job_message(job, WallTimes(), Explanation(job.phase)).spec.env == {"TOKEN": HIDDEN}
    line = json.dumps(accepted)
    assert VALUE in line
    assert json.loads(without_values(line))["spec"]["env"] == {"TOKEN": HIDDEN}
    job.attempt = None
    assert VALUE not in json.dumps(job_values(job))
    assert job_from(json.loads(json.dumps(job_values(job)))).spec.env == {"TOKEN": HIDDEN}


def test_a_value_that_lists_show_is_refused():
    with pytest.raises(Refused, match=r"the value of TOKEN is \*\*\*"):
        Harness().submit(env={"TOKEN": HIDDEN})


@pytest.mark.parametrize("env", [{"": VALUE}, {"A=B": VALUE}, {"A": VALUE + "\0"}, {"A\0": VALUE}, {"A": 7}, VALUE])
def test_bad_variables_are_refused_without_their_values(env):
    with pytest.raises(ConfigError) as refused:
        spec_from({"argv": ["x"], "env": env})

    assert VALUE not in str(refused.value)


def test_the_log_of_a_failed_submission_has_no_values():
    request = pb.SubmitRequest(jobs=[spec_message(JobSpec(argv=("x",), env={"TOKEN": VALUE}))])

    assert VALUE not in _shown(request)


# Files of variables


def test_a_file_of_variables_has_comments_quotes_and_export(tmp_path):
    path = tmp_path / "job.env"
    path.write_text("# a comment\n\nA=1\nexport B = two words \nC='#=x'\nD=\nE=a=b#c\n", encoding="utf-8")

    assert read_env_file(path) == {"A": "1", "B": "two words", "C": "#=x", "D": "", "E": "a=b#c"}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (f"A=1\n{VALUE}\n", 2, "there is no ="),
        (f"A=1\n\n1A={VALUE}\n", 3, "is no name"),
        (f"A={VALUE}\nA={VALUE}\n", 2, "A is in line 1 already"),
        (f"A='{VALUE}\n", 1, "close the quotes"),
        (f"={VALUE}\n", 1, "is no name"),
    ],
)
def test_a_mistake_in_a_file_of_variables_is_told_with_its_line(tmp_path, text, line, problem):
    path = tmp_path / "job.env"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as refused:
        read_env_file(path)

    assert f"{path}:{line}: " in str(refused.value)
    assert problem in str(refused.value)
    assert VALUE not in str(refused.value)


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * 200_000)

    for name, problem in (("none", "cannot read"), ("binary", "UTF-8"), ("large", "200,000 bytes"), (".", "cannot")):
        with pytest.raises(ConfigError, match=problem):
            secret_from_file(f"A={tmp_path / name}")


def test_secrets_come_from_the_environment_or_from_files(tmp_path):
    (tmp_path / "key").write_text("line one\nline two\n", encoding="utf-8")

    assert given_secret("KEY", {"KEY": VALUE}) == {"KEY": VALUE}
    assert given_secret("KEY=a=b", {}) == {"KEY": "a=b"}
    assert secret_from_file(f"KEY={tmp_path / 'key'}") == {"KEY": "line one\nline two"}
    with pytest.raises(ConfigError, match="there is no KEY in your environment"):
        given_secret("KEY", {})
    with pytest.raises(ConfigError, match="A is given twice, by --env and by --secret"):
        merged([("--env", {"A": "1"}), ("--secret", {"A": "2"})])


def test_jobs_in_a_file_may_name_secrets(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "OF_MINE", VALUE)
    (tmp_path / "job.env").write_text("A=1\n", encoding="utf-8")
    path = tmp_path / "jobs.toml"
    path.write_text('[[job]]\ncommand = "x"\nenv_file = "job.env"\nsecrets = ["OF_MINE"]\nenv = { B = "2" }\n')

    assert read_jobs(path)[0].env == {"A": "1", "B": "2", "OF_MINE": VALUE}
