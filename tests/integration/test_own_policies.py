"""Policies of a user's own on the command line and in sweeps: results, messages, exit codes, what is computed again."""

import json
import sqlite3
import subprocess
import sys

import pytest

import rota
from rota.core.errors import ConfigError

HELPER = "def key(view):\n    return {sign}view.total_steps\n"
MINE = """
import helper
from rota.policies.ranking import ranked

class Mine:
    def __init__(self, sign: float = 1.0):
        self.sign = sign

    def allocate(self, view):
        return ranked(view, helper.key(view) * self.sign)

class Broken(Mine):
    def allocate(self, view):
        if len(view) < 6:
            raise LookupError(f"{len(view)} jobs are too few")
        return super().allocate(view)

class Greedy:
    def allocate(self, view):
        from rota.core.allocation import Allocation
        import numpy as np
        return Allocation(jobs=view.jobs, types=view.types, share=np.ones((len(view), len(view.types))))
"""
RUN = {"workload": "gavel-static", "set": {"jobs": 6}, "cluster": "v100=2/1"}
SIMULATE = ("simulate", "--workload", "gavel-static", "--set", "jobs=6", "--cluster", "v100=2/1", "--policy")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, sign in (("a", ""), ("b", "-")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(HELPER.format(sign=sign))
        (tmp_path / name / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rota.cli", *words], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_file_is_as_good_as_a_name(folder):
    done = command(*SIMULATE, "a/mine.py:Mine", "--set-policy", "sign=-1", "--json", cwd=folder)

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["config"]["policy"], said["jobs_finished"]) == ("a/mine.py:Mine", 6)
    assert (
        said["mean_jct_s"]
        == rota.simulate(
            workload="gavel-static", settings={"jobs": 6}, cluster="v100=2/1", policy="b/mine.py:Mine"
        ).summary["mean_jct_s"]
    )


RAISES = """rota: error: a/mine.py, line 15, in allocate: LookupError: 5 jobs are too few
    raise LookupError(f"{len(view)} jobs are too few")
"""
TAKES_ALL = """rota: error: the policy hands out 6 GPUs of v100; there are 2 (most of them to job 0, \
which asks for 1: a share of 1)
"""


@pytest.mark.parametrize(("policy", "message"), [("a/mine.py:Broken", RAISES), ("a/mine.py:Greedy", TAKES_ALL)])
def test_a_mistake_of_the_user_is_one_message_and_exit_code_2(folder, policy, message):
    done = command(*SIMULATE, policy, cwd=folder)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def statuses(found):
    return {run.point["policy"]: run.status for run in found.runs}


def test_a_sweep_computes_again_what_was_edited_and_nothing_else(folder):
    grid = {**RUN, "policy": ["fifo", "a/mine.py:Mine", "b/mine.py:Mine", "a/mine.py:Broken"], "store": "r.db"}
    first = rota.sweep(**grid, workers=2)
    again = rota.sweep(**grid, workers=2, retry=False)
    with (folder / "a" / "helper.py").open("a") as file:
        file.write("# edited\n")
    edited = rota.sweep(**grid, workers=2)

    assert (first.computed, again.computed, edited.computed) == (4, 0, 2)
    assert statuses(first) == {
        "fifo": "ok", "a/mine.py:Mine": "ok", "b/mine.py:Mine": "ok", "a/mine.py:Broken": "failed",
    }  # fmt: skip
    mean = {run.point["policy"]: run.metrics.get("mean_jct_s") for run in first.runs}
    assert mean["a/mine.py:Mine"] < mean["fifo"] < mean["b/mine.py:Mine"]
    assert first.runs[3].error.splitlines() == [
        "a/mine.py, line 15, in allocate: LookupError: 5 jobs are too few",
        '    raise LookupError(f"{len(view)} jobs are too few")',
    ]
    from rota.experiments.plotting import jct_cdf

    assert sorted(jct_cdf(["r.db"])) == ["a/mine.py:Mine", "b/mine.py:Mine", "fifo"]


def test_a_path_is_seen_from_here_or_from_the_file_of_the_sweep_and_written_in_one_way(folder):
    (folder / "a" / "s.toml").write_text(
        "[run]\nworkload = 'gavel-static'\nset = {jobs = 6}\ncluster = 'v100=2/1'\n"
        "[axes]\npolicies = ['mine.py:Mine', './b/mine.py:Mine']\n"
        "[[sweep.override]]\nwhen = {policy = 'mine.py:Mine'}\n'policy.sign' = 2\n"
    )

    done = command("sweep", "a/s.toml", "--dry-run", "--json", cwd=folder)

    assert [run["point"] for run in json.loads(done.stdout)] == [
        {"policy": "a/mine.py:Mine", "policy.sign": 2}, {"policy": "b/mine.py:Mine"},
    ]  # fmt: skip


def test_the_name_of_a_file_does_not_matter_to_the_store_but_its_text_does(folder):
    from rota.experiments.tasks import make_task

    def key(policy):
        return make_task({"workload": "gavel-static", "set.jobs": 6, "cluster": "v100=2/1", "policy": policy}).key

    (folder / "a" / "copy.py").write_text(MINE)

    assert key("a/mine.py:Mine") == key(str(folder / "a" / "mine.py") + ":Mine")
    assert len({key(f"{f}.py:{c}") for f in ("a/mine", "b/mine") for c in ("Mine", "Broken")}) == 4


def test_a_class_is_given_to_a_sweep_by_itself_and_an_object_is_refused(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder / "a"))
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    import mine

    found = rota.sweep(**RUN, policy=["fifo", mine.Mine], store="r.db", workers=1)

    assert statuses(found) == {"fifo": "ok", "a/mine.py:Mine": "ok"}
    with pytest.raises(ConfigError, match=r"give a name, file\.py:Class or the class"):
        rota.sweep(**RUN, policy=["fifo", mine.Mine()], store="r.db")
    monkeypatch.delitem(sys.modules, "mine")
    monkeypatch.delitem(sys.modules, "helper", raising=False)


