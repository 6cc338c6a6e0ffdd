"""The keeper of a pool between two lines: killed, refused, and with nobody who answers."""

import errno
import os
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rota.core.errors import ConfigError, RotaError
from rota.deploy.providers.backoff import Backoff
from rota.deploy.providers.keeper import Keeper
from rota.deploy.providers.pool import SILENT_S, PilotRecord, PilotState
from rota.deploy.providers.pool_folder import PoolFolder, PoolSettings
from rota.deploy.providers.port import PilotPhase, PilotStatus, PlaceDescription, PlaceRefused, PlaceSilent
from rota.deploy.providers.slurm.settings import SlurmSettings
from rota.rpc import rota_pb2 as pb
from secure import a_site


def a_job(gpus, reason="queued", **spec):
    return SimpleNamespace(spec=pb.JobSpec(gpus=gpus, **spec), reason_code=reason)


class APlace:
    """A place in memory, in which things go wrong as a test wants it."""

    def __init__(self):
        self.jobs = {}
        self.trouble = None
        self.unheard = None
        self.forgotten = set()
        self.asked = 0
        self.cancelled = []
        self.deaf = False
        self.reason = "CANCELLED"
        self.meanwhile = lambda: None
        """What others do while it accepts a pilot."""

    def describe(self):
        return PlaceDescription(words="a place", gpus=4, gpu_type="v100")

    def submit(self, order):
        self.asked += 1
        if self.trouble is not None or self.unheard is not None:
            raise self.trouble or self.unheard
        self.jobs[order.name] = PilotPhase.PENDING
        self.meanwhile()
        return f"id-{order.name}"

    def list(self):
        if isinstance(self.trouble, PlaceSilent):
            raise self.trouble
        known = {name: phase for name, phase in self.jobs.items() if name not in self.forgotten}
        return [
            PilotStatus(name=name, id=f"id-{name}", phase=phase, reason=self.reason) for name, phase in known.items()
        ]

    def cancel(self, ids, *, gently):
        self.cancelled += [(one, gently) for one in ids]
        if ids and self.deaf:
            raise PlaceSilent("Socket timed out")


class AScheduler:
    """What a keeper asks of a scheduler."""

    def __init__(self):
        self.there = {}
        self.waiting = []
        self.trouble = None
        self.removed = []
        self.jobs_on = {}

    def nodes(self):
        if self.trouble is not None:
            raise self.trouble
        return [
            SimpleNamespace(node=name, state=state, busy=0, gpus=4, jobs=self.jobs_on.get(name, []), last_seen_s=0.0)
            for name, state in self.there.items()
        ]

    def jobs(self, phases, *, limit):
        del phases, limit
        return [a_job(job) if isinstance(job, int) else job for job in self.waiting]

    def remove_node(self, name):
        self.removed.append(name)


@pytest.fixture
def pool(tmp_path):
    certs = a_site(tmp_path / "certs")
    place, scheduler = APlace(), AScheduler()
    settings = PoolSettings(
        name="gpu", least=2, most=4, slurm=SlurmSettings(gres="gpu:v100:4"), scheduler="localhost:1", certs=str(certs)
    )
    folder = PoolFolder(path=tmp_path / "pool")
    folder.make()
    folder.write_settings(settings)

    def keeper():
        said = []
        made = Keeper(folder=folder, settings=settings, provider=place, client=scheduler, tell=said.append)
        made.said = said
        return made

    return SimpleNamespace(place=place, scheduler=scheduler, folder=folder, keeper=keeper)


def test_a_pool_is_filled_and_every_pilot_has_a_ticket_of_its_own(pool):
    pool.keeper().turn()

    assert set(pool.place.jobs) == {"gpu-0", "gpu-1"}
    assert (pool.folder.ticket("gpu-1") / "join.key").is_file()


def test_a_keeper_that_is_started_again_asks_for_nothing_twice(pool):
    pool.keeper().turn()

    pool.keeper().turn()

    assert pool.place.asked == 2


