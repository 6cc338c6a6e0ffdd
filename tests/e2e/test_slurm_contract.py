"""The contract of every provider: a place where agents run. Add yours to `PLACES`."""

import contextlib
import os
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import real_slurm
from live import alive, until
from rota.deploy.local.processes import Lifeline
from rota.deploy.providers.local import LocalProcesses
from rota.deploy.providers.port import PilotOrder, PilotPhase, PlaceRefused, PlaceSilent, Provider
from rota.deploy.providers.slurm.commands import SlurmCommands
from rota.deploy.providers.slurm.provider import SlurmProvider
from rota.deploy.providers.slurm.settings import SlurmSettings

GUIDE = Path(__file__).parents[2] / "docs" / "add-a-provider.md"
AGENT = (
    "import signal, sys, time\n"
    "def leave(number, _):\n    open(sys.argv[1] + '.told', 'w').write(str(number)); sys.exit(0)\n"
    "signal.signal(signal.SIGUSR1, leave); signal.signal(signal.SIGTERM, leave)\n"
    "open(sys.argv[1], 'w').write(str(__import__('os').getpid())); time.sleep(300)"
)
"""A program that says that it is there, and leaves when it is told to."""


@dataclass(frozen=True)
class Place:
    """A provider, and what a test has to do with its place. None: that does not happen there."""

    provider: Provider
    refuse: Callable[[], str] | None = None
    """Makes it refuse what it is asked next; a part of its own words."""
    again: Callable[[], Provider] | None = None
    """Another provider of the same pilots, as after the first one was killed."""
    broken: Callable[[], SlurmCommands] | None = None
    """Makes it use these commands, which a test replaces by its own."""
    asked: Callable[[], int] | None = None
    """How often the place was asked what is there."""
    logs: Callable[[Path], None] = lambda _: None
    """Says in which folder logs are."""


@contextlib.contextmanager
def local(_request, _folder):
    lifeline = Lifeline()
    place = LocalProcesses(lifeline=lifeline)
    yield Place(place)
    place.cancel([pilot.id for pilot in place.list()], gently=False)
    lifeline.close()


@contextlib.contextmanager
def of_the_guide(_request, folder):
    """The one that docs/add-a-provider.md has for an example."""
    code = GUIDE.read_text(encoding="utf-8").split("```python\n# my_place.py\n")[1].split("```")[0]
    (folder / "my_place.py").write_text(code)
    yield Place(runpy.run_path(str(folder / "my_place.py"))["MyPlace"]())


