"""docs/metrics.md and docs/notifications.md say what the code does."""

import json
import re
from pathlib import Path

from deployed import PlayedAgent, a_scheduler, look, submit, until
from rota.core.parsing import parse_toml
from rota.deploy.notifications import settings
from rota.deploy.notifications.kinds import KINDS, JobFacts, notifications_of
from rota.deploy.notifications.sending import signature
from rota.deploy.observation.gauges import Beside, Gauges
from rota.deploy.observation.metrics import Metrics
from rota.deploy.observation.observer import Observer

DOCS = Path(__file__).parents[2] / "docs"
METRICS = (DOCS / "metrics.md").read_text(encoding="utf-8")
NOTIFICATIONS = (DOCS / "notifications.md").read_text(encoding="utf-8")


def block(text, kind, number=0):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[number]


def test_every_metric_is_in_the_table_with_its_labels_and_kind(tmp_path):
    scheduler = a_scheduler(tmp_path / "state.db")
    metrics = Metrics(scheduler)
    observer = Observer(scheduler, [metrics.counting])
    beside = Beside(refusals=lambda: {"x": 1}, notifications=lambda: {("a", "b"): 1}, behind=lambda: {"a": 1})
    gauges = Gauges(scheduler=scheduler, observer=observer, counting=metrics.counting, beside=beside)
    metrics.collectors.register(gauges)
    observer.start()
    scheduler.start()
    agents = [PlayedAgent(scheduler, "a", gpus=1)]
    submit(scheduler, {"steps": 10_000_000}, {})
    until(lambda: look(scheduler, lambda r: len(r.running)), scheduler, agents)
    observer.catch_up()
    shown = {}
    for family in metrics.collectors.collect():
        suffix = "_total" if family.type == "counter" else ""
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        shown[family.name + suffix] = (frozenset(labels), family.type)
    scheduler.stop()
    observer.stop()

    rows = re.findall(r"^\| `(rota_\w+)` \|\s*([^|]*?)\s*\| (\w+) \|", METRICS, re.MULTILINE)
    told = {name: (frozenset(labels.replace(",", " ").split()), kind) for name, labels, kind in rows}
    assert told == shown


def test_every_kind_of_notification_is_in_the_table_in_the_same_words():
    rows = dict(re.findall(r"^\| `([a-z]+(?:-[a-z]+)+)` \| (.*) \|$", NOTIFICATIONS, re.MULTILINE))
    assert rows == dict(KINDS)


def test_the_example_of_a_file_is_one_and_every_key_is_explained(tmp_path, monkeypatch):
    text = block(NOTIFICATIONS, "toml")
    secret = tmp_path / "key"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    text = text.replace("/etc/rota/webhook.key", str(secret)).replace("/usr/local/bin/page", "/bin/true")
    (tmp_path / "notify.toml").write_text(text)

    assert [target.name for target in settings.read_targets(tmp_path / "notify.toml")] == [
        "on-call", "vision-chat", "page",
    ]  # fmt: skip
    keys = {key for tables in parse_toml(text).values() for table in tables for key in table}
    explained = set(re.findall(r"^\| `(\w+)` \| (?:both|webhook|command) \|", NOTIFICATIONS, re.MULTILINE))
    assert keys <= explained
    assert {*settings._SHARED, "url", "secret_file", "ca_file", "argv"} == explained


def test_the_example_of_a_notification_has_the_fields_of_one():
    shown = json.loads(block(NOTIFICATIONS, "json"))
    fields = {"event": "JobGivenUp", "at": 2460.5, "job": 17, "reason": shown["detail"]["reason"]}
    (made,) = notifications_of(1234, fields, {17: JobFacts(tenant="vision", name="resnet")})
    real = json.loads(made.body("9f2c...", 0.0))

    assert {**real, "time": ""} == {**shown, "time": ""}


def test_the_check_of_a_signature_that_is_shown_works():
    names = {}
    exec(block(NOTIFICATIONS, "python"), names)  # noqa: S102 - our own page
    headers = {"X-Rota-Timestamp": "1000", "X-Rota-Signature": signature(b"secret", "1000", b"{}")}

    assert names["is_from_rota"](b"secret", headers, b"{}", 1100.0)
    assert not names["is_from_rota"](b"secret", headers, b"{ }", 1100.0)
    assert not names["is_from_rota"](b"other", headers, b"{}", 1100.0)
    assert not names["is_from_rota"](b"secret", headers, b"{}", 9100.0)
