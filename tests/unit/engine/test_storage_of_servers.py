"""Storage of servers from the text of a cluster to the end of a run."""

from __future__ import annotations

import pickle

import pytest

import rota
from builders import some_jobs
from rota import clusters, profiles
from rota.core.events import ClusterChanged, JobsSubmitted
from rota.core.rules import Rules
from rota.engine.live_state import LiveState
from rota.engine.state import State

PIPELINE = profiles.load("pipeline")
SERVERS = "v100=8/8:cpus=24:memory=500"
PUBLISHED = 1.3987769187795096
"""Steps/s of res50 on a v100 with 3 CPUs, 62.5 GB and 62.5 MB/s."""
HALF = pytest.approx(0.76153, rel=1e-4)
"""The same with half of the MB/s."""


def rate(cluster, profile="res50", rules=None):
    return rate_in(State(cluster, PIPELINE, rules or Rules()), profile)


def rate_in(state, profile="res50"):
    number = state.classes.number(profile, 1, 1.0)
    return state.classes.value.throughput[number].tolist()


def a_file(tmp_path, *storage):
    path = tmp_path / "lab.toml"
    server = '[[server]]\ntype = "v100"\ngpus = 8\ncpus = 24\nmemory_gb = 500\n'
    path.write_text("".join(server + (f"storage_mbps = {s}\n" if s else "") for s in storage))
    return clusters.load(path)


def test_a_text_and_a_file_say_the_same(tmp_path):
    assert rate(clusters.load(f"{SERVERS}:storage=250")) == rate(a_file(tmp_path, 250)) == [HALF]
    assert rate(clusters.load(f"{SERVERS}:storage=500")) == rate(a_file(tmp_path, 500)) == [PUBLISHED]
    assert rate(clusters.load(SERVERS)) == rate(a_file(tmp_path, 0)) == [PUBLISHED]
    assert rate(clusters.load("synergy-128")) == [PUBLISHED]


def test_the_server_with_least_storage_per_gpu_speaks_for_its_type_and_one_that_does_not_say_leaves_it_open(tmp_path):
    least = rate(clusters.load(f"{SERVERS}:storage=250"))

    assert rate(a_file(tmp_path, 1000, 250)) == least
    assert rate(a_file(tmp_path, 250, 0)) == [PUBLISHED]


def test_servers_that_do_not_tell_their_cpus_and_memory_have_the_published_ones_beside_their_storage():
    assert rate(clusters.load("v100=8/8")) == [PUBLISHED]
    assert rate(clusters.load("v100=8/8:storage=250")) == rate(clusters.load(f"{SERVERS}:storage=250"))


def test_memory_that_holds_the_data_set_makes_up_for_storage():
    assert rate(clusters.load("v100=8/8:cpus=24:memory=1000:storage=250")) == [PUBLISHED]


def test_speeds_of_two_values_follow_storage_too():
    rules = Rules(speeds="two-valued")

    assert rate(clusters.load(f"{SERVERS}:storage=250"), rules=rules) == rate(clusters.load(f"{SERVERS}:storage=250"))


def test_a_cluster_that_changes_brings_its_storage_with_it():
    state = LiveState(clusters.load(SERVERS), PIPELINE, Rules())
    state.apply(JobsSubmitted(at=0.0, first_id=0, jobs=some_jobs(1, profiles="res50")))
    found = []
    for text in (f"{SERVERS}:storage=250", SERVERS):
        state.apply(ClusterChanged(at=1.0, cluster=clusters.load(text)))
        found.append(state.classes.value.throughput.tolist())

    assert found == [[rate(clusters.load(f"{SERVERS}:storage=250"))], [[PUBLISHED]]]


def test_a_state_that_was_saved_asks_again_with_the_storage_of_its_servers():
    cluster = clusters.load(f"{SERVERS}:storage=250")
    back = pickle.loads(pickle.dumps(State(cluster, PIPELINE, Rules())))  # noqa: S301 - our own bytes
    back.attach(PIPELINE)

    assert rate_in(back) == [HALF]


@pytest.mark.parametrize(
    ("policy", "mechanism"),
    [("max-min-fairness-perf", "proportional"), ("max-min-fairness-unified", "tune"), ("srtf", "tune")],
)
def test_runs_on_servers_that_differ_only_in_storage_differ_for_who_reads_and_for_nobody_else(policy, mechanism):
    """30 GB per GPU: res50 waits for storage, lstm for nothing."""

    def mean_jct(profile, storage):
        cluster = clusters.load(f"v100=8/8:cpus=24:memory=240{storage}")
        jobs = some_jobs(12, profiles=profile, steps=20000.0)
        run = rota.simulate(jobs=jobs, cluster=cluster, profiles="pipeline", policy=policy, mechanism=mechanism)
        return run.summary["mean_jct_s"]

    reads = [mean_jct("res50", s) for s in (":storage=250", "", ":storage=500", ":storage=1000")]
    others = [mean_jct("lstm", s) for s in (":storage=250", "", ":storage=500", ":storage=1000")]

    assert reads[0] == pytest.approx(2 * reads[1], rel=0.02)
    assert reads[1] == reads[2]
    assert reads[3] == pytest.approx(reads[1] / 2, rel=0.02)
    assert len(set(others)) == 1


def test_finish_time_fairness_compares_with_the_speed_that_storage_allows():
    """A job alone on its only GPU ends when it would in a share of its own, whatever the storage is."""

    def rho(storage):
        jobs = some_jobs(1, profiles="res50", steps=20000.0)
        return rota.simulate(
            jobs=jobs, cluster=f"v100=1/1:cpus=3:memory=62.5:storage={storage}", profiles="pipeline", policy="fifo"
        ).summary["mean_ftf"]

    assert [rho(31.25), rho(62.5), rho(5)] == pytest.approx([1.0, 1.0, 1.0], rel=0.01)
