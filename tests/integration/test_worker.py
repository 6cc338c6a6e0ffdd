"""A worker machine with real processes: ends told truthfully, limits that hold, agents that die and come back."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rota.client.clock import machine_s
from rota.core.errors import ConfigError, OutputError, UnknownName
from rota.deploy.worker import procs
from rota.deploy.worker.frames import STDERR, STDOUT, FrameReader, segments_in
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import Gpu, inspect
from rota.deploy.worker.limits import Enclosure, RlimitBackend, pick
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.status import ExitReason, Phase, is_supervised
from rota.deploy.worker.tasks import Lease

SECONDS = 30.0
SHIM_KILOBYTES = 12_000
AGENT_KILOBYTES = 45_000
TASK = TaskId("j1")

# A daemon as careless programs make them: another session, another group, no parent; it writes its number down.
LEAVES_A_DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1] + ".part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
if sys.argv[2] == "stay":
    time.sleep(600)
"""
AN_AGENT = """
import sys, time
from rota.deploy.worker.frames import STDERR, STDOUT, FrameReader, segments_in
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import inspect
from rota.deploy.worker.spec import TaskId, TaskSpec
host = Host(sys.argv[1], inspect())
host.start(TaskSpec(TaskId("j1"), tuple(sys.argv[2:])))
sys.stdout.write("started\\n")
sys.stdout.flush()
time.sleep(600)
"""


def until(condition, what="it"):
    """Wait for something that has no handle to wait on."""
    end = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not happen within {SECONDS:g} s"
        time.sleep(0.02)
    return found


def stop(host, task, term_after_s, kill_after_s):
    """Stop a task and wait for its end, as an agent does between other things."""
    ending = host.ending(task, term_after_s, kill_after_s, time.monotonic())
    until(lambda: ending.advance(time.monotonic()) is None, f"the end of {task}")
    return host.status(task)


def stop_all(host):
    for task in host.table.ids():
        stop(host, task, 0.0, 0.0)
        host.forget(task)


@pytest.fixture(params=["best", "plain"])
def host(request, tmp_path):
    """With the best limits that are allowed here, and with none but affinity and rlimits."""
    host = Host(tmp_path / "agent", inspect(), RlimitBackend() if request.param == "plain" else pick())
    yield host
    stop_all(host)
    host.close()


@pytest.fixture
def grouped(tmp_path):
    """Only where control groups can be written."""
    backend = pick()
    if isinstance(backend, RlimitBackend):
        pytest.skip(f"no control groups: {backend.describe()}")
    host = Host(tmp_path / "agent", inspect(), backend)
    yield host
    stop_all(host)
    host.close()


def python(code, *arguments):
    return (sys.executable, "-S", "-c", textwrap.dedent(code), *map(str, arguments))


def start(host, argv, **more):
    return host.start(TaskSpec(TASK, tuple(argv), **more))


def ended(host, task=TASK):
    status = until(lambda: (s := host.status(task)).phase is Phase.ENDED and s, f"the end of {task}")
    until(lambda: not is_supervised(host.table.path(task)), "the end of the supervisor")  # it leaves a moment later
    return status


def run(host, argv, **more):
    start(host, argv, **more)
    return ended(host)


def frames_in(folder):
    """What a supervisor wrote down, the oldest first."""
    pieces = [(folder / segment.name).read_bytes() for segment in segments_in(folder)]
    return [frame for piece in pieces for frame in FrameReader().feed(piece)]


def output(host, stream=STDOUT):
    found = frames_in(host.table.path(TASK) / "logs")
    return b"".join(frame.data for frame in found if frame.stream == stream).decode()


# Ends


@pytest.mark.parametrize(
    ("command", "code", "number", "reason"),
    [
        ("exit 0", 0, None, ExitReason.COMPLETED),
        ("exit 3", 3, None, ExitReason.FAILED),
        ("kill -9 $$", None, 9, ExitReason.KILLED),
        ("kill -SEGV $$", None, 11, ExitReason.FAILED),
    ],
)
def test_the_end_is_told_as_it_was(host, command, code, number, reason):
    status = run(host, ("sh", "-c", command))

    assert (status.exit.code, status.exit.signal, status.exit.reason) == (code, number, reason)
    assert status.started_at <= status.ended_at


