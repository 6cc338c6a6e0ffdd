"""The CPUs and memory that make the jobs of a round fastest together (Synergy-Opt; Mohan et al., OSDI 2022).

1. An integer program chooses what each job holds, from what was measured: the sum of the speeds, relative to the
   proportional share, is as large as all CPUs and all memory of the type allow, and nobody is below its share. Jobs of
   a class are interchangeable, so it has a variable per class and option. Its linear relaxation is the bound.
2. The jobs go to servers (`filling`). If that loses more than `gap`, integer programs look for better layouts of a few
   servers at a time (`mending`), of all if there are few.

If the solver finds nothing in `time_limit_s` seconds, the round is laid out by `tune`. The same classes of jobs have
the same answer, so it is remembered; which job takes which place follows from where it runs already (unless the rules
say `repack`) and from the order of the queue. Where that would move somebody, everybody stays if the jobs are faster
together than in that answer, less `gap` (`in_place`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any

from rota.core.configurations import Holding
from rota.core.errors import ConfigError
from rota.core.placement import Placement
from rota.core.tolerance import TOLERANCE
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.exchanging import filled
from rota.mechanisms.divide.filling import Filling, Item, JobClass, Server
from rota.mechanisms.divide.in_place import Member, left_in_place
from rota.mechanisms.divide.layout import Layout
from rota.mechanisms.divide.mending import Mending, columns
from rota.mechanisms.divide.menus import menu
from rota.mechanisms.divide.packing import Packing, Slots
from rota.mechanisms.divide.places import Place, named, settled
from rota.mechanisms.divide.proportional import Proportional
from rota.mechanisms.divide.tune import Tune
from rota.mechanisms.registry import mechanisms
from rota.opt.placement import Counts, most_speed

_REMEMBERED = 4096
_ROUNDS = 16
"""Programs over some servers that are tried."""
_SPLIT = 1e-4
"""What a job on several servers must gain to be cut."""

Mix = tuple[tuple[int, bool, int], ...]
"""(class, whether it shares its GPUs, how many jobs), ascending."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Places for the jobs of a mix, by (class, shares); None if it is left to `tune`."""

    places: dict[tuple[int, bool], list[Place]] | None
    total: float = 0.0
    bound: float = 0.0


@dataclass(slots=True)
class Tally:
    """How far from the linear bound decisions were."""

    decisions: int = 0
    """Without those left to `tune`."""
    sum_of_gaps: float = 0.0
    worst: float = 0.0
    last: float = 0.0
    fallbacks: int = 0
    """Decisions left to `tune`."""
    late: int = 0
    """Searches for a better layout that the time limit ended: they depend on the machine."""

    def add(self, gap: float) -> None:
        """Count a decision."""
        self.decisions += 1
        self.sum_of_gaps += gap
        self.worst = max(self.worst, gap)
        self.last = gap

    def remarks(self) -> list[str]:
        """One sentence for the notes of a result."""
        said = []
        if self.decisions:
            mean = 100 * self.sum_of_gaps / self.decisions
            worst = 100 * self.worst
            said.append(f"mean gap {mean:.2f} % to the linear bound, worst {worst:.2f} %")
        if self.fallbacks:
            said.append(f"{self.fallbacks} of {self.fallbacks + self.decisions} decisions left to tune")
        if self.late:
            said.append(f"{self.late} searches ended by time_limit_s, which depends on the machine")
        return [f"optimal: {', '.join(said)}"] if said else []


