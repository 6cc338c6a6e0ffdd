"""Notifications: at least once and in order, whatever the other end does, and never in the way of the scheduler."""

import contextlib
import hashlib
import hmac
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deployed import PlayedAgent, a_scheduler, look, submit, until
from live import until as comes
from rota.core.errors import ConfigError
from rota.deploy.notifications import delivery
from rota.deploy.notifications.delivery import Delivery
from rota.deploy.notifications.kinds import KINDS, JobFacts, event_name, notifications_of
from rota.deploy.notifications.notifier import JournalSource, Notifier
from rota.deploy.notifications.positions import Positions, positions_file
from rota.deploy.notifications.sending import Message, sender_of
from rota.deploy.notifications.settings import read_targets
from rota.deploy.scheduler import lost_events
from rota.deploy.scheduler.live_settings import make_deciders

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are watched as on Linux")


class Endpoint:
    """A web server that answers as it is told and remembers what it got."""

    def __init__(self):
        self.got = []
        self.paths = []
        self.answers = []
        """(status, headers) of the next requests; afterwards 200."""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.got.append((dict(self.headers), body))
                endpoint.paths.append(self.path)
                status, headers = endpoint.answers.pop(0) if endpoint.answers else (200, {})
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def do_GET(self):
                endpoint.paths.append(f"GET {self.path}")
                self.send_error(404)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook?team=ml"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def bodies(self):
        return [json.loads(body) for _, body in self.got]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.close()


def targets(folder, text):
    path = folder / "notify.toml"
    path.write_text(text)
    return read_targets(path)


def webhook(folder, url, events='["*"]', more=""):
    return targets(folder, f'[[webhook]]\nname = "hook"\nurl = "{url}"\nevents = {events}\n{more}')


def command(folder, script, more=""):
    """A target that runs a shell script with the event on standard input."""
    path = folder / "tell.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return targets(folder, f'[[command]]\nname = "page"\nargv = ["{path}"]\nevents = ["*"]\n{more}')


def a_message(body=b'{"kind":"node-lost"}'):
    return Message(key="journal:7", kind="node-lost", event=7, body=body)


def try_once(target, message=None):
    sender = sender_of(target, lambda: False)
    try:
        return sender.send(message or a_message())
    finally:
        sender.close()


class ListedEvents:
    """A journal that is a list."""

    journal = "listed"

    def __init__(self, *events):
        self.lines = list(enumerate((json.dumps(event) for event in events), 1))
        self.removed = 0
        self.tenants = {}

    @property
    def last(self):
        return self.lines[-1][0] if self.lines else 0

    def read(self, after, limit):
        return [line for line in self.lines if line[0] > after][:limit]

    def facts(self, jobs):
        return {job: JobFacts(tenant=self.tenants.get(job, "x")) for job in jobs}

    def wall_time(self, at):
        return time.time() - 1 + at * 0


def lost(node, at=0.0):
    return {"event": "NodeLost", "at": at, "node": node, "reason": "silent"}


@contextlib.contextmanager
def delivering(target, source, folder, begin=0, first_pause_s=0.02):
    positions = Positions(folder / "notified", source.journal)
    positions.begin([target.name], begin)
    made = Delivery(target, source, positions)
    made.first_pause_s = first_pause_s
    made.start()
    try:
        yield made
    finally:
        made.stop()
        made.join(10)
        positions.write(now=True)
        assert not made._thread.is_alive()


# With a real scheduler


