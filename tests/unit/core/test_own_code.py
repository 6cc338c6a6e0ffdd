"""Classes of users: how they are found, loaded, told apart and hashed, and whose line an exception is."""

import os
import sys
import time
from types import ModuleType

import pytest

import rota
from rota.core import own_code
from rota.core.errors import ConfigError, UnknownName
from rota.policies.registry import policies

POLICY = """
from rota.policies.ranking import ranked
{imports}

class Mine:
    '''The fewest steps first.'''

    def __init__(self, sign=1.0):
        self.sign = sign

    def allocate(self, view):
        return ranked(view, {key} * self.sign)
"""
RUN = {"workload": "gavel-static", "settings": {"jobs": 6}, "cluster": "v100=2/1", "seed": 1}


def save(folder, name="mine.py", imports="", key="view.total_steps", text=None):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(POLICY.format(imports=imports, key=key) if text is None else text)
    return path


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["fifo", "max-min-fairness", "a:b", "mine.pyc:Mine", "v100=8/4"])
def test_other_names_are_no_reference(name):
    assert own_code.reference(name) is None


@pytest.mark.parametrize(("text", "said"), [("mine.py", "which class"), ("mine.py:", "not the name of a class")])
def test_a_file_without_a_class_is_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        own_code.reference(text)


def test_a_class_of_a_file_is_a_policy_with_parameters(tmp_path):
    save(tmp_path, "mine/mine.py")
    entry = policies.entry("mine/mine.py:Mine")

    assert (entry.name, entry.summary, list(entry.parameters())) == (
        "mine/mine.py:Mine",
        "The fewest steps first.",
        ["sign"],
    )
    assert policies.create("mine/mine.py:Mine", sign="-2").sign == -2.0
    with pytest.raises(UnknownName, match="did you mean 'sign'"):
        policies.create("mine/mine.py:Mine", sgn=1)


def test_text_object_and_class_give_the_same_run(tmp_path):
    path = save(tmp_path)
    mine = own_code.load(own_code.Reference(path, "Mine"), "policy", "allocate")
    given = [("mine.py:Mine", {"sign": -1}), (mine, {"sign": -1}), (mine(sign=-1), None)]

    runs = [rota.simulate(**RUN, policy=policy, policy_settings=settings) for policy, settings in given]

    assert len({run.summary["mean_jct_s"] for run in runs}) == 1
    assert [run.config["policy"] for run in runs] == ["mine.py:Mine", "Mine", "Mine"]
    assert len({run.config["policy_sha256"] for run in runs}) == 1


def test_a_built_policy_takes_no_parameters_any_more(tmp_path):
    mine = own_code.load(own_code.Reference(save(tmp_path), "Mine"), "policy", "allocate")

    with pytest.raises(ConfigError, match="'sign' of the policy: it is built already"):
        rota.simulate(**RUN, policy=mine(), policy_settings={"sign": 2})


@pytest.mark.parametrize("policy", [3, object(), dict])
def test_what_has_no_allocate_is_no_policy(policy):
    with pytest.raises(ConfigError, match="is no policy: it has no method allocate"):
        rota.simulate(**RUN, policy=policy)


def test_modules_beside_the_file_are_its_own_even_if_others_have_the_same_name(tmp_path):
    for folder, sign in (("a", "+"), ("b", "-")):
        save(tmp_path, f"{folder}/helper.py", text=f"def key(view):\n    return {sign}view.total_steps\n")
        save(tmp_path, f"{folder}/mine.py", imports="import helper", key="helper.key(view)")

    means = [rota.simulate(**RUN, policy=f"{f}/mine.py:Mine").summary["mean_jct_s"] for f in ("a", "b", "a")]

    assert means[0] == means[2] != means[1]


def test_modules_of_a_script_stay_what_they_are(tmp_path, monkeypatch):
    theirs = ModuleType("helper")
    monkeypatch.setitem(sys.modules, "helper", theirs)
    save(tmp_path, "helper.py", text="def key(view):\n    return view.total_steps\n")
    save(tmp_path, imports="import helper", key="helper.key(view)")

    assert rota.simulate(**RUN, policy="mine.py:Mine").summary["jobs_finished"] == 6
    assert sys.modules["helper"] is theirs


def test_a_package_may_import_relatively(tmp_path):
    save(tmp_path, "pack/__init__.py", text="")
    save(tmp_path, "pack/helper.py", text="def key(view):\n    return view.total_steps\n")
    save(tmp_path, "pack/mine.py", imports="from .helper import key", key="key(view)")

    assert rota.simulate(**RUN, policy="pack/mine.py:Mine").summary["jobs_finished"] == 6


def edit(path, text):
    path.write_text(text)
    later = time.time_ns() + 10_000_000
    os.utime(path, ns=(later, later))


@pytest.mark.parametrize("imports", ["import helper", "from helper import key", "def later():\n    import helper"])
def test_the_digest_changes_with_the_file_and_what_it_imports_and_with_nothing_else(tmp_path, imports):
    helper = save(tmp_path, "helper.py", text="import deeper\nkey = 1\n")
    deeper = save(tmp_path, "deeper.py", text="x = 1\n")
    other = save(tmp_path, "other.py", text="x = 1\n")
    mine = save(tmp_path, imports=imports)
    digests = [own_code.digest(mine)]

    edit(other, "x = 2\n")
    digests.append(own_code.digest(mine))
    for path in (helper, deeper, mine):
        edit(path, path.read_text() + "# edited\n")
        digests.append(own_code.digest(mine))

    assert digests[0] == digests[1]
    assert len(set(digests[1:])) == 4