def test_a_program_that_is_not_there_is_a_task_that_failed(host):
    status = run(host, ("/no/such/program",))

    assert (status.exit.code, status.exit.reason) == (127, ExitReason.FAILED)
    assert "cannot run '/no/such/program': No such file" in status.exit.detail


def test_a_folder_that_is_not_there_is_named(host):
    assert "cannot enter '/no/such/folder'" in run(host, ("true",), cwd="/no/such/folder").exit.detail


def test_output_is_kept_by_stream_and_input_is_empty(host):
    began = time.time()
    run(host, ("sh", "-c", "cat; echo out; echo err >&2"))

    assert (output(host), output(host, STDERR)) == ("out\n", "err\n")
    assert all(began <= frame.at <= time.time() for frame in frames_in(host.table.path(TASK) / "logs"))


def test_both_streams_are_kept_in_the_order_in_which_they_were_written(host):
    turns = "for i in $(seq 12); do echo out $i; sleep 0.04; echo err $i >&2; sleep 0.04; done"
    run(host, ("sh", "-c", turns))

    said = [frame.data.decode() for frame in frames_in(host.table.path(TASK) / "logs")]
    assert said == [f"{name} {i}\n" for i in range(1, 13) for name in ("out", "err")]


def test_a_log_keeps_its_end_and_not_more_than_it_may_and_knows_what_is_missing(host):
    run(host, python("for n in range(200_000): print(f'line {n:09}')"), log_mb=0.4, log_segment_mb=0.1)

    logs = host.table.path(TASK) / "logs"
    size = sum(path.stat().st_size for path in logs.iterdir())
    assert 200_000 <= size <= 500_000  # one piece more than the bound, at most
    assert output(host).endswith("line 000199999\n")
    assert segments_in(logs)[0].before + len(output(host)) == 200_000 * len("line 000000000\n")


def test_an_end_is_reported_until_it_is_acknowledged(host):
    run(host, ("sh", "-c", "exit 4"))

    assert [r.status.exit.code for r in host.reports()] == [4]
    assert [r.status.exit.code for r in host.reports()] == [4]
    host.forget(TASK)
    assert host.reports() == []


def test_logs_and_checkpoints_may_be_elsewhere(host, tmp_path):
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt/model").write_text("kept")

    run(
        host,
        ("sh", "-c", "echo out; cat $ROTA_CHECKPOINTS/model; ls $ROTA_LOGS"),
        logs=str(tmp_path / "logs"),
        checkpoints=str(tmp_path / "ckpt"),
    )

    said = b"".join(frame.data for frame in frames_in(tmp_path / "logs/j1.0.0"))
    assert said == b"out\nkept000000-0\n"


def test_a_folder_for_logs_that_cannot_be_made_is_named_and_nothing_starts(host, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(OutputError, match=r"task j1\.0\.0: cannot make folder .*file"):
        start(host, ("true",), logs=str(tmp_path / "file"))

    assert host.reports() == []


# Full disks


ON_A_SMALL_DISK = """
import pathlib, sys, time
from rota.core.errors import RotaError
from rota.deploy.worker.frames import STDERR, STDOUT, FrameReader, segments_in
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import inspect
from rota.deploy.worker.process import LAUNCH, _start_shim
from rota.deploy.worker.spec import TaskId, TaskSpec
folder = pathlib.Path(sys.argv[1])
host = Host(folder, inspect())
a, b = TaskId("a"), TaskId("b")
noisy = f"while [ ! -e {folder}/go ]; do echo 0123456789012345678901234567890123456789; done; exit 7"
host.start(TaskSpec(a, ("sh", "-c", noisy)))
second = host.table.add(TaskSpec(b, ("true",), launcher="process"))
(second / LAUNCH).write_text((host.table.path(a) / LAUNCH).read_text())
(folder / "go").symlink_to("/no/such/place/yet")
with (folder / "filler").open("ab", buffering=0) as file:
    for _ in range(200):
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            time.sleep(0.005)
try:
    _start_shim(second)
except RotaError as error:
    sys.stdout.write(f"{error}|")
(folder / "go").unlink()
(folder / "go").symlink_to("/")
time.sleep(1.2)
sys.stdout.write(f"{host.status(a).phase.value}|")
(folder / "filler").unlink()
end = time.monotonic() + 30
while host.status(a).phase.value != "ended" and time.monotonic() < end:
    time.sleep(0.02)
status = host.status(a)
sys.stdout.write(f"{status.exit and status.exit.code}|{status.output_bytes_dropped > 0}")
host.forget(a)
host.forget(b)
host.close()
"""


def test_an_exit_code_finds_room_on_a_full_disk(tmp_path):
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path}"
    if subprocess.run(["unshare", "--mount", "sh", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here")

    script = f'{mount} && exec "$0" -c "$1" {tmp_path}'
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, sys.executable, ON_A_SMALL_DISK],
            check=False,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
        )
    finally:
        for process in procs.with_environment(f"ROTA_TASK_FOLDER={tmp_path}/tasks/a.0.0"):
            procs.send(process, signal.SIGKILL)

    assert done.returncode == 0, done.stderr
    refused, meanwhile, code, dropped = done.stdout.split("|")
    assert "No space left" in refused
    assert (meanwhile, code, dropped) == ("ended", "7", "True")


