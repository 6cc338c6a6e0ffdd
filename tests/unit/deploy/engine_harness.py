"""The scheduler in memory with the real engine: policy and mechanism decide, agents are played."""

from __future__ import annotations

import json
from dataclasses import replace

from harness import ROUND_S, Harness, ManualClock, MemoryJournal, ends, runs

from rota.assembly import make_throughputs
from rota.core.cluster import cluster_fields
from rota.core.events import RunStarted
from rota.core.lifecycle import TaskCommand
from rota.core.ports import EveryEvent
from rota.deploy.deciding import deployed_policy
from rota.deploy.scheduler.catalogue import opened
from rota.deploy.scheduler.reconciliation import desired_attempts
from rota.deploy.scheduler.round_report import cluster_now
from rota.deploy.tenants import Tenants
from rota.engine.live_state import LiveState
from rota.engine.loop import Engine
from rota.mechanisms.registry import build

CATALOGUES = {name: opened(make_throughputs(name)) for name in ("gavel", "synergy")}


class EngineHarness(Harness):
    """One scheduler whose rounds are decided."""

    tenants = Tenants()

    def __init__(self, *, policy="las", mechanism="tune", profiles="synergy", tenants=None, **parts):
        self.names_of_parts = {"policy": policy, "mechanism": mechanism, "profiles": profiles, "tenants": tenants}
        self.tenants = tenants or self.tenants
        self.engine = None
        self.silent = set()
        self._mechanism_name = mechanism
        super().__init__(catalogue=CATALOGUES[profiles], **parts)

    def _put_together(self):
        quotas = self.tenants.quotas()
        self.mechanism = build(self._mechanism_name, self.rules, 0, {}, watched=True, quotas=quotas)
        super()._put_together()
        self.loop.desired = self._desired
        if self.recovered.state is not None:
            self._begin_engine()

    def _make_state(self, cluster):
        return LiveState(cluster, self.catalogue, self.rules, by_need=self.mechanism.by_need)

    def _begin_engine(self):
        policy = deployed_policy(self.names_of_parts["policy"], {}, 0, self.rules, weights=None)
        self.engine = Engine(
            state=self.recovered.state,
            policy=policy,
            mechanism=self.mechanism,
            clock=self,
            executor=self,
            observers=[EveryEvent(self.recorder.apply_engine_event)],
            trigger=self.recovered.trigger,
            journal=EveryEvent(self.recorder.commit_engine_event),
            tolerant=True,
            quotas=self.tenants.quotas(),
        )

    # The engine's clock and executor

    exhausted = False
    interrupted = False
    between_rounds = False

    def now(self):
        return self.loop.round_start

    def apply(self, plan, view):
        pass

    def _desired(self):
        state = self.recovered.state
        return {} if state is None else desired_attempts(state.placement, state.cluster, {})

    # What a test does

    def round(self):
        """The next round is decided."""
        since = self.loop.round_start
        self.pass_time(ROUND_S)
        self.loop.round_start = self.clock.now()
        if self.recovered.state is None:
            cluster = cluster_now(self.registry, None, self.catalogue)
            if cluster is None:
                return
            config = {"cluster": cluster_fields(cluster)}
            self.recorder.commit_engine_event(RunStarted(at=self.now(), config=config))
            self.recovered.begin(cluster, self._make_state, self.rules)
            self._begin_engine()
        state = self.recovered.state
        self.engine._take_in(self.report_to_engine.events(state, self.now(), since))
        if len(state):
            self.engine.decide(self.now())
        else:
            self.engine._rest(self.now())
        self.loop.carry_out()
        self.loop.turn(0.0)

    def pass_time(self, seconds):
        """Agents that are not silent report meanwhile."""
        for _ in range(4):
            self.wait(seconds / 4)
            for node in self.agents:
                self.obey(node)

    def snapshot(self):
        self.recovery.save(self.recovered, self.clock.now())
        self.recorder.write_next_plan_in_full()

    def restarted(self, rows=None, *, stored=None):
        """Another scheduler that reads the first rows of this one's journal, from a snapshot if one is given."""
        kept = MemoryJournal(
            rows=list(self.journal.rows[:rows]), finished=dict(self.journal.finished), stored=list(stored or ())
        )
        agents = {node: replace(agent, tasks=dict(agent.tasks)) for node, agent in self.agents.items()}
        again = EngineHarness(
            journal=kept, clock=ManualClock(seconds=self.clock.seconds), agents=agents, retention=self.retention,
            **self.names_of_parts,
        )  # fmt: skip
        again.loop.round_start = self.loop.round_start
        again.silent = set(self.silent)
        return again

    def obey(self, node, saved=0):
        """The agent starts what is new on its list, ends what has to stop, and reports."""
        agent = self.agents[node]
        published = self.board.published.get(node)
        if node in self.silent or published is None or published.lost:
            return
        for order in published.tasks:
            key = (order.job, order.epoch)
            if order.command is not TaskCommand.RUN:
                agent.tasks[key] = ends("stopped", step=saved, saved_step=saved)
            elif key not in agent.tasks or saved:
                agent.tasks[key] = runs(step=saved + 1, saved_step=saved, saved_path=f"at-{saved}" if saved else "")
        listed = {(order.job, order.epoch) for order in published.tasks}
        agent.tasks = {key: task for key, task in agent.tasks.items() if key in listed}
        self.report(node)

    def picture(self):
        """All that is to be found again, as text."""
        state = self.recovered.state
        return json.dumps(None if state is None else state.saved(), sort_keys=True)
