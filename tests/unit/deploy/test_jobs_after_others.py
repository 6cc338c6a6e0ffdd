"""Jobs that come after others: nobody starts too early, nobody waits for ever, and what can never start is told so."""

import random
from types import SimpleNamespace

import pytest
from engine_harness import EngineHarness
from harness import Harness, ends

from rota.core.errors import ConfigError
from rota.core.job_spec import spec_from
from rota.core.lifecycle import JobPhase
from rota.deploy.job_files import read_jobs
from rota.deploy.job_parts import entry_heads, in_part
from rota.deploy.scheduler.cluster_facts import cluster_as_it_is
from rota.deploy.scheduler.options import Retention
from rota.deploy.scheduler.predecessors import unmet_dependents
from rota.deploy.scheduler.queue_index import QueueIndex
from rota.deploy.scheduler.reasons import ReasonCode, Reasons
from rota.deploy.scheduler.requests import Refused
from rota.deploy.tenants import Tenants, TenantSettings

MODEL = "ResNet-18 (batch size 32)"
PARTS = {"policy": "las", "mechanism": "proportional", "profiles": "gavel"}


def submit(harness, *entries, request=""):
    jobs = [spec_from({"steps": 1000, "profile": MODEL, "emulated": True, **fields}) for fields in entries]
    return harness.ask(lambda now: harness.requests.submit(jobs, "tester", request, now))


def a_cluster(gpus=4):
    harness = EngineHarness(**PARTS)
    harness.join("a", gpus)
    return harness


def end(harness, number, outcome="completed"):
    """The agent says how a job that runs ended."""
    job = harness.job(number)
    step = 1000 if outcome == "completed" else 5
    harness.report(job.attempt.parts[0].node, {number: ends(outcome, step=step, saved_step=step)})


def running(harness):
    return set(harness.registry.running)


def explained(harness, number):
    cluster = cluster_as_it_is(harness.registry, harness.clock.now())
    return Reasons(cluster, harness.catalogue, registry=harness.registry).explain(harness.job(number))


def test_a_job_starts_once_the_one_before_it_has_finished():
    harness = a_cluster()
    submit(harness, {}, {"after": [-1]})
    harness.round()
    assert running(harness) == {0}
    assert explained(harness, 1).code is ReasonCode.DEPENDENCY
    assert explained(harness, 1).sentence == "comes after job 0 (running)"

    end(harness, 0)
    harness.round()

    assert running(harness) == {1}


def test_a_job_after_a_failed_one_is_cancelled_with_the_reason_and_so_is_its_chain():
    harness = a_cluster()
    submit(harness, {"max_restarts": 0}, {"after": [-1]}, {"after": [-2]}, {"after_any": [-3]}, {"after_any": [-1]})
    harness.round()

    end(harness, 0, "failed")

    assert [harness.phase(n) for n in (1, 2)] == [JobPhase.CANCELLED] * 2
    assert harness.job(1).reason == "cancelled: it comes after job 0, which failed (--after)"
    assert harness.job(2).reason == "cancelled: it comes after job 1, which was cancelled (--after)"
    harness.round()
    assert running(harness) == {3, 4}


def test_a_cancelled_job_that_still_stops_is_not_over():
    harness = a_cluster()
    submit(harness, {}, {"after_any": [-1]})
    harness.round()
    harness.silent.add("a")  # it does not hear that it has to stop
    harness.cancel(0)
    harness.loop.turn(0.0)

    assert harness.job(0).ending
    assert explained(harness, 1).code is ReasonCode.DEPENDENCY


def test_a_job_after_an_array_waits_for_all_of_it():
    harness = a_cluster(2)
    submit(harness, {"array": "0-2"}, {"after": [-1]})
    for expected in ({0, 1}, {2}):
        harness.round()
        assert running(harness) - {3} == expected
        assert 3 not in running(harness)
        for number in running(harness):
            end(harness, number)
    harness.round()

    assert running(harness) == {3}


def test_one_failed_job_of_an_array_is_enough_to_cancel_those_after_it():
    harness = a_cluster(4)
    submit(harness, {"array": "0-2", "max_restarts": 0}, {"after": [-1]}, {"after_any": [-1]})
    harness.round()

    end(harness, 1, "failed")

    assert harness.job(3).reason == "cancelled: it comes after job 1 of array 0, which failed (--after)"
    assert explained(harness, 4).sentence == "comes after array 0 (2 of its jobs not over, 2 running)"


@pytest.mark.parametrize("retention", [Retention(), Retention(keep_finished_s=0.0, keep_finished_jobs=0)])
def test_a_job_after_one_that_is_over_starts_or_is_cancelled_at_once(retention):
    harness = EngineHarness(**PARTS, retention=retention)
    harness.join("a", 4)
    submit(harness, {}, {"array": "0-1"})
    harness.round()
    end(harness, 0)
    harness.cancel(2)
    for _ in range(3):
        harness.round()

    submit(harness, {"after": [0], "after_any": [2]}, {"after": [2]}, {"after": [1]}, {"after": [-2]})
    harness.round()

    assert 3 in running(harness)
    known = {**harness.journal.finished, **harness.registry.jobs}
    assert known[4].reason == "cancelled: it comes after job 2, which was cancelled (--after)"
    assert known[5].reason == "cancelled: it comes after job 2 of array 1, which was cancelled (--after)"
    assert known[6].phase is JobPhase.CANCELLED
    spec = spec_from({"steps": 1, "profile": MODEL, "emulated": True, "after": [2]})
    with pytest.raises(Refused, match="would not start, but be cancelled: it comes after job 2"):
        harness.ask(lambda _: harness.requests.dry_run([spec]))


