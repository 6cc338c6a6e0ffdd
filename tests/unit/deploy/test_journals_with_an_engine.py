"""Whatever happens in whatever order: every prefix of the journal is read back, and gives what was there.

Policy, mechanism and engine are the real ones, so the journal has every kind of event; servers join in front of others,
are drained, fall silent, come back with other GPUs, and the scheduler is started again in between, with and without
snapshots.
"""

import copy

import pytest
from engine_harness import EngineHarness
from harness import ends, runs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.core.lifecycle import AttemptOutcome
from rota.deploy.events import KINDS, ClockSet
from rota.engine.log import _READERS

NODES = ("0-first", "a", "b", "z-last")
PARTS = {
    "tune": {"policy": "las", "mechanism": "tune", "profiles": "synergy"},
    "greedy": {"policy": "srtf", "mechanism": "greedy", "profiles": "synergy"},
    "proportional": {"policy": "max-min-fairness-perf", "mechanism": "proportional", "profiles": "gavel"},
    "pairs": {"policy": "max-min-fairness-packed", "mechanism": "proportional", "profiles": "gavel"},
}
MODELS = {"synergy": ("lstm", "res50", "m5"), "gavel": ("ResNet-18 (batch size 32)", "ResNet-50 (batch size 64)", "")}
TYPES = {"synergy": ("v100",), "gavel": ("v100", "k80")}

operations = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from([1, 2, 4]), st.integers(0, 2), st.sampled_from([1.0, 2.0])),
        st.tuples(st.just("cancel"), st.integers(0, 5)),
        st.tuples(st.just("hold"), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("join"), st.sampled_from(NODES), st.integers(1, 4), st.integers(0, 1)),
        st.tuples(st.just("drain"), st.sampled_from(NODES), st.booleans()),
        st.tuples(st.just("silence"), st.sampled_from(NODES)),
        st.tuples(st.just("save"), st.sampled_from(NODES), st.integers(1, 900)),
        st.tuples(st.just("begin_saving"), st.sampled_from(NODES)),
        st.tuples(st.just("remove"), st.sampled_from(NODES)),
        st.tuples(st.just("trouble"), st.sampled_from(NODES), st.sampled_from(["its disk is full", ""])),
        st.tuples(st.just("set_clock"), st.sampled_from([-86400.0, 3600.0])),
        st.tuples(st.just("end"), st.sampled_from(NODES), st.sampled_from([o.value for o in AttemptOutcome])),
        st.tuples(st.just("limited")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("snapshot")),
        st.tuples(st.just("round")),
        st.tuples(st.just("round")),
    ),
    min_size=8,
    max_size=20,
)


class History:
    """A scheduler that things happen to, with what was there after each of them."""

    def __init__(self, parts):
        self.parts = parts
        self.harness = EngineHarness(**parts)
        self.snapshots = []
        self.pictures = {}
        self.do("join", "a", 2, 0)
        self.do("submit", 1, 0, 1.0)
        self.do("round")

    def do(self, what, *arguments):
        getattr(self, what)(*arguments)
        for node in self.harness.agents:
            self.harness.obey(node)
        harness = self.harness
        self.pictures[len(harness.journal.rows)] = (harness.picture(), copy.deepcopy(harness.registry))

    def submit(self, gpus, model, weight):
        profile = MODELS[self.parts["profiles"]][model]
        real = not profile or weight > 1.0
        fields = {"emulated": False, "argv": ["train"]} if real else {}
        self.harness.submit(gpus=gpus, weight=weight, max_restarts=1, profile=profile, **fields)

    def cancel(self, job):
        if job in self.harness.registry.jobs:
            self.harness.cancel(job)

    def limited(self):
        """A job that may only run for two rounds and a half."""
        profile = MODELS[self.parts["profiles"]][0]
        self.harness.submit(gpus=1, profile=profile, time_limit_s=25.0)

    def hold(self, job, undo):
        """Somebody holds a job, or releases it."""
        requests = self.harness.requests
        if job in self.harness.registry.jobs:
            named = ([job], [], "ops", None)
            work = requests.release if undo else lambda *args: requests.hold(*args, force=True)
            self.harness.ask(lambda now: work(*named, now))

    def join(self, node, gpus, kind):
        self.harness.silent.discard(node)
        types = TYPES[self.parts["profiles"]]
        self.harness.join(node, gpus, kind=types[kind % len(types)], identity=f"{node}-{gpus}")

    def drain(self, node, undo):
        if node in self.harness.agents:
            self.harness.ask(lambda now: self.harness.requests.drain(node, "ops", now, undo=undo))

    def silence(self, node):
        """Nobody hears of it until it is lost."""
        if node in self.harness.agents:
            self.harness.silent.add(node)
            for _ in range(4):
                self.harness.pass_time(10.0)

    def save(self, node, step):
        if node in self.harness.agents:
            self.harness.obey(node, saved=step)

    def begin_saving(self, node):
        self._all_say(node, runs(step=5, can_save=True, saving=True, save_progress=1))

    def end(self, node, outcome):
        self._all_say(node, ends(outcome, step=950))

    def _all_say(self, node, task):
        """All tasks of a server say the same."""
        if node in self.harness.agents and node not in self.harness.silent:
            orders = self.harness.board.published[node].tasks
            self.harness.report(node, {(order.job, order.epoch): task for order in orders})

    def remove(self, node):
        """A lost server is forgotten."""
        if node in self.harness.registry.nodes and self.harness.registry.nodes[node].lost:
            self.harness.ask(lambda now: self.harness.requests.remove_node(node, "ops", now))
            del self.harness.agents[node]

    def trouble(self, node, what):
        """A server has no room for anything new, or has again."""
        if node in self.harness.agents and node not in self.harness.silent:
            self.harness.trouble[node] = what
            self.harness.report(node)

    def set_clock(self, by_s):
        self.harness.ask(lambda now: ([ClockSet(at=now, by_s=by_s, running=True)], lambda: None))

    def restart(self):
        self.harness = self.harness.restarted(stored=self.harness.journal.stored)

    def snapshot(self):
        self.harness.snapshot()
        self.snapshots.append(self.harness.journal.stored[0])

    def round(self):
        self.harness.round()


