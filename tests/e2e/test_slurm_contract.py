"""The contract of every provider: a place where agents run. Add yours to the parameters of `provider`."""

import os
import sys

import pytest

import real_slurm
from live import alive, until
from rota.deploy.local.processes import Lifeline
from rota.deploy.providers.local import LocalProcesses
from rota.deploy.providers.port import PilotOrder, PilotPhase, PlaceRefused, PlaceSilent
from rota.deploy.providers.slurm.commands import SlurmCommands
from rota.deploy.providers.slurm.provider import SlurmProvider
from rota.deploy.providers.slurm.settings import SlurmSettings

AGENT = (
    "import signal, sys, time\n"
    "def leave(number, _):\n    open(sys.argv[1] + '.told', 'w').write(str(number)); sys.exit(0)\n"
    "signal.signal(signal.SIGUSR1, leave); signal.signal(signal.SIGTERM, leave)\n"
    "open(sys.argv[1], 'w').write(str(__import__('os').getpid())); time.sleep(300)"
)
"""A program that says that it is there, and leaves when it is told to."""


@pytest.fixture(scope="module")
def slurm():
    with real_slurm.RealSlurm(nodes=1) as running:
        yield running


@pytest.fixture(params=["local", "slurm"])
def provider(request, monkeypatch, tmp_path):
    if request.param == "local":
        lifeline = Lifeline()
        place = LocalProcesses(lifeline=lifeline)
        yield place
        place.cancel([pilot.id for pilot in place.list()], gently=False)
        lifeline.close()
        return
    if why := real_slurm.missing():
        pytest.skip(f"Slurm: {why}")
    monkeypatch.setenv("SLURM_CONF", str(request.getfixturevalue("slurm").conf))
    place = SlurmProvider("contract", SlurmSettings(partition="gpu", gres="gpu:v100:1"), logs=tmp_path)
    yield place
    place.cancel([pilot.id for pilot in place.list() if pilot.phase is not PilotPhase.OVER], gently=False)
    until(lambda: all(pilot.phase is PilotPhase.OVER for pilot in place.list()), 20)


@pytest.fixture
def silence(provider, tmp_path):
    """Makes all commands of a place do something else."""
    if isinstance(provider, LocalProcesses):
        pytest.skip("this machine always answers")
    folder = tmp_path / "bin"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as broken:

        def answer(script):
            for name in ("squeue", "sbatch", "scancel", "scontrol", "sinfo"):
                (folder / name).write_text(f"#!/bin/sh\n{script}\n")
                (folder / name).chmod(0o755)
            broken.setenv("PATH", f"{folder}:{os.environ['PATH']}")
            broken.setattr(provider, "commands", SlurmCommands(timeout_s=1.0))

        yield answer


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
    assert (status.id, status.phase, bool(status.host)) == (number, PilotPhase.RUNNING, True)
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


def test_a_place_refuses_in_its_own_words(provider, tmp_path):
    if isinstance(provider, SlurmProvider):
        provider.settings = SlurmSettings(partition="nosuch", gres="gpu:v100:1")
        with pytest.raises(PlaceRefused, match="invalid partition specified: nosuch"):
            provider.submit(an_order(tmp_path, "contract-3"))
    else:
        with pytest.raises(PlaceRefused, match="cannot be started"):
            provider.submit(an_order(tmp_path, "contract-3", "/no/such/program"))


def test_all_pilots_are_listed_by_one_question(provider, tmp_path):
    numbers = [provider.submit(an_order(tmp_path, f"contract-{i}")) for i in (4, 5, 6)]
    before = provider.commands.calls.get("squeue", 0) if isinstance(provider, SlurmProvider) else 0

    listed = {pilot.name: pilot.id for pilot in provider.list()}

    assert [listed[f"contract-{i}"] for i in (4, 5, 6)] == numbers
    assert isinstance(provider, LocalProcesses) or provider.commands.calls["squeue"] == before + 1


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


def test_a_folder_may_have_a_strange_name(provider, tmp_path):
    folder = tmp_path / "100%j | of 'it'"
    folder.mkdir()
    if isinstance(provider, SlurmProvider):
        provider.logs = folder
    provider.submit(an_order(folder, "contract-8", "/bin/sh", "-c", "echo 100%j >&2"))

    until(lambda: is_over(provider, "contract-8"), 20)
    assert (folder / "contract-8.log").read_text() == "100%j\n"
