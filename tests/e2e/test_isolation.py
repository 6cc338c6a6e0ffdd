"""Jobs of two tenants on an agent that is root: users of their own, and nothing of others within reach.

The attacks are programs of a tenant. What they find they write into their folder of checkpoints.
"""

import contextlib
import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

import rota
from faults import Site, until
from rota.deploy.control import Client
from rota.deploy.security import certs
from rota.deploy.security.places import tokens_file
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as other users")
PYTHON = "/usr/bin/python3"

LOOK = """
import glob, json, os, pathlib, sys

def tried(action):
    try:
        return str(action())
    except OSError as error:
        return error.strerror

found = {"uid": os.getuid(), "groups": os.getgroups(), "home": os.environ["HOME"], "cwd": os.getcwd()}
found["capabilities"] = next(l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff"))
for path in sys.argv[2:]:
    found[path] = tried(lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(20))
    found["write " + path] = tried(lambda: pathlib.Path(path, "mine").write_text("x"))
environments = [tried(lambda: open(name, "rb").read()) for name in glob.glob("/proc/[0-9]*/environ")]
found["secrets"] = sum("hunter2" in text for text in environments)
other = int(sys.argv[1])
found["kill"] = tried(lambda: os.kill(other, 9)) if other else ""
pathlib.Path(os.environ["ROTA_CHECKPOINTS"], "found").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def place():
    """A folder that other users can enter, as those of pytest cannot."""
    folder = Path(tempfile.mkdtemp(prefix="rota-isolation-"))
    folder.chmod(0o711)
    shutil.copytree(Path(rota.__file__).parent, folder / "lib" / "rota", ignore=shutil.ignore_patterns("__pycache__"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def site(place):
    folder, now = place / "certs", dt.datetime.now(dt.timezone.utc)
    certs.create_authority(folder, now)
    certs.issue(folder, Subject(Role.SCHEDULER, "scheduler"), now, hosts=["127.0.0.1"], out=folder)
    certs.issue(folder, Subject(Role.CLIENT, "admin"), now, out=folder)
    certs.issue(folder, Subject(Role.AGENT, "n0"), now, out=place / "for-n0")
    token = place / "token"
    token.write_text(TokenFile(tokens_file(folder)).add("lab", admin=True)[1])
    token.chmod(0o600)
    (place / "image").mkdir()
    mounts = f'["/nowhere", "{place}/data:ro", "{place}/scratch"]'
    images = f'["host", "{place}/image", "localhost/rota-*"]'
    (place / "agent.toml").write_text(f"[containers]\nimages = {images}\nmounts = {mounts}\n")
    (place / "data").mkdir()
    (place / "scratch").mkdir()
    (place / "scratch").chmod(0o1777)
    (place / "data" / "set").write_text("training data")
    with Site(place, certs=folder) as found:
        (place / "steps").chmod(0o1777)
        found.client = Client(found.address, certs=folder, token_file=token)
        until(found._answers, 30, "the scheduler's answer")
        start(found)
        yield found


def start(site):
    isolation = ["--config", str(site.folder / "agent.toml")]
    env = {**os.environ, **podman_files(site.folder)}
    site.agent("n0", "emulate:v100=4", certs=site.folder / "for-n0", isolation=isolation, env=env)


def podman_files(place):
    """Settings of a podman that keeps everything below a folder, and how to tell it."""
    (place / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{place}/podman"\nrunroot = "{place}/podman-run"\n'
    )
    (place / "containers.conf").write_text('[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n')
    return {"CONTAINERS_STORAGE_CONF": f"{place}/storage.conf", "CONTAINERS_CONF": f"{place}/containers.conf"}


def submit(site, tenant, argv, **fields):
    spec = {"argv": argv, "cwd": "/", "tenant": tenant, "max_restarts": 0, **fields}
    return site.client.submit([spec])[0]


def found_by(site, tenant, *paths, other=0, **fields):
    number = submit(site, tenant, [PYTHON, "-c", LOOK, str(other), *map(str, paths)], **fields)
    (job,) = site.done(number)
    assert job.phase == "finished", job.reason
    return json.loads((site.folder / "checkpoints" / str(number) / "1" / "found").read_text())


def victim_of(site):
    """A job of another tenant that runs and has a secret; its number and that of its process."""
    number = submit(site, "victim", ["/bin/sleep", "600"], env={"PASSWORD": "hunter2"})
    until(lambda: site.job(number).phase == "running", 20, "the victim")
    return number, until(lambda: sleeping(site, number), 20, "the victim's process")


def sleeping(site, number):
    """The process of a victim, once it is what it was started as; 0 before."""
    lines = {p: Path(f"/proc/{p}/cmdline").read_bytes() for p in site.tasks(number)}
    return next((p for p, line in lines.items() if line.startswith(b"/bin/sleep")), 0)


def test_a_tenant_reads_nothing_of_others_and_ends_nothing(site, place):
    victim, process = victim_of(site)
    agent = place / "n0"
    private = [
        place / "for-n0" / "agent.key", place / "certs" / "ca.key", place / "token", place / "state.db",
        agent / "orders", agent / "work" / "tasks", agent / "logs", agent / "task-key", agent / "users.json",
        place / "checkpoints" / str(victim) / "1", agent / "home" / "victim", agent / "home",
    ]  # fmt: skip

    found = found_by(site, "attacker", *private, other=process)

    assert found["uid"] > 10**9
    assert found["groups"] == [found["uid"]]
    assert found["uid"] != Path(f"/proc/{process}").stat().st_uid > 10**9
    assert found["capabilities"].strip("0") == ""
    for path in private:
        assert found[str(path)] == "Permission denied", path
        assert found[f"write {path}"] in {"Permission denied", "Not a directory"}, path
    assert found["secrets"] == 0
    assert found["kill"] == "Operation not permitted"
    assert Path(f"/proc/{process}").exists()
    assert found["home"] == str(agent / "home" / "attacker")
    site.client.cancel([victim])


def test_training_code_saves_and_goes_on_as_its_own_user_while_agents_die(site, place):
    env = {"PYTHONPATH": str(place / "lib"), "PAUSE": "0.05"}
    argv = [PYTHON, str(place / "stepper.py"), str(place / "steps")]
    number = submit(site, "vision", argv, env=env, steps=120, checkpoint_every_s=0.5, max_restarts=3)
    until(lambda: site.job(number).saved_step > 0, 30, "a checkpoint")

    site.kill("n0")
    start(site)
    site.client.drain("n0")
    until(lambda: site.job(number).phase == "waiting", 30, "its stop")
    site.client.drain("n0", undo=True)
    (job,) = site.done(number)

    assert (job.phase, job.saved_step, job.epoch) == ("finished", 120, 2)
    assert [step for _, step, *_ in site.steps(number)] == list(range(120))
    owners = {path.stat().st_uid for path in (place / "checkpoints" / str(number)).rglob("*")}
    assert len(owners) == 1
    assert owners.pop() > 10**9


def needs_runc():
    if shutil.which("runc") is None:
        pytest.skip("runc is not installed")


def test_a_container_of_the_host_is_neither_root_nor_sees_more(site, place):
    needs_runc()
    victim, _ = victim_of(site)
    private = [place / "for-n0" / "agent.key", place / "n0" / "work" / "tasks", place / "n0" / "logs"]

    found = found_by(site, "attacker", *private, image="host", cwd=str(place / "n0"))

    assert found["uid"] > 10**9
    assert found["capabilities"].strip("0") == ""
    for path in private:
        assert found[str(path)] in {"Permission denied", "No such file or directory"}
        assert found[f"write {path}"] in {"Permission denied", "No such file or directory", "Read-only file system"}
        assert "hunter2" not in found[str(path)]
        assert str(victim) not in found[str(path)]
    assert found["secrets"] == 0
    site.client.cancel([victim])


@pytest.fixture(scope="module")
def podman_image(place):
    """An image with nothing but busybox; skips where podman cannot run it."""
    if shutil.which("podman") is None or shutil.which("busybox") is None:
        pytest.skip("podman or busybox is not installed")
    programs = place / "busybox" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), programs)
    for name in ("sh", "id", "grep", "cat", "touch", "sleep"):
        (programs / name).symlink_to("busybox")
    env = {**os.environ, **podman_files(place)}
    subprocess.run(["tar", "-C", str(programs.parent), "-cf", str(place / "busybox.tar"), "."], check=True)
    made = subprocess.run(
        ["podman", "import", str(place / "busybox.tar"), "localhost/rota-busybox:1"],
        env=env, check=False, capture_output=True, text=True,
    )  # fmt: skip
    limits = ["--network=host", "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]
    command = ["podman", "run", "--rm", *limits, "localhost/rota-busybox:1", "id"]
    tried = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    if made.returncode or tried.returncode:
        pytest.skip(f"podman cannot run containers here: {made.stderr[-200:]}{tried.stderr[-200:]}")
    return "localhost/rota-busybox:1"


def test_podman_runs_a_job_as_its_user_and_obeys_none_of_its_variables(site, place, podman_image):
    image = podman_image
    script = (
        'cd "$ROTA_CHECKPOINTS"; { id -u; grep CapEff /proc/self/status; grep CapBnd /proc/self/status; '
        f'echo "$LD_PRELOAD $DOCKER_HOST $PASSWORD"; cat {place}/data/set; echo; touch {place}/data/x || echo refused; '
        f"cat {place}/for-n0/agent.key || echo no key; }} > found 2>/dev/null"
    )
    env = {"PATH": "/bin", "DOCKER_HOST": "tcp://127.0.0.1:1", "LD_PRELOAD": "/evil.so", "PASSWORD": "a b=c $x"}
    number = submit(site, "attacker", ["/bin/sh", "-c", script], image=image, env=env)
    (job,) = site.done(number)

    assert job.phase == "finished", job.reason
    uid, effective, bounding, variables, *rest = (
        (place / "checkpoints" / str(number) / "1" / "found").read_text().splitlines()
    )
    assert int(uid) > 10**9
    assert effective.split()[1].strip("0") == bounding.split()[1].strip("0") == ""
    assert variables == "/evil.so tcp://127.0.0.1:1 a b=c $x"
    assert rest == ["training data", "refused", "no key"]


def test_a_folder_that_somebody_planted_is_not_used_for_checkpoints(site, place):
    """Numbers of jobs can be guessed: who made the folder of one could put its own checkpoints there."""
    number = submit(site, "vision", ["/bin/true"])
    site.done(number)
    planted = place / "checkpoints" / str(number + 1)
    planted.mkdir()
    os.chown(planted, 12345, 12345)
    (job,) = site.done(submit(site, "vision", ["/bin/true"]))

    assert job.job == number + 1
    assert job.phase == "failed"
    assert "was not made by this agent's user" in job.reason


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("/usr/..", "is not a folder with a root file system"),
        ("/etc", "is not allowed on this server"),
        ("ubuntu:24.04", "is not allowed on this server"),
        ("--privileged", "cannot be the name of an image"),
    ],
)
def test_images_that_the_operator_did_not_list_are_refused(site, image, said):
    number = submit(site, "attacker", ["/bin/true"], image=image)
    (job,) = site.done(number)

    assert job.phase == "failed"
    assert said in job.reason


def test_a_link_among_checkpoints_opens_no_folder_to_the_next_attempt(site, place):
    """The first attempt leaves a link in the place of its checkpoint, and says that it saved."""
    needs_runc()
    secret = place / "n0" / "work"
    code = (
        "import json, os, pathlib, socket, sys, time\n"
        "mine = pathlib.Path(os.environ['ROTA_CHECKPOINTS'])\n"
        "if os.environ['ROTA_EPOCH'] == '1':\n"
        f"    (mine / 'step-000001').symlink_to('{secret}')\n"
        "    line = socket.socket(socket.AF_UNIX); line.connect(os.environ['ROTA_SOCKET'])\n"
        "    hello = dict(op='hello', job=os.environ['ROTA_JOB'], epoch=1, rank=0, step=0, pid=1,"
        " key=os.environ['ROTA_TASK_KEY'])\n"
        "    for m in (hello, dict(op='progress', step=1), dict(op='saved', step=1, path='step-000001')):\n"
        "        line.sendall(json.dumps(m).encode() + b'\\n')\n"
        "    time.sleep(2); sys.exit(1)\n"
        "there = os.path.join(os.environ['ROTA_RESUME'], 'tasks')\n"
        "try: seen = os.listdir(there)\n"
        "except OSError as error: seen = error.strerror\n"
        "(mine / 'seen').write_text(str(seen))\n"
    )
    number = submit(site, "attacker", [PYTHON, "-c", code], image="host", max_restarts=3, steps=5)
    (job,) = site.done(number)
    seen = [path.read_text() for path in (place / "checkpoints" / str(number)).glob("*/seen")]

    assert job.epoch > 1
    assert seen
    assert set(seen) <= {"Permission denied", "No such file or directory"}, seen


def test_a_fork_bomb_meets_its_limit(site):
    code = "import resource; soft, hard = resource.getrlimit(resource.RLIMIT_NPROC); assert 0 < hard <= 16384, hard"
    (job,) = site.done(submit(site, "attacker", [PYTHON, "-c", code]))

    assert job.phase == "finished", job.reason


def test_orders_and_folders_belong_to_the_agent_only(site, place):
    victim, process = victim_of(site)
    agent = place / "n0"

    assert {path.stat().st_mode & 0o077 for path in (agent / "orders").iterdir()} == {0}
    assert [agent.joinpath(name).stat().st_mode & 0o077 for name in ("orders", "logs", "work/tasks", "run")] == [0] * 4
    assert agent.stat().st_mode & 0o777 == 0o711
    doors = list((agent / "doors").glob("*/*.sock"))
    assert {path.stat().st_mode & 0o777 for path in doors} == {0o600}
    assert all(path.stat().st_uid == int(path.parent.name) for path in doors)
    os.kill(process, signal.SIGKILL)
    site.done(victim)


HELLO = """
import json, os, pathlib, socket, sys, threading, time

