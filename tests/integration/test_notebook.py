"""The notebook in the documentation runs, and what it stores is small and what it says."""

import os
from pathlib import Path

import pytest

import rota

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e .[dev]")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install -e .[dev]")
for needed in ("ipykernel", "pandas", "matplotlib"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: pip install -e .[dev,plot]")

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def kinds(notebook):
    """Of every code cell, which kinds of output it has."""
    return [
        sorted({kind for o in cell.outputs for kind in o.get("data", {o.output_type: ""})})
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.filterwarnings("default")  # of the kernel and its sockets, not ours
def test_the_notebook_runs_and_shows_what_is_stored_in_it(tmp_path, monkeypatch):
    source = Path(rota.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    stored = nbformat.read(NOTEBOOK, as_version=4)
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs = []

    nbclient.NotebookClient(fresh, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()

    assert kinds(fresh) == kinds(stored)
    assert sum("image/png" in kind for kind in kinds(fresh)) == 3


def test_the_stored_notebook_is_small_and_knows_nothing_of_a_machine():
    text = NOTEBOOK.read_text(encoding="utf-8")

    assert len(text) < 300_000
    assert "/home/" not in text
    assert str(NOTEBOOK.parents[1]) not in text