def test_a_scheduler_tells_of_jobs_and_servers_in_order_and_goes_on_after_a_restart(tmp_path, endpoint):
    state = tmp_path / "state.db"
    told = webhook(tmp_path, endpoint.url)
    scheduler = a_scheduler(state)
    notifier = Notifier(scheduler, told)
    scheduler.start()
    notifier.start()
    agents = [PlayedAgent(scheduler, "a", gpus=2)]
    submit(scheduler, {"tenant": "x", "name": "first"}, {"tenant": "y"})
    until(lambda: len(look(scheduler, lambda r: r.ended)) == 2, scheduler, agents)
    comes(lambda: sum(body["kind"] == "job-finished" for body in endpoint.bodies()) == 2)
    notifier.stop()
    scheduler.stop()
    count = len(endpoint.got)
    again = a_scheduler(state)
    notifier = Notifier(again, told)
    again.start()
    notifier.start()
    comes(lambda: len(endpoint.got) > count)
    notifier.stop()
    again.stop()

    bodies = endpoint.bodies()
    assert [body["event"] for body in bodies] == sorted(body["event"] for body in bodies)
    assert len({body["id"] for body in bodies}) == len(bodies)  # none is told twice after an orderly end
    kinds = [body["kind"] for body in bodies if body.get("job") == 0]
    assert kinds == ["job-submitted", "job-started", "job-finished"]
    first = next(body for body in bodies if body.get("job") == 0)
    assert (first["tenant"], first["detail"]["name"], first["detail"]["by"]) == ("x", "first", "tester")
    assert [body["kind"] for body in bodies if "node" in body and "job" not in body] == ["node-joined"]
    assert [body["kind"] for body in bodies].count("scheduler-started") == 2
    headers, _ = endpoint.got[0]
    assert headers["Idempotency-Key"] == bodies[0]["id"]
    assert set(endpoint.paths) == {"/hook?team=ml"}


def test_a_job_that_is_cancelled_or_given_up_is_told_once_although_the_engine_drops_it_later(tmp_path, endpoint):
    scheduler = a_scheduler(tmp_path / "state.db")
    told = webhook(tmp_path, endpoint.url, '["job-cancelled", "job-failed", "job-finished"]')
    notifier = Notifier(scheduler, told)
    scheduler.start()
    notifier.start()
    agents = [PlayedAgent(scheduler, "a", gpus=2)]
    numbers = submit(scheduler, {"steps": 10_000_000}, {"steps": 10_000_000, "gpus": 8}, {})
    until(lambda: look(scheduler, lambda r: len(r.running)), scheduler, agents)
    scheduler.post("test", lambda now: scheduler.requests.cancel(numbers[:2], "me", None, now)).result(10)
    until(lambda: len(look(scheduler, lambda r: r.ended)) == 3, scheduler, agents)
    comes(lambda: len(endpoint.got) >= 3)
    last = scheduler.journal.last
    comes(lambda: scheduler.journal.last - notifier.behind()["hook"] >= last)
    notifier.stop()
    scheduler.stop()

    assert sorted((body["job"], body["kind"]) for body in endpoint.bodies()) == [
        (0, "job-cancelled"), (1, "job-cancelled"), (2, "job-finished"),
    ]  # fmt: skip


def test_time_limits_settings_and_takeovers_are_told(tmp_path, endpoint):
    state = tmp_path / "state.db"
    told = webhook(tmp_path, endpoint.url)
    scheduler = a_scheduler(state)
    notifier = Notifier(scheduler, told)
    scheduler.start()
    notifier.start()
    agents = [PlayedAgent(scheduler, "a", gpus=2)]
    submit(scheduler, {"steps": 10_000_000, "time_limit_s": 300.0})
    until(lambda: len(look(scheduler, lambda r: r.ended)) == 1, scheduler, agents)
    live = {"policy": "srtf"}
    deciders = make_deciders(replace(scheduler.options, policy="srtf"))
    scheduler.post("test", lambda now: scheduler.change_settings(deciders, live, 0, "an admin", now)).result(10)
    comes(lambda: any(body["kind"] == "settings-changed" for body in endpoint.bodies()))
    notifier.stop()
    scheduler.stop()
    lost_events.mark(state, "taken over from head1:7070 in term 1")
    second = a_scheduler(state, term=1)
    notifier = Notifier(second, told)
    second.start()
    notifier.start()
    comes(lambda: any(body["kind"] == "scheduler-took-over" for body in endpoint.bodies()))
    notifier.stop()
    second.stop()

    found = {body["kind"]: body for body in endpoint.bodies()}
    kinds = [body["kind"] for body in endpoint.bodies() if body.get("job") == 0]
    assert kinds.index("time-limit-near") < kinds.index("time-limit-over")
    assert found["time-limit-near"]["detail"]["left_s"] < 300.0
    assert found["settings-changed"]["detail"]["by"] == "an admin"
    assert "policy srtf" in found["settings-changed"]["message"]
    assert found["scheduler-took-over"]["detail"]["term"] == 1
    assert "taken over from head1" in found["events-lost"]["detail"]["why"]