mine = pathlib.Path(os.environ["ROTA_CHECKPOINTS"])

def call():
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ["ROTA_SOCKET"])
    return line

def say(line, **message):
    line.sendall(json.dumps(message).encode() + b"\\n")

def hello():
    line = call()
    say(line, op="hello", job=os.environ["ROTA_JOB"], epoch=int(os.environ["ROTA_EPOCH"]), rank=0, step=0, pid=1,
        key=os.environ["ROTA_TASK_KEY"])
    return line
"""


def unharmed(site):
    """The agent that was there before still runs jobs of others."""
    assert site.programs["n0"].poll() is None, site.log("n0")[-500:]
    (job,) = site.done(submit(site, "victim", ["/bin/true"]))
    return job.phase == "finished"


def test_no_word_of_a_job_ends_the_agent(site):
    """Half a character is good JSON, and no text that a message can hold."""
    words = """
line = hello()
say(line, op="saved", step=1, path="\\ud800")
say(line, op="failed", reason="\\ud800", detail="why \\ud800")
line.recv(1000)
time.sleep(1)
"""
    (job,) = site.done(submit(site, "attacker", [PYTHON, "-c", HELLO + words]))

    assert job.phase == "failed"
    assert "why" in job.reason
    assert unharmed(site)


def test_a_flood_of_lines_and_connections_takes_the_server_from_nobody(site):
    flood = """