@pytest.mark.parametrize("number", [1, 2, 999, 2**50])
def test_the_jobs_of_others_and_jobs_that_are_not_there_are_refused_with_the_same_words(number):
    harness = Harness()
    for owner in ("mine", "theirs"):
        harness.submit(tenant=owner)
    asked = [spec_from({"steps": 1, "profile": "fast", "emulated": True, "tenant": "mine", "after": [number]})]

    with pytest.raises(Refused) as refusal:
        harness.ask(lambda now: harness.requests.submit(asked, "me", "", now))

    assert str(refusal.value) == f"there is no job {number}"
    assert refusal.value.status == "NOT_FOUND"
    assert len(harness.registry.jobs) == 2


def test_jobs_of_two_tenants_in_one_submission_cannot_come_after_each_other():
    harness = Harness()
    common = {"steps": 1, "profile": "fast", "emulated": True}
    specs = [spec_from({**common, "tenant": "a"}), spec_from({**common, "tenant": "b", "after": [-1]})]

    with pytest.raises(Refused, match="there is no job 0"):
        harness.ask(lambda now: harness.requests.submit(specs, "admin", "", now))


@pytest.mark.parametrize("after", [[-1], [-2], [-3], [-100000]])
def test_an_entry_cannot_come_after_itself_or_a_later_one(after):
    harness = Harness()

    with pytest.raises(Refused, match="an entry can only wait for those before it"):
        submit(harness, {"profile": "fast", "after": after}, {"profile": "fast"})


def test_a_job_that_others_wait_for_stays_in_memory_until_they_are_over():
    harness = EngineHarness(**PARTS, retention=Retention(keep_finished_s=0.0, keep_finished_jobs=0))
    harness.join("a", 1)
    submit(harness, {"gpus": 1}, {"gpus": 1})
    harness.round()
    (first,) = running(harness)
    submit(harness, {"after_any": [first], "gpus": 1, "after": [1 - first]})
    end(harness, first)
    for _ in range(3):
        harness.round()

    assert first in harness.registry.jobs
    end(harness, 1 - first)
    for _ in range(3):
        harness.round()
    end(harness, 2)
    for _ in range(3):
        harness.round()
    assert not harness.registry.jobs


@pytest.mark.parametrize("seed", range(8))
def test_in_a_random_graph_nobody_starts_too_early_and_everybody_ends(seed):
    """Jobs fail and are cancelled, the scheduler is killed and started again; what is left comes to its end."""
    random_numbers = random.Random(seed)
    harness = a_cluster(3)
    specs = []
    for number in range(14):
        before = [-(n + 1) for n in range(number) if random_numbers.random() < 0.25]
        split = random_numbers.randrange(len(before) + 1)
        array = random_numbers.choice(["", "", "0-2", "0-3%1"])
        specs.append({"after": before[:split], "after_any": before[split:], "array": array, "max_restarts": 0})
    numbers = submit(harness, *specs)
    for _ in range(150):
        harness.round()
        assert_nobody_is_too_early(harness)
        for number in running(harness):
            if random_numbers.random() < 0.7:
                end(harness, number, random_numbers.choice(["completed", "completed", "completed", "failed"]))
        if random_numbers.random() < 0.1 and harness.registry.live:
            harness.cancel(random_numbers.choice(sorted(harness.registry.live)))
        if random_numbers.random() < 0.1:
            harness = harness.restarted()
        if not harness.registry.live:
            break

    assert not harness.registry.live
    assert set(harness.registry.jobs) == set(numbers)
    assert_cancelled_only_for_a_reason(harness)


def ended(harness, number):
    """Whether a job or an array is over: nothing of it runs."""
    return all(job.ending and job.attempt is None for job in harness.registry.queue.members(number))


def well(harness, number):
    members = harness.registry.queue.members(number)
    return all((job.final_phase or job.phase) is JobPhase.FINISHED for job in members)


def assert_nobody_is_too_early(harness):
    for number in running(harness):
        spec = harness.job(number).spec
        assert all(ended(harness, before) for before in (*spec.after, *spec.after_any))
        assert all(well(harness, before) for before in spec.after)
    for array, members in harness.registry.queue.arrays.items():
        limited = harness.job(min(members)).spec.array.endswith("%1")
        assert not limited or sum(harness.job(n).attempt is not None for n in members) <= 1, array


def assert_cancelled_only_for_a_reason(harness):
    for job in harness.registry.jobs.values():
        if "comes after" in job.reason:
            assert not all(well(harness, before) for before in job.spec.after)


