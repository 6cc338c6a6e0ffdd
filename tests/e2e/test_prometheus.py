"""Every PromQL expression of deploy/ against a real Prometheus that scrapes a real scheduler, and alerts that fire."""

import json
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from chaos import free_port
from faults import Site, until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux to run processes"),
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("promtool") is None,
        reason="prometheus and promtool are not installed (scripts/system-packages.sh)",
    ),
]
FOLDER = Path(__file__).parents[2] / "deploy"
RULES = FOLDER / "prometheus" / "rota-alerts.yml"
BOARD = json.loads((FOLDER / "grafana" / "rota-dashboard.json").read_text())
VARIABLES = {"$__rate_interval": "10s", "$tenant": ".*"}
"""What Grafana fills in."""
SELECTOR = re.compile(r"\b(?:rota_\w+|process_\w+|up)\b(?:\{[^}]*\})?")


def panels():
    return [panel for panel in BOARD["panels"] if panel["type"] != "row"]


def queries():
    """(title of the panel, PromQL) of the dashboard."""
    for panel in panels():
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield panel["title"], text


def selectors_of_alerts():
    """Every metric that an alert looks at, with its labels."""
    texts = re.findall(r"^        expr: (.*(?:\n {10}.*)*)", RULES.read_text(), re.MULTILINE)
    assert len(texts) == RULES.read_text().count("- alert:")
    return sorted({selector for text in texts for selector in SELECTOR.findall(text)})


def hasty_rules():
    """The alerts, without patience: what takes minutes in a cluster takes seconds here."""
    text = RULES.read_text()
    hasty = re.sub(r"^( +for): \w+$", r"\1: 1s", text, flags=re.MULTILINE)
    assert hasty.count("for: 1s") > 5
    assert "rota_agent_silence_seconds > 30" in hasty
    return hasty.replace("rota_agent_silence_seconds > 30", "rota_agent_silence_seconds > 2")


