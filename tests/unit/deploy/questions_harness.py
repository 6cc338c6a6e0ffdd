"""A scheduler in memory that decides between rounds too, and the fork of it that a question would be about."""

from __future__ import annotations

import random
from dataclasses import asdict, replace

from engine_harness import EngineHarness
from harness import ROUND_S, ManualClock, MemoryJournal

from rota.core.cluster import cluster_fields
from rota.core.events import RunStarted
from rota.deploy.questions.fork import fork_of
from rota.deploy.questions.setup import Setup
from rota.deploy.scheduler.round_report import RoundReport, cluster_now
from rota.deploy.scheduler.tenant_limits import TenantLimits
from rota.deploy.tenants import Tenants, TenantSettings

PROFILE = "ResNet-18 (batch size 32)"
TENANTS = Tenants(default=TenantSettings(max_job_weight=4.0))
AN_AGE = 10**9
"""Steps that nobody does in a test."""


class AskedHarness(EngineHarness):
    """One scheduler."""

    def __init__(self, *, policy="las", at_once=True, tenants=TENANTS, **parts):
        self.at_once, self.moment, self.reported = at_once, 0.0, 0.0
        self.tenants = tenants
        super().__init__(policy=policy, mechanism="proportional", profiles="gavel", **parts)

    def _put_together(self):
        self.rules = replace(self.rules, at_once=self.at_once)
        super()._put_together()
        limits = TenantLimits(self.tenants)
        self.report_to_engine = RoundReport(self.registry, self.catalogue, None, ROUND_S, limits)

    def now(self):
        return self.moment

    def look(self, *, between):
        """What happened is told, and decided about."""
        state = self.recovered.state
        self.moment, self.between_rounds = self.clock.now(), between
        self.engine._take_in(self.report_to_engine.events(state, self.moment, self.reported))
        self.reported = self.moment
        if len(state):
            self.engine.decide(self.moment)
        else:
            self.engine._rest(self.moment)
        self.loop.carry_out()
        self.loop.turn(0.0)
        for node in self.agents:
            self.obey(node)

    def round(self):
        self.pass_time(ROUND_S)
        self.loop.round_start = self.moment = self.clock.now()
        if self.recovered.state is None:
            cluster = cluster_now(self.registry, None, self.catalogue)
            self.recorder.commit_engine_event(RunStarted(at=self.moment, config={"cluster": cluster_fields(cluster)}))
            self.recovered.begin(cluster, self._make_state, self.rules)
            self._begin_engine()
        self.look(between=False)

    def restarted(self, rows=None, **_):
        kept = MemoryJournal(rows=list(self.journal.rows[:rows]), finished=dict(self.journal.finished))
        agents = {node: replace(agent, tasks=dict(agent.tasks)) for node, agent in self.agents.items()}
        again = AskedHarness(
            policy=self.names_of_parts["policy"], at_once=self.at_once, journal=kept, agents=agents,
            clock=ManualClock(seconds=self.clock.seconds),
        )  # fmt: skip
        again.loop.round_start, again.moment, again.reported = self.loop.round_start, self.moment, self.reported
        again.silent = set(self.silent)
        return again

    def setup(self):
        described = {**asdict(self.rules), "type_order": []}
        config = {"policy": self.names_of_parts["policy"], "mechanism": "proportional", "rules": described}
        return Setup(config=config, rules=self.rules, catalogue=self.catalogue, tenants=self.tenants)

    def fork(self):
        recovered = self.recovered
        return fork_of(self.setup(), self.registry, recovered.state, recovered.trigger, now=self.clock.now()).copy()

    def placed(self):
        placement = self.recovered.state.placement
        return set() if placement is None else set(placement.first.tolist()) | set(placement.second.tolist()) - {-1}

    def waiting(self):
        return sorted(number for number, job in self.registry.live.items() if job.attempt is None)


def a_busy_scheduler(seed, policy, *, at_once=True):
    """Random servers, more jobs than they hold, a few rounds."""
    draw = random.Random(seed)
    harness = AskedHarness(policy=policy, at_once=at_once)
    for number in range(draw.randint(1, 4)):
        harness.join(f"n{number}", gpus=draw.choice([1, 2, 4]), kind=draw.choice(["v100", "v100", "k80", "p100"]))
    for _ in range(draw.randint(4, 12)):
        gpus = draw.choice([1, 1, 2, 4])
        harness.submit(profile=PROFILE, steps=AN_AGE, gpus=gpus, tenant=draw.choice(["a", "b"]))
        if draw.random() < 0.2 and harness.recovered.state is not None:
            harness.round()
    harness.round()
    if draw.random() < 0.4:
        node = draw.choice(sorted(harness.registry.nodes))
        if len(harness.registry.nodes) > 1:
            harness.ask(lambda now: harness.requests.drain(node, "ops", now, undo=False))
    for _ in range(draw.randint(1, 5)):
        harness.round()
    return harness