# Limits


def test_a_task_sees_only_its_cpus(host):
    run(host, python("import os; print(sorted(os.sched_getaffinity(0)))"), cpus=1)

    assert json.loads(output(host)) == list(host.table.spec(TASK).cpu_ids)
    assert len(host.table.spec(TASK).cpu_ids) == 1


def test_more_cpus_than_the_machine_has_are_virtual(host):
    run(host, ("true",), cpus=1000)

    assert host.table.spec(TASK).virtual
    assert set(host.table.spec(TASK).cpu_ids) == set(host.machine.cpus)


def test_cpus_are_given_back_at_the_end(host):
    run(host, ("true",), cpus=1)

    assert host.cpus.free() == len(host.machine.cpus)


def test_a_memory_limit_ends_a_task_and_is_told(grouped):
    if "memory" not in grouped.backend.bases:
        pytest.skip("no memory controller to write")

    status = run(grouped, python("print(len(bytearray(300 << 20)))"), memory_gb=0.1)

    assert status.exit.reason is ExitReason.OUT_OF_MEMORY
    assert status.exit.signal == signal.SIGKILL
    assert output(grouped) == ""


def test_without_groups_memory_is_limited_by_failing_allocations(tmp_path):
    host = Host(tmp_path / "agent", inspect(), RlimitBackend())

    status = run(host, python("print(len(bytearray(300 << 20)))"), memory_gb=0.1)

    assert (status.exit.code, status.exit.reason) == (1, ExitReason.FAILED)
    assert "MemoryError" in output(host, STDERR)
    stop_all(host)
    host.close()


def test_a_task_that_cannot_enter_its_group_does_not_run_without_limits(tmp_path):
    class Gone(RlimitBackend):
        def enclose(self, name, limits):  # noqa: ARG002
            return Enclosure(name, {"memory": tmp_path / "gone"})

    host = Host(tmp_path / "agent", inspect(), Gone())

    status = run(host, ("touch", str(tmp_path / "it-ran")))

    assert (status.exit.code, status.exit.reason) == (125, ExitReason.FAILED)
    assert "cannot enter" in status.exit.detail
    assert not (tmp_path / "it-ran").exists()
    stop_all(host)
    host.close()


def test_a_fraction_of_a_cpu_is_a_quota(grouped):
    if "cpu" not in grouped.backend.bases:
        pytest.skip("no cpu controller to write")
    burn = "import time\nwhile time.process_time() < 0.4: pass"

    status = run(grouped, python(burn), cpus=0.25)

    assert status.cpu_seconds / (status.ended_at - status.started_at) < 0.4


BUSY = "while True: pass"


def cores(host, seconds=1.0):
    """CPUs that the task uses."""
    used, since = host.status(TASK).cpu_seconds, time.monotonic()
    time.sleep(seconds)
    return (host.status(TASK).cpu_seconds - used) / (time.monotonic() - since)


def test_a_busy_task_gets_other_cpus_without_a_restart(grouped):
    if not {"cpu", "cpuset"} <= set(grouped.backend.bases):
        pytest.skip("no cpu controllers to write")
    start(grouped, python(BUSY), cpus=0.05, memory_gb=1.0)
    until(lambda: grouped.status(TASK).cpu_seconds > 0.05)
    pid = grouped.status(TASK).process.pid
    few = cores(grouped)

    grouped.resize(TASK, 0.4, 2.0)
    more = next((found for found in (cores(grouped) for _ in range(5)) if found > 2 * few), 0.0)  # others want CPUs too
    grouped.resize(TASK, 0.05, 2.0)
    fewer = cores(grouped)

    assert few < 0.1
    assert more > 2 * few, "on an idle machine within the first second"
    assert fewer < 0.1
    assert grouped.status(TASK).process.pid == pid
    assert (grouped.table.spec(TASK).cpus, grouped.table.spec(TASK).memory_gb) == (0.05, 2.0)
    limit = grouped.backend.attach(grouped._prefix + str(TASK)).groups["memory"] / "memory.limit_in_bytes"
    assert not limit.exists() or int(limit.read_text()) == pytest.approx(2e9, abs=1 << 16)