class Prometheus:
    """A server of its own on loopback."""

    def __init__(self, folder, target):
        self.folder = folder / "prometheus"
        self.folder.mkdir()
        (self.folder / "rules.yml").write_text(hasty_rules())
        (self.folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
            f"rule_files: [rules.yml]\n"
            f"scrape_configs: [{{job_name: rota, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        self.address = f"127.0.0.1:{free_port()}"
        log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address={self.address}", "--log.level=warn"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        log.close()

    def get(self, path, **arguments):
        query = urllib.parse.urlencode(arguments)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def ask(self, query):
        """Samples of now."""
        return self.get("query", query=query)["result"]

    def firing(self):
        """(alert, node) of what fires."""
        alerts = self.get("alerts")["alerts"]
        return {(a["labels"]["alertname"], a["labels"].get("node", "")) for a in alerts if a["state"] == "firing"}

    def scrapes(self):
        try:
            return bool(self.ask('rota_jobs_ended_total{phase="finished"} > 0'))
        except OSError:
            return False

    def close(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A scheduler under load: tenants, a job that fails, one that waits, one that can never run, a notification."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "notify.toml").write_text('[[command]]\nname = "log"\nargv = ["/bin/true"]\nevents = ["*"]\n')
    metrics = f"127.0.0.1:{free_port()}"
    with Site(folder, policy="las", metrics=metrics, notify=folder / "notify.toml") as made:
        made.prometheus = Prometheus(folder, metrics)
        try:
            made.agent("n0", "emulate:v100=2", wait=False)
            made.agent("n1", "emulate:k80=1")
            made.submit(emulated=True, steps=10, tenant="x")
            made.submit(emulated=True, steps=20_000_000, tenant="x", gpus=2)
            made.submit(emulated=True, steps=20_000_000, tenant="y", gpus=2)
            made.submit(emulated=True, steps=20_000_000, tenant="y", gpus=8)
            made.submit(argv=["false"], env={}, max_restarts=0, tenant="z")
            until(made.prometheus.scrapes, 60, "a job that finished, in Prometheus")
            yield made
        finally:
            made.prometheus.close()


@pytest.mark.parametrize("name", ["check", "test"])
def test_promtool_finds_the_rules_in_order_and_they_fire_as_they_should(name):
    file = RULES if name == "check" else RULES.with_name("rota-alerts-test.yml")
    done = subprocess.run(["promtool", name, "rules", file.name], cwd=file.parent, check=False, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_unit_test():
    names = re.findall(r"- alert: (\w+)", RULES.read_text())
    tested = RULES.with_name("rota-alerts-test.yml").read_text()
    assert [name for name in names if name not in tested] == []


def test_the_example_of_a_configuration_is_one():
    done = subprocess.run(
        ["promtool", "check", "config", "prometheus.yml"], cwd=RULES.parent, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_as_grafana_reads_it():
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    taken = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(set(taken)) == len(taken), "panels lie on each other"
    assert max(x for x, _ in taken) < 24
    variables = {variable["name"] for variable in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD["panels"]))) - {"__rate_interval"} <= variables
    assert all(target["datasource"]["uid"] == "${datasource}" for panel in panels() for target in panel["targets"])
    assert all(panel["title"] and panel["targets"] for panel in panels())


def test_every_query_of_the_dashboard_returns_data(site):
    asked = list(queries())
    assert len(asked) > 30

    def without_data():
        return [f"{title}: {query}" for title, query in asked if not site.prometheus.ask(query)]

    until(lambda: not without_data(), 30, "data for every panel")


def test_every_metric_of_the_alerts_is_there_under_that_name_and_label(site):
    selectors = selectors_of_alerts()
    assert len(selectors) > 12
    missing = [one for one in selectors if not site.prometheus.ask(re.sub(r'reason="queued"', 'reason=~".+"', one))]
    assert missing == []


def test_numbers_in_prometheus_are_those_of_the_scheduler(site):
    def value(query):
        found = site.prometheus.ask(query)
        return float(found[0]["value"][1]) if found else None

    def same():
        phases = [job.phase for job in site.client.jobs()]
        return {
            'sum(rota_jobs{phase="running"})': float(phases.count("running")),
            'rota_gpus{type="v100",state="busy"}': float(site.busy()["n0"]),
            'rota_jobs_waiting{reason="no-server-fits",tenant="y"}': 1.0,
        }

    until(lambda: all(value(query) == number for query, number in same().items()), 30, "the same numbers")
    assert value("sum(rota_jobs_submitted_total)") == 5


def test_alerts_fire_when_an_agent_is_killed_and_clear_when_it_is_back(site):
    alerts = {("RotaAgentSilent", "n1"), ("RotaNodesLost", "")}
    until(lambda: not alerts & site.prometheus.firing(), 20, "quiet")
    site.kill("n1")
    until(lambda: alerts <= site.prometheus.firing(), 40, "alerts of a killed agent")
    assert ("RotaAgentSilent", "n0") not in site.prometheus.firing()
    site.agent("n1", "emulate:k80=1")
    until(lambda: not alerts & site.prometheus.firing(), 30, "the end of the alerts")


@pytest.mark.long
def test_an_alert_fires_when_the_scheduler_is_killed_and_counters_begin_anew(site):
    before = site.prometheus.ask("sum(rota_jobs_submitted_total)")
    site.kill("scheduler")
    until(lambda: ("RotaSchedulerDown", "") in site.prometheus.firing(), 30, "the alert of a dead scheduler")
    site.serve()
    until(lambda: ("RotaSchedulerDown", "") not in site.prometheus.firing(), 30, "the end of the alert")
    after = site.prometheus.ask("sum(rota_jobs_submitted_total) or vector(0)")

    assert float(before[0]["value"][1]) >= 5
    assert float(after[0]["value"][1]) == 0  # as docs/metrics.md says; Prometheus takes that for a restart
    assert site.prometheus.ask("sum(rota_jobs) > 0")
