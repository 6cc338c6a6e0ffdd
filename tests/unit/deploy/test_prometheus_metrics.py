"""Metrics of a scheduler: right, bounded, and made without the thread that decides."""

import contextlib
import gc
import http.client
import itertools
import re
import socket
import threading
import time

import pytest

from deployed import PlayedAgent, a_scheduler, ask, look, submit, until
from rota.cli.observation_options import observed
from rota.core.errors import ConfigError
from rota.deploy.events import Part
from rota.deploy.observation.gauges import Beside
from rota.deploy.observation.gpu_time import GpuTime
from rota.deploy.observation.labels import OTHER, Labels
from rota.deploy.observation.metrics import Metrics
from rota.deploy.observation.observer import Observer
from rota.deploy.observation.settings import MetricsAddress, metrics_address
from rota.deploy.observation.tap import EventTap
from rota.deploy.questions.eta import Estimate
from rota.deploy.questions.forecasts import Forecasts

REFERENCE = {
    "rota_jobs": {"tenant", "phase"},
    "rota_jobs_waiting": {"tenant", "reason"},
    "rota_job_wait_seconds_bucket": {"le"},
    "rota_job_completion_seconds_bucket": {"le"},
    "rota_gpus": {"type", "state"},
    "rota_gpu_seconds_total": {"tenant", "type"},
    "rota_fair_share_gpus": {"tenant"},
    "rota_allocated_gpus": {"tenant", "type"},
    "rota_preemptions_total": {"cause"},
    "rota_attempts_ended_total": {"reason"},
    "rota_round_seconds_bucket": {"stage", "le"},
    "rota_solves_late_total": set(),
    "rota_journal_commit_seconds_bucket": {"le"},
    "rota_agent_silence_seconds": {"node"},
    "rota_auth_refusals_total": {"reason"},
    "rota_eta_error_seconds_bucket": {"le"},
}
"""Names and labels as operators know them from the design."""
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


class Watched:
    """A scheduler with metrics."""

    def __init__(self, path, tap=None, **options):
        self.scheduler = a_scheduler(path, **options)
        metrics = Metrics(self.scheduler)
        self.observer = Observer(self.scheduler, [metrics.counting], tap)
        self.server = metrics.server(
            MetricsAddress(host="127.0.0.1", port=0), self.observer, Beside(refusals=lambda: {"bad-token": 2})
        )
        self.port = int(self.server.url.rpartition(":")[2].partition("/")[0])
        self.observer.start()
        self.scheduler.start()
        self.server.start()

    def close(self):
        self.server.stop()
        self.scheduler.stop()
        self.observer.stop()

    def get(self, path="/metrics", method="GET", **headers):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            line.request(method, path, headers=headers)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()

    def values(self):
        """Sample to value, of a page that is not from memory."""
        self.server._server.page._kept.clear()
        found = {}
        for line in self.get()[1].splitlines():
            if sample := SAMPLE.match(line):
                labels = frozenset(re.findall(r'(\w+)="([^"]*)"', sample[2] or ""))
                found[sample[1], labels] = float(sample[3])
        return found

    def value(self, name, **labels):
        return self.values().get((name, frozenset(labels.items())))


@pytest.fixture
def watched(tmp_path):
    made = Watched(tmp_path / "state.db")
    yield made
    made.close()


def test_a_scrape_has_the_names_of_the_reference_with_their_labels_and_no_job_as_a_label(watched):
    agents = [PlayedAgent(watched.scheduler, "a", gpus=1)]
    submit(watched.scheduler, {"steps": 10_000_000, "tenant": "x"}, {"tenant": "y"})
    until(lambda: look(watched.scheduler, lambda r: len(r.running)), watched.scheduler, agents)
    until(lambda: watched.value("rota_gpus", type="v100", state="busy") == 1, watched.scheduler, agents)

    values = watched.values()

    labels_of = {}
    for name, labels in values:
        labels_of.setdefault(name, set()).update(label for label, _ in labels)
    assert {name: labels_of.get(name) for name in REFERENCE} == REFERENCE
    assert [name for name, labels in labels_of.items() if "job" in labels] == ["rota_job_info"]
    assert values["rota_auth_refusals_total", frozenset({("reason", "bad-token")})] == 2
    assert sum(value for (name, _), value in values.items() if name == "rota_fair_share_gpus") == 1