def test_a_keeper_killed_between_asking_and_hearing_finds_what_was_accepted(pool):
    pool.folder.write_pilots([PilotRecord(name="gpu-0", asked_at=0.0)], 0)
    pool.place.jobs["gpu-0"] = PilotPhase.RUNNING

    again = pool.keeper()
    again.turn()

    assert [record.id for record in again.records if record.name == "gpu-0"] == ["id-gpu-0"]
    assert set(pool.place.jobs) == {"gpu-0", "gpu-1"}


def test_a_keeper_that_lost_its_folder_finds_its_pilots_by_their_names(pool):
    pool.keeper().turn()
    (pool.folder.path / "pilots.json").unlink()

    again = pool.keeper()
    again.turn()

    assert {record.name for record in again.records} == {"gpu-0", "gpu-1"}
    assert pool.place.asked == 2


def test_a_place_that_is_silent_is_no_empty_place(pool):
    keeper = pool.keeper()
    keeper.turn()
    pool.place.trouble = PlaceSilent("Unable to contact slurm controller (connect failure)")

    assert keeper.turn() is None
    assert keeper.turn() is None

    assert pool.place.asked == 2
    assert sum("does not answer" in line for line in keeper.said) == 1


def test_an_answer_that_never_came_is_not_asked_for_again_at_once(pool):
    keeper = pool.keeper()
    pool.place.unheard = PlaceSilent("Socket timed out")

    keeper.turn()
    keeper.turn()

    assert [record.name for record in keeper.records] == ["gpu-0", "gpu-1"]
    assert {pilot.state for pilot in keeper.turn()} == {PilotState.SUBMITTING}


def test_a_refusal_is_told_in_the_words_of_the_place_and_not_repeated_at_once(pool):
    pool.place.trouble = PlaceRefused("Batch job submission failed: Job violates accounting/QOS policy")
    keeper = pool.keeper()

    keeper.turn()
    keeper.turn()

    assert pool.place.asked == 1
    assert "violates accounting/QOS policy" in keeper.said[0]
    assert pool.folder.status()["refused"] == "Batch job submission failed: Job violates accounting/QOS policy"
    assert keeper.records == []


def test_pauses_after_refusals_grow_up_to_a_quarter_of_an_hour():
    backoff = Backoff()

    pauses = [backoff.refused("no", 0.0) for _ in range(7)]

    assert pauses == [30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 900.0]


def test_a_silent_scheduler_changes_nothing(pool):
    keeper = pool.keeper()
    keeper.turn()
    pool.scheduler.trouble = RotaError("connection refused")

    keeper.turn()

    assert (pool.place.asked, pool.place.cancelled) == (2, [])


def test_jobs_that_wait_make_it_grow_and_a_stopped_pool_starts_nothing(pool):
    keeper = pool.keeper()
    pool.scheduler.waiting = [4, 4, 4]
    keeper.turn()
    assert pool.place.asked == 3

    pool.folder.write_settings(type(keeper.settings)(**{**vars(keeper.settings), "stopped": True}))
    pool.place.jobs = dict.fromkeys(pool.place.jobs, PilotPhase.OVER)
    keeper.turn()

    assert pool.place.asked == 3


@pytest.mark.parametrize(
    "job",
    [
        a_job(4, "held"),
        a_job(4, "dependency"),
        a_job(4, "tenant-limit"),
        a_job(4, "quota"),
        a_job(4, types=["a100"]),
        a_job(4, exclude_types=["v100"]),
    ],
)
def test_a_pool_does_not_grow_for_jobs_that_more_of_its_gpus_would_not_start(pool, job):
    pool.scheduler.waiting = [4, 4, job, job]

    pool.keeper().turn()

    assert pool.place.asked == 2


