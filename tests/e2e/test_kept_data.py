"""The cache of a job's data is kept by the agent between two attempts, and goes with the job."""

import asyncio
import sys

from fleet import SOURCE, a_fleet
from rota.rpc import rota_pb2 as pb

SCRIPT = """
import rota.client
from rota.data import Batches, CachedDataset, Sampler

data = CachedDataset([bytes([number]) * 1000 for number in range(100)], sizes=1000)
batches = Batches(data, Sampler(data, seed=1), 1)
it = rota.client.Iterator(batches, save=lambda path: None, load=lambda path: None, steps=330, every_steps=50)
first = it.resumed is None
for [item] in it:
    assert item == item[:1] * 1000
    if first and it.step == 260:
        it.wait(30.0)
print("from step", it.step - data.counters.hits - data.counters.misses, "hits", data.counters.hits, flush=True)
"""


def test_a_job_that_comes_back_starts_warm_and_leaves_nothing_when_it_is_over(tmp_path):
    async def run():
        async with a_fleet(tmp_path, {"a": "emulate:v100=1"}) as fleet:
            env = {"PYTHONPATH": SOURCE, "ROTA_DATA_CACHE_GB": "0.00006"}
            [job] = await fleet.submit({"argv": [sys.executable, "-c", SCRIPT], "steps": 330, "env": env})
            await fleet.until(job, lambda info: info.step == 260)
            await fleet.control.Drain(pb.DrainRequest(node="a"))
            await fleet.until(job, lambda info: info.preemptions == 1)
            await fleet.control.Drain(pb.DrainRequest(node="a", undo=True))
            info = await fleet.over(job)
            kept = fleet.agents["a"].processes.data
            return info, await fleet.output(job), kept

    info, output, kept = asyncio.run(asyncio.wait_for(run(), 60))

    assert info.phase == "finished", output
    assert info.compute_s > 0  # what its loop spent, both attempts together
    assert info.prepare_s + info.storage_s > 0
    second = output.split("from step ")[2].split()  # each attempt prints its own line
    assert int(second[0]) == 261
    assert 0.5 <= int(second[2]) / (330 - 261) <= 0.7  # 60 of 100 items are in the cached set
    assert not kept._root.exists()