def test_a_dead_endpoint_does_not_hold_up_the_scheduler_or_other_targets(tmp_path, endpoint):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says anything
        dead = webhook(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}/")[0]
        scheduler = a_scheduler(tmp_path / "state.db")
        notifier = Notifier(scheduler, (replace(dead, name="dead"), *webhook(tmp_path, endpoint.url)))
        scheduler.start()
        notifier.start()
        began = time.monotonic()
        submit(scheduler, *[{}] * 200)
        took = time.monotonic() - began
        comes(lambda: sum(body["kind"] == "job-submitted" for body in endpoint.bodies()) == 200)
        behind = notifier.behind()
        began = time.monotonic()
        scheduler.stop()
        notifier.stop()

    assert took < 5
    assert behind["dead"] > 0
    assert time.monotonic() - began < 12


# Webhooks


def test_a_signed_request_can_be_checked_by_whoever_has_the_secret(tmp_path, endpoint):
    secret = tmp_path / "key"
    secret.write_text("a-secret-that-nobody-guesses\n")
    secret.chmod(0o600)
    (target,) = webhook(tmp_path, endpoint.url, more=f'secret_file = "{secret}"')

    assert try_once(target).delivered

    headers, body = endpoint.got[0]
    signed = headers["X-Rota-Timestamp"].encode() + b"." + body
    expected = hmac.new(b"a-secret-that-nobody-guesses", signed, hashlib.sha256).hexdigest()
    assert headers["X-Rota-Signature"] == f"sha256={expected}"
    assert abs(int(headers["X-Rota-Timestamp"]) - time.time()) < 60


def test_failures_are_repeated_with_the_same_key_until_they_work(tmp_path, endpoint):
    endpoint.answers = [(500, {}), (503, {"Retry-After": "0"}), (404, {}), (429, {})]
    (target,) = webhook(tmp_path, endpoint.url)
    with delivering(target, ListedEvents(lost("a"), lost("b")), tmp_path) as made:
        comes(lambda: made.counts()["delivered"] == 2)

    assert [body["node"] for body in endpoint.bodies()] == ["a"] * 5 + ["b"]
    assert len({headers["Idempotency-Key"] for headers, _ in endpoint.got[:5]}) == 1
    assert made.counts() == {"delivered": 2, "failed": 4, "given-up": 0, "left-out": 0}


def test_a_redirect_is_not_followed(tmp_path, endpoint):
    endpoint.answers = [(302, {"Location": "/elsewhere"}), (307, {"Location": "http://127.0.0.1:1/"})]
    (target,) = webhook(tmp_path, endpoint.url)
    first = try_once(target)
    try_once(target)

    assert not first.delivered
    assert "redirects are not followed" in first.why
    assert set(endpoint.paths) == {"/hook?team=ml"}


def test_what_an_endpoint_cannot_read_is_given_up_at_once_and_the_next_is_told(tmp_path, endpoint, caplog):
    endpoint.answers = [(400, {})]
    (target,) = webhook(tmp_path, endpoint.url)
    with delivering(target, ListedEvents(lost("a"), lost("b")), tmp_path) as made:
        comes(lambda: made.counts()["delivered"] == 1)

    assert made.counts()["given-up"] == 1
    assert "event 1 (node-lost) is not told to hook: answer 400" in caplog.text