def test_entries_of_a_later_message_find_jobs_of_the_ones_before():
    specs = [spec_from({"argv": ["x"], "array": "0-2"}), spec_from({"argv": ["x"]}), spec_from({"argv": ["x"]})]
    heads = entry_heads(specs, [10, 11, 12, 13])

    assert heads == [10, 13]
    told = in_part(spec_from({"argv": ["x"], "after": [-1, -3, 5], "after_any": [-2]}), heads)
    assert told.after == (10, -1, 5)
    assert told.after_any == (13,)


# Files


def written(tmp_path, text):
    path = tmp_path / "jobs.toml"
    path.write_text(text, encoding="utf-8")
    return path


TABLES = """
[[job]]
name = "evaluate"
after = ["train", 7]
command = "e"
[[job]]
name = "train"
count = 2
after_any = "prepare"
command = "t"
[[job]]
name = "prepare"
command = "p"
"""


def test_jobs_of_a_file_come_after_each_other_by_name_in_any_order(tmp_path):
    jobs = read_jobs(written(tmp_path, TABLES))

    assert [job.name for job in jobs] == ["prepare", "train", "train", "evaluate"]
    assert jobs[1].after_any == (-1,)
    assert jobs[3].after == (-2, -3, 7)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ('"evaluate"', r"jobs.toml:\d+: these jobs wait for each other .* 'evaluate' after 'train' after"),
        ('"prepare"', r"jobs.toml:13: these jobs wait for each other .* 'prepare' after 'prepare'"),
        ('"prepaer"', r"jobs.toml:13: after names 'prepaer', which .*; did you mean 'prepare'"),
        ("-1", r"jobs.toml:13: after has -1; give names of tables of this file or numbers of jobs"),
        ("1.5", r"jobs.toml:13: after = 1.5 is not the name of a job of this file"),
        ("[[1]]", r"jobs.toml:13: after has \[1\]"),
        ("true", r"jobs.toml:13: after = True is not"),
    ],
)  # fmt: skip
def test_circles_and_names_that_are_not_there_are_refused_with_their_line(tmp_path, after, message):
    text = TABLES.replace('name = "prepare"', f'name = "prepare"\nafter = {after}')

    with pytest.raises(ConfigError, match=message):
        read_jobs(written(tmp_path, text))


def index_of(registry):
    """What is known of dependencies, in a form that can be compared."""
    index = registry.queue.dependencies
    return index.unmet, index.doomed, +index.edges, set(index.names), set(index.dependents)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_of_dependencies_is_the_same_as_if_it_were_made_anew_whatever_happens(seed):
    numbers = random.Random(seed)
    harness = a_cluster(4)
    for step in range(40):
        jobs = sorted(harness.registry.jobs)
        live = sorted(harness.registry.live)
        what = numbers.random()
        if what < 0.5 or not live:
            before = numbers.sample(jobs, min(len(jobs), numbers.randrange(4)))
            fields = {"array": "0-3%2"} if what < 0.15 else {}
            submit(harness, {"after": before[:2], "after_any": before[2:], "max_restarts": 0, **fields})
        elif what < 0.6:
            harness.cancel(numbers.choice(live))
        elif what < 0.8 and running(harness):
            end(harness, numbers.choice(sorted(running(harness))), numbers.choice(["completed", "failed"]))
        else:
            harness.round()
        fresh = SimpleNamespace(queue=QueueIndex(dict(harness.registry.jobs)))

        assert index_of(harness.registry) == index_of(fresh), f"after step {step}"
    assert harness.registry.queue.numbers("") == sorted(harness.registry.jobs)


def test_dependencies_of_a_tenant_beyond_its_limit_are_refused_before_they_are_looked_at():
    tenants = Tenants(default=TenantSettings(max_dependencies=10))
    harness = Harness()
    harness.requests._limits.limits.tenants = tenants
    array = harness.submit(array="0-9", hold=True)
    common = {"steps": 1000, "profile": "fast", "emulated": True}

    def ask(count):
        specs = [spec_from({**common, "after": [array], "hold": True})] * count
        return harness.ask(lambda now: harness.requests.submit(specs, "tester", "", now))

    jobs = ask(10)
    with pytest.raises(Refused, match=r"after 10 jobs .*, and 1 more would be above its 10 \(max_dependencies\)"):
        ask(1)
    harness.cancel(jobs[0])
    ask(1)


def test_many_jobs_that_wait_for_many_others_do_not_hold_up_the_scheduler():
    """What is known about them is computed again when a job comes or ends, not with every look."""
    harness = Harness()
    harness.submit(array="0-1999")
    numbers = random.Random(0)
    common = {"steps": 1000, "profile": "fast", "emulated": True}
    specs = [spec_from({**common, "after_any": numbers.sample(range(1, 2000), 40)}) for _ in range(500)]
    harness.ask(lambda now: harness.requests.submit(specs, "tester", "", now))
    version = harness.registry.queue.version
    first = unmet_dependents(harness.registry)

    harness.wait(1.0)

    assert unmet_dependents(harness.registry) is first
    assert harness.registry.queue.version == version
    assert len(first) == 500
