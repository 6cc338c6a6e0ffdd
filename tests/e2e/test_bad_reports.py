"""Reports of agents that come twice, late or in another order, over the real wire."""

import random
import time

import grpc

from faults import Site, until
from rota.deploy.security.client import ClientSettings, connect
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs


class Played:
    """An agent in this process that does what it is told, and says everything as badly as a network can."""

    def __init__(self, address, node, seed):
        self.node, self.random, self.held = node, random.Random(seed), []
        self.channel = connect(ClientSettings(address, insecure=True), agent=node, sync=True)
        self.stub = stubs.FleetStub(self.channel)
        self.began, self.ended, self.sequence, self.sent = {}, {}, 0, []
        hello = pb.RegisterRequest(
            node=node, type="v100", devices=[pb.Device(id="a"), pb.Device(id="b")], cpus=4, memory_gb=8, emulated=True,
            limits="none", host="127.0.0.1", identity="played",
        )  # fmt: skip
        self.session = self.stub.Register(hello).session

    def list(self):
        """The newest list of the scheduler."""
        call = self.stub.Watch(pb.WatchRequest(node=self.node, session=self.session), timeout=2)
        try:
            return next(iter(call))
        except (StopIteration, grpc.RpcError):
            return pb.Desired()
        finally:
            call.cancel()

    def observed(self):
        desired, now, tasks = self.list(), time.monotonic(), []
        for order in desired.tasks:
            key = (order.job, order.epoch)
            first, since = self.began.setdefault(key, (order.resume_step, now))
            step = min(int(first + (now - since) * order.rate), order.spec.steps)
            if key not in self.ended and (step >= order.spec.steps or order.state == "stop"):
                self.ended[key] = ("completed" if step >= order.spec.steps else "stopped", step)
            outcome, step = self.ended.get(key, ("", step))
            tasks.append(
                pb.TaskState(
                    job=order.job, epoch=order.epoch, phase="ended" if outcome else "running", step=step,
                    saved_step=step, saved_path=f"{order.job}/{order.epoch}/{step}", outcome=outcome,
                )
            )  # fmt: skip
        self.sequence += 1
        return pb.Observed(
            node=self.node, session=self.session, sequence=self.sequence, seen=desired.version, tasks=tasks
        )

    def report(self):
        """Some reports are held back, some are said twice, and old ones come again at any time."""
        self.held.append(self.observed())
        if self.random.random() < 0.4:
            return
        self.random.shuffle(self.held)
        again = self.random.choices(self.sent, k=2) if self.sent else []
        for message in [*self.held, *self.held[:1], *again]:
            assert self.stub.Report(message).known
        self.sent += self.held
        self.held = []


def test_doubled_late_and_reordered_reports_credit_every_step_once(tmp_path):
    with Site(tmp_path) as site:
        agent = Played(site.address, "n0", seed=3)
        numbers = [site.submit(emulated=True, steps=80 + 20 * i) for i in range(4)]
        moved = False

        def over():
            nonlocal moved
            agent.report()
            if not moved and site.job(numbers[0]).phase == "running":
                moved = True
                site.client.drain("n0")
                until(lambda: agent.report() or site.job(numbers[0]).phase != "running", 20, "a stop")
                site.client.drain("n0", undo=True)
            return all(site.job(n).phase == "finished" for n in numbers)

        until(over, 90, "the end")
        agent.channel.close()

        for i, number in enumerate(numbers):
            assert site.credited_in_order(number)[-1] == 80 + 20 * i
            assert site.events("AttemptEnded", job=number)[-1]["outcome"] == "completed"
            starts = [e["epoch"] for e in site.events("AttemptStarted", job=number)]
            ends = [e["epoch"] for e in site.events("AttemptEnded", job=number)]
            assert starts == ends == list(range(1, len(starts) + 1))
        assert site.busy() == {"n0": 0}


def test_what_an_agent_says_under_an_old_registration_is_not_taken(tmp_path):
    with Site(tmp_path) as site:
        old = Played(site.address, "n0", seed=0)
        number = site.submit(emulated=True, steps=5000)
        until(lambda: old.report() or site.job(number).phase == "running", 20, "a start")
        late = old.observed()
        late.tasks[0].saved_step, late.tasks[0].phase, late.tasks[0].outcome = 5000, "ended", "completed"

        new = Played(site.address, "n0", seed=0)
        assert not old.stub.Report(late).known
        assert new.stub.Report(new.observed()).known

        assert site.job(number).saved_step < 5000
        never = pb.Observed(node="n7", session=new.session, sequence=1)
        assert not new.stub.Report(never).known
        old.channel.close()
        new.channel.close()
