"""Agents as processes of this machine: what `rota up` does. They end with the process that started them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rota.deploy.local.processes import GRACE_S, Child, Lifeline, stop
from rota.deploy.providers.port import PilotOrder, PilotPhase, PilotStatus, PlaceDescription, PlaceRefused


@dataclass(kw_only=True)
class LocalProcesses:
    """A provider. `children` may also be tended by their owner, which starts them again when they die."""

    lifeline: Lifeline
    children: list[Child] = field(default_factory=list)

    def describe(self) -> PlaceDescription:
        """What this machine is."""
        return PlaceDescription(words="processes of this machine", end_s=GRACE_S)

    def submit(self, order: PilotOrder) -> str:
        """Start the process; its name is its id, as its number changes when it is started again."""
        if any(child.name == order.name for child in self.children):
            raise PlaceRefused(f"{order.name} is there already; give every pilot a name of its own")
        child = Child(name=order.name, command=order.command, log=order.log, lifeline=self.lifeline)
        try:
            child.start()
        except OSError as error:
            raise PlaceRefused(f"{order.command[0]} cannot be started: {error.strerror}") from error
        self.children.append(child)
        return order.name

    def list(self) -> Sequence[PilotStatus]:
        """All that were started here."""
        return [
            PilotStatus(
                name=child.name,
                id=child.name,
                phase=PilotPhase.RUNNING if child.pid else PilotPhase.OVER,
                host="localhost",
                reason="" if child.pid else _end_of(child),
            )
            for child in self.children
        ]

    def cancel(self, ids: Sequence[str], *, gently: bool) -> None:
        """TERM, which an agent takes for both, and KILL after a while."""
        del gently
        chosen = [child for child in self.children if child.name in ids]
        stop(chosen)
        for child in chosen:
            child.forget()


def _end_of(child: Child) -> str:
    code = None if child.process is None else child.process.poll()
    return f"exit code {code}"
