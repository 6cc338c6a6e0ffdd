"""A scheduler may die after any commit: what is in the journal by then is read back, and leads to the same events."""

import copy

from harness import ROUND_S, TIMING, Harness, ends, runs
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.lifecycle import AttemptOutcome
from rota.deploy.scheduler.agent_reports import pause_s

NODES = ("a", "b")
OUTCOMES = [outcome.value for outcome in AttemptOutcome]

operations = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 4)),
    st.tuples(st.just("cancel"), st.integers(0, 4)),
    st.tuples(st.just("want"), st.lists(st.integers(0, 4), max_size=3, unique=True), st.sampled_from([*NODES, "ab"])),
    st.tuples(st.just("want"), st.just([0, 1]), st.sampled_from([*NODES, "ab"])),
    st.tuples(st.just("end"), st.sampled_from(NODES), st.sampled_from(OUTCOMES)),
    st.tuples(st.just("end"), st.sampled_from(NODES), st.just("stopped")),
    st.tuples(st.just("save"), st.sampled_from(NODES), st.integers(1, 900)),
    st.tuples(st.just("join"), st.sampled_from(NODES), st.sampled_from(["folder", "another"])),
    st.tuples(st.just("drain"), st.sampled_from(NODES), st.booleans()),
    st.tuples(st.just("wait"), st.floats(0.5, 4.0)),
    st.tuples(st.just("round")),
)


def begun():
    """Two servers and a job, so that histories soon come to the point."""
    harness = Harness()
    for node in NODES:
        harness.join(node)
    harness.submit(gpus=2)
    harness.round()
    return harness


def carry_out(harness, operation):
    kind, *arguments = operation
    {
        "submit": lambda gpus: harness.submit(gpus=gpus, max_restarts=1),
        "cancel": lambda job: harness.cancel(job) if job in harness.registry.jobs else None,
        "want": lambda jobs, nodes: _want(harness, jobs, nodes),
        "end": lambda node, outcome: _tasks(harness, node, ends(outcome, step=950, saved_step=0)),
        "save": lambda node, step: _tasks(harness, node, runs(step=step, saved_step=step, saved_path=f"at-{step}")),
        "join": lambda node, identity: harness.join(node, identity=identity),
        "drain": lambda node, undo: harness.ask(lambda now: harness.requests.drain(node, "ops", now, undo=undo)),
        "wait": harness.wait,
        "round": harness.round,
    }[kind](*arguments)
    for node in NODES:
        obey(harness, node)


def obey(harness, node):
    """The agent starts what is new on its list, forgets what is off it, and reports; it stops only by a wish."""
    known = harness.agents[node].tasks
    keys = [(order.job, order.epoch) for order in harness.board.published[node].tasks]
    harness.agents[node].tasks = {key: known.get(key) or runs() for key in keys}
    harness.report(node)


def come_back(harness, node):
    """A server that counts as lost registers again."""
    if harness.registry.nodes[node].lost:
        harness.join(node)


def _want(harness, jobs, nodes):
    known = [job for job in jobs if job in harness.registry.live]
    harness.want(**{f"j{job}": dict.fromkeys(nodes, 1) for job in known})


def _tasks(harness, node, task):
    """All that a node should run says the same."""
    harness.report(node, {(order.job, order.epoch): task for order in harness.board.published[node].tasks})


def out(rows):
    """Events without what is drawn at random."""
    return [{name: value for name, value in row.items() if name != "session"} for row in rows]


def no_device_is_held_by_strangers(registry):
    held = [
        (part.node, device)
        for job in registry.running.values()
        for part in job.attempt.parts
        for device in part.devices
    ]
    assert len(held) == len(set(held))


@settings(max_examples=150)
@given(st.lists(operations, min_size=10, max_size=25))
def test_every_prefix_of_every_journal_rebuilds_the_registry(history):
    harness = begun()
    lives = {len(harness.journal.rows): copy.deepcopy(harness.registry)}
    for operation in history:
        carry_out(harness, operation)
        lives[len(harness.journal.rows)] = copy.deepcopy(harness.registry)

    for rows in range(1, len(harness.journal.rows) + 1):
        again = harness.restarted(rows).registry
        no_device_is_held_by_strangers(again)
        if rows in lives:
            assert again == lives[rows]


@settings(max_examples=150)
@given(st.lists(operations, min_size=6, max_size=15), st.lists(operations, min_size=3, max_size=8))
def test_a_restart_changes_nothing_about_what_happens_next(before, after):
    harness = begun()
    for operation in before:
        carry_out(harness, operation)
    again = harness.restarted()
    rows = len(harness.journal.rows)
    for each in (harness, again):
        each.state = None
        for node in NODES:
            obey(each, node)
        for operation in after:
            carry_out(each, operation)

    assert out(again.journal.rows[rows:]) == out(harness.journal.rows[rows:])
    assert again.phases() == harness.phases()


@settings(max_examples=40)
@given(st.lists(operations, min_size=8, max_size=20))
def test_from_every_prefix_every_job_can_be_brought_to_an_end(history):
    harness = begun()
    for operation in history:
        carry_out(harness, operation)

    for rows in range(1, len(harness.journal.rows) + 1, 3):
        again = harness.restarted(rows)
        for node in NODES:
            again.join(node)
        for job in list(again.registry.live):
            again.cancel(job)
        for _ in range(3):
            again.clock.seconds += TIMING.lease_s + ROUND_S  # what an agent before this one started may run until then
            for node in NODES:
                come_back(again, node)
                obey(again, node)
                _tasks(again, node, ends("stopped"))
            again.round()

        assert again.registry.live == again.registry.running == {}
        assert all(job.over for job in again.registry.jobs.values())


def test_the_pause_after_any_number_of_failures_is_a_number():
    pauses = [pause_s(failures) for failures in (1, 2, 1024, 2**31 - 1)]

    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < pauses[-1] < 10**4
