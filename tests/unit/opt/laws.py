"""What holds for every allocation, and what can be read off one."""

from __future__ import annotations

import numpy as np

TOLERANCE = 1e-7


def assert_feasible(view, allocation):
    count = len(view)
    alone, together = allocation.share[:count], allocation.share[count:]
    extras = allocation.extras
    assert allocation.share.shape == (count + len(extras), len(view.capacity))
    assert np.isfinite(allocation.share).all()
    assert (allocation.share >= 0).all()
    time, used = alone.sum(axis=1), view.gpus @ alone
    if len(extras):
        first, second = view.position(extras.first), view.position(extras.second)
        assert (extras.first < extras.second).all()
        assert (first >= 0).all()
        assert (view.gpus[first] == view.gpus[second]).all()
        np.add.at(time, first, together.sum(axis=1))
        np.add.at(time, second, together.sum(axis=1))
        used = used + extras.gpus @ together
    assert (time <= 1 + TOLERANCE).all()
    assert (used <= view.capacity * (1 + TOLERANCE)).all()


def speeds(view, allocation, rate=None):
    """[J] steps/s that the shares give."""
    rate = view.throughput if rate is None else rate
    count = len(view)
    speed = (rate * allocation.share[:count]).sum(axis=1)
    if len(allocation.extras):
        first, second = view.position(allocation.extras.first), view.position(allocation.extras.second)
        a, b, pair = view.job_class[first], view.job_class[second], view.classes.pair
        np.add.at(speed, first, (pair[a, b] * allocation.share[count:]).sum(axis=1))
        np.add.at(speed, second, (pair[b, a] * allocation.share[count:]).sum(axis=1))
    return speed
