"""What a rank says becomes part of reports; whatever it holds, a report can be made of it."""

import json

import pytest

from rota.client.wire import decode
from rota.deploy.worker.ranks import AttemptId, Rank, after_message
from rota.rpc import rota_pb2 as pb

RANK = Rank(AttemptId("7", 1), 0)


@pytest.mark.parametrize(
    "message",
    [
        {"op": "failed", "reason": "exception", "detail": "a\ud800b"},
        {"op": "failed", "reason": "\udfff", "detail": "b"},
        {"op": "saved", "step": 3, "path": "step-\ud800", "seconds": 1},
    ],
    ids=["detail", "reason", "path"],
)
def test_half_of_a_character_does_not_reach_a_report(message):
    rank = after_message(RANK, decode(json.dumps(message).encode()))

    state = pb.TaskState(detail=rank.detail or "", saved_path=rank.saved_path or "", outcome=rank.failure or "")

    assert state.SerializeToString()
    assert "?" in state.detail + state.saved_path + state.outcome
