"""What a decision may know."""

from dataclasses import replace

import numpy as np

from builders import FAST, SLOW, a_view, ids, some_jobs


def test_throughputs_are_jobs_by_types():
    view = a_view(some_jobs(2, profiles=[SLOW, FAST]))

    assert view.types == ("k80", "v100")
    assert view.throughput.tolist() == [[0.2, 0.4], [1.0, 4.0]]


def test_steps_left_and_age_follow_from_what_is_there():
    view = a_view(some_jobs(2, steps=100.0, arrivals=[0.0, 30.0]), now=50.0)
    view = replace(view, steps_done=np.array([40.0, 0.0]))

    assert view.steps_left.tolist() == [60.0, 100.0]
    assert view.age.tolist() == [50.0, 20.0]


def test_positions_of_ids_that_are_not_here_are_minus_one():
    view = a_view(3)

    assert view.position(ids(2, 0, 7, -1)).tolist() == [2, 0, -1, -1]


def test_an_empty_view_has_no_positions():
    assert a_view(some_jobs(0)).position(ids(0, 1)).tolist() == [-1, -1]


def test_a_part_has_some_of_the_jobs_and_of_the_gpus():
    view = a_view(some_jobs(4, weight=[1.0, 2.0, 3.0, 4.0]))

    part = view.part(ids(1, 3), np.array([1, 0]))

    assert part.jobs.tolist() == [1, 3]
    assert part.weight.tolist() == [2.0, 4.0]
    assert part.capacity.tolist() == [1, 0]
    assert part.previous is part.placement is part.accounts is None
    assert len(part) == 2