def test_memory_in_use_is_not_taken_away(grouped):
    if "memory" not in grouped.backend.bases:
        pytest.skip("no memory controller to write")
    start(grouped, python("x = bytearray(200 << 20)\nimport time\ntime.sleep(600)"), memory_gb=1.0)
    until(lambda: grouped.status(TASK).rss_bytes > 200 << 20)

    grouped.resize(TASK, 1.0, 0.1)
    assert grouped.status(TASK).phase is Phase.RUNNING


def test_whole_cpus_and_a_memory_limit_change_without_groups_too(tmp_path):
    host = Host(tmp_path / "agent", inspect(), RlimitBackend())
    if len(host.machine.cpus) < 2:
        pytest.skip("one CPU cannot be changed for two")
    start(host, python(BUSY), cpus=1, memory_gb=1.0)
    pid = host.status(TASK).process.pid
    assert len(os.sched_getaffinity(pid)) == 1

    host.resize(TASK, 2, 0.5)

    assert len(os.sched_getaffinity(pid)) == 2
    assert resource.prlimit(pid, resource.RLIMIT_DATA)[0] == int(0.5e9)
    stop_all(host)
    host.close()


def test_a_task_that_ended_is_not_resized(host):
    run(host, ("true",), cpus=1)

    assert host.resize(TASK, 2, None).cpus == 1
    assert host.cpus.free() == len(host.machine.cpus)


def test_use_is_told_while_it_runs(host):
    start(host, python("import time\nx = bytearray(30 << 20)\nwhile time.process_time() < 0.3: pass\ntime.sleep(600)"))

    until(lambda: host.status(TASK).rss_bytes > 30 << 20, "30 MB in use")
    until(lambda: host.status(TASK).cpu_seconds >= 0.2, "some CPU seconds")


# Secrets


