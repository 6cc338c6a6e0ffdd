"""Every event is written and read back as it was."""

import gzip
import json
from dataclasses import fields

import numpy as np
import pytest

from builders import a_placement, a_run, a_view, ids, shares, some_jobs
from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.errors import ConfigError
from rota.core.events import (
    Allocated,
    CapacityChanged,
    ClusterChanged,
    JobsDropped,
    JobsFinished,
    JobsParked,
    JobsPinned,
    JobsRejected,
    JobsReturned,
    JobsSubmitted,
    PlacementFailed,
    Planned,
    ProgressMade,
    RoundsRan,
    RunEnded,
    RunStarted,
    SolveFailed,
    SpeedsLearned,
)
from rota.core.jobs import Jobs
from rota.core.placement import Placement, Plan
from rota.engine.log import EventLog, read_events

VIEW = a_view(3)
NOT_LOGGED = {"each", "last", "launch", "launches"}


def a_table():
    return some_jobs(
        2,
        profiles=["fast", "slow"],
        gpus=[1, 2],
        steps=[0.1, 1e6 / 3],
        arrivals=[0.0, 1 / 3],
        weight=[1.0, 2.5],
        duration=[np.nan, 100.0],
        slo=[np.nan, 1.2],
        tenant_names=["a", "b"],
    )


def planned(placement, at=0.0, number=1):
    return Planned(at=at, plan=Plan(round=number, start=at, placement=placement))


def ran(**columns):
    parts = {
        "steps": np.array([1.5, 2.0]),
        "partner_steps": np.array([0.0, 0.25]),
        "seconds": np.array([360.0, 1 / 3]),
        "lost": ids(1),
        **columns,
    }
    return RoundsRan(at=720.0, start=0.0, rounds=2, **parts)


EVENTS = {
    "RunStarted": RunStarted(at=0.0, config={"seed": 1, "measure": [0, 5], "rules": {"round_s": 360.0}}),
    "JobsSubmitted": JobsSubmitted(at=0.5, first_id=7, jobs=a_table()),
    "JobsRejected": JobsRejected(at=1.0, jobs=ids(3), reason='asks for "too" much'),
    "Allocated": Allocated(at=1.0, allocation=shares(VIEW, [[0.1, 0.2], [1 / 3, 0], [0, 1]])),
    "Allocated with pairs": Allocated(at=1.0, allocation=shares(VIEW, [[0, 0]] * 3, pairs=[(0, 2, [0.5, 0.25])])),
    "Allocated as an order": Allocated(
        at=1.0,
        allocation=Allocation(
            jobs=VIEW.jobs,
            types=VIEW.types,
            share=np.zeros((3, 2)),
            order=ids(2, 0, 1),
            traits=Traits(aware=False, fills=False),
            report=SolveReport(status="feasible", objective=1.25),
        ),
    ),
    "SolveFailed": SolveFailed(at=2.0, reason="numbers"),
    "Planned": planned(
        a_placement((0, -1, 0, 1), (1, 2, 1, 2), servers=[[(0, 1)], [(1, 1), (2, 1)]], kept=[True, False])
    ),
    "Planned without slots": planned(
        Placement(
            **{n: ids(0) for n in ("first", "type")},
            second=ids(-1),
            gpus=ids(1),
            kept=np.array([True]),
            slot_start=ids(0, 0),
            slot_server=ids(),
            slot_gpus=ids(),
            fraction=np.array([1 / 3]),
        )
    ),
    "RoundsRan": ran(),
    "RoundsRan with one of a pair left": ran(alone=np.array([0.0, -12.5])),
    "RoundsRan without pairs": ran(partner_steps=np.zeros(2), lost=ids()),
    "JobsFinished": JobsFinished(at=720.0, jobs=ids(0, 2), finished_at=np.array([100 / 3, 700.1])),
    "JobsDropped": JobsDropped(at=720.0, jobs=ids(1), reason="5 failed attempts in a row"),
    "PlacementFailed": PlacementFailed(at=800.0, reason="numbers"),
    "SpeedsLearned": SpeedsLearned(
        at=800.0, profiles=("A3C",), beliefs=("too fast",), gpus=np.array([1]), types=("v100",), rates=np.array([2.5])
    ),
    "CapacityChanged": CapacityChanged(at=800.0, capacity=ids(1, 2)),
    "ClusterChanged": ClusterChanged(at=810.0, cluster=VIEW.cluster),
    "JobsPinned": JobsPinned(at=825.0, jobs=ids(0), pinned=True),
    "JobsParked": JobsParked(at=820.0, jobs=ids(0), reason="its server is gone"),
    "JobsReturned": JobsReturned(at=830.0, jobs=ids(0)),
    "ProgressMade": ProgressMade(at=840.0, jobs=ids(0, 1), steps=np.array([1.0, 2.5])),
    "RunEnded": RunEnded(at=900.0, reason="all jobs are done"),
}


