"""Values of a job's environment on a real cluster: the job has them, and nobody else can read them."""

import contextlib
import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from live import FAST, Live, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux to run processes")
VALUE = "value-that-nobody-may-see"
FORMS = (VALUE.encode(), VALUE.encode().hex().encode())
SCRIPT = (
    "import os, pathlib, time; p = pathlib.Path('told'); p.write_text(os.environ['TOKEN'] + os.environ['OTHER']); {}"
)


@pytest.fixture
def live(tmp_path):
    cluster = Live(tmp_path)
    cluster.up("--server", "v100=1", *FAST)
    yield cluster
    if cluster.process.poll() is None:
        cluster.down()


def submit(live, then="time.sleep(600)"):
    """A job that writes its secrets into a file; its number."""
    (live.folder / "job.env").write_text(f"# for the job\nOTHER={VALUE}\n", encoding="utf-8")
    (live.folder / "key").write_text(f"{VALUE}\n", encoding="utf-8")
    command = (sys.executable, "-c", SCRIPT.format(then))
    given = ("--env-file", "job.env", "--secret-file", "TOKEN=key", "--max-restarts", "0")
    return int(live.run("submit", *given, "--", *command))


def holders(folder):
    """Files of the cluster in which the value is, in clear text or as agents write orders."""
    found = []
    for path in (folder / ".rota").rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            continue
        if any(form in content for form in FORMS):
            found.append(path)
    return found


def command_lines():
    """Arguments of all processes, as `ps` shows them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


def test_the_job_has_its_values_and_nobody_else_can_read_them(live):
    number = submit(live)
    until((live.folder / "told").exists, 30.0, "the job")
    told = until((live.folder / "told").read_text)
    listed = [live.run("jobs", "--json"), live.run("jobs", str(number)), live.run("jobs", str(number), "--json")]
    listed += [live.run("events", "--json"), live.run("events", "--verbose")]
    live.run("events", "--export", "run.jsonl")
    listed.append((live.folder / "run.jsonl").read_text())
    held = holders(live.folder)

    assert told == VALUE * 2
    assert [text for text in listed if VALUE in text] == []
    assert json.loads(listed[2])["env"] == {"OTHER": "***", "TOKEN": "***"}
    assert "OTHER=***, TOKEN=***" in listed[1]
    assert not any(FORMS[0] in line for line in command_lines())
    assert [path.name for path in held if path.parent.name == ".rota"] == ["state.db.secrets"]
    assert [path for path in held if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    assert [path for path in held if path.suffix == ".log"] == []

    live.run("cancel", str(number))
    until(lambda: live.phase(number) == "cancelled")
    until(lambda: holders(live.folder) == [], 30.0, "the values are deleted")


def test_a_scheduler_that_is_killed_and_started_again_starts_the_job_with_its_values(live):
    busy = submit(live)
    until((live.folder / "told").exists, 30.0, "the first job")
    number = submit(live, "print('ok')")
    os.kill(live.processes["the scheduler"], signal.SIGKILL)
    (live.folder / "told").unlink()
    until(lambda: _answers(live), 60.0, "the scheduler is back")
    live.run("cancel", str(busy))

    until((live.folder / "told").exists, 60.0, "the second job")
    assert until((live.folder / "told").read_text) == VALUE * 2
    until(lambda: live.phase(number) == "finished", 30.0)


def _answers(live):
    try:
        return live.ask("status")
    except AssertionError:
        return None


def test_a_cluster_without_its_file_of_secrets_keeps_such_jobs_waiting(live):
    number = live.run("submit", "--gpus", "1", "--env", f"TOKEN={VALUE}", "--cwd", "/", "--", "sleep", "600").strip()
    late = live.run("submit", "--env", f"TOKEN={VALUE}", "--", "sh", "-c", "touch started").strip()
    until(lambda: live.phase(int(number)) == "running", 30.0)
    live.run("cancel", number)
    live.down()
    (live.folder / ".rota" / "state.db.secrets").unlink(missing_ok=True)

    live.up()
    told = live.ask("jobs", late)
    if told["phase"] in ("finished", "running"):
        pytest.skip("the second job was quicker than the end of the cluster")
    other = live.finished()

    info = live.ask("jobs", late)
    assert (info["phase"], info["reason_code"], info["env"]) == ("waiting", "secrets-missing", {"TOKEN": "***"})
    assert "the values of TOKEN are not in" in info["reason"]
    assert live.phase(other) == "finished"
    assert not (live.folder / "started").exists()
    live.run("cancel", late)


def test_mistakes_in_variables_are_one_message_without_values(live):
    (live.folder / "bad.env").write_text(f"A=1\n{VALUE}\n", encoding="utf-8")

    said = live.run("submit", "--env-file", "bad.env", "--", "true", code=2)
    twice = live.run("submit", "--env", f"A={VALUE}", "--secret", f"A={VALUE}", "--", "true", code=2)
    none = live.run("submit", "--secret", "NOT_THERE_AT_ALL", "--", "true", code=2)
    hidden = live.run("submit", "--env", "A=***", "--", "true", code=2)

    assert "bad.env:2: there is no = in this line" in said
    assert "A is given twice, by --env and by --secret" in twice
    assert "there is no NOT_THERE_AT_ALL in your environment" in none
    assert "the value of A is ***" in hidden
    assert not any(VALUE in text for text in (said, twice, none, hidden))