def test_jobs_that_nobody_means_to_start_now_give_their_tenant_no_share(watched):
    agents = [PlayedAgent(watched.scheduler, "a", gpus=2)]
    (held, _) = submit(watched.scheduler, {"tenant": "y", "hold": True}, {"tenant": "y", "after_any": (-1,)})
    submit(watched.scheduler, {"steps": 10_000_000, "gpus": 2, "tenant": "x"})
    until(lambda: look(watched.scheduler, lambda r: len(r.running)), watched.scheduler, agents)
    until(lambda: watched.value("rota_fair_share_gpus", tenant="x") == 2, watched.scheduler, agents)
    assert not watched.value("rota_fair_share_gpus", tenant="y")

    ask(watched.scheduler, lambda now: watched.scheduler.requests.release([held], [], "me", None, now))
    until(lambda: watched.value("rota_fair_share_gpus", tenant="y") == 1, watched.scheduler, agents)


def test_numbers_are_those_of_what_happened(watched):
    scheduler = watched.scheduler
    agents = [PlayedAgent(scheduler, "a", gpus=2)]
    submit(scheduler, {"tenant": "x"}, {"tenant": "x"}, {"tenant": "x", "gpus": 8})
    until(lambda: len(look(scheduler, lambda r: r.ended)) == 2, scheduler, agents)
    until(lambda: watched.value("rota_jobs_ended_total", tenant="x", phase="finished") == 2, scheduler, agents)

    values = watched.values()

    def one(name, **labels):
        return values[name, frozenset(labels.items())]

    assert one("rota_jobs_submitted_total", tenant="x") == 3
    assert one("rota_jobs", tenant="x", phase="waiting") == 1
    assert one("rota_jobs_waiting", tenant="x", reason="no-server-fits") == 1
    assert one("rota_job_wait_seconds_count") == 2
    assert one("rota_job_completion_seconds_count") == 2
    assert one("rota_attempts_ended_total", reason="completed") == 2
    assert one("rota_journal_commit_seconds_count") > 3
    assert one("rota_round_seconds_count", stage="total") > 0
    spent = one("rota_gpu_seconds_total", tenant="x", type="v100")
    jobs = look(scheduler, lambda r: [r.jobs[0], r.jobs[1]])
    assert spent == pytest.approx(sum(job.attempts[-1].ended - job.attempts[-1].started for job in jobs), rel=0.01)


def test_the_copy_is_the_registry_after_jobs_drains_losses_and_cancellations(watched):
    scheduler = watched.scheduler
    agents = [PlayedAgent(scheduler, "a", gpus=2), PlayedAgent(scheduler, "b", gpus=2)]
    numbers = submit(scheduler, *({"steps": 500 * (i + 1), "tenant": f"t{i % 3}"} for i in range(12)))
    scheduler.post("test", lambda now: scheduler.requests.cancel(numbers[-2:], "x", None, now)).result(10)
    scheduler.post("test", lambda now: scheduler.requests.drain("b", "x", now, undo=False)).result(10)
    until(lambda: len(look(scheduler, lambda r: r.ended)) == 12, scheduler, agents)

    def same():
        watched.observer.catch_up()
        ours = watched.observer.registry
        return look(scheduler, lambda r: r) == ours and ours.counts == look(scheduler, lambda r: r.counts)

    until(same, scheduler)
    assert watched.observer.copies == 0


def test_a_scrape_does_not_wait_for_the_thread_that_decides(watched):
    submit(watched.scheduler, *[{}] * 50)
    asleep = threading.Event()
    wake = threading.Event()

    def sleep(_):
        asleep.set()
        wake.wait(20)
        return [], lambda: None

    held = watched.scheduler.post("a very slow request", sleep)
    assert asleep.wait(10)
    began = time.monotonic()
    status, _ = watched.get()
    took = time.monotonic() - began
    still_held = not held.done()
    wake.set()

    assert (status, still_held) == (200, True)
    assert took < 5


def test_events_that_did_not_fit_are_made_up_for_by_a_fresh_copy(tmp_path):
    tap = EventTap(most=2)
    watched = Watched(tmp_path / "state.db", tap)
    try:
        with watched.observer.lock:  # nobody reads
            submit(watched.scheduler, *[{"tenant": "x"}] * 5)
            for _ in range(10):
                submit(watched.scheduler, {"tenant": "x"})
            assert tap.dropped > 0
            assert len(tap._waiting) <= 2
        until(lambda: watched.observer.copies, watched.scheduler)
        until(lambda: watched.value("rota_jobs", tenant="x", phase="waiting") == 15, watched.scheduler)
    finally:
        watched.close()


