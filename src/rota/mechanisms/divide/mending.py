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
from rota.mechanisms.divide.filling import Filling, Item, JobClass, Option
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
        filling = self.filling
        servers = range(len(filling.gpus))
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

    def _reduced(self, job_class: int, option: Option) -> float:
        """What is lost by an option at the prices of the bound."""
        prices = self._prices
        paid = option.cpus * prices.cpu_price + option.memory * prices.memory_price
        return max(0.0, float(prices.worth[job_class]) + paid - option.speed)

    def _loss(self, server: int) -> float:
        filling = self.filling
        idle_cpus = max(0.0, filling.cpus[server])
        idle_memory = max(0.0, filling.memory[server])
        loss = idle_cpus * self._prices.cpu_price + idle_memory * self._prices.memory_price
        for item in filling.on[server]:
            job_class = filling.classes[item.job_class]
            part = next(p for s, p in item.slots if s == server)
            loss += self._reduced(item.job_class, job_class.options[item.option]) * part / job_class.gpus
        return loss

    def _again(self, servers: tuple[int, ...], loss: float, time_limit_s: float) -> tuple[bool, float]:
        """Lay out these servers again; whether that was better, and how long it took."""
        filling = self.filling
        inside = set(servers)
        items = [i for i in filling.items if all(s in inside for s, _ in i.slots)]
        if not items:  # idle servers, or parts of jobs that are elsewhere too
            return False, 0.0
        old = [(i, i.option, i.slots) for i in items]
        before = self._value(items)
        choices = self._choices(items, loss)
        for item in items:
            filling.remove(item)
        counts = most_speed_on_servers(
            [columns(filling.classes[job_class], rows, count) for job_class, rows, count in choices],
            [(filling.gpus[s], filling.cpus[s], filling.memory[s]) for s in servers],
            split_cost=self._split_cost,
            time_limit_s=time_limit_s,
            gap=self._gap / 2,
            nodes=_NODES if self._gap else _NO_END,
        )
        seconds = 0.0 if counts is None else counts.seconds
        new = [] if counts is None else self._laid_out(counts, choices, servers)
        if new and filling.sound and self._value(new) > before + TOLERANCE:
            filling.raise_all(new)
            return True, seconds
        for item in new:
            filling.remove(item)
        for item, option, slots in old:
            filling.place(item, option, slots)
        return False, seconds

    def _choices(self, items: list[Item], loss: float) -> list[tuple[int, list[int], int]]:
        """(class, options that can be part of something better, number of jobs)."""
        held = {(i.job_class, i.option) for i in items}
        choices = []
        for job_class, count in sorted(Counter(i.job_class for i in items).items()):
            useful = [
                n
                for n, option in enumerate(self.filling.classes[job_class].options)
                if (job_class, n) in held or (option.offered and self._reduced(job_class, option) <= loss + TOLERANCE)
            ]
            choices.append((job_class, useful, count))
        return choices

    def _laid_out(
        self, counts: ServerCounts, choices: list[tuple[int, list[int], int]], servers: tuple[int, ...]
    ) -> list[Item]:
        """The items of an answer; jobs on several servers are put together from GPUs in the order of servers."""
        made: list[Item] = []
        gpus: dict[tuple[int, int], list[int]] = {}
        rows = zip(counts.place.tolist(), counts.whole.tolist(), counts.parts.tolist(), strict=True)
        for (menu, row, at), jobs, parts in rows:
            job_class, options, _ = choices[menu]
            option = options[row]
            server = servers[at]
            size = self.filling.classes[job_class].gpus
            made += [self._put(job_class, option, [(server, size)]) for _ in range(jobs)]
            gpus.setdefault((job_class, option), []).extend([server] * parts)
        for (job_class, option), each in gpus.items():
            size = self.filling.classes[job_class].gpus
            gangs = (each[begin : begin + size] for begin in range(0, len(each), size))
            made += [self._put(job_class, option, sorted(Counter(gang).items())) for gang in gangs]
        return made

    def _put(self, job_class: int, option: int, slots: Slots) -> Item:
        item = Item(job_class, option)
        self.filling.place(item, option, slots)
        return item

    def _value(self, items: list[Item]) -> float:
        classes = self.filling.classes
        cut = sum(len(i.slots) > 1 for i in items)
        return sum(classes[i.job_class].options[i.option].speed for i in items) - cut * self._split_cost


def columns(job_class: JobClass, rows: list[int], count: int) -> Menu:
    """Some options of a class of jobs, as a program reads them."""
    options = [job_class.options[n] for n in rows]
    return Menu(
        count=count,
        gpus=job_class.gpus,
        cpus=np.array([o.cpus for o in options]),
        memory_gb=np.array([o.memory for o in options]),
        speed=np.array([o.speed for o in options]),
    )