def test_a_pool_grows_for_jobs_that_name_its_type(pool):
    pool.scheduler.waiting = [a_job(4, "no-servers", types=["v100", "a100"]), a_job(8, exclude_types=["k80"])]

    pool.keeper().turn()

    assert pool.place.asked == 3


def test_a_silent_scheduler_leaves_the_number_of_pilots_as_it_was(pool):
    keeper = pool.keeper()
    pool.scheduler.waiting = [4, 4, 4]
    keeper.turn()
    pool.scheduler.trouble = RotaError("connection refused")
    pool.place.jobs["gpu-0"] = PilotPhase.OVER

    keeper.turn()
    keeper.turn()

    assert set(pool.place.jobs) == {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}


def stop(pool):
    pool.folder.write_settings(replace(pool.folder.settings(), stopped=True))


def test_a_pilot_that_was_accepted_while_its_pool_was_stopped_leaves(pool):
    pool.place.meanwhile = lambda: stop(pool)

    pool.keeper().turn()

    assert pool.place.cancelled == [("id-gpu-0", True)]
    assert pool.place.asked == 1


def test_what_has_nothing_to_do_leaves_a_stopped_pool_and_what_has_a_job_is_left_to_who_stopped_it(pool):
    keeper = pool.keeper()
    keeper.turn()
    stop(pool)
    pool.place.jobs = {"gpu-0": PilotPhase.RUNNING, "gpu-1": PilotPhase.RUNNING, "gpu-2": PilotPhase.PENDING}
    pool.scheduler.there = {"gpu-0": "up", "gpu-1": "up"}
    pool.scheduler.jobs_on["gpu-0"] = [7]

    keeper.turn()
    keeper.turn()

    assert pool.place.cancelled == [("id-gpu-1", True), ("id-gpu-2", True)]


def test_a_pilot_of_a_lost_folder_that_still_waits_has_a_ticket_again(pool):
    pool.place.jobs = {"gpu-0": PilotPhase.PENDING, "gpu-1": PilotPhase.PENDING}

    pool.keeper().turn()

    assert (pool.folder.ticket("gpu-1") / "join.key").is_file()


@pytest.mark.parametrize("content", ["{}", '{"slurm": 7}', '{"slurm": {}}', "[]", "nonsense"])
def test_settings_that_cannot_be_used_are_told_with_their_file(pool, content):
    (pool.folder.path / "pool.json").write_text(content)

    with pytest.raises(ConfigError, match=r"pool\.json cannot be used"):
        pool.folder.settings()