def test_code_that_changes_while_the_sweep_runs_is_not_taken_for_what_it_was(folder):
    from rota.experiments.execution import RunOutcome
    from rota.experiments.runner import SweepRunner
    from rota.experiments.store import ResultStore
    from rota.experiments.tasks import make_task

    task = make_task({"workload": "gavel-static", "set.jobs": 6, "cluster": "v100=2/1", "policy": "a/mine.py:Mine"})

    class Elsewhere:
        """Hands back what a machine with another file would."""

        def free(self):
            return 1

        def slots(self):
            return 1

        def submit(self, _task):
            pass

        def wait(self, _seconds):
            return [(task, RunOutcome(status="ok", own_code={"policy_sha256": "0"}))]

        def close(self):
            pass

    with ResultStore("r.db") as store:
        SweepRunner(store, Elsewhere()).run([task])

    ((status, error),) = sqlite3.connect("r.db").execute("SELECT status, error FROM runs")
    assert status == "failed"
    assert "a/mine.py:Mine: the code was edited while the sweep ran" in error


def test_a_mechanism_of_ones_own(folder):
    (folder / "emptiest.py").write_text(
        "from rota.mechanisms.divide.proportional import Proportional\n"
        "class Mine(Proportional):\n    '''As proportional.'''\n"
        "class Alone:\n    def divide(self, view, choice):\n        return None\n"
        "class Nothing(Proportional):\n    def divide(self, view, choice):\n        pass\n"
    )
    given = {"workload": "gavel-static", "settings": {"jobs": 6}, "cluster": "v100=2/1", "policy": "fifo"}

    own = rota.simulate(**given, mechanism="emptiest.py:Mine")

    assert own.summary["mean_jct_s"] == rota.simulate(**given).summary["mean_jct_s"]
    assert (own.config["mechanism"], len(own.config["mechanism_sha256"])) == ("emptiest.py:Mine", 64)
    with pytest.raises(ConfigError, match=r"must inherit from rota\.mechanisms\.dividing\.Divide"):
        rota.simulate(**given, mechanism="emptiest.py:Alone")
    with pytest.raises(ConfigError, match="mechanism answered with NoneType"):
        rota.simulate(**given, mechanism="emptiest.py:Nothing")


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("raise GeneratorExit", "line 4, in allocate: GeneratorExit"),
        ("raise Mute", "line 4, in allocate: Mute: (its text cannot be shown: ZeroDivisionError)"),
        ("return ranked(view, view.gpus * float('nan'))", "the sort key of job 0 is nan"),
    ],
)
def test_whatever_a_policy_does_it_is_one_message(tmp_path, does, says):
    text = f"""from rota.policies.ranking import ranked
class Odd:
    def allocate(self, view):
        {does}
class Mute(Exception):
    def __str__(self):
        return 1 / 0
"""
    (tmp_path / "odd.py").write_text(text)

    done = command(*SIMULATE, "odd.py:Odd", cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_ends_python_while_it_is_loaded_is_named(tmp_path):
    (tmp_path / "odd.py").write_text("raise GeneratorExit")

    done = command(*SIMULATE, "odd.py:Odd", cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert "policy 'odd.py:Odd' cannot be loaded: odd.py, line 1: GeneratorExit" in done.stderr
