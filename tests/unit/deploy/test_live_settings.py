"""Policy, mechanism, rules and tenants change while jobs run: nobody is stopped by that, and it is read back."""

import json
import logging
import sqlite3

import pytest

from deployed import PROFILE, PlayedAgent, a_scheduler, ask, jobs_of, look, submit, until
from rota.core.errors import ConfigError
from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.live_settings import SettingsChange, differences, make_deciders, overlaid
from rota.deploy.scheduler.requests import Refused
from rota.deploy.tenants import Tenants, TenantSettings

TURNS = [
    {"policy": "srtf", "mechanism": "tune"},
    {"policy": "max-min-fairness-perf", "mechanism": "proportional"},
    {"policy": "fifo", "mechanism": "greedy"},
    {"policy": "las", "rule_settings": {"stay_rounds": "1"}},
    {"policy": "finish-time-fairness-perf", "mechanism": "tune"},
]


def change(scheduler, version=None, **fields):
    """What `rota policy set` does, without the network."""
    live, known = look(scheduler, lambda registry: (registry.set_live.settings, registry.set_live.times))
    wanted = SettingsChange(**fields).apply(live, scheduler.options)
    deciders = make_deciders(
        overlaid(scheduler.deciders.command_line, wanted), command_line=scheduler.deciders.command_line
    )
    at = known if version is None else version
    return ask(scheduler, lambda now: scheduler.change_settings(deciders, wanted, at, "tester", now))


def events_in(path):
    with sqlite3.connect(path) as db:
        return [json.loads(body) for (body,) in db.execute("SELECT body FROM events ORDER BY seq")]


def wait_rounds(scheduler, agents, rounds):
    begin = scheduler.round_start
    until(lambda: scheduler.round_start >= begin + rounds * 60.0, scheduler, agents)


def over(scheduler):
    return all(job.phase is JobPhase.FINISHED for job in jobs_of(scheduler).values())


def running_since_the_start(scheduler):
    return all(job.epoch == 1 and not job.preemptions for job in jobs_of(scheduler).values())


def test_fifty_switches_restart_no_job_that_has_its_gpus_under_every_policy(tmp_path):
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "n0"), PlayedAgent(scheduler, "n1")]
        submit(scheduler, *[{"gpus": gpus, "steps": 10**9} for gpus in (1, 1, 2, 4)])
        until(lambda: len(look(scheduler, lambda registry: registry.running)) == 4, scheduler, agents)
        for number in range(50):
            change(scheduler, **TURNS[number % len(TURNS)])
            for agent in agents:
                agent.report(scheduler)
            if number % 5 == 0:
                wait_rounds(scheduler, agents, 1)
        wait_rounds(scheduler, agents, 1)

        assert running_since_the_start(scheduler)
        assert len(look(scheduler, lambda registry: registry.running)) == 4
        assert look(scheduler, lambda registry: registry.set_live.times) == 50
    finally:
        scheduler.stop()
    kinds = [event["event"] for event in events_in(tmp_path / "state.db")]
    assert kinds.count("SettingsChanged") == 50
    assert "AttemptStopping" not in kinds


def test_with_too_few_gpus_only_plans_stop_jobs_and_every_step_counts_once(tmp_path):
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "n0", gpus=2), PlayedAgent(scheduler, "n1", "k80", gpus=2)]
        submit(scheduler, *[{"gpus": 1 + number % 2, "steps": 4_000 + 100 * number} for number in range(10)])
        for number in range(20):
            change(scheduler, **TURNS[number % len(TURNS)])
            wait_rounds(scheduler, agents, 1)
        until(lambda: over(scheduler), scheduler, agents, timeout=40)
        steps = {number: job.saved_step for number, job in jobs_of(scheduler).items()}
    finally:
        scheduler.stop()

    assert steps == {number: 4_000 + 100 * number for number in range(10)}
    planned = True
    stops = 0
    for event in events_in(tmp_path / "state.db"):
        planned = (planned and event["event"] != "SettingsChanged") or event["event"] == "Planned"
        if event["event"] == "AttemptStopping":
            stops += 1
            assert planned, f"{event} comes from no plan since the settings were changed"
    assert stops > 0


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_scheduler_that_is_started_again_reads_back_what_the_one_before_had_decided(tmp_path, snapshot):
    path = tmp_path / "state.db"
    scheduler = a_scheduler(path, profiles="synergy")
    scheduler.start()
    agents = [PlayedAgent(scheduler, "n0"), PlayedAgent(scheduler, "n1")]
    submit(scheduler, *[{"steps": 10**6, "profile": "res18"} for _ in range(10)])
    wait_rounds(scheduler, agents, 2)
    for turn in TURNS[:3]:
        change(scheduler, **turn)
        wait_rounds(scheduler, agents, 2)
        if snapshot:
            ask(
                scheduler, lambda _: ([], lambda: scheduler._recovery.save(scheduler._recovered, scheduler.clock.now()))
            )
    scheduler.stop()
    before = scheduler._recovered

    again = a_scheduler(path, profiles="synergy")
    try:
        assert again.options.policy == "fifo"
        assert again.mechanism_name == "greedy"
        assert again.registry == before.registry
        assert again._recovered.state.saved() == before.state.saved()
        assert again._recovered.trigger.saved() == before.trigger.saved()
    finally:
        again.stop()


