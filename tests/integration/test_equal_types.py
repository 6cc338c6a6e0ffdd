"""To a job that is as fast on one type as on another, moving between them is for nothing."""

import pytest

import rota
from rota.core.events import Planned
from rota.core.jobs import RECORDED, table
from rota.engine.log import read_events

WORK_S = 7200.0
SHARES = ["max-min-fairness-perf", "max-min-fairness", "finish-time-fairness-perf", "min-total-duration-perf"]


def run(tmp_path, policy, count, cluster):
    """Completion times of jobs that take two hours anywhere, and how often one was moved to another type."""
    jobs = table(
        profile_names=[RECORDED] * count, gpus=[1] * count, total_steps=[WORK_S] * count, submitted=[0.0] * count
    )
    result = rota.simulate(jobs=jobs, cluster=cluster, policy=policy, round_s=60.0, events=tmp_path / "run.jsonl")
    moves = 0
    last = {}
    for event in read_events(tmp_path / "run.jsonl"):
        if isinstance(event, Planned):
            placement = event.plan.placement
            types = dict(zip(placement.first.tolist(), placement.type.tolist(), strict=True))
            moves += sum(last.get(job, gpu_type) != gpu_type for job, gpu_type in types.items())
            last = types
    return result.jobs["finish_s"].tolist(), moves


@pytest.mark.parametrize("policy", SHARES)
@pytest.mark.parametrize("cluster", ["v100=1,k80=1", "v100=2,k80=1", "v100=1,p100=1,k80=2"])
def test_where_there_is_room_for_all_nobody_moves(tmp_path, policy, cluster):
    ends, moves = run(tmp_path, policy, 2, cluster)

    assert moves == 0
    assert ends == [WORK_S, WORK_S]


@pytest.mark.parametrize("policy", SHARES)
@pytest.mark.parametrize(("count", "cluster", "gpus"), [(3, "v100=1,k80=1", 2), (5, "v100=2,k80=1", 3)])
def test_jobs_that_take_turns_do_so_fairly_and_without_changing_types(tmp_path, policy, count, cluster, gpus):
    ends, moves = run(tmp_path, policy, count, cluster)

    assert moves <= 1
    assert min(ends) > 0.95 * count * WORK_S / gpus  # nobody ran from beginning to end while others took turns
    assert max(ends) <= 1.01 * count * WORK_S / gpus