@contextlib.contextmanager
def slurm(request, folder):
    if why := real_slurm.missing():
        pytest.skip(f"Slurm: {why}")
    conf = str(request.getfixturevalue("one_node").conf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", conf)
        place = SlurmProvider("contract", SlurmSettings(partition="gpu", gres="gpu:v100:1"), logs=folder)

        def refuse():
            place.settings = SlurmSettings(partition="nosuch", gres="gpu:v100:1")
            return "invalid partition specified: nosuch"

        def broken():
            place.commands = SlurmCommands(timeout_s=1.0)
            return place.commands

        def logs(where):
            place.logs = where

        yield Place(
            place,
            refuse,
            lambda: SlurmProvider("contract", place.settings, logs=folder),
            broken,
            lambda: place.commands.calls.get("squeue", 0),
            logs,
        )


PLACES = {"local": local, "guide": of_the_guide, "slurm": slurm}


@pytest.fixture(scope="module")
def one_node():
    with real_slurm.RealSlurm(nodes=1) as running:
        yield running


@pytest.fixture(params=PLACES)
def place(request, tmp_path):
    with PLACES[request.param](request, tmp_path) as found:
        yield found
        provider = found.provider
        provider.cancel([one.id for one in provider.list() if one.phase is not PilotPhase.OVER], gently=False)
        until(lambda: all(one.phase is PilotPhase.OVER for one in provider.list()), 20)


@pytest.fixture
def provider(place):
    return place.provider


@pytest.fixture
def silence(place, tmp_path):
    """Makes all commands of a place do something else."""
    if place.broken is None:
        pytest.skip("this place always answers")
    folder = tmp_path / "bin"
    folder.mkdir()
    right = place.provider.commands
    with pytest.MonkeyPatch.context() as broken:

        def answer(script):
            for name in ("squeue", "sbatch", "scancel", "scontrol", "sinfo"):
                (folder / name).write_text(f"#!/bin/sh\n{script}\n")
                (folder / name).chmod(0o755)
            broken.setenv("PATH", f"{folder}:{os.environ['PATH']}")
            place.broken()

        yield answer
    place.provider.commands = right


def an_order(tmp_path, name="contract-0", *words):
    return PilotOrder(name=name, command=words or ("/bin/sleep", "300"), log=tmp_path / f"{name}.log")


def an_agent(tmp_path, name):
    return an_order(tmp_path, name, sys.executable, "-c", AGENT, str(tmp_path / name))


def status_of(provider, name):
    return next((pilot for pilot in reversed(provider.list()) if pilot.name == name), None)


def is_over(provider, name):
    return status_of(provider, name).phase is PilotPhase.OVER


def test_a_pilot_is_listed_by_its_name_until_it_is_cancelled_and_then_nothing_of_it_runs(provider, tmp_path):
    number = provider.submit(an_agent(tmp_path, "contract-0"))

    there = until(lambda: (tmp_path / "contract-0").exists() and (tmp_path / "contract-0").read_text(), 20)
    status = status_of(provider, "contract-0")
    assert (status.id, status.phase) == (number, PilotPhase.RUNNING)
    provider.cancel([number], gently=False)
    until(lambda: is_over(provider, "contract-0"), 20)
    assert not alive(int(there))


def test_a_pilot_is_told_to_leave_and_its_output_is_in_its_log(provider, tmp_path):
    script = "echo out >&2; trap 'exit 0' USR1 TERM; touch \"$1\"; while true; do sleep 0.1; done"
    number = provider.submit(
        an_order(tmp_path, "contract-1", "/bin/sh", "-c", script, "sh", str(tmp_path / "there is 100% of it"))
    )
    until((tmp_path / "there is 100% of it").exists, 20)

    provider.cancel([number], gently=True)

    until(lambda: is_over(provider, "contract-1"), 20)
    assert (tmp_path / "contract-1.log").read_text() == "out\n"


def test_a_pilot_that_ends_by_itself_is_over_with_a_reason_and_cancelling_it_is_no_error(provider, tmp_path):
    number = provider.submit(an_order(tmp_path, "contract-2", "/bin/sh", "-c", "exit 7"))

    until(lambda: is_over(provider, "contract-2"), 20)
    assert status_of(provider, "contract-2").reason
    provider.cancel([number], gently=False)
    provider.cancel([number], gently=True)
    provider.cancel([], gently=True)


def test_a_place_describes_itself(provider):
    place = provider.describe()

    assert place.words
    assert place.end_s > 0


def test_a_place_refuses_in_its_own_words(place, tmp_path):
    words = "No such file" if place.refuse is None else place.refuse()

    with pytest.raises(PlaceRefused, match=words):
        place.provider.submit(an_order(tmp_path, "contract-3", "/no/such/program"))


def test_all_pilots_are_listed_by_one_question(place, tmp_path):
    numbers = [place.provider.submit(an_order(tmp_path, f"contract-{i}")) for i in (4, 5, 6)]
    before = 0 if place.asked is None else place.asked()

    listed = {pilot.name: pilot.id for pilot in place.provider.list()}

    assert [listed[f"contract-{i}"] for i in (4, 5, 6)] == numbers
    assert place.asked is None or place.asked() == before + 1


def test_a_pilot_is_found_by_its_name_when_its_provider_was_killed(place, tmp_path):
    if place.again is None:
        pytest.skip("here pilots end with their provider")
    number = place.provider.submit(an_order(tmp_path, "contract-9"))

    again = place.again()

    found = status_of(again, "contract-9")
    assert (found.id, found.phase is PilotPhase.OVER) == (number, False)
    again.cancel([number], gently=False)
    until(lambda: is_over(place.provider, "contract-9"), 20)


@pytest.mark.parametrize(
    "script", ["exit 0", "echo JOBID", "echo '<html>504 Gateway Timeout</html>'", "echo 'a|b|c|d|e|f|g'", "sleep 300"]
)
def test_silence_and_nonsense_are_no_empty_place(provider, silence, script):
    silence(script)

    with pytest.raises(PlaceSilent):
        provider.list()


def test_a_command_that_hangs_leaves_nothing_behind(provider, silence, tmp_path):
    silence(f"sleep 299 & echo $! > {tmp_path}/child; wait")

    with pytest.raises(PlaceSilent, match="squeue did not answer within 1 s"):
        provider.list()

    until(lambda: not alive(int((tmp_path / "child").read_text())), 5)


def test_an_order_that_says_something_strange_is_no_pilot(provider, silence, tmp_path):
    silence("echo 'Submitted batch job 7'")

    with pytest.raises(PlaceSilent, match="instead of the number of a job"):
        provider.submit(an_order(tmp_path, "contract-7"))


def test_a_folder_may_have_a_strange_name(place, tmp_path):
    folder = tmp_path / "100%j | of 'it'"
    folder.mkdir()
    place.logs(folder)
    place.provider.submit(an_order(folder, "contract-8", "/bin/sh", "-c", "echo 100%j >&2"))

    until(lambda: is_over(place.provider, "contract-8"), 20)
    assert (folder / "contract-8.log").read_text() == "100%j\n"