@mechanisms.register("optimal", from_run=("slots",))
class Optimal(Tune):
    """CPUs and memory for the most total speed, never less than the proportional share (integer programs).

    Parameters: consolidate - never cut a job that fits on one server, even if others are slower for it; slots -
    whether to report the servers; time_limit_s - seconds for the solver, then tune; gap - the loss against the program
    without servers that is good enough.
    """

    largest_first = False
    stays = False  # who stays follows from the answer

    def __init__(
        self, consolidate: bool = False, slots: bool = True, time_limit_s: float = 5.0, gap: float = 0.002
    ) -> None:
        super().__init__(consolidate=consolidate, slots=slots)
        if not time_limit_s >= 0:
            raise ConfigError(f"mechanism 'optimal': time_limit_s={time_limit_s} is not possible; give 0 or more")
        if not 0 <= gap < 1:
            raise ConfigError(f"mechanism 'optimal': gap={gap} is not possible; give 0 or more and less than 1")
        self._time_limit_s = time_limit_s
        self._gap = gap
        self._plain = Proportional(consolidate=True, slots=self._slots)
        self._answers: dict[tuple[int, Mix], Answer] = {}
        self._menus: dict[tuple[int, int, bool], JobClass] = {}
        self.tally = Tally()

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers, CPUs and memory for the chosen options; plain placement where nobody cares about CPUs and memory."""
        if not view.classes.configurations.sensitive:
            return self._plain.divide(view, choice)
        return super().divide(view, choice)

    def cluster_changed(self) -> None:
        """Answers are for the servers of before."""
        self._answers.clear()
        self._menus.clear()

    def remarks(self) -> list[str]:
        """How far from the bound the decisions were."""
        return self.tally.remarks()

    @property
    def last_gap(self) -> float | None:
        """How far below the linear bound the last decision was, as a fraction."""
        return self.tally.last

    def saved(self) -> tuple[Any, ...]:
        """The tally."""
        return dataclasses.astuple(self.tally)

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Go on counting."""
        self.tally = Tally(*saved)

    def lay_out(self, layout: Layout, packing: Packing) -> None:
        """Put the tasks of one type on its servers."""
        gpu_type = layout.gpu_type
        tasks = list(range(len(layout.size)))
        classes = [_class_of(layout, task) for task in tasks]
        mix: Mix = tuple(sorted((*key, count) for key, count in Counter(classes).items()))
        answer = self._answer(layout, mix, packing.servers)
        if answer.places is None:
            self.tally.fallbacks += 1
            super().lay_out(layout, packing)
            return
        total = answer.total
        places = answer.places
        last = None
        if not self._rules.repack:
            last = layout.last_slots()
            places = settled(places, packing, {t: (c, last[t]) for t, c in zip(tasks, classes, strict=True)})
        chosen = list(named(places, tasks, classes, last, _last_held(layout)))
        if last is not None:
            total, chosen = self._left_in_place(layout, packing.servers, mix, chosen, last, total)
        self.tally.add(max(0.0, 1 - total / answer.bound))
        rows = [layout.holdings.row(int(layout.group[task]), gpu_type, holding) for task, (_, holding) in chosen]
        packing.know(layout.holdings)
        for row, (task, (slots, _)) in zip(rows, chosen, strict=True):
            packing.put(task, int(layout.size[task]), row, slots)

    def _answer(self, layout: Layout, mix: Mix, servers: list[Server]) -> Answer:
        """The answer for a mix, from memory if it is known."""
        answer = self._answers.get((layout.gpu_type, mix))
        if answer is None:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            answer = self._solve(layout, mix, servers)
            self._answers[layout.gpu_type, mix] = answer
        return answer

    def _left_in_place(
        self,
        layout: Layout,
        servers: list[Server],
        mix: Mix,
        chosen: list[tuple[int, Place]],
        last: list[Slots | None],
        total: float,
    ) -> tuple[float, list[tuple[int, Place]]]:
        """The same jobs where they run, if that loses next to nothing of the sum of speeds; otherwise as chosen."""
        number = {(group, shared): n for n, (group, shared, _) in enumerate(mix)}
        classes = [self._menu(layout, group, shared, servers) for group, shared, _ in mix]
        members = []
        for task, (slots, holding) in chosen:
            job_class = number[_class_of(layout, task)]
            number_held = _option(classes[job_class], holding)
            members.append(Member(job_class, number_held, slots, last[task]))
        if not any(member.moves for member in members):
            return total, chosen
        found = left_in_place(classes, servers, members)
        if found is None or found[0] < total * (1 - self._gap) - TOLERANCE:
            return total, chosen
        stayed = []
        for (task, _), item in zip(chosen, found[1], strict=True):
            option = classes[item.job_class].options[item.option]
            stayed.append((task, (item.slots, Holding(option.cpus, option.memory, option.speed))))
        return found[0], stayed

    def _menu(self, layout: Layout, group: int, shared: bool, servers: list[Server]) -> JobClass:
        gpu_type = layout.gpu_type
        job_class = self._menus.get((gpu_type, group, shared))
        if job_class is None:
            gpus = int(layout.view.classes.gpus[group])
            between = self._rules.spare_is_shared
            job_class = menu(layout.holdings, group, gpu_type, gpus, servers, shared=shared, between=between)
            self._menus[gpu_type, group, shared] = job_class
        return job_class

    def _solve(self, layout: Layout, mix: Mix, servers: list[Server]) -> Answer:
        classes = [self._menu(layout, group, shared, servers) for group, shared, _ in mix]
        counts = [count for *_, count in mix]
        offered = [[n for n, option in enumerate(c.options) if option.offered] for c in classes]
        menus = [columns(c, rows, count) for c, rows, count in zip(classes, offered, counts, strict=True)]
        cpus = sum(s[1] for s in servers)
        memory = sum(s[2] for s in servers)
        chosen = most_speed(menus, cpus, memory, time_limit_s=self._time_limit_s, gap=self._gap / 10)
        if chosen is None:
            return Answer(None)
        filling = self._fill(classes, offered, servers, chosen)
        if filling is None:
            return Answer(None)
        split_cost = 10 * max(o.speed for c in classes for o in c.options) if self._consolidate else _SPLIT
        enough = chosen.total * (1 - self._gap) - TOLERANCE
        left_s = self._time_limit_s - chosen.seconds
        if not Mending(filling, chosen, split_cost=split_cost, gap=self._gap).mend(enough, _ROUNDS, left_s):
            self.tally.late += 1
        return Answer(_places(filling, mix), filling.total, max(chosen.bound, filling.total))

    def _fill(
        self, classes: list[JobClass], offered: list[list[int]], servers: list[Server], chosen: Counts
    ) -> Filling | None:
        """Jobs whole on servers if that costs next to nothing or is asked for, otherwise cut where it helps."""

        def make() -> list[Item]:
            return [
                Item(job_class, rows[option])
                for job_class, rows in enumerate(offered)
                for option, count in enumerate(chosen.chosen[job_class].tolist())
                for _ in range(count)
            ]

        enough = chosen.total * (1 - self._gap)
        best = filled(classes, servers, make, whole=True, limit=enough)
        if best is None or self._consolidate or all(c.gpus == 1 for c in classes):
            return best
        if best.total >= chosen.total * (1 - self._gap / 10) - TOLERANCE:
            return best
        other = filled(classes, servers, make, whole=False, limit=enough)
        return other if other is not None and other.total > best.total + _SPLIT else best


