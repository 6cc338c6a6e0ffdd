"""How many pilots there should be: values in, a decision out."""

import pytest

from rota.deploy.providers.pool import (
    Demand,
    NodeFacts,
    PilotRecord,
    PilotState,
    PoolLimits,
    decide,
    state_of,
    views,
)
from rota.deploy.providers.port import PilotPhase, PilotStatus

LIMITS = PoolLimits(least=1, most=4, replace_s=300.0, idle_s=60.0)
NOTHING = Demand(waiting_gpus=0)


def a_record(name="gpu-0", **fields):
    return PilotRecord(**{"name": name, "asked_at": 0.0, "id": "7", **fields})


def a_status(name="gpu-0", phase=PilotPhase.RUNNING, **fields):
    return PilotStatus(**{"name": name, "id": "7", "phase": phase, **fields})


def a_node(state="up", busy=0, **fields):
    return NodeFacts(**{"state": state, "busy": busy, "gpus": 4, **fields})


def pilots(*rows, idle=0.0):
    """Views of pilots gpu-0, gpu-1, ... from (status, node)."""
    records = [a_record(f"gpu-{i}") for i in range(len(rows))]
    statuses = [a_status(f"gpu-{i}", *row[:1]) if row[0] else None for i, row in enumerate(rows)]
    nodes = {f"gpu-{i}": row[1] for i, row in enumerate(rows) if row[1] is not None}
    return views(records, [one for one in statuses if one], nodes, {record.name: idle for record in records})


def running(count, busy=0, **fields):
    return pilots(*((PilotPhase.RUNNING, a_node(busy=busy)) for _ in range(count)), **fields)


def test_an_empty_pool_is_filled_to_its_least_number():
    assert decide(LIMITS, [], NOTHING, 4).submit == 1


def test_jobs_that_wait_make_a_pool_grow_to_its_largest_number_and_not_beyond():
    decision = decide(LIMITS, running(1, busy=4), Demand(waiting_gpus=100), 4)

    assert decision.wanted == 4
    assert decision.submit == 3


def test_a_pool_grows_by_what_the_jobs_that_wait_need():
    assert decide(LIMITS, running(1, busy=4), Demand(waiting_gpus=5), 4).submit == 2


def test_pilots_that_are_asked_for_already_are_not_asked_for_again():
    waiting = pilots((PilotPhase.RUNNING, a_node(busy=4)), (PilotPhase.PENDING, None))

    assert decide(LIMITS, waiting, Demand(waiting_gpus=4), 4).submit == 0


def test_idle_pilots_beyond_the_least_number_go_after_a_while():
    assert decide(LIMITS, running(3, idle=59.0), NOTHING, 4).stop == ()
    assert len(decide(LIMITS, running(3, idle=61.0), NOTHING, 4).stop) == 2


def test_a_pilot_with_a_job_is_never_stopped_because_there_are_too_many():
    busy = pilots((PilotPhase.RUNNING, a_node(busy=1, jobs=(3,))), (PilotPhase.RUNNING, a_node()), idle=100.0)

    assert decide(LIMITS, busy, NOTHING, 4).stop == ("gpu-1",)


def test_those_that_wait_for_a_machine_go_before_those_that_run():
    some = pilots((PilotPhase.RUNNING, a_node()), (PilotPhase.PENDING, None), idle=100.0)

    assert decide(LIMITS, some, NOTHING, 4).stop == ("gpu-1",)


def test_a_successor_is_asked_for_before_a_pilot_ends():
    records = [a_record()]
    ending = views(records, [a_status(left_s=299.0)], {"gpu-0": a_node()}, {})
    lasting = views(records, [a_status(left_s=301.0)], {"gpu-0": a_node()}, {})

    assert decide(LIMITS, ending, NOTHING, 4).submit == 1
    assert decide(LIMITS, lasting, NOTHING, 4).submit == 0


def test_a_pilot_whose_machine_is_wanted_back_is_told_to_leave_and_replaced():
    seen = views([a_record()], [a_status(wanted_back=True)], {"gpu-0": a_node(busy=1, jobs=(3,))}, {})
    told = views([a_record(stop_asked=True)], [a_status(wanted_back=True)], {"gpu-0": a_node()}, {})

    decision = decide(LIMITS, seen, NOTHING, 4)

    assert (decision.submit, decision.stop) == (1, ("gpu-0",))
    assert decide(LIMITS, told, NOTHING, 4).stop == ()


