"""What decides in a deployment, and how that is changed while it runs.

`rota serve` says with what a scheduler starts; `rota policy set` and `rota tenants set` change it on the live cluster.
What was set live is an event, and stays in force over restarts until it is discarded: the journal wins over the
command line. A change takes effect between two decisions. Accounts and placement stay, so no job is stopped by it
alone; only the last answer of the policy is forgotten, as another policy may not understand it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rota.assembly import make_rules
from rota.core.cluster import Cluster
from rota.core.errors import ConfigError, RotaError
from rota.core.ports import Throughputs
from rota.core.rules import Rules
from rota.deploy.deciding import TimeLimitedPolicy, deployed_policy
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.recovery import Ways, rules_of
from rota.deploy.tenants import Tenants, tenants_from
from rota.engine.live_state import LiveState
from rota.mechanisms.registry import ComposedMechanism, build, mechanisms
from rota.policies.registry import policies

log = logging.getLogger(__name__)

_PLAIN = (
    "policy",
    "policy_settings",
    "mechanism",
    "mechanism_settings",
    "rules",
    "rule_settings",
    "round_s",
    "fair_by",
)
"""Fields of `Options` that can be set live, beside `tenants`."""
FAIR_BY = ("tenant", "job")
CHANGED_MEANWHILE = "settings were changed by somebody else in the meantime; look at them (rota policy) and try again"


@dataclass(frozen=True, kw_only=True)
class Deciders:
    """Rules, policy and mechanism in force, made from options."""

    options: Options
    command_line: Options
    """The same without what was set on the live cluster."""
    rules: Rules
    mechanism_name: str
    policy: TimeLimitedPolicy
    mechanism: ComposedMechanism

    def described(self) -> dict[str, Any]:
        """The settings as plain values, for the journal."""
        return self.options.described(self.rules)

    def command_line_described(self) -> dict[str, Any]:
        """The settings that the command line asks for, as plain values."""
        asked = self.command_line
        return asked.described(make_rules(asked.rules, asked.round_s, asked.rule_settings))


def make_deciders(options: Options, *, late: int = 0, command_line: Options | None = None) -> Deciders:
    """What decides under these options. Raises ConfigError.

    `late` is how often a policy before was late. `command_line` is what was asked for if `options` are more than that.
    """
    rules = make_rules(options.rules, options.round_s, options.rule_settings)
    name = options.mechanism or rules.mechanism
    if name == "ideal":
        raise ConfigError("the mechanism 'ideal' gives jobs fractions of a round; it can only be simulated")
    weights = options.tenants.weights() if options.fair_by == "tenant" else None
    policy = deployed_policy(options.policy, options.policy_settings, options.seed, rules, weights=weights)
    budget_s = options.solve_budget_s or max(0.05, min(rules.round_s / options.time_scale / 4, 5.0))
    return Deciders(
        options=options,
        command_line=command_line or options,
        rules=rules,
        mechanism_name=name,
        policy=TimeLimitedPolicy(policy, budget_s, late),
        mechanism=build(
            name,
            rules,
            options.seed,
            dict(options.mechanism_settings),
            watched=True,
            quotas=options.tenants.quotas(),
        ),
    )


def ways_of(config: Mapping[str, Any], catalogue: Throughputs) -> Ways:
    """How events are read that were written under a configuration in a journal. Raises ConfigError, KeyError."""
    rules = rules_of(config)
    settings = dict(config.get("mechanism_settings", {}))
    by_need = build(config["mechanism"], rules, int(config.get("seed", 0)), settings, watched=True).by_need

    def make_state(cluster: Cluster) -> LiveState:
        return LiveState(cluster, catalogue, rules, by_need=by_need)

    return Ways(rules=rules, by_need=by_need, make_state=make_state)


def overlaid(options: Options, live: Mapping[str, Any]) -> Options:
    """Options with what was set live. Raises ConfigError if this version cannot use it."""
    values: dict[str, Any] = {name: live[name] for name in _PLAIN if name in live}
    if "tenants" in live:
        values["tenants"] = tenants_from(live["tenants"])
    return replace(options, **values)


def deciders_at_start(options: Options, live: Mapping[str, Any]) -> Deciders:
    """What decides after a start: as the command line says, but for what was set live. Raises ConfigError."""
    log.warning(
        "settings that were set on the live cluster stay in force and count more than the command line (%s); "
        "`rota policy` shows them, --discard-live-settings forgets them",
        ", ".join(sorted(live)),
    )
    try:
        return make_deciders(overlaid(options, live), command_line=options)
    except (RotaError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{options.state}: settings that were set on the live cluster cannot be used ({error}); start with "
            "--discard-live-settings to go by the command line"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange:
    """What an administrator wants to be different; what says nothing stays."""

    policy: str = ""
    policy_settings: Mapping[str, str] = field(default_factory=dict)
    mechanism: str = ""
    mechanism_settings: Mapping[str, str] = field(default_factory=dict)
    rules: str = ""
    rule_settings: Mapping[str, str] = field(default_factory=dict)
    round_s: float = 0.0
    fair_by: str = ""
    tenants: Tenants | None = None
    tenants_from_file: bool = False
    """Whether `tenants` are those of the file of `rota serve --tenants`, which counts again at the next start."""
    discard: bool = False
    """Whether everything that was set live is forgotten first."""

    def apply(self, live: Mapping[str, Any], now: Options) -> dict[str, Any]:
        """What is set live with this change; `now` are the options in force. Raises ConfigError."""
        self._check()
        changed = {} if self.discard else dict(live)
        for name in ("policy", "mechanism"):
            changed |= self._component(name, changed, now)
        if self.rules:
            changed["rules"] = self.rules
            changed["rule_settings"] = dict(self.rule_settings)
        elif self.rule_settings:
            before = changed.get("rule_settings", {} if "rules" in changed else now.rule_settings)
            changed["rule_settings"] = {**before, **self.rule_settings}
        if self.round_s:
            changed["round_s"] = self.round_s
        if self.fair_by:
            changed["fair_by"] = self.fair_by
        if self.tenants is not None:
            changed["tenants"] = self.tenants.described()
        if self.tenants_from_file:
            changed.pop("tenants", None)
        return changed

    def _component(self, name: str, changed: Mapping[str, Any], now: Options) -> dict[str, Any]:
        """Policy or mechanism: another one begins with the settings given, the same one gets them on top."""
        chosen: str = getattr(self, name)
        settings: Mapping[str, str] = getattr(self, f"{name}_settings")
        if chosen:
            return {name: chosen, f"{name}_settings": dict(settings)}
        if not settings:
            return {}
        before = changed.get(f"{name}_settings", getattr(now, f"{name}_settings"))
        return {f"{name}_settings": {**before, **settings}}

    def _check(self) -> None:
        if self == SettingsChange():
            raise ConfigError("nothing was given to be set: name a policy, a mechanism, rules or tenants")
        if self.fair_by not in ("", *FAIR_BY):
            raise ConfigError(f"fair_by is {self.fair_by!r}; give tenant or job")
        if self.round_s < 0:
            raise ConfigError(f"a round of {self.round_s:g} s is not possible; give a number above 0")
        for kind, name in (("policy", self.policy), ("mechanism", self.mechanism)):
            if name:
                _check_built_in(kind, name)


def _check_built_in(kind: str, name: str) -> None:
    """Code in a file is run because whoever starts the scheduler says so, never by a call over the network."""
    is_name = ":" not in name and "/" not in name and not name.endswith(".py")
    known = policies if kind == "policy" else mechanisms
    if not is_name or not known.entry(name).built_in:
        raise ConfigError(
            f"{kind} {name!r} does not come with Rota; only built-in ones can be set on a live cluster. Give your own "
            f"to `rota serve --{kind}`"
        )


def changed_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of settings that differ, with their values, for people."""
    return [
        f"{name}: {_shown(before.get(name))} -> {_shown(after.get(name))}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is different between two configurations, one line each, for people."""
    nested = ("rules", "tenants", "policy_settings", "mechanism_settings")
    flat = {name for name in before.keys() | after.keys() if name not in (*nested, "version")}
    lines = changed_names({n: before.get(n) for n in flat}, {n: after.get(n) for n in flat})
    for name in ("policy_settings", "mechanism_settings", "rules"):
        inner = changed_names(before.get(name, {}), after.get(name, {}))
        lines += [f"{name}.{line}" for line in inner]
    return lines + _tenant_differences(before.get("tenants", {}), after.get("tenants", {}))


def _tenant_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    lines = [
        f"all other tenants: {line}" for line in changed_names(before.get("default", {}), after.get("default", {}))
    ]
    named = (before.get("tenants", {}), after.get("tenants", {}))
    for name in sorted(named[0].keys() | named[1].keys()):
        # A tenant without settings of its own has those of all others.
        settings = [
            side.get(name, whole.get("default", {})) for side, whole in zip(named, (before, after), strict=True)
        ]
        lines += [f"tenant {name}: {line}" for line in changed_names(*settings)]
    return lines


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    return f"{value:g}" if isinstance(value, float) else str(value)
