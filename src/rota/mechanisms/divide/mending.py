"""A better layout of a few servers at a time, by an integer program.

The prices of the linear bound say what each server loses: CPUs and memory that nobody uses, and jobs with options
that are not worth their price. The worst servers are laid out again together with others; an option that alone
costs more than is lost there can be left out, so the programs are small. Which others is drawn from a generator with a
fixed seed: the same layout is mended in the same way.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np

from rota.core.tolerance import TOLERANCE
from rota.mechanisms.divide.filling import Filling, Item, Kind, Option
from rota.mechanisms.divide.packing import Slots
from rota.opt.placement import Counts, Menu, ServerCounts, most_speed_on_servers

_AT_ONCE = 4
"""Servers laid out together when there are many."""
_NODES = 20
"""Branches per program; without a gap that is good enough, the search goes to its end."""
_NO_END = 1_000_000


class Mending:
    """Betters a filling by programs over some of its servers."""

    def __init__(self, filling: Filling, prices: Counts, *, split_cost: float, gap: float) -> None:
        """`split_cost` is what a job on several servers must gain to be cut; `gap` is the loss that is good enough."""
        self.filling = filling
        self._prices = prices
        self._split_cost = split_cost
        self._gap = gap

    def mend(self, enough: float, rounds: int, time_limit_s: float) -> bool:
        """Until the total is enough or the rounds are over; False if the solver's time was over before."""
        filling, servers = self.filling, range(len(self.filling.gpus))
        choose = Random(0)
        tried: set[tuple[int, ...]] = set()
        limit_s = time_limit_s
        for _ in range(rounds):
            if filling.total >= enough:
                return True
            if time_limit_s <= 0:
                return False
            loss = [self._loss(s) for s in servers]
            worst = sorted((s for s in servers if loss[s] > TOLERANCE), key=lambda s: (-loss[s], s))
            some = worst[: 3 * _AT_ONCE]
            lead = some[: _AT_ONCE // 2] if not tried else choose.sample(some, min(len(some), _AT_ONCE // 2))
            others = [s for s in servers if s not in lead]
            chosen = tuple(sorted(lead + choose.sample(others, min(len(others), _AT_ONCE - len(lead)))))
            if chosen in tried:
                continue
            better, seconds = self._again(chosen, sum(loss[s] for s in chosen), time_limit_s)
            time_limit_s -= seconds
            if len(servers) <= _AT_ONCE:  # there is nothing else to try
                return seconds < limit_s
            tried = set() if better else tried | {chosen}
        return True

    def _reduced(self, kind: int, option: Option) -> float:
        """What is lost by an option at the prices of the bound."""
        prices = self._prices
        paid = option.cpus * prices.cpu_price + option.memory * prices.memory_price
        return max(0.0, float(prices.worth[kind]) + paid - option.speed)

    def _loss(self, server: int) -> float:
        filling, prices = self.filling, self._prices
        loss = (
            max(0.0, filling.cpus[server]) * prices.cpu_price + max(0.0, filling.memory[server]) * prices.memory_price
        )
        for item in filling.on[server]:
            kind = filling.kinds[item.kind]
            part = next(p for s, p in item.slots if s == server)
            loss += self._reduced(item.kind, kind.options[item.option]) * part / kind.gpus
        return loss

    def _again(self, servers: tuple[int, ...], loss: float, time_limit_s: float) -> tuple[bool, float]:
        """Lay out these servers again; whether that was better, and how long it took."""
        filling, inside = self.filling, set(servers)
        items = [i for i in filling.items if all(s in inside for s, _ in i.slots)]
        if not items:  # idle servers, or parts of jobs that are elsewhere too
            return False, 0.0
        old = [(i, i.option, i.slots) for i in items]
        before = self._value(items)
        choices = self._choices(items, loss)
        for item in items:
            filling.remove(item)
        found = most_speed_on_servers(
            [columns(filling.kinds[kind], rows, count) for kind, rows, count in choices],
            [(filling.gpus[s], filling.cpus[s], filling.memory[s]) for s in servers],
            split_cost=self._split_cost,
            time_limit_s=time_limit_s,
            gap=self._gap / 2,
            nodes=_NODES if self._gap else _NO_END,
        )
        seconds = 0.0 if found is None else found.seconds
        new = [] if found is None else self._laid_out(found, choices, servers)
        if new and filling.sound and self._value(new) > before + TOLERANCE:
            filling.raise_all(new)
            return True, seconds
        for item in new:
            filling.remove(item)
        for item, option, slots in old:
            filling.place(item, option, slots)
        return False, seconds

    def _choices(self, items: list[Item], loss: float) -> list[tuple[int, list[int], int]]:
        """(kind, options that can be part of something better, number of jobs)."""
        held = {(i.kind, i.option) for i in items}
        return [
            (kind, [
                n for n, option in enumerate(self.filling.kinds[kind].options)
                if (kind, n) in held or (option.offered and self._reduced(kind, option) <= loss + TOLERANCE)
            ], count)
            for kind, count in sorted(Counter(i.kind for i in items).items())
        ]  # fmt: skip

    def _laid_out(
        self, found: ServerCounts, choices: list[tuple[int, list[int], int]], servers: tuple[int, ...]
    ) -> list[Item]:
        """The items of an answer; jobs on several servers are put together from GPUs in the order of servers."""
        made: list[Item] = []
        gpus: dict[tuple[int, int], list[int]] = {}
        for (menu, row, server), jobs, parts in zip(
            found.place.tolist(), found.whole.tolist(), found.parts.tolist(), strict=True
        ):
            kind, rows, _ = choices[menu]
            size = self.filling.kinds[kind].gpus
            made += [self._put(kind, rows[row], [(servers[server], size)]) for _ in range(jobs)]
            gpus.setdefault((kind, rows[row]), []).extend([servers[server]] * parts)
        for (kind, option), each in gpus.items():
            size = self.filling.kinds[kind].gpus
            gangs = (each[begin : begin + size] for begin in range(0, len(each), size))
            made += [self._put(kind, option, sorted(Counter(gang).items())) for gang in gangs]
        return made

    def _put(self, kind: int, option: int, slots: Slots) -> Item:
        item = Item(kind, option)
        self.filling.place(item, option, slots)
        return item

    def _value(self, items: list[Item]) -> float:
        kinds = self.filling.kinds
        cut = sum(len(i.slots) > 1 for i in items)
        return sum(kinds[i.kind].options[i.option].speed for i in items) - cut * self._split_cost


def columns(kind: Kind, rows: list[int], count: int) -> Menu:
    """Some options of a class of jobs, as a program reads them."""
    options = [kind.options[n] for n in rows]
    return Menu(
        count=count,
        gpus=kind.gpus,
        cpus=np.array([o.cpus for o in options]),
        memory_gb=np.array([o.memory for o in options]),
        speed=np.array([o.speed for o in options]),
    )
