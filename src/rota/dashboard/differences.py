"""What a viewer does not know yet: a picture as messages for the page, without what it was told before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.dashboard.picture import IDLE, OTHERS, Picture, TableQuery, cells, health, holders, table

Message = dict[str, Any]


class Viewer:
    """One page that is open, and what it was told."""

    def __init__(self, query: TableQuery) -> None:
        self._query = query
        self._told: dict[str, Any] = {}
        self._nodes: dict[str, list[Any]] = {}
        self._rows: dict[int, list[Any]] = {}
        self._decisions = 0.0

    def news(self, picture: Picture) -> list[Message]:
        """Messages about all that changed."""
        if not picture.known:
            return self._if_new({"kind": "status", **_status(picture)})
        messages = self._if_new({"kind": "status", **_status(picture)})
        messages += self._node_news(picture)
        messages += self._table_news(picture)
        messages += self._usage_news(picture)
        return messages + self._decision_news(picture)

    def _if_new(self, message: Message) -> list[Message]:
        kind = str(message["kind"])
        before = self._told.get(kind, {})
        changed = {name: value for name, value in message.items() if name not in before or before[name] != value}
        self._told[kind] = message
        return [{**changed, "kind": kind}] if changed else []

    def _node_news(self, picture: Picture) -> list[Message]:
        held = holders(picture.jobs.values())
        tenants = picture.jobs
        nodes = {}
        for name, node in picture.nodes.items():
            row = cells(node.gpus, held.get(name, {}), node.busy)
            owners = [[job, tenants[job].tenant] if job not in (IDLE, OTHERS) else job for job in row]
            nodes[name] = [node.type, node.state, node.remark, owners]
        changed = {name: values for name, values in nodes.items() if self._nodes.get(name) != values}
        gone = [name for name in self._nodes if name not in nodes]
        self._nodes = nodes
        return [{"kind": "nodes", "set": changed, "gone": gone}] if changed or gone else []

    def _table_news(self, picture: Picture) -> list[Message]:
        rows, total = table(picture, self._query)
        shown = {row.job: row.cells(picture.etas.get(row.job)) for row in rows}
        changed = [values for job, values in shown.items() if self._rows.get(job) != values]
        order = list(shown)
        message: Message = {"kind": "rows", "total": total, "order": order}
        fresh = self._if_new(message)
        self._rows = shown
        if not changed and not fresh:
            return []
        return [{**(fresh[0] if fresh else {"kind": "rows"}), "set": changed}]

    def _usage_news(self, picture: Picture) -> list[Message]:
        message: Message = {"kind": "usage", "number": picture.usage_number, "problem": picture.usage_problem}
        fresh = self._if_new(message)
        if fresh and "number" in fresh[0] and picture.usage is not None:
            fresh[0]["usage"] = dict(picture.usage)
        return fresh

    def _decision_news(self, picture: Picture) -> list[Message]:
        new = [decision for decision in picture.decisions if decision[0] > self._decisions]
        if not new:
            return []
        self._decisions = new[-1][0]
        return [{"kind": "decisions", "add": new}]


def _status(picture: Picture) -> Mapping[str, Any]:
    state = health(picture)
    shown = {name: value for name, value in picture.status.items() if name not in {"now_s", "events"}}
    # The clock of the cluster goes on by itself: it is told with every round, not with every second.
    return {
        **shown,
        "level": state.level,
        "sentence": state.sentence,
        "away": picture.away,
        "away_since": picture.away_since,
        "eta_problem": picture.eta_problem,
        "jobs_shown": len(picture.jobs),
    }