def test_the_environment_of_the_agent_stays_with_the_agent(host, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("ROTA_TOKEN", "hunter2")
    monkeypatch.setenv("ROTA_CERTS", "/etc/hunter2")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/hunter2")

    start(host, ("sleep", "600"), env={"MINE": "1"})

    values = json.loads((host.table.path(TASK) / "status.json").read_text())
    task = Path(f"/proc/{values['process'][0]}/environ").read_bytes()
    supervisor = Path(f"/proc/{values['shim'][0]}/environ").read_bytes()
    assert b"MINE=1" in task.split(b"\0")
    assert b"hunter2" not in task + supervisor
    assert b"hunter2" not in (host.table.path(TASK) / "launch.json").read_bytes()


# Stopping


def test_a_task_may_leave_by_itself_before_it_is_told_to(host):
    start(host, python("import time; time.sleep(0.2)"))

    status = stop(host, TASK, term_after_s=SECONDS, kill_after_s=0.0)

    assert (status.exit.code, status.exit.reason, status.stop_requested) == (0, ExitReason.COMPLETED, True)


def test_term_comes_before_kill(host):
    start(host, ("sh", "-c", "trap 'echo saved; exit 5' TERM; echo ready; while :; do sleep 0.05; done"))
    until(lambda: output(host) == "ready\n")

    status = stop(host, TASK, term_after_s=0.0, kill_after_s=SECONDS)

    assert (status.exit.code, status.exit.reason) == (5, ExitReason.KILLED)
    assert output(host) == "ready\nsaved\n"


def test_kill_comes_for_those_who_do_not_hear(host):
    start(host, ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
    until(lambda: output(host) == "ready\n")
    begin = time.monotonic()

    status = stop(host, TASK, term_after_s=0.0, kill_after_s=0.3)

    assert time.monotonic() - begin >= 0.3
    assert (status.exit.signal, status.exit.reason) == (9, ExitReason.KILLED)


def test_a_stop_goes_on_step_by_step(host):
    start(host, ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
    until(lambda: output(host) == "ready\n")

    ending = host.ending(TASK, term_after_s=5.0, kill_after_s=10.0, now=100.0)

    assert host.status(TASK).phase is Phase.STOPPING
    assert ending.advance(101.0) == 4.0
    assert ending.advance(105.0) == 10.0
    assert ending.advance(110.0) == 5.0
    assert ending.advance(115.0) is not None
    assert until(lambda: ending.advance(115.5) is None)


@pytest.mark.parametrize("main", ["ends", "stay"])
def test_a_daemon_left_behind_goes_with_the_task(host, tmp_path, main):
    start(host, python(LEAVES_A_DAEMON, tmp_path / "pid", main))
    until((tmp_path / "pid").exists)
    daemon = procs.identify(int((tmp_path / "pid").read_text()))

    if main == "stay":
        assert procs.is_alive(daemon)
        stop(host, TASK, 0.0, 0.0)
    ended(host)

    assert daemon is None or not procs.is_alive(daemon)


def test_a_process_with_the_number_of_the_task_is_not_touched(host):
    run(host, ("true",))
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    path = host.table.path(TASK) / "status.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "exit": None, "process": [stranger.pid, 12], "pgid": stranger.pid}))
    (host.table.path(TASK) / "cleaned").unlink()

    try:
        status = host.status(TASK)
        stop(host, TASK, 0.0, 0.0)

        assert status.exit.reason is ExitReason.LOST
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# Agents that die


@pytest.fixture
def dying_agent(tmp_path):
    """Starts an agent with one task, in a group of its own, and kills the whole group without warning."""

    def live_and_die(*argv):
        agent = subprocess.Popen(
            [sys.executable, "-c", AN_AGENT, tmp_path / "agent", *argv],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert agent.stdout.readline() == "started\n"
        os.killpg(agent.pid, signal.SIGKILL)
        agent.wait()
        agent.stdout.close()

    hosts = []

    def come_back():
        hosts.append(Host(tmp_path / "agent", inspect()))
        return hosts[-1]

    yield live_and_die, come_back
    host = hosts[-1] if hosts else come_back()
    stop_all(host)
    host.close()


def test_a_task_outlives_its_agent_and_the_next_one_gets_its_exit_code(dying_agent, tmp_path):
    die, come_back = dying_agent
    die("sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 7")

    host = come_back()
    (report,) = host.recover()
    assert (report.task, report.status.phase) == (TASK, Phase.RUNNING)
    assert host.cpus.free() == len(host.machine.cpus) - 1
    with pytest.raises(ConfigError, match="still runs"):
        host.forget(TASK)
    (tmp_path / "go").touch()

    assert ended(host).exit.code == 7


def test_a_task_that_ended_without_an_agent_is_reported_by_the_next_one(dying_agent, tmp_path):
    die, come_back = dying_agent
    die("sh", "-c", "exit 6")
    until(lambda: '"ended"' in (tmp_path / "agent/tasks/j1.0.0/status.json").read_text())

    host = come_back()

    assert [r.status.exit.code for r in host.recover()] == [6]
    host.close()
    host = come_back()
    assert [r.status.exit.code for r in host.recover()] == [6]


def test_a_stop_of_an_adopted_task_works(dying_agent):
    die, come_back = dying_agent
    die("sleep", "600")

    host = come_back()
    host.recover()

    assert stop(host, TASK, 0.0, SECONDS).exit.signal == signal.SIGTERM


def test_a_task_whose_supervisor_was_killed_is_lost_and_ended(host):
    start(host, ("sleep", "600"))
    values = json.loads((host.table.path(TASK) / "status.json").read_text())
    task = procs.Process(*values["process"])
    assert procs.send(procs.Process(*values["shim"]), signal.SIGKILL)

    status = ended(host)

    assert (status.exit.reason, status.exit.code, status.exit.detail) == (ExitReason.LOST, None, "its supervisor died")
    until(lambda: not procs.is_alive(task))


def test_a_task_from_before_a_restart_of_the_machine_is_lost(host):
    run(host, ("true",))
    path = host.table.path(TASK) / "status.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "exit": None, "boot_id": "another"}))

    assert "machine was started again" in host.status(TASK).exit.detail


def test_a_task_that_was_written_down_but_never_started_is_lost(host):
    host.table.add(TaskSpec(TASK, ("true",), launcher="process"))

    (report,) = host.recover()

    assert report.status.exit.reason is ExitReason.LOST
    assert "never started" in report.status.exit.detail


def test_a_task_that_cannot_be_started_leaves_nothing(host):
    if host.machine.gpus:
        pytest.skip("this machine has GPUs")
    with pytest.raises(ConfigError, match="MPS needs a GPU"):
        start(host, ("true",), mps=True, devices=("0",))
    with pytest.raises(UnknownName, match="did you mean 'docker'"):
        start(host, ("true",), image="some/image", launcher="dockr")

    assert host.reports() == []
    assert host.cpus.free() == len(host.machine.cpus)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"phase": "running"}'])
def test_a_damaged_status_is_lost_and_the_others_are_served(host, text):
    run(host, ("sh", "-c", "exit 3"))
    host.start(TaskSpec(TaskId("other"), ("sh", "-c", "exit 4")))
    ended(host, TaskId("other"))

    (host.table.path(TASK) / "status.json").write_text(text)
    first, second = host.reports()

    assert (first.status.exit.reason, second.status.exit.code) == (ExitReason.LOST, 4)
    assert "damaged" in first.status.exit.detail


def test_a_task_with_a_damaged_description_is_still_reported_and_forgotten(host):
    start(host, ("sleep", "600"))
    (host.table.path(TASK) / "spec.json").write_text("{")

    assert [r.status.phase for r in host.recover()] == [Phase.RUNNING]
    assert stop(host, TASK, 0.0, SECONDS).exit.signal == signal.SIGTERM
    host.forget(TASK)
    assert host.reports() == []


def test_a_folder_that_is_no_task_is_left_alone(host):
    (host.table.tasks_folder / "lost+found").mkdir()

    assert host.reports() == []
    assert (host.table.tasks_folder / "lost+found").exists()


# Space sharing


def test_the_daemon_of_a_shared_gpu_lives_as_long_as_its_tasks(tmp_path, monkeypatch):
    """Against a stand-in for NVIDIA's program: it runs while a file is there."""
    program = tmp_path / "bin/nvidia-cuda-mps-control"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'alive="$CUDA_MPS_PIPE_DIRECTORY/alive"\n'
        'if [ "$1" = -d ]; then touch "$alive"; exit; fi\n'
        'read command; [ -e "$alive" ] || exit 1\n'
        'if [ "$command" = quit ]; then rm "$alive"; fi\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    host = Host(tmp_path / "agent", replace(inspect(), gpus=(Gpu(0, "T4", "GPU-1", 1 << 34),)))
    alive = tmp_path / "agent/mps/0/pipe/alive"

    for job in ("a", "b"):
        host.start(TaskSpec(TaskId(job), ("sleep", "600"), devices=("0",), mps=True))
    assert host.table.spec(TaskId("b")).env["CUDA_MPS_PIPE_DIRECTORY"] == str(alive.parent)
    stop(host, TaskId("a"), 0.0, SECONDS)
    assert alive.exists()
    stop(host, TaskId("b"), 0.0, SECONDS)

    assert not alive.exists()
    stop_all(host)
    host.close()


# Size


def test_a_supervisor_is_small(host):
    start(host, ("sleep", "600"))
    values = json.loads((host.table.path(TASK) / "status.json").read_text())

    assert resident_kilobytes(values["shim"][0]) < SHIM_KILOBYTES


def test_what_an_agent_needs_of_this_is_small(tmp_path):
    script = """
    import sys
    from rota.deploy.worker.host import Host
    from rota.deploy.worker.inventory import inspect
    host = Host(sys.argv[1], inspect(sys.argv[1]))
    host.close()
    heavy = {"numpy", "scipy", "grpc", "click", "rich"} & set(sys.modules)
    with open("/proc/self/status") as file:
        sys.stdout.write(next(line for line in file if line.startswith("VmRSS")).split()[1] + str(sorted(heavy)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path], check=True, capture_output=True, text=True
    )

    kilobytes, _, heavy = done.stdout.partition("[")
    assert heavy == "]"
    assert int(kilobytes) < AGENT_KILOBYTES


def resident_kilobytes(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError(f"process {pid} is gone")


# Containers


@pytest.fixture
def contained(grouped):
    if why := grouped.launchers["runc"].unavailable():
        pytest.skip(why)
    return grouped


def test_a_container_tells_its_end_and_has_its_limits(contained):
    script = "echo $$; nproc; cat /proc/self/cgroup; touch /etc/rota-was-here || echo read-only; exit 5"

    status = run(contained, ("sh", "-c", script), image="host", memory_gb=0.2, cpus=1)

    lines = output(contained).splitlines()
    assert (status.exit.code, status.exit.reason) == (5, ExitReason.FAILED)
    assert lines[:2] == ["1", "1"]
    assert lines[-1] == "read-only"
    assert any("memory:" in line and line.endswith("-j1.0.0") for line in lines)


def test_a_container_at_its_memory_limit_is_told_as_such(contained):
    # The interpreter itself, not its link in an environment: that may lie in /tmp, and a container has its own.
    command = (os.path.realpath(sys.executable), *python("print(len(bytearray(600 << 20)))")[1:])
    status = run(contained, command, image="host", memory_gb=0.25)

    assert (status.exit.code, status.exit.reason) == (137, ExitReason.OUT_OF_MEMORY), output(contained)


def test_a_container_gets_its_folders_and_no_secrets(contained, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "data").mkdir()
    script = "env; echo model > $ROTA_CHECKPOINTS/model; touch $DATA/x || echo refused"

    run(
        contained,
        ("sh", "-c", script),
        image="host",
        env={"DATA": str(tmp_path / "data")},
        checkpoints=str(tmp_path / "ckpt"),
        mounts=(f"{tmp_path}/data:ro",),
    )

    assert (tmp_path / "ckpt/model").read_text() == "model\n"
    assert output(contained).endswith("refused\n")
    assert "hunter2" not in output(contained)


def test_a_container_does_not_see_the_folder_of_the_agent(contained):
    run(contained, ("sh", "-c", f"ls -A {contained.table.folder} && echo end"), image="host")

    assert output(contained) == "end\n"


def test_a_container_that_does_not_hear_is_killed_with_everything_inside(contained):
    start(contained, ("sh", "-c", "trap '' TERM; sleep 600 & echo ready; wait; sleep 600"), image="host")
    until(lambda: output(contained) == "ready\n")
    inside = contained.launchers["runc"]._process._enclosure(contained.table.path(TASK)).members()

    status = stop(contained, TASK, 0.0, 0.2)

    assert len(inside) >= 2
    assert status.exit.reason is ExitReason.KILLED
    assert 9 in (status.exit.signal, (status.exit.code or 0) - 128)
    until(lambda: not any(procs.is_alive(process) for process in inside))
    assert [name for name in contained.backend.names() if name.startswith(contained._prefix)] == []


def test_a_container_hears_term(contained):
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    start(contained, ("sh", "-c", script), image="host")
    until(lambda: output(contained) == "ready\n")

    status = stop(contained, TASK, 0.0, SECONDS)

    assert (status.exit.code, status.exit.reason) == (0, ExitReason.COMPLETED)
    assert output(contained) == "ready\nsaved\n"


def test_a_container_runs_from_a_folder_with_its_own_files(contained, tmp_path):
    root = tmp_path / "image"
    for name in ("bin", "lib", "lib64", "proc", "sys", "dev", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    for path in _with_libraries(shutil.which("sh")):
        (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path.lstrip("/"))
    shutil.copy(shutil.which("sh"), root / "bin/sh")
    (root / "etc/only-here").write_text("own files\n")

    status = run(contained, ("/bin/sh", "-c", "read line < /etc/only-here; echo $line"), image=str(root))

    assert (status.exit.code, output(contained)) == (0, "own files\n"), output(contained, "stderr")


def _with_libraries(program):
    done = subprocess.run(["ldd", program], check=True, capture_output=True, text=True)
    return [word for line in done.stdout.splitlines() for word in line.split() if word.startswith("/")]


def test_a_task_has_its_first_lease_before_it_runs(host):
    """Whatever becomes of its agent: nothing runs on because nobody came to lend it time."""
    began = time.monotonic()
    host.start(TaskSpec(TASK, ("sleep", "300")), Lease(machine_s() + 0.5))

    status = ended(host)

    assert status.exit.reason is not ExitReason.COMPLETED
    assert time.monotonic() - began < 10.0


def test_a_task_whose_lease_is_gone_is_ended(host):
    start(host, ("sleep", "300"))
    until(lambda: host.status(TASK).phase is Phase.RUNNING, "the start")
    (host.table.path(TASK) / "lease").unlink()

    assert ended(host).exit.reason is not ExitReason.COMPLETED
