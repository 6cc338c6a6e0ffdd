"""The guides are typed from the first block to the last, and say what comes out."""

import pytest
from guides import Reader, blocks_of, needed_by

PAGES = ["loop.md", "add-a-policy.md", "add-a-mechanism.md", "add-a-trace-format.md", "add-an-executor.md"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed_from_the_first_block_to_the_last(page, tmp_path):
    reader = Reader(tmp_path)

    reader.work_through(page)

    assert reader.ran > 0
    assert reader.compared > 0


@pytest.mark.parametrize("page", PAGES)
def test_every_answer_on_a_page_is_compared_and_no_block_is_left_out(page):
    kinds = {block.language for block in blocks_of(page) if block.file_name is None}

    assert kinds <= {"python", "sh", "toml", "text"}


SAME_RUN = """
import dataclasses
import rota
from my_mechanisms.one_server import OneServer
from rota.core.horizon import EVERY_ROUND
from rota.mechanisms.registry import mechanisms


class Silent(OneServer):
    def divide(self, view, choice):
        return dataclasses.replace(super().divide(view, choice), horizon=EVERY_ROUND)


mechanisms.register("one-server")(OneServer)
mechanisms.register("silent")(Silent)
settings = {"jobs": 60, "interarrival_s": 2500, "multi_gpu": True}
for policy in ("fifo", "srtf", "las", "max-min-fairness-perf", "max-min-fairness-packed"):
    run = {"workload": "gavel-continuous", "settings": settings, "seed": 2, "cluster": "v100=16/8", "policy": policy}
    with_horizon = rota.simulate(**run, mechanism="one-server")
    silent = rota.simulate(**run, mechanism="silent")
    apart = abs(with_horizon.jobs["finish_s"] - silent.jobs["finish_s"]).max()
    assert apart < 1e-3, f"{policy}: {apart} s"
"""


def test_the_mechanism_of_the_guide_keeps_what_its_horizon_promises(tmp_path):
    """A run in which it is asked in every round is the same run."""
    reader = Reader(tmp_path)
    for block in needed_by("add-a-mechanism.md"):
        reader.take(block)

    reader.run_python(SAME_RUN)