def written(path, *events, **options):
    log = EventLog(path, **options)
    for event in events:
        log.observe(event)
    log.close()
    return path


def assert_same(one, other):
    """Equal field by field; what the log leaves out is not compared."""
    assert type(one) is type(other)
    for part in fields(one):
        if part.name in NOT_LOGGED:
            continue
        mine, theirs = getattr(one, part.name), getattr(other, part.name)
        if isinstance(mine, (Jobs, Plan)):
            assert_same(mine, theirs)
        elif isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype
            assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f"), part.name
        else:
            assert mine == theirs, part.name


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_read_back_as_it_was_written(tmp_path, name):
    path = written(tmp_path / "log", EVENTS[name])

    (back,) = read_events(path)

    assert_same(EVENTS[name], back)


def test_every_kind_of_event_is_tried_here():
    from typing import get_args

    from rota.core.events import Event

    assert {type(e) for e in EVENTS.values()} == set(get_args(Event))


def test_what_a_solver_says_survives(tmp_path):
    (back,) = read_events(written(tmp_path / "log", EVENTS["Allocated as an order"]))

    assert (back.allocation.report.status, back.allocation.report.objective) == ("feasible", 1.25)


def test_leases_survive(tmp_path):
    (back,) = read_events(written(tmp_path / "log", EVENTS["Planned"]))

    assert back.plan.placement.kept.tolist() == [True, False]


def test_a_round_that_goes_on_with_the_same_slots_is_short(tmp_path):
    first, again = a_placement((0, -1, 0, 1)), a_placement((0, -1, 0, 1), kept=True)
    path = written(tmp_path / "log", planned(first), planned(again, 360.0, 2), planned(again, 720.0, 3))

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    events = list(read_events(path))

    assert [line.get("same", False) for line in lines] == [False, True, True]
    assert [e.plan.placement.kept.tolist() for e in events] == [[False], [True], [True]]
    assert all(e.plan.placement == first for e in events)
    assert [e.plan.round for e in events] == [1, 2, 3]


def test_the_same_slots_with_new_leases_are_written_out(tmp_path):
    placement = a_placement((0, -1, 0, 1))

    path = written(tmp_path / "log", planned(placement), planned(placement, 360.0))

    assert [e.plan.placement.kept.tolist() for e in read_events(path)] == [[False], [False]]


@pytest.mark.parametrize("name", ["log.jsonl.gz", "log.anything"])
def test_a_compressed_log_is_recognised_by_its_first_bytes(tmp_path, name):
    path = written(tmp_path / name, *EVENTS.values(), compressed=True)

    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert len(list(read_events(path))) == len(EVENTS)


def test_a_name_that_ends_in_gz_is_compressed_and_holds_no_time_or_name(tmp_path):
    one, other = (written(tmp_path / n, *EVENTS.values()) for n in ("one.gz", "other.gz"))

    assert one.read_bytes() == other.read_bytes()
    assert gzip.decompress(one.read_bytes()) == written(tmp_path / "plain", *EVENTS.values()).read_bytes()


@pytest.mark.parametrize(
    "line",
    [
        "{not json",
        "[1, 2]",
        '{"event":"Nonsense","at":0}',
        '{"at":0}',
        '{"event":"JobsDropped","at":0}',
        '{"event":"Planned","at":0,"round":1,"same":true}',
        '{"event":"JobsFinished","at":0,"jobs":["x"],"finished_at":[1]}',
        "null",
    ],
)
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "log"
    path.write_text('{"event":"RunEnded","at":1.0,"reason":"done"}\n' + line + "\n")

    events = read_events(path)
    next(events)
    with pytest.raises(ConfigError, match=r"log:2: not an event of a Rota log"):
        next(events)


def test_a_line_cut_off_in_the_middle_is_named(tmp_path):
    path = written(tmp_path / "log", *EVENTS.values())
    path.write_bytes(path.read_bytes()[:-10])

    with pytest.raises(ConfigError, match=f"log:{len(EVENTS)}:"):
        list(read_events(path))


@pytest.mark.parametrize("keep", [3, 200])
def test_a_compressed_log_that_was_cut_off_is_an_error_of_input(tmp_path, keep):
    path = written(tmp_path / "log.gz", *EVENTS.values())
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(ConfigError, match=r"log\.gz"):
        list(read_events(path))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00garbage"])
def test_a_file_that_is_no_log_is_an_error_of_input(tmp_path, content):
    path = tmp_path / "log"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="log"):
        list(read_events(path))


def test_a_file_that_is_not_there_is_an_error_of_input(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        list(read_events(tmp_path / "nowhere"))


def test_a_whole_run_can_be_read_back(tmp_path):
    run = a_run(some_jobs(5, arrivals=[0, 0, 500, 900, 9000], steps=900.0), policy="gandiva")

    back = list(read_events(written(tmp_path / "log.gz", *run.events)))

    assert len(back) == len(run.events)
    for one, other in zip(run.events, back, strict=True):
        assert_same(one, other)
