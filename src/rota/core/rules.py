"""How a run is carried out beyond policy and mechanism: one frozen object, chosen by name.

`default` is the sane version. `gavel-artifact` and `synergy-artifact` are the published simulators with their
accidental rules, each a named field here, so that the engine has no special cases by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rota.core.errors import ConfigError, UnknownName

DEADLINES = ("kept", "paced")
"""What policies that promise deadlines may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Named options of the engine, the simulator and the selecting half of the mechanism."""

    name: str = "default"

    # The round
    round_s: float = 360.0
    rounds: str = "grid"
    """`grid`: rounds start at multiples of round_s and progress is rate x time. `slowest-task`: a round does a whole
    number of steps of each job and ends when its slowest task does; of two jobs that share, both end with the later.
    `whole`: on the grid too, but a round does a whole number of steps and a job that is through ends with its round."""
    at_once: bool = True
    """Between two rounds, too: a job that arrives starts if there are GPUs for it, and GPUs that become free go to jobs
    that wait. Jobs that run are moved and preempted at the start of a round only. Without it everything waits for the
    next round."""
    static_offset_s: float = 0.0
    """When all jobs are there within the first second, the grid of rounds begins so much later."""
    idle_gap_counts: bool = False
    """The first round after an idle gap is accounted from the end of the last round (slowest-task)."""
    gpu_split_fails: bool = False
    """A task with fewer steps left than GPUs fails; after `max_failures` in a row the job is dropped (slowest-task)."""
    max_failures: int = 5

    # When the policy is asked again
    resolve_every_s: float = 0.0
    """Least time between two solves."""
    resolve_free_at_zero: bool = False
    """The least time does not apply while the last solve was at time 0."""
    deadlines: str = "kept"
    """What policies that promise deadlines do: `kept` serves who would otherwise miss one, `paced` asks for the rate
    that meets each by then, as published."""
    idle_until_arrival: bool = False
    """While nothing runs, time goes to the next arrival even if the policy could be asked before."""

    # Who runs
    select: str = "deficit"
    stay_rounds: float = 3.0
    """Rounds of debt by which another job or type must be ahead before a running job is stopped or moved (deficit)."""
    opening_credit: float = 0.0
    """Rounds a job is taken to have received when its account is opened or reset."""
    pair_opening_credit: float = 0.0
    """The same when the account of a pair is opened (a reset gives pairs the credit of a job)."""
    all_pairs_fill: bool = False
    """Every pair of jobs, even without a share, may take left-over GPUs (where the policy says so)."""
    blocked_shares: bool = True
    """Under `fifo-packed`, the first job that finds too few GPUs, while some are left, may share those of another."""
    newcomers_waste_slots: bool = False
    """A job without an allocation takes left-over GPUs but does not run on them."""
    fewest_rounds_first: bool = False
    """Of jobs with equal shares under a policy that sees no types, those go first that need the fewest rounds."""
    type_order: tuple[str, ...] = ()
    """Types served first; the rest follow from fast to slow."""
    rankings: str = "published"
    """What ranking policies sort by: `published` as their papers say, `static` as Synergy's simulator does."""
    fifo_overfills: bool = False
    """`fifo` gives out the last type that has GPUs left without limit, and those on it take turns."""
    starvation_s: float = 0.0
    """A job that has waited longer comes before all others from then on, but in `fifo`; 0 means never."""
    global_queue: bool = False
    """One queue over all types instead of one per type."""

    small_types_count: bool = False
    """A type with fewer GPUs than a job asks for still counts as one it could get time on."""

    # Where
    mechanism: str = "proportional"
    spread_costs: bool = True
    """A job spread over servers runs at its unconsolidated speed."""
    speeds: str = "measured"
    """How speed depends on CPUs and memory: `measured` interpolates what was measured, `two-valued` knows only the
    proportional share and the ideal one."""
    repack: bool = False
    """Mechanisms that divide by need lay out every round from empty servers, instead of leaving jobs where they run."""
    reset_to_share: bool = False
    """Under `tune`, who gives back CPUs or memory gets its whole proportional share, also of what it had less of; a
    server may then give more than it has."""
    spare_is_shared: bool = True
    """CPUs and memory that are left over go to jobs that have less than they could use."""
    enforce_requests: bool = True
    """CPUs and memory that jobs ask for are floors that no job goes below, and their labels count; otherwise both are
    only recorded."""
    restart_s: float = 0.0
    """Seconds a job needs to start or move before it makes progress."""
    catalogue_prices: bool = True
    """Known accelerator types have their list prices; otherwise every GPU-hour costs 1."""

    def __post_init__(self) -> None:
        """Refuse values that no run could follow."""
        _check_name("rounds", self.rounds, ("grid", "slowest-task", "whole"))
        _check_name("select", self.select, ("deficit", "fraction"))
        _check_name("rankings", self.rankings, ("published", "static"))
        _check_name("deadlines", self.deadlines, DEADLINES)
        _check_name("speeds", self.speeds, ("measured", "two-valued"))
        if not 0 < self.round_s < math.inf:
            raise ConfigError(f"rules: round_s={self.round_s} is not possible; give a positive number of seconds")
        amounts = {
            "restart_s": self.restart_s,
            "resolve_every_s": self.resolve_every_s,
            "stay_rounds": self.stay_rounds,
            "opening_credit": self.opening_credit,
            "pair_opening_credit": self.pair_opening_credit,
            "static_offset_s": self.static_offset_s,
            "starvation_s": self.starvation_s,
        }
        for name, amount in amounts.items():
            if not 0 <= amount < math.inf:
                raise ConfigError(f"rules: {name}={amount} is not possible; give 0 or more")
        if self.restart_s >= self.round_s:
            raise ConfigError(
                f"rules: restart_s={self.restart_s:g} leaves nothing of a round of {self.round_s:g} s; "
                "give longer rounds or a shorter start"
            )
        if self.at_once and self.rounds != "grid":
            raise ConfigError(f"rules: at_once=yes needs rounds=grid, not rounds={self.rounds}; give at_once=no")
        if self.max_failures < 1:
            raise ConfigError(f"rules: max_failures={self.max_failures} is not possible; give 1 or more")


def _check_name(rule: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UnknownName(f"value of the rule {rule}:", value, known)


PRESETS: dict[str, Rules] = {
    "default": Rules(),
    "gavel-artifact": Rules(
        name="gavel-artifact",
        rounds="slowest-task",
        at_once=False,
        idle_gap_counts=True,
        gpu_split_fails=True,
        resolve_every_s=1920.0,
        resolve_free_at_zero=True,
        deadlines="paced",
        idle_until_arrival=True,
        select="fraction",
        opening_credit=0.5,
        pair_opening_credit=0.0,
        all_pairs_fill=True,
        blocked_shares=False,
        newcomers_waste_slots=True,
        fewest_rounds_first=True,
        fifo_overfills=True,
        type_order=("v100", "p100", "k80"),
        mechanism="strided",
        spread_costs=False,
        small_types_count=True,
        catalogue_prices=False,
    ),
    "synergy-artifact": Rules(
        name="synergy-artifact",
        round_s=300.0,
        rounds="whole",
        at_once=False,
        static_offset_s=1.0,
        rankings="static",
        starvation_s=3_600_000.0,
        speeds="two-valued",
        repack=True,
        reset_to_share=True,
        spare_is_shared=False,
        spread_costs=False,
    ),
}


def preset(name: str) -> Rules:
    """The rules of that name."""
    if name not in PRESETS:
        raise UnknownName("rules", name, PRESETS)
    return PRESETS[name]
