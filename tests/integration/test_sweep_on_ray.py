"""A sweep on a real Ray cluster of several nodes, one of which dies on the way."""

import os
from pathlib import Path

import pytest

import rota as package
from rota.experiments import sweeping
from rota.experiments.executors import Lost
from rota.experiments.store import ResultStore

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
RUN = {"workload": "gavel-continuous", "cluster": "v100=4,k80=4", "policy": "las", "load": 0.25, "measure": (50, 700)}

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture
def cluster(monkeypatch):
    """A head that takes no runs and two nodes with a CPU each."""
    from ray.cluster_utils import Cluster

    source = str(Path(package.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", f"{source}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    yield made
    ray.shutdown()
    made.shutdown()


def test_the_runs_of_a_node_that_is_killed_are_made_on_another(cluster, tmp_path):
    spec = sweeping.make_spec(None, {**RUN, "seed": range(6), "executor": "ray"})
    executor = sweeping.make_executor(spec)
    assert executor.slots() == 2
    lost = []

    def wait(seconds, really=executor.wait):
        ended = really(seconds)
        lost.extend(e.reason for _, e in ended if isinstance(e, Lost))
        return ended

    executor.wait = wait

    def kill(report):
        if report.done == 2:
            cluster.remove_node(cluster.nodes.pop(), allow_graceful=False)

    with ResultStore(tmp_path / "ray.db") as store:
        found = sweeping.carry_out(spec, sweeping.plan(spec), store, executor, progress=kill)

    assert [run.status for run in found.runs] == ["ok"] * 6, [run.error for run in found.runs]
    assert len(cluster.nodes) == 1
    assert lost
    local = package.sweep(**{**RUN, "seed": [0], "store": tmp_path / "local.db", "workers": 1}).runs[0]
    assert found.runs[0].metrics["mean_jct_s"] == local.metrics["mean_jct_s"]
    assert found.runs[0].key == local.key