def test_an_edited_file_is_loaded_again_with_what_it_imports(tmp_path):
    helper = save(tmp_path, "helper.py", text="def key(view):\n    return view.total_steps\n")
    save(tmp_path, imports="import helper", key="helper.key(view)")
    before = rota.simulate(**RUN, policy="mine.py:Mine")

    edit(helper, helper.read_text().replace("return ", "return -"))
    after = rota.simulate(**RUN, policy="mine.py:Mine")

    assert before.summary["mean_jct_s"] != after.summary["mean_jct_s"]
    assert before.config["policy_sha256"] != after.config["policy_sha256"]


def test_a_class_without_a_file_is_hashed_by_its_text_or_not_at_all():
    made = type("Made", (), {"allocate": lambda _self, view: view})

    assert own_code.digest_of(made) is None or len(own_code.digest_of(made)) == 64
    assert len(own_code.digest_of(TextOnly)) == 64


class TextOnly:
    """A class with a text."""


BROKEN = {
    "a slip": ("def f(:\n", r"mine.py, line 1: SyntaxError: .*\n    def f\(:"),
    "a module that is missing": ("import nosuchthing\n", "line 1: ModuleNotFoundError: .*nosuchthing"),
    "a mistake": ("x = 1\ny = x / 0\n", r"line 2: ZeroDivisionError: division by zero\n    y = x / 0"),
    "an end": ("raise SystemExit(0)\n", "line 1: SystemExit: 0"),
    "a script": (
        "import rota\nrota.simulate(policy='fifo', cluster='v100=1')\n",
        "calls rota.simulate when it is loaded",
    ),
    "a sweep": ("import rota\nrota.sweep(policy='fifo')\n", "calls rota.sweep when it is loaded"),
    "a class that is none": ("def Mine(): pass\n", "Mine is a function, not a class"),
    "no policy": ("class Mine: pass\n", "class Mine is no policy: it has no method allocate"),
    "another name": ("class Mein:\n    def allocate(self, view): pass\n", "did you mean 'Mein'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_used_is_explained(tmp_path, name):
    text, said = BROKEN[name]
    save(tmp_path, text=text)

    with pytest.raises(ConfigError, match=said):
        policies.create("mine.py:Mine")


def test_a_file_that_is_not_there_is_named_with_where_it_was_looked_for(tmp_path):
    with pytest.raises(ConfigError, match=f"no file none.py, seen from {tmp_path}"):
        policies.create("none.py:Mine")


def test_a_parameter_that_is_missing_is_named(tmp_path):
    save(tmp_path, text="class Mine:\n    def __init__(self, most): pass\n    def allocate(self, view): pass\n")

    with pytest.raises(ConfigError, match=r"needs its parameter most, .* --set-policy most=VALUE"):
        policies.create("mine.py:Mine")


@pytest.mark.parametrize("name", ["mine:Mine", "folder.mine:Mine"])
def test_a_name_that_is_nearly_a_file_says_how_to_write_it(name):
    with pytest.raises(UnknownName, match=r"your own is file.py:Class"):
        policies.create(name)


def test_what_a_run_fills_in_is_declared_on_the_class(tmp_path):
    save(
        tmp_path,
        text="class Mine:\n    from_run = ('seed',)\n    def __init__(self, seed=0):\n        self.seed = seed\n"
        "    def allocate(self, view): pass\n",
    )

    assert policies.create_for_run("mine.py:Mine", {"seed": 7, "order": "x"}).seed == 7
    assert policies.create_for_run("mine.py:Mine", {"seed": 7}, seed="3").seed == 3


def test_an_exception_is_the_users_with_the_deepest_line_of_theirs(tmp_path):
    save(tmp_path, "helper.py", text="def key(view):\n    return view.gpus.reshape(3, 99)\n")
    save(tmp_path, imports="import helper", key="helper.key(view)")

    with pytest.raises(ValueError, match="reshape") as caught:
        rota.simulate(**RUN, policy="mine.py:Mine")

    blamed = own_code.blame(caught.value)
    assert blamed.startswith("helper.py, line 2, in key: ValueError: cannot reshape array")
    assert blamed.endswith("\n    return view.gpus.reshape(3, 99)")


def test_an_exception_of_ours_is_not_the_users():
    with pytest.raises(KeyError) as caught:
        {}["x"]

    assert own_code.blame(caught.value) is None


def test_a_class_becomes_a_reference_unless_other_processes_cannot_load_it(tmp_path, monkeypatch):
    path = save(tmp_path)
    mine = own_code.load(own_code.Reference(path, "Mine"), "policy", "allocate")
    assert str(own_code.reference_to(mine)) == "mine.py:Mine"

    class Inside:
        pass

    with pytest.raises(ConfigError, match="inside another one or a function; move it out"):
        own_code.reference_to(Inside)
    monkeypatch.setattr(mine, "__module__", "__main__")
    with pytest.raises(ConfigError, match=r"in a notebook or in the script that runs.*file\.py:Mine"):
        own_code.reference_to(mine)