def _places(filling: Filling, mix: Mix) -> dict[tuple[int, bool], list[Place]]:
    """Slots and holdings of the jobs of each class of the mix, fast ones first."""
    places: dict[tuple[int, bool], list[Place]] = {}
    for item in filling.items:
        group, shared, _ = mix[item.job_class]
        option = filling.classes[item.job_class].options[item.option]
        place = (item.slots, Holding(option.cpus, option.memory, option.speed))
        places.setdefault((group, shared), []).append(place)
    for group, shared, _ in mix:
        places[group, shared].sort(key=lambda place: (-place[1].speed, place[0]))
    return places


def _option(job_class: JobClass, holding: Holding) -> int:
    """The number of an option of a class."""
    amounts = [(option.cpus, option.memory) for option in job_class.options]
    return amounts.index((holding.cpus, holding.memory_gb))


def _class_of(layout: Layout, task: int) -> tuple[int, bool]:
    return int(layout.group[task]), layout.shares is not None and bool(layout.shares[task])


def _last_held(layout: Layout) -> list[tuple[float, float] | None]:
    """CPUs and memory that each task held in the last round; None without one."""
    last = layout.view.placement
    tasks = layout.view.last_task
    if last is None or tasks is None or last.cpus is None or last.memory_gb is None or len(last) == 0:
        return [None] * len(layout.rows)
    cpus = last.cpus.tolist()
    memory = last.memory_gb.tolist()
    return [None if row < 0 else (cpus[row], memory[row]) for row in tasks[layout.rows].tolist()]
