"""Colours of a Gantt chart: as many as the eye can tell, and a legend for what they mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.analysis.figures.bar_looks import MOST, REST, by_group, by_job, colour, print_colour, texture


def face(look):
    return colour(look), texture(look)


def test_every_look_differs_and_there_are_more_than_eight():
    assert len({face(look) for look in range(REST + 1)}) == MOST + 1 == 29


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_jobs_that_begin_one_after_the_other_differ(jobs):
    looks = by_job(jobs)
    order = list(dict.fromkeys(jobs))

    assert looks.legend == ()
    for i in range(len(order)):
        near = order[i : i + MOST]
        assert len({looks.of_job[job] for job in near}) == len(near)


@given(st.lists(st.tuples(st.integers(0, 200), st.floats(1, 1e6)), min_size=1))
def test_groups_have_a_look_each_the_largest_first_and_the_rest_one_together(held):
    looks = by_group(held, lambda job: f"model {job % 60}")
    total = {}
    for job, seconds in held:
        total[f"model {job % 60}"] = total.get(f"model {job % 60}", 0.0) + seconds

    named = {name: look for look, name in looks.legend if look != REST}
    assert len(named) == (len(total) if len(total) <= MOST else MOST - 1)
    assert all(looks.of_job[job] == named.get(f"model {job % 60}", REST) for job, _ in held)
    assert min(total[name] for name in named) >= max((s for n, s in total.items() if n not in named), default=0) * (
        1 - 1e-9
    )
    if len(total) > MOST:
        assert looks.legend[-1] == (REST, f"{len(total) - MOST + 1} others")


@pytest.mark.parametrize(("look", "ink"), [(0, "white"), (6, "white"), (10, "black"), (13, "black")])
def test_numbers_can_be_read_on_their_bar(look, ink):
    assert print_colour(look) == ink
