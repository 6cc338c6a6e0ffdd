"""The shape of the code, checked: who may import whom, who may print, who may read the clock."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rota

ROOT = Path(rota.__file__).parent
PROJECT = Path(__file__).parents[2]
MODULES = sorted(path for path in ROOT.rglob("*.py") if "_pb2" not in path.name)  # but for generated ones


def name_of(path):
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(params=MODULES, ids=name_of)
def module(request):
    return request.param


def functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def calls_to(path, name):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def test_imports_point_down():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], check=False, capture_output=True, text=True, cwd=PROJECT)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_function_says_what_it_returns(module):
    assert [f.name for f in functions(module) if f.returns is None] == []


def test_nobody_prints(module):
    assert calls_to(module, "print") == []


def test_modules_say_what_they_are_for(module):
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "misc"])
def test_no_module_is_a_drawer_for_everything(name):
    assert [name_of(p) for p in MODULES if p.stem == name] == []


def test_only_the_command_line_imports_click_and_rich():
    found = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {n.split(".")[0] for n in names} & {"click", "rich"}:
                found.add(name_of(path).split("/")[0])

    assert found <= {"cli"}


def test_no_decision_reads_the_clock_of_the_machine():
    for package in ("core", "policies", "mechanisms", "opt", "engine", "sim", "profiles", "workloads"):
        for path in (ROOT / package).rglob("*.py"):
            imported = {
                alias.name
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Import)
                for alias in node.names
            }
            assert not imported & {"time", "datetime"}, name_of(path)