def test_an_event_that_is_too_old_is_tried_once_and_given_up(tmp_path, endpoint):
    endpoint.answers = [(500, {})] * 3
    (target,) = webhook(tmp_path, endpoint.url, more="retry_for_s = 0.5")
    source = ListedEvents(lost("a"), lost("b"), lost("c"))
    with delivering(target, source, tmp_path) as made:
        comes(lambda: made.counts()["given-up"] == 3)

    assert len(endpoint.got) == 3


def trickle(server, stop):
    """Answers one byte at a time, for ever."""
    line, _ = server.accept()
    with line, contextlib.suppress(OSError):
        line.sendall(b"HTTP/1.1 200 OK\r\n")
        while not stop.wait(0.05):
            line.sendall(b"X")


def test_an_answer_that_never_ends_is_cut_off_in_time(tmp_path):
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle, args=(server, stop))
        thread.start()
        (target,) = webhook(tmp_path, f"http://127.0.0.1:{server.getsockname()[1]}/", more="timeout_s = 0.5")
        began = time.monotonic()
        outcome = try_once(target)
        took = time.monotonic() - began
        stop.set()
        thread.join()

    assert (outcome.delivered, outcome.again, outcome.why) == (False, True, "no answer within 0.5 s")
    assert took < 5


def test_nobody_there_is_a_failure_that_is_tried_again(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    outcome = try_once(webhook(tmp_path, f"http://127.0.0.1:{port}/")[0])

    assert (outcome.delivered, outcome.again) == (False, True)
    assert "refused" in outcome.why


def test_ten_thousand_events_at_once_are_told_in_order_and_pile_up_nowhere(tmp_path, endpoint):
    source = ListedEvents(*(lost(f"n{i}") for i in range(10_000)))
    (target,) = webhook(tmp_path, endpoint.url)
    with delivering(target, source, tmp_path) as made:
        comes(lambda: made.counts()["delivered"] >= 500, 60)

    nodes = [body["node"] for body in endpoint.bodies()]
    assert nodes == [f"n{i}" for i in range(len(nodes))]
    assert made.counts()["failed"] == 0


def test_a_target_that_is_too_far_behind_hears_of_the_newest_only(tmp_path, endpoint, caplog, monkeypatch):
    monkeypatch.setattr(delivery, "MOST_BEHIND", 10)
    source = ListedEvents(*(lost(f"n{i}") for i in range(100)))
    (target,) = webhook(tmp_path, endpoint.url)
    with delivering(target, source, tmp_path) as made:
        comes(lambda: made.counts()["delivered"] == 10)

    assert [body["node"] for body in endpoint.bodies()] == [f"n{i}" for i in range(90, 100)]
    assert made.counts()["left-out"] == 90
    assert "events 1 to 90 of the journal are left out" in caplog.text


def test_events_that_were_removed_from_the_journal_are_counted_as_left_out(tmp_path, endpoint):
    source = ListedEvents(*(lost(f"n{i}") for i in range(10)))
    source.removed = 8
    (target,) = webhook(tmp_path, endpoint.url)
    with delivering(target, source, tmp_path) as made:
        comes(lambda: made.counts()["delivered"] == 2)

    assert made.counts()["left-out"] == 8


def test_a_tenant_filter_lets_nothing_through_that_is_not_about_its_jobs(tmp_path, endpoint):
    source = ListedEvents(
        lost("a"),
        {"event": "JobGivenUp", "at": 1.0, "job": 1, "reason": "no"},
        {"event": "JobsFinished", "at": 2.0, "jobs": [1, 2, 3], "finished_at": [2.0, 2.0, 2.0]},
        {"event": "Audited", "at": 3.0, "who": "somebody", "what": "everything"},
        {"event": "Damaged", "at": 0.0},
        {"event": "JobsFinished", "at": 2.0, "jobs": [4], "finished_at": [2.0]},
    )
    source.tenants = {1: "vision", 2: "speech", 3: "vision", 4: "speech"}
    (target,) = webhook(tmp_path, endpoint.url, more='tenants = ["speech"]')
    with delivering(target, source, tmp_path) as made:
        comes(lambda: made.counts()["delivered"] == 2)

    bodies = endpoint.bodies()
    assert [(body["job"], body["tenant"], body["id"]) for body in bodies] == [
        (2, "speech", "listed:3:2"), (4, "speech", "listed:6:4"),
    ]  # fmt: skip
    assert "vision" not in json.dumps(bodies)
    assert "1" not in bodies[0]["message"].replace("job 2", "")


# Commands


def test_a_command_gets_the_event_on_standard_input_and_nothing_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ROTA_TOKEN", "secret")
    (target,) = command(
        tmp_path, f"cat > {tmp_path}/got; env > {tmp_path}/env; cat /proc/self/cmdline >> {tmp_path}/env"
    )

    assert try_once(target).delivered

    assert json.loads((tmp_path / "got").read_text()) == {"kind": "node-lost"}
    environment = (tmp_path / "env").read_text()
    assert "ROTA_KIND=node-lost" in environment
    assert "ROTA_NOTIFICATION_ID=journal:7" in environment
    assert "secret" not in environment


def test_words_of_the_shell_are_only_words(tmp_path):
    (target,) = targets(
        tmp_path,
        f'[[command]]\nname = "c"\nargv = ["/bin/echo", "$(touch {tmp_path}/bad)", "; touch {tmp_path}/bad"]\n'
        'events = ["*"]',
    )
    assert try_once(target).delivered
    assert not (tmp_path / "bad").exists()


def test_a_command_that_fails_is_repeated_and_its_words_are_logged(tmp_path, caplog):
    (target,) = command(tmp_path, f"echo no battery >&2; test -e {tmp_path}/ok && exit 0; touch {tmp_path}/ok; exit 3")
    with delivering(target, ListedEvents(lost("a")), tmp_path) as made:
        comes(lambda: made.counts()["delivered"] == 1)

    assert made.counts()["failed"] == 1
    assert "ended with code 3: no battery" in caplog.text


def test_a_slow_command_is_ended_with_all_that_it_started(tmp_path):
    (target,) = command(tmp_path, f"sleep 300 & echo $! > {tmp_path}/pid; sleep 300", more="timeout_s = 0.5")
    began = time.monotonic()
    outcome = try_once(target)

    assert outcome.why.endswith("did not end within 0.5 s")
    assert time.monotonic() - began < 5
    child = int((tmp_path / "pid").read_text())
    comes(lambda: not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes())


def test_a_command_that_reads_nothing_and_talks_without_end_does_no_harm(tmp_path):
    (target,) = command(tmp_path, "exec yes >&2", more="timeout_s = 0.5")
    outcome = try_once(target, a_message(b"x" * 60_000))

    assert not outcome.delivered
    assert len(outcome.why) < 500


def test_a_command_whose_child_keeps_the_pipe_open_is_over_when_it_is_over(tmp_path):
    (target,) = command(tmp_path, "sleep 300 & exit 0")
    began = time.monotonic()

    assert try_once(target).delivered
    assert time.monotonic() - began < 5


def test_a_program_that_is_gone_is_a_failure(tmp_path):
    (target,) = command(tmp_path, "true")
    (tmp_path / "tell.sh").unlink()

    assert "cannot be run" in try_once(target).why


# What was delivered


def test_a_killed_notifier_tells_the_last_few_again_with_the_same_keys(tmp_path, endpoint):
    source = ListedEvents(*(lost(f"n{i}") for i in range(5)))
    (target,) = webhook(tmp_path, endpoint.url)
    positions = Positions(tmp_path / "notified", source.journal, monotonic=lambda: 0.0)
    positions.begin([target.name], 0)
    made = Delivery(target, source, positions)
    made.start()
    comes(lambda: made.counts()["delivered"] == 5)
    made.stop()  # nothing is written at the end, as if the process had been killed
    made.join(10)

    with delivering(target, source, tmp_path, begin=5) as again:
        comes(lambda: again.counts()["delivered"] == 5)

    assert [body["node"] for body in endpoint.bodies()] == [f"n{i}" for i in range(5)] * 2
    assert len({headers["Idempotency-Key"] for headers, _ in endpoint.got}) == 5


def test_a_full_disk_is_said_once_and_notifications_go_on(tmp_path, endpoint, caplog):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", disk], check=False, capture_output=True)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    try:
        source = ListedEvents(*(lost(f"n{i}") for i in range(20)))
        (target,) = webhook(tmp_path, endpoint.url)
        with delivering(target, source, disk) as told:
            with contextlib.suppress(OSError):
                (disk / "filler").write_bytes(b"x" * 100_000)
            told._positions._written_at = -10.0
            comes(lambda: told.counts()["delivered"] == 20)
            told._positions.advance(target.name, 19)
            told._positions.write(now=True)
            told._positions.write(now=True)
        assert caplog.text.count("cannot write") == 1
        assert len(endpoint.got) == 20
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_new_target_begins_with_what_happens_now(tmp_path, endpoint):
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    submit(scheduler, {}, {})
    notifier = Notifier(scheduler, webhook(tmp_path, endpoint.url))
    notifier.start()
    submit(scheduler, {"name": "new"})
    comes(lambda: endpoint.got)
    notifier.stop()
    scheduler.stop()

    assert [body["detail"].get("name") for body in endpoint.bodies()] == ["new"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"journal": "x"}', '{"journal": "j", "targets": {"a": -1}}', "\xff"])
def test_a_damaged_file_of_positions_is_refused_with_what_to_do(tmp_path, text):
    path = tmp_path / "notified"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(ConfigError, match="Remove it"):
        Positions(path, "j")


def test_positions_of_another_journal_are_not_used(tmp_path, caplog):
    path = positions_file(tmp_path / "state.db")
    path.write_text('{"journal": "other", "targets": {"hook": 5}}')

    positions = Positions(path, "mine")
    positions.begin(["hook"], 99)

    assert positions.of("hook") == 99
    assert "another state file" in caplog.text
    assert path.stat().st_mode & 0o777 == 0o600


# Settings and kinds

GOOD = '[[webhook]]\nname = "a"\nurl = "https://x.example/"\nevents = ["job-failed"]\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names nobody"),
        ("x = 1", "there is no 'x'"),
        ("[webhook]\nname = 'a'", r"write \[\[webhook\]\]"),
        (GOOD + GOOD, "two targets have the name 'a'"),
        (GOOD.replace("job-failed", "job-faild"), "did you mean 'job-failed'"),
        (GOOD.replace('["job-failed"]', '"job-failed"'), "give a list of texts"),
        (GOOD.replace('["job-failed"]', "[]"), "give a list of texts"),
        (GOOD.replace("https://x.example/", "ftp://x.example/"), "write https://HOST/PATH"),
        (GOOD.replace("https://x.example/", "http://x.example/"), "allow_http"),
        (GOOD.replace("https://x.example/", "https://me:pw@x.example/"), "secret_file"),
        (GOOD.replace("https://x.example/", "https://x.example:99999/"), "cannot be used"),
        (GOOD.replace("https://x.example/", "https://x.example/a b"), "percent-encoded"),
        (GOOD.replace("https://x.example/", "https://x.example/\\r\\nHost: y"), "percent-encoded"),
        (GOOD + "timeout_s = nan", "give seconds above 0"),
        (GOOD + "timeout_s = 1e9", "up to 600"),
        (GOOD + "retry_for_s = -1", "give seconds above 0"),
        (GOOD + "retry_for_s = true", "give seconds above 0"),
        (GOOD + "retries = 3", "there is no 'retries'"),
        (GOOD + 'secret_file = "/does/not/exist"', "does not exist"),
        (GOOD + 'ca_file = "/does/not/exist"', "no certificates"),
        (GOOD + "tenants = []", "give a list of texts"),
        (GOOD.replace('"a"', '"a/b"'), "a target of notifications"),
        ('[[command]]\nname = "c"\nargv = ["mail"]\nevents = ["*"]', "give its whole path"),
        ('[[command]]\nname = "c"\nargv = ["/etc/passwd"]\nevents = ["*"]', "no program that can be run"),
        ('[[command]]\nname = "c"\nargv = "/bin/true"\nevents = ["*"]', "give a list of texts"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_place_and_what_to_do(tmp_path, text, says):
    with pytest.raises(ConfigError, match=says) as refused:
        targets(tmp_path, text)
    assert "notify.toml" in str(refused.value) or "/does/not/exist" in str(refused.value)


def test_a_secret_that_others_can_read_is_refused(tmp_path):
    secret = tmp_path / "key"
    secret.write_text("a-secret-that-nobody-guesses")
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        webhook(tmp_path, "https://x.example/", more=f'secret_file = "{secret}"')


def test_every_kind_comes_from_an_event_of_the_journal():
    made = set()
    base = {"at": 1.0, "job": 1, "jobs": [1], "node": "a", "reason": "preempted", "outcome": "failed", "epoch": 1}
    one = {"drained": True, "trouble": "x", "standby": "head2:7070"}
    another = {"drained": False, "trouble": "", "reason": "time-limit"}
    for name in delivery.TOLD:
        for more in (one, another):
            fields = {"event": name, **base, **more}
            made |= {one.kind for one in notifications_of(1, fields, {1: JobFacts(tenant="x")})}
    assert made == set(KINDS)


def test_the_name_of_an_event_is_found_without_reading_it():
    assert event_name('{"event":"NodeLost","at":1.0') == "NodeLost"
    assert event_name('{"event": "Planned", ') == "Planned"
    assert event_name('{"at":1,"event":"NodeLost"}') == ""
    assert event_name("") == ""


def test_long_words_of_users_are_cut(tmp_path):
    (one,) = notifications_of(1, {"event": "JobGivenUp", "at": 1.0, "job": 1, "reason": "x" * 100_000}, {})
    assert len(one.body("j", 0.0)) < 10_000


def test_a_source_that_fails_is_asked_again(tmp_path, endpoint, caplog):
    class Failing(ListedEvents):
        fails = 2

        def read(self, after, limit):
            if self.fails:
                self.fails -= 1
                raise OSError("the disk does not answer")
            return super().read(after, limit)

    caplog.set_level(logging.DEBUG)
    (target,) = webhook(tmp_path, endpoint.url)
    with delivering(target, Failing(lost("a")), tmp_path) as made:
        comes(lambda: made.counts()["delivered"] == 1)


def test_the_journal_of_a_scheduler_says_whose_archived_jobs_were(tmp_path):
    from rota.deploy.scheduler.options import Retention

    scheduler = a_scheduler(tmp_path / "state.db", retention=Retention(keep_finished_s=0.0, keep_finished_jobs=0))
    scheduler.start()
    agents = [PlayedAgent(scheduler, "a")]
    submit(scheduler, {"tenant": "x"})
    until(lambda: look(scheduler, lambda r: r.archived) == 1, scheduler, agents)

    facts = JournalSource(scheduler).facts([0, 5])

    scheduler.stop()
    assert {job: known.tenant for job, known in facts.items()} == {0: "x"}