def test_what_was_set_live_counts_more_than_the_command_line_until_it_is_discarded(tmp_path, caplog):
    path = tmp_path / "state.db"
    scheduler = a_scheduler(path, policy="las")
    scheduler.start()
    PlayedAgent(scheduler, "n0")
    change(scheduler, policy="srtf", tenants=Tenants(named={"vision": TenantSettings(weight=3.0, max_running=2)}))
    scheduler.stop()

    with caplog.at_level(logging.WARNING):
        again = a_scheduler(path, policy="fifo")
    again.start()
    kept = (again.options.policy, again.options.tenants.of("vision").max_running, again._limits.tenants)
    again.stop()
    discarded = a_scheduler(path, policy="fifo", discard_live_settings=True)
    discarded.start()
    forgotten = discarded.options.policy
    discarded.stop()
    last = a_scheduler(path, policy="fifo")
    last.stop()

    assert kept == ("srtf", 2, again.options.tenants)
    assert "stay in force and count more than the command line (policy, policy_settings, tenants)" in caplog.text
    assert forgotten == last.options.policy == "fifo"
    assert not last.registry.set_live.settings


def test_settings_of_another_version_are_refused_at_the_start_with_what_to_do(tmp_path):
    path = tmp_path / "state.db"
    scheduler = a_scheduler(path)
    scheduler.start()
    change(scheduler, policy="srtf")
    scheduler.stop()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE events SET body = replace(body, '\"srtf\"', '\"gone\"'), crc = NULL")

    with pytest.raises(ConfigError, match=r"unknown policy .gone.*--discard-live-settings"):
        a_scheduler(path)
    a_scheduler(path, discard_live_settings=True).stop()


def test_a_change_about_settings_that_are_not_in_force_any_more_is_refused(tmp_path):
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    try:
        change(scheduler, policy="srtf")
        with pytest.raises(Refused, match="changed by somebody else"):
            change(scheduler, version=0, policy="fifo")
        assert scheduler.options.policy == "srtf"
    finally:
        scheduler.stop()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "nothing was given"),
        ({"policy": "no-such"}, "unknown policy"),
        ({"policy": "./mine.py:Policy"}, "does not come with Rota"),
        ({"mechanism": "ideal"}, "can only be simulated"),
        ({"mechanism": "../x.py:M"}, "does not come with Rota"),
        ({"rule_settings": {"round_s": "nan"}}, "not possible"),
        ({"rule_settings": {"no_such": "1"}}, "field of the rules"),
        ({"policy": "las", "policy_settings": {"no_such": "1"}}, "no parameters|unknown parameter"),
        ({"fair_by": "size"}, "tenant or job"),
        ({"round_s": -1.0}, "not possible"),
        ({"round_s": float("inf")}, "not possible"),
    ],
)
def test_settings_that_make_no_sense_change_nothing(tmp_path, fields, message):
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    try:
        with pytest.raises(ConfigError, match=message):
            change(scheduler, **fields)
        assert look(scheduler, lambda registry: registry.set_live.times) == 0
    finally:
        scheduler.stop()


def test_jobs_run_on_if_the_new_policy_never_answers(tmp_path):
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "n0")]
        submit(scheduler, {"gpus": 2, "steps": 10**6, "profile": PROFILE})
        until(lambda: look(scheduler, lambda registry: registry.running), scheduler, agents)
        live = SettingsChange(policy="srtf").apply({}, scheduler.options)
        deciders = make_deciders(
            overlaid(scheduler.deciders.command_line, live), command_line=scheduler.deciders.command_line
        )
        deciders.policy._policy = type("Failing", (), {"allocate": lambda _self, _view: 1 / 0})()
        ask(scheduler, lambda now: scheduler.change_settings(deciders, live, 0, "tester", now))
        until(lambda: look(scheduler, lambda registry: registry.failed_decisions.count), scheduler, agents)
        wait_rounds(scheduler, agents, 2)

        assert running_since_the_start(scheduler)
        assert look(scheduler, lambda registry: registry.running)
    finally:
        scheduler.stop()


def test_rounds_of_another_length_begin_with_the_next_one(tmp_path):
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "n0")]
        submit(scheduler, {"steps": 10**6})
        wait_rounds(scheduler, agents, 1)
        change(scheduler, round_s=240.0)
        until(lambda: scheduler.round_start % 240.0 == 0.0, scheduler, agents)
        begin = scheduler.round_start
        seen = set()

        def three_rounds_later():
            seen.add(scheduler.round_start)
            return scheduler.round_start >= begin + 3 * 240.0

        until(three_rounds_later, scheduler, agents)

        assert {start % 240.0 for start in seen} == {0.0}
        assert running_since_the_start(scheduler)
    finally:
        scheduler.stop()


def test_differences_between_settings_name_the_tenant_and_the_limit():
    default = TenantSettings(max_queued=10)
    before = {"policy": "las", "tenants": Tenants().described()}
    after = {"policy": "las", "tenants": Tenants(named={"vision": default}).described()}

    assert differences(before, after) == ["tenant vision: max_queued: 20000 -> 10"]
    assert differences(before, before) == []