def test_a_silent_scheduler_makes_no_pool_shrink_or_grow():
    seen = views([a_record(), a_record("gpu-1")], [a_status(), a_status("gpu-1")], None, {"gpu-0": 1e6})

    decision = decide(LIMITS, seen, None, 4)

    assert (decision.submit, decision.stop) == (0, ())


def test_a_silent_scheduler_makes_a_pilot_that_ends_have_one_successor_and_not_one_more_at_every_look():
    ending = a_status(left_s=299.0)
    alone = views([a_record()], [ending], None, {})
    followed = views([a_record(), a_record("gpu-1")], [ending, a_status("gpu-1", PilotPhase.PENDING)], None, {})

    assert decide(LIMITS, alone, None, 4, before=1).submit == 1
    assert decide(LIMITS, followed, None, 4, before=1).submit == 0
    assert decide(LIMITS, followed, None, 4).submit == 0
    assert decide(LIMITS, followed, None, 4, before=2).submit == 1


def test_a_successor_that_cannot_start_is_not_asked_for_again_and_again():
    records = [a_record(f"gpu-{i}", stop_asked=True) for i in range(8)]
    leaving = views(records, [a_status(record.name) for record in records], {}, {})

    assert decide(LIMITS, leaving, NOTHING, 4).submit == 0


@pytest.mark.parametrize(
    ("record", "status", "node", "heard", "state"),  # of pilots that their place does not name: for a minute or more
    [
        (a_record(id=""), None, None, True, PilotState.SUBMITTING),
        (a_record(), a_status(phase=PilotPhase.PENDING), None, True, PilotState.PENDING),
        (a_record(), a_status(), None, True, PilotState.STARTING),
        (a_record(), a_status(), a_node(), True, PilotState.UP),
        (a_record(), a_status(), a_node("draining"), True, PilotState.LEAVING),
        (a_record(stop_asked=True), a_status(), a_node(), True, PilotState.LEAVING),
        (a_record(), None, a_node(), True, PilotState.UNKNOWN),
        (a_record(), None, None, False, PilotState.UNKNOWN),
        (a_record(), None, a_node("lost"), True, PilotState.OVER),
        (a_record(), None, None, True, PilotState.OVER),
        (a_record(end="COMPLETED"), None, a_node("lost"), True, PilotState.OVER),
        (a_record(end="COMPLETED"), a_status(phase=PilotPhase.OVER), None, True, PilotState.OVER),
        (a_record(end="its place never heard of it"), a_status(), a_node(), True, PilotState.UP),
        (a_record(), a_status(phase=PilotPhase.OVER), a_node(), True, PilotState.OVER),
        (a_record(), a_status(), None, False, PilotState.UP),
    ],
)
def test_the_state_of_a_pilot_follows_from_what_its_place_and_the_scheduler_say(record, status, node, heard, state):
    assert state_of(record, status, node, heard=heard, missing_s=60.0) is state


def test_a_pilot_that_vanished_counts_until_its_agent_or_its_lease_decides():
    vanished = views([a_record()], [], {"gpu-0": a_node()}, {})

    assert vanished[0].state is PilotState.UNKNOWN
    assert decide(LIMITS, vanished, NOTHING, 4).submit == 0


def test_one_answer_without_a_pilot_that_waited_does_not_end_it():
    vanished = views([a_record()], [], {}, {}, {"gpu-0": 59.0})

    assert vanished[0].state is PilotState.UNKNOWN
    assert decide(LIMITS, vanished, NOTHING, 4).submit == 0


def test_of_two_jobs_with_one_name_the_one_that_lives_counts():
    both = [a_status(phase=PilotPhase.OVER), a_status(phase=PilotPhase.RUNNING)]

    assert views([a_record()], both, {"gpu-0": a_node()}, {})[0].state is PilotState.UP
    assert views([a_record()], both[::-1], {"gpu-0": a_node()}, {})[0].state is PilotState.UP


def test_lost_nodes_of_pilots_that_are_over_are_forgotten():
    over = views([a_record(end="COMPLETED")], [], {"gpu-0": a_node("lost")}, {})

    assert decide(LIMITS, over, NOTHING, 4).remove == ("gpu-0",)