def test_many_scrapes_at_once_cost_no_more_than_one_page(watched):
    page = watched.server._server.page
    made = itertools.count()
    collect = page._collectors.collect
    page._collectors.collect = lambda: (next(made), collect())[1]
    page._kept.clear()

    threads = [threading.Thread(target=lambda: [watched.get() for _ in range(5)]) for _ in range(4)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began

    assert next(made) <= 1 + took / 1.0


def test_only_this_machine_is_answered_and_only_where_metrics_are(watched):
    assert watched.get(Host="evil.example:9464")[0] == 403
    assert watched.get(Host="evil.example")[0] == 403
    assert watched.get(Host="localhost:1")[0] == 200
    assert watched.get(Host="[::1]:9")[0] == 200
    assert watched.get("/")[0] == 404
    assert watched.get("/metrics/../../etc/passwd")[0] == 404
    assert watched.get("/metrics?x=1")[0] == 200
    assert watched.get(method="POST")[0] == 501
    assert watched.get(method="HEAD") == (200, "")


def test_connections_that_say_nothing_take_no_place_from_others_for_long(watched):
    # More than are served at the same time; those that are cut make room for Prometheus at once.
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", watched.port)))
            line.sendall(b"GET /met")
        time.sleep(0.2)
        with contextlib.suppress(OSError, http.client.HTTPException):
            watched.get()  # turned away, at once
        assert threading.active_count() < 40
    until(lambda: _answers(watched), watched.scheduler)


def _answers(watched):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return watched.get()[0] == 200
    return False


def test_openmetrics_is_spoken_to_those_who_ask_for_it(watched):
    _, text = watched.get(Accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize("address", ["0.0.0.0:9464", "[::]:9464", ":9464", "example.org:9464", "10.0.0.1:9464"])
def test_an_address_that_others_reach_needs_saying_so(address):
    with pytest.raises(ConfigError, match="--metrics-public"):
        metrics_address(address, public=False)
    assert metrics_address(address, public=True).public


@pytest.mark.parametrize("address", ["", "9464", "localhost", "127.0.0.1:99999", "127.0.0.1:-1", "::1:9464", "unix:/x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ConfigError, match=r"HOST:PORT|IPv6"):
        metrics_address(address, public=False)


def test_a_port_that_is_taken_is_said(watched):
    metrics = Metrics(watched.scheduler)
    with pytest.raises(ConfigError, match=r"cannot listen there .*; give another port"):
        metrics.server(MetricsAddress(host="127.0.0.1", port=watched.port), watched.observer, Beside())
    gc.collect()


def test_a_public_address_without_an_address_is_refused():
    with pytest.raises(ConfigError, match="--metrics-public needs --metrics"):
        observed({"metrics": None, "metrics_public": True, "notify": None}, "text", print)


def test_estimates_score_themselves_when_their_job_starts(watched):
    scheduler = watched.scheduler
    (job,) = submit(scheduler, {"steps": 100})
    now = scheduler.clock.now()
    forecasts = Forecasts(scheduler.journal.path)
    forecasts.keep([Estimate(job=job, runs=False, start=now + 50.0, end=None)], lambda _: "x", now, 60.0)
    agents = [PlayedAgent(scheduler, "a")]
    until(lambda: watched.value("rota_eta_error_seconds_count") == 1, scheduler, agents)

    started = look(scheduler, lambda r: r.jobs[job].started)
    assert watched.value("rota_eta_error_seconds_sum") == pytest.approx(abs(started - now - 50.0))


def test_a_file_of_estimates_that_is_damaged_does_no_harm(watched):
    (watched.scheduler.journal.path.parent / "state.db.forecasts").write_bytes(b"no database" * 1000)
    agents = [PlayedAgent(watched.scheduler, "a")]
    submit(watched.scheduler, {"steps": 100})
    until(lambda: watched.value("rota_job_wait_seconds_count") == 1, watched.scheduler, agents)

    assert watched.value("rota_eta_error_seconds_count") == 0


# Parts


def parts(node, *devices):
    return (Part(node=node, devices=devices, cpus=1.0, memory_gb=1.0),)


def test_gpu_time_never_goes_back_and_two_jobs_on_a_gpu_have_half_each():
    time_ = GpuTime()
    time_.started(1, ("x", "v100"), parts("a", "0", "1"), 0.0)
    time_.started(2, ("y", "v100"), parts("a", "1"), 10.0)
    assert time_.held() == {("x", "v100"): 1.5, ("y", "v100"): 0.5}
    time_.advance(20.0)
    time_.ended(1, 19.0)  # an end that is heard of late
    time_.advance(30.0)
    time_.ended(2, 30.0)

    assert time_.total == {("x", "v100"): 35.0, ("y", "v100"): 15.0}
    assert time_.held() == {}


def test_gpu_time_survives_an_end_that_nobody_started():
    time_ = GpuTime()
    time_.ended(7, 5.0)
    assert time_.held() == {}


def test_labels_are_bounded_and_stay():
    labels = Labels(2)
    assert [labels.of(name) for name in ("a", "b", "c", "a", "c")] == ["a", "b", OTHER, "a", OTHER]