def assert_every_prefix_is_read(history):
    harness = history.harness
    for rows in range(1, len(harness.journal.rows) + 1):
        again = harness.restarted(rows)
        if rows in history.pictures:
            picture, registry = history.pictures[rows]
            assert again.picture() == picture
            assert again.registry == registry


def assert_every_snapshot_gives_the_same(history):
    harness = history.harness
    for stored in history.snapshots:
        for rows in (stored.number, len(harness.journal.rows)):
            again = harness.restarted(rows, stored=[stored])
            picture, registry = history.pictures.get(rows, (again.picture(), again.registry))
            assert again.picture() == picture
            assert again.registry == registry


@pytest.mark.parametrize("parts", list(PARTS))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(operations)
def test_every_prefix_and_every_snapshot_gives_what_was_there(parts, happened):
    history = History(PARTS[parts])
    for what, *arguments in happened:
        history.do(what, *arguments)

    assert_every_prefix_is_read(history)
    assert_every_snapshot_gives_the_same(history)


def test_a_server_joins_in_front_after_a_job_ended_and_another_one_runs():
    """What once made a journal unreadable under `tune` and `greedy`: the running job changed its place in a table."""
    for mechanism in ("tune", "greedy"):
        history = History({"policy": "las", "mechanism": mechanism, "profiles": "synergy"})
        history.do("end", "a", "completed")
        history.do("submit", 2, 0, 1.0)
        history.do("round")
        history.do("join", "0-first", 2, 0)
        history.do("round")
        history.do("drain", "a", False)
        history.do("round")

        assert history.harness.registry.running
        assert_every_prefix_is_read(history)


def test_these_histories_have_every_kind_of_event_that_a_deployment_writes():
    history = History(PARTS["tune"])
    for what in [
        ("submit", 2, 1, 1.0), ("join", "b", 2, 0), ("round",), ("save", "a", 20), ("round",), ("end", "a", "failed"),
        ("round",), ("round",), ("cancel", 0), ("silence", "b"), ("round",), ("submit", 1, 0, 1.0), ("round",),
        ("end", "a", "completed"), ("round",), ("drain", "a", False), ("round",), ("submit", 1, 0, 1.0),
        ("drain", "a", True), ("round",), ("drain", "a", False), ("round",), ("drain", "a", True), ("round",),
        ("submit", 1, 0, 2.0), ("round",), ("begin_saving", "a"), ("round",), ("set_clock", -86400.0),
        ("remove", "b"), ("round",), ("trouble", "a", "its disk is full"), ("round",), ("trouble", "a", ""),
        ("hold", 3, False), ("round",), ("hold", 3, True), ("submit", 1, 0, 1.0), ("hold", 5, False), ("round",),
        ("hold", 5, True), ("round",), ("limited",), *[("round",)] * 6,
    ]:  # fmt: skip
        history.do(*what)

    kinds = {row["event"] for row in history.harness.journal.rows}
    elsewhere = {
        "ServiceStarted", "SettingsChanged", "EventsLost", "SuccessionChanged", "Audited", "JobsArchived",
        "JobsForgotten", "CheckpointsClaimed", "AttemptResized", "JobGivenUp", "SolveFailed", "PlacementFailed",
        "CapacityChanged", "RunEnded", "JobsRejected", "SpeedsLearned", "SpeedMeasured",
        "ProfileWrong",
    }  # fmt: skip
    assert kinds | elsewhere >= KINDS.keys() | _READERS.keys()
    assert_every_prefix_is_read(history)