def flood(greeted):
    while True:
        try:
            line = hello() if greeted else call()
            while True:
                line.sendall(b"{\\n" * 32768)
        except OSError:
            time.sleep(0.01)

for number in range(20):
    threading.Thread(target=flood, args=[number % 2], daemon=True).start()
def flood_devices():
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ["ROTA_DEVICE_SOCKET"])
    while True:
        line.sendall(b"{\\n" * 32768)  # and never reads an answer

threading.Thread(target=flood_devices, daemon=True).start()
kept = []
end = time.monotonic() + 8
while time.monotonic() < end:
    try:
        kept = kept[-700:] + [call()]
    except OSError:
        time.sleep(0.01)
"""
    victim, _ = victim_of(site)
    number = submit(site, "attacker", [PYTHON, "-c", HELLO + flood])
    until(lambda: site.job(number).phase == "running", 20, "the flood")
    handles = Path(f"/proc/{site.programs['n0'].pid}/fd")
    most = 0
    while site.job(number).phase == "running":
        most = max(most, len(list(handles.iterdir())))
        assert site.node("n0") == "up"

    assert most < 400
    assert (site.job(victim).phase, site.job(victim).epoch) == ("running", 1)
    site.client.cancel([victim])
    assert unharmed(site)


SAVED = """
import hashlib