def test_a_folder_of_somebody_else_is_refused(pool, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(ConfigError, match="belongs to another user"):
        pool.folder.make()


def test_a_pilot_that_is_over_loses_its_ticket_and_its_lost_node_is_forgotten(pool):
    keeper = pool.keeper()
    keeper.turn()
    pool.place.jobs["gpu-0"] = PilotPhase.OVER
    pool.scheduler.there["gpu-0"] = "lost"

    keeper.turn()
    keeper.turn()

    assert not pool.folder.ticket("gpu-0").exists()
    assert "gpu-0" in pool.scheduler.removed
    assert set(pool.place.jobs) == {"gpu-0", "gpu-1", "gpu-2"}


def test_a_keeper_that_lost_its_folder_gives_no_name_a_second_time(pool):
    pool.place.jobs = {"gpu-5": PilotPhase.RUNNING, "gpu-7": PilotPhase.OVER, "gpu-x": PilotPhase.OVER}

    pool.keeper().turn()
    pool.place.jobs.pop("gpu-7")
    pool.place.jobs["gpu-8"] = PilotPhase.OVER
    pool.keeper().turn()

    assert set(pool.place.jobs) == {"gpu-5", "gpu-x", "gpu-8", "gpu-9"}


def test_a_place_that_forgets_its_pilots_for_a_moment_is_not_asked_for_others(pool, monkeypatch):
    keeper = pool.keeper()
    keeper.turn()
    pool.place.forgotten = {"gpu-0", "gpu-1"}

    assert {pilot.state for pilot in keeper.turn()} == {PilotState.UNKNOWN}
    assert pool.place.asked == 2

    monkeypatch.setattr(time, "monotonic", lambda real=time.monotonic: real() + SILENT_S)
    assert {pilot.state for pilot in keeper.turn()} == {PilotState.OVER}
    assert pool.place.asked == 2
    monkeypatch.setattr(time, "monotonic", lambda real=time.monotonic: real() + SILENT_S)
    keeper.turn()

    assert pool.place.asked == 4


def test_a_pilot_that_was_given_up_and_is_there_all_the_same_counts_again(pool):
    pool.folder.write_pilots([PilotRecord(name=f"gpu-{i}", id="7", asked_at=0.0, end="ended") for i in (0, 1)], 1)
    pool.place.jobs = {"gpu-0": PilotPhase.PENDING, "gpu-1": PilotPhase.RUNNING}
    keeper = pool.keeper()

    keeper.turn()
    keeper.turn()

    assert pool.place.asked == 0
    assert [record.end for record in keeper.records] == ["", ""]
    assert (pool.folder.ticket("gpu-0") / "join.key").is_file()  # the one it had was withdrawn


def test_a_pilot_that_has_not_heard_that_it_is_to_leave_is_told_again(pool):
    keeper = pool.keeper()
    pool.place.jobs = {f"gpu-{i}": PilotPhase.RUNNING for i in range(3)}
    pool.scheduler.there = dict.fromkeys(pool.place.jobs, "up")
    keeper.settings = replace(keeper.settings, idle_s=0.0)
    pool.place.deaf = True
    keeper.turn()
    (told,) = pool.place.cancelled

    pool.place.deaf = False
    keeper.turn()
    assert pool.place.cancelled == [told, told]

    pool.scheduler.there[told[0].removeprefix("id-")] = "draining"
    keeper.turn()
    assert pool.place.cancelled == [told, told]


def test_a_disk_that_is_full_changes_nothing_and_is_told_once(pool, monkeypatch):
    keeper = pool.keeper()
    keeper.turn()
    pool.place.jobs["gpu-0"] = PilotPhase.OVER

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr("rota.core.files.replacing", full)
        assert keeper.turn() is None
        assert keeper.turn() is None
    assert pool.place.asked == 2
    (told,) = [line for line in keeper.said if "cannot be kept" in line]
    assert "No space left on device" in told

    keeper.turn()
    assert "the pool is kept again" in keeper.said
    assert pool.place.asked == 3


def test_a_pilot_whose_order_cannot_be_written_down_was_never_asked_for(pool):
    keeper = pool.keeper()
    keeper.turn()
    pool.place.jobs["gpu-0"] = PilotPhase.OVER
    pool.place.trouble = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert keeper.turn() is None
    assert [record.name for record in keeper.records] == ["gpu-0", "gpu-1"]

    pool.place.trouble = None
    keeper.turn()
    assert "gpu-3" in pool.place.jobs


def test_pilots_that_end_before_they_have_joined_are_not_asked_for_again_at_every_look(pool, monkeypatch):
    keeper = pool.keeper()
    keeper.turn()
    pool.place.jobs = dict.fromkeys(pool.place.jobs, PilotPhase.OVER)
    pool.place.reason = "FAILED"

    keeper.turn()
    keeper.turn()

    assert pool.place.asked == 2
    assert "gpu-1 ended before it had joined" in pool.folder.status()["failed"]
    assert f"see {pool.folder.log('gpu-1')}; the next try is in 30 s" in keeper.said[-1]

    monkeypatch.setattr(time, "monotonic", lambda real=time.monotonic: real() + 30.0)
    keeper.turn()
    assert pool.place.asked == 4
    pool.scheduler.there["gpu-2"] = "up"
    keeper.turn()
    assert pool.folder.status()["failed"] == ""