def part():
    place = mine / "step-000005" / "rank-0"
    place.mkdir(parents=True)
    return place

def manifest(text):
    (part() / "manifest.json").write_text(text)

def sealed(**body):
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"format": 1, **body, "checksum": hashlib.sha256(text.encode()).hexdigest()})
"""


@pytest.mark.parametrize(
    "trap",
    [
        "os.mkfifo(part() / 'manifest.json')",
        "os.symlink('/dev/zero', part() / 'manifest.json')",
        "manifest('[' * 200000)",
        "manifest(sealed(step=10**30, epoch=1, position=0, world_size=1, files=[]))",
    ],
    ids=["pipe", "no end", "nesting", "number"],
)
def test_no_checkpoint_holds_up_an_agent_that_was_started_again(site, trap):
    """The agent that comes back looks for what a job saved while nobody heard it."""
    code = HELLO + SAVED + trap + "\ntime.sleep(1.5)\n"
    number = submit(site, "attacker", [PYTHON, "-c", code])
    until(lambda: site.tasks(number), 20, "its process")
    place = site.folder / "checkpoints" / str(number) / "1" / "step-000005"
    until(place.exists, 20, "the trap")
    site.kill("n0")
    until(lambda: not site.tasks(number), 20, "its end")
    start(site)
    (job,) = site.done(number)

    assert (job.phase, job.saved_step) == ("finished", 0)
    assert unharmed(site)


def test_an_emulated_job_keeps_its_variables_to_itself(site, place):
    spec = {"emulated": True, "tenant": "victim", "steps": 10**9, "profile": "ResNet-18 (batch size 32)"}
    (number,) = site.client.submit([{**spec, "env": {"PASSWORD": "hunter2"}}])
    kept = place / "n0" / "emulated" / f"{number}.1.json"
    until(kept.exists, 20, "its start")

    found = found_by(site, "attacker", kept.parent, kept)

    assert found[str(kept)] == found[str(kept.parent)] == "Permission denied"
    assert kept.stat().st_mode & 0o077 == 0
    site.client.cancel([number])


@pytest.mark.parametrize("image", ["host", "podman"])
@pytest.mark.parametrize("way", ["direct", "by a link"])
def test_no_working_folder_is_made_as_root_among_the_files_of_others(site, place, image, way, request):
    """Engines make the working folder of a container if it is not there, before its program is another user."""
    needs_runc()
    image = request.getfixturevalue("podman_image") if image == "podman" else image
    theirs = place / "scratch" / "victim"
    theirs.mkdir(mode=0o700, exist_ok=True)
    link = place / "scratch" / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(theirs)
    cwd = (theirs if way == "direct" else link) / "planted"
    (job,) = site.done(submit(site, "attacker", ["/bin/true"], image=image, cwd=str(cwd)))

    assert list(theirs.iterdir()) == []
    assert "cannot be the working folder of a container" in job.reason
    script = f"cd {place}/scratch && /bin/sh -c true"
    argv = ["/bin/sh", "-c", script]
    (job,) = site.done(submit(site, "attacker", argv, image=image, cwd=str(place / "scratch"), env={"PATH": "/bin"}))
    assert job.phase == "finished", job.reason


def test_a_container_of_podman_does_not_outlive_its_lease_while_its_agent_is_dead(site, podman_image):
    """The supervisor kills the program of the engine, and the container is not below that."""
    script = "trap '' TERM; while true; do sleep 1; done"
    argv = ["/bin/sh", "-c", script]
    number = submit(site, "attacker", argv, image=podman_image, env={"PATH": "/bin"})

    def inside():
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it ended meanwhile
                lines.append(path.read_bytes())
        return [line for line in lines if line.startswith(b"/bin/sh") and script.encode() in line]

    until(inside, 30, "the container")
    site.kill("n0")
    until(lambda: not inside(), 30, "its end")  # a lease is 6 s, TERM 5 s
    start(site)
    site.client.cancel([number])
    site.done(number)
