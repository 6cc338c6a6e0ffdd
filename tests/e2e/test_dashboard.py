"""`rota dashboard` and `rota top` on a real cluster: a real gateway, a real browser, two tenants, what is refused."""

import contextlib
import http.client
import http.server
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import ClassVar

import pytest

from chaos import free_port
from live import ROTA, Live, environment, until
from rota.core.errors import ConfigError

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVIL = '</script><img src=x onerror="document.title=1"><b>'
FOREIGN = ("rivals", "their-name")

pytest.importorskip(
    "starlette", reason="the dashboard is not installed: pip install '.[dashboard]' in a checkout of Rota"
)
pytest.importorskip(
    "uvicorn", reason="the dashboard is not installed: pip install '.[dashboard]' in a checkout of Rota"
)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("dashboard")).up(
        "--server",
        "v100=4/2",
        "--server",
        "k80=1",
        "--emulate",
        "--policy",
        "fifo",
        "--time-scale",
        "60",
        "--round",
        "60",
    )
    certs = cluster.folder / ".rota" / "certs"
    for tenant in ("mine", "rivals"):
        cluster.run("tokens", "create", "--tenant", tenant, "--dir", str(certs), "--out", f"{tenant}.token")
    yield cluster
    cluster.down()


def of_tenant(live, tenant):
    from rota.deploy.control import Client

    return Client(live.address, certs=live.folder / ".rota" / "certs", token_file=live.folder / f"{tenant}.token")


def a_job(**fields):
    return {"emulated": True, "profile": "resnet18-32", "steps": 3 * 10**6, "gpus": 1, **fields}


@pytest.fixture(scope="module")
def jobs(live):
    """Jobs of both tenants: one of each runs, one of each waits."""
    with of_tenant(live, "mine") as mine, of_tenant(live, "rivals") as rivals:
        own = mine.submit([a_job(gpus=2, name=EVIL)])
        theirs = rivals.submit([a_job(gpus=2, name="their-name"), a_job(gpus=2, name="their-name")])
        own += mine.submit([a_job(gpus=2, name="waits")])
        until(lambda: mine.job(own[0]).phase == "running" and rivals.job(theirs[0]).phase == "running")
    return own, theirs


@dataclass
class Gateway:
    """A gateway as a process."""

    process: subprocess.Popen
    link: str
    key: str = ""

    @property
    def port(self):
        return int(self.link.split(":")[2].split("/")[0])

    def ask(self, method, path, body=None, **headers):
        """Status, headers and text of an answer."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        usual = {"X-Rota-Key": self.key, "Host": f"127.0.0.1:{self.port}"}
        if method == "POST":
            usual |= {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in {**usual, **given}.items() if value is not None}
        with contextlib.closing(line):
            line.request(method, path, None if body is None else json.dumps(body), sent)
            answer = line.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()

    def enter(self):
        status, _, text = self.ask("POST", "/api/enter", {"secret": self.link.partition("#enter=")[2]})
        assert status == 200, text
        self.key = json.loads(text)["key"]
        self.link = json.loads(self.process.stdout.readline())["link"]
        return self

    def heard(self, path, *, until_has=None, seconds=20.0):
        """What a stream says until a word comes, or for some seconds."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        heard = b""
        end = time.monotonic() + seconds
        with contextlib.closing(line), contextlib.suppress(TimeoutError):
            line.request("GET", path, headers={"X-Rota-Key": self.key, "Host": f"127.0.0.1:{self.port}"})
            answer = line.getresponse()
            assert answer.status == 200
            while time.monotonic() < end and (until_has is None or until_has not in heard.decode(errors="replace")):
                heard += answer.read1(65536)
        return heard.decode()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=20)


def a_gateway(live, *arguments, tenant=None, port=0):
    token = [] if tenant is None else ["--token-file", f"{tenant}.token"]
    process = subprocess.Popen(
        [*ROTA, "dashboard", "--port", str(port), "--json", *token, *arguments], cwd=live.folder,
        env=environment(live.folder) | {"XDG_STATE_HOME": f"{live.folder}/state"}, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    line = process.stdout.readline()
    assert line, "the gateway did not start"
    return Gateway(process, json.loads(line)["link"])


@pytest.fixture(scope="module")
def admins(live):
    gateway = a_gateway(live)
    try:
        yield gateway.enter()
    finally:
        gateway.stop()


@pytest.fixture(scope="module")
def tenants(live):
    gateway = a_gateway(live, tenant="mine")
    try:
        yield gateway.enter()
    finally:
        gateway.stop()


# Without a browser


def test_a_tenants_bytes_contain_no_foreign_name(live, jobs, tenants, admins):
    own, theirs = jobs
    # Each stream is read until it has said all kinds of news.
    news = [tenants.heard(f"/api/stream?show={show}", until_has='"usage":{') for show in ("all", "waiting")]
    pages = [
        *(tenants.ask("GET", f"/api/job/{job}")[2] for job in (*own, *theirs)),
        *(tenants.ask("GET", f"/api/job/{job}/why")[2] for job in (own[1], theirs[1])),
        *(tenants.ask("GET", f"/api/node/{node}")[2] for node in ("v100-0", "v100-1", "v100-9")),
        *(tenants.ask("GET", f"/api/round?{query}")[2] for query in ("fresh=1", "at_s=0", "at_s=200", "at_s=inf")),
    ]
    bytes_of_tenant = "".join([*news, *pages])
    bytes_of_admin = admins.heard("/api/stream?show=all", until_has='"usage":{')

    assert not [word for word in FOREIGN if word in bytes_of_tenant]
    assert [word for word in FOREIGN if word not in bytes_of_admin] == []
    assert '"tenant":"others"' in bytes_of_tenant
    assert tenants.ask("GET", f"/api/job/{theirs[0]}")[::2] == (400, f"there is no job {theirs[0]}\n")
    status, _, said = tenants.ask("POST", "/api/cancel", {"job": theirs[0]})
    assert (status, said) == (400, f"there is no job {theirs[0]}\n")
    status, _, said = tenants.ask("POST", "/api/drain", {"node": "v100-0"})
    assert status == 400
    assert "refuses" in said
    with of_tenant(live, "rivals") as rivals:
        assert rivals.job(theirs[0]).phase == "running"


def test_strangers_get_nothing(jobs, admins):
    paths = ("/api/stream", "/api/job/0", "/api/job/0/log", "/api/node/v100-0", "/api/round?fresh=1")
    for path in paths:
        assert admins.ask("GET", path, X_Rota_Key=None)[0] == 401
        assert admins.ask("GET", path, X_Rota_Key="guessed")[0] == 401
        assert admins.ask("GET", path, Host="evil.example")[0] == 421
        assert admins.ask("GET", path, Sec_Fetch_Site="cross-site")[0] == 403
    for path, body in (("/api/cancel", {"job": jobs[0][0]}), ("/api/drain", {"node": "v100-0"})):
        assert admins.ask("POST", path, body, X_Rota_Key=None)[0] == 401
        assert admins.ask("POST", path, body, Origin="http://evil.example")[0] == 403
        assert admins.ask("POST", path, body, Origin=None)[0] == 403
        assert admins.ask("POST", path, body, Content_Type="text/plain")[0] == 400
        assert admins.ask("GET", path)[0] == 405
    assert admins.ask("POST", "/api/enter", {"secret": "guessed"}, X_Rota_Key=None)[0] == 401
    assert admins.ask("POST", "/api/enter", {"secret": "\ud800"}, X_Rota_Key=None)[0] == 400
    assert admins.ask("POST", "/api/drain", {"node": "\ud800"})[0] == 400
    assert admins.ask("GET", "/", Host="evil.example")[0] == 421
    status, headers, text = admins.ask("GET", "/", X_Rota_Key=None)
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert FOREIGN[0] not in text


def test_a_link_is_used_up_by_its_first_user(live):
    gateway = a_gateway(live)
    try:
        secret = {"secret": gateway.link.partition("#enter=")[2]}
        gateway.enter()
        assert gateway.ask("POST", "/api/enter", secret)[0] == 401
        assert secret["secret"] not in gateway.link
        gateway.process.send_signal(signal.SIGINT)
        assert gateway.process.wait(20) == 0
    finally:
        gateway.stop()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/stream?show=nothing", "show is 'nothing'; give one of waiting, running"),
        ("/api/stream?sort=x", "sort is 'x'"),
        ("/api/stream?page=-1", "page is '-1'"),
        ("/api/stream?page=99999999999999999999", "give 0 to"),
        ("/api/stream?page=%D9%A3", "page is"),
        ("/api/round?at_s=nan", "at_s is 'nan'; give engine seconds"),
        ("/api/round?at_s=much", "at_s is 'much'"),
        ("/api/job/99999", "there is no job 99999"),
        ("/api/job/99999999999999999999999", "there is no job"),
        ("/api/job/99999/log", "there is no job 99999"),
        ("/api/job/99999/why", "there is no job 99999"),
    ],
)
def test_a_request_that_makes_no_sense_is_answered_with_what_is_wrong(admins, path, said):
    status, _, text = admins.ask("GET", path)

    assert status == 400
    assert said in text


@pytest.mark.parametrize("body", [[], {"job": "1"}, {"job": True}, {"job": -1}, {"job": 2**70}, {"job": 1.5}, {}])
def test_a_body_that_makes_no_sense_cancels_nothing(admins, body):
    status, _, text = admins.ask("POST", "/api/cancel", body)

    assert status == 400
    assert text


def test_a_body_without_end_is_not_read_to_its_end(admins):
    status, _, text = admins.ask("POST", "/api/cancel", {"job": "1" * 100_000})

    assert (status, text) == (400, "the body of a request is longer than 4,096 bytes\n")


def test_output_of_a_job_comes_as_it_is_written(live, admins):
    with live.client() as client:
        (job,) = client.submit([{"argv": ["sh", "-c", "echo 'hello <b>'; echo oops >&2; exec sleep 100"]}])
        heard = admins.heard(f"/api/job/{job}/log", until_has="oops", seconds=40)
        client.cancel([job])
    messages = [json.loads(piece[6:]) for piece in heard.split("\n\n") if piece.startswith("data: ")]

    assert "attempt 1 on k80-0" in messages[0]["note"]
    assert {(m["line"], m["stream"]) for m in messages[1:]} == {("hello <b>", "o"), ("oops", "e")}


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda client: client.usage(float("nan")), "last_s"),
        (lambda client: client.usage(float("inf")), "last_s"),
        (lambda client: client.usage(-1.0), "give engine seconds above 0"),
        (lambda client: client.usage(points=501), "points is 501; give 1 to 500"),
        (lambda client: client.usage(points=-1), "points is -1"),
        (lambda client: client.occupancy(-1), "after is -1"),
        (lambda client: client.eta(cpu_s=-1.0), "cpu_s is -1"),
        (lambda client: client.eta(cpu_s=float("nan")), "cpu_s"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_by_the_scheduler(live, ask, said):
    with live.client() as client, pytest.raises(ConfigError, match=said):
        ask(client)


def test_what_a_job_uses_is_beside_what_it_asked_for(live, admins):
    work = "exec python3 -c 'b = bytearray(50_000_000)\nwhile True: pass'"
    with live.client() as client:
        (job,) = client.submit([{"argv": ["sh", "-c", work], "cpus": 1.0, "memory_gb": 2.0}])

        def used():
            info = json.loads(admins.ask("GET", f"/api/job/{job}")[2])
            return info if info["cpu_used_s"] > 0.2 and info["memory_used_gb"] > 0.05 else None

        info = until(used, 40)
        client.cancel([job])

    assert info["spec"]["cpus"] == 1.0
    assert 0.05 < info["memory_used_gb"] < 0.5
    assert info["parts"][0]["cpus"] > 0


def test_a_port_that_is_taken_is_said_in_one_message(live, admins):
    said = live.run("dashboard", "--port", str(admins.port), code=2)

    assert f"cannot listen on 127.0.0.1:{admins.port}: Address already in use; give another --port" in said
    assert "Traceback" not in said


# In a browser


@pytest.fixture(scope="module")
def browser():
    driver = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install '.[dev]' in a checkout of Rota"
    )
    if BROWSER is None:
        pytest.skip("no Chromium or Chrome is installed; scripts/system-packages.sh installs one")
    with driver.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


class Shown:
    """A page in the browser and everything it complained about or asked for."""

    def __init__(self, browser, gateway, width=1280):
        self.context = browser.new_context(viewport={"width": width, "height": 900})
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.gateway = gateway
        self.page.goto(gateway.link)
        gateway.link = json.loads(gateway.process.stdout.readline())["link"]
        self.page.wait_for_selector(".server")

    def text(self, selector):
        return self.page.inner_text(selector)

    def until_text(self, selector, word, timeout=30_000):
        test = "([s, w]) => (document.querySelector(s)?.textContent || '').includes(w)"
        self.page.wait_for_function(test, arg=[selector, word], timeout=timeout)

    def go(self, place):
        self.page.evaluate("place => { location.hash = place; }", place)

    def close(self):
        self.context.close()


@contextlib.contextmanager
def opened(browser, gateway, **options):
    shown = Shown(browser, gateway, **options)
    try:
        yield shown
        assert shown.said == []
        assert [url for url in shown.asked if not url.startswith(f"http://127.0.0.1:{gateway.port}/")] == []
    finally:
        shown.close()


def test_the_page_shows_the_cluster_and_does_what_keys_say(browser, jobs, admins):
    own, _ = jobs
    with opened(browser, admins) as shown:
        page = shown.page
        shown.until_text("#health", "3 of 3 servers are up, 4 of 5 GPUs busy")
        page.wait_for_selector(".server i.held")
        assert page.locator(".server").count() == 3
        shown.until_text("#job-table tbody", "waits")
        page.click("#job-controls button[data-value=running]")
        shown.until_text("#job-table tbody", EVIL)
        assert page.title() == "Rota dashboard"
        assert page.locator("#job-table img").count() == 0
        assert "enter=" not in page.url

        page.locator(".server").nth(1).focus()
        page.keyboard.press("Enter")
        shown.until_text("#h-detail", "Server v100-0")
        shown.until_text("#detail-body", "2 x v100, 2 held")
        shown.go("#overview")
        page.locator("#past-button").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#past-slider")
        shown.until_text("#past-told", "jobs ran")
        page.locator("#past-slider").focus()
        page.keyboard.press("Home")
        shown.until_text("#past-told", "Round 0,")
        page.keyboard.press("End")
        shown.until_text("#past-told", "2 jobs ran")
        page.keyboard.press("Tab")
        page.evaluate("document.getElementById('charts').scrollIntoView()")
        page.wait_for_selector('[data-chart="tenant mine"] path.series')
        page.wait_for_selector('[data-chart="decisions"] path.series')
        assert own[0] >= 0


def test_the_page_fits_a_phone_in_the_dark(browser, jobs, tenants):
    with opened(browser, tenants, width=390) as shown:
        page = shown.page
        page.emulate_media(color_scheme="dark")
        shown.until_text("#job-table tbody", "waits")
        page.evaluate("document.getElementById('charts').scrollIntoView()")
        page.wait_for_selector('[data-chart="tenant mine"] path.series')
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        page.wait_for_selector(".server i.others")  # somebody holds them: nobody is named
        shown.go(f"#/job/{jobs[0][0]}")
        shown.until_text("#detail-body", "Attempts")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_job_is_cancelled_and_a_server_drained_by_who_may(browser, live, jobs, admins, tenants):
    with of_tenant(live, "mine") as mine:
        (job,) = mine.submit([a_job(gpus=4, name="to-cancel")])
        with opened(browser, tenants) as shown:
            shown.go(f"#/job/{job}")
            shown.until_text("#h-detail", "to-cancel")
            shown.page.click("#cancel")
            assert mine.job(job).phase == "queued"  # asked once more
            shown.page.click("#cancel")
            until(lambda: mine.job(job).phase == "cancelled")
            shown.until_text("#detail-body", "cancelled")
            shown.go("#/node/v100-1")
            shown.until_text("#detail-body", "v100")
            assert shown.page.locator("#drain").count() == 0
    with opened(browser, admins) as shown, live.client() as admin:
        shown.go("#/node/v100-1")
        shown.page.click("#drain")
        until(lambda: {node.node: node.state for node in admin.nodes()}["v100-1"] in {"draining", "drained"})
        shown.until_text("#drain", "Let jobs back")
        shown.page.click("#drain")
        until(lambda: {node.node: node.state for node in admin.nodes()}["v100-1"] == "up")


def test_a_scheduler_that_is_killed_is_said_to_be_away_and_comes_back(browser, live, jobs, admins):
    with opened(browser, admins) as shown:
        shown.until_text("#health", "servers are up")
        with live.client() as client:
            before = client.status().events
        number = live.processes["the scheduler"]
        os.kill(number, signal.SIGKILL)
        shown.until_text("#health", "The scheduler does not answer")
        shown.page.wait_for_selector("#map.stale")
        shown.until_text("#health", "servers are up", timeout=60_000)  # `rota up` starts another one
        shown.page.wait_for_selector("#map:not(.stale)")
        with live.client() as client:
            assert client.status().events >= before
            assert client.job(jobs[0][0]).phase in {"running", "queued"}


@pytest.mark.long
def test_a_gateway_that_stands_still_is_noticed_and_the_page_goes_on_with_it(browser, live):
    gateway = a_gateway(live)
    shown = Shown(browser, gateway)
    try:
        os.kill(gateway.process.pid, signal.SIGSTOP)
        shown.until_text("#gateway", "does not answer")
        os.kill(gateway.process.pid, signal.SIGCONT)
        shown.page.wait_for_selector("#gateway", state="hidden")
    finally:
        shown.close()
        gateway.stop()


@contextlib.contextmanager
def shown_by_a_gateway(browser, live):
    """A page, and ways to end and start its gateway on the same port."""
    gateway = a_gateway(live, port=free_port())
    shown = Shown(browser, gateway)
    try:
        shown.until_text("#health", "servers are up")
        until(lambda: any("/api/ticket" in url for url in shown.asked))
        yield shown
    finally:
        shown.close()
        shown.gateway.stop()


def again(live, shown, **how):
    shown.gateway = a_gateway(live, port=shown.gateway.port, **how)


def test_a_page_goes_on_by_itself_when_its_gateway_was_killed_and_is_there_again(browser, live, jobs):
    own, _ = jobs
    with shown_by_a_gateway(browser, live) as shown:
        shown.go(f"#/job/{own[0]}")
        shown.until_text("#detail", "Attempts")
        for _ in range(2):
            shown.gateway.process.kill()
            shown.gateway.stop()
            shown.until_text("#gateway", "does not answer")
            again(live, shown)
            shown.page.wait_for_selector("#gateway", state="hidden")
            asked = len(shown.asked)
            until(lambda: any("/api/ticket" in url for url in shown.asked[asked - 5 :]))  # noqa: B023
        shown.page.reload()
        shown.until_text("#health", "servers are up")

        key = live.folder / "state" / "rota" / f"dashboard-{shown.gateway.port}.key"
        assert key.stat().st_mode & 0o777 == 0o600
        assert not any("secret" in url or "key" in url for url in shown.asked)


def test_a_gateway_that_ended_in_order_or_has_other_rights_wants_its_new_link(browser, live):
    with shown_by_a_gateway(browser, live) as shown:
        shown.gateway.process.kill()
        shown.gateway.stop()
        again(live, shown, tenant="mine")
        shown.until_text("#gateway", "open the link that `rota dashboard` printed last")
        shown.page.goto(shown.gateway.link)
        shown.gateway.link = json.loads(shown.gateway.process.stdout.readline())["link"]
        shown.page.wait_for_selector("#gateway", state="hidden")

        shown.gateway.stop()
        again(live, shown, tenant="mine")
        shown.until_text("#gateway", "open the link that `rota dashboard` printed last")


class Impostor(http.server.BaseHTTPRequestHandler):
    """Another user's process on the port of a gateway; it keeps whatever it is told."""

    told: ClassVar[list] = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.told.append((self.path, dict(self.headers), json.loads(body or b"{}")))
        answer = json.dumps({"theirs": "1.x", "proof": "0" * 64}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self):
        self.told.append((self.path, dict(self.headers), {}))
        self.send_error(404)

    def log_message(self, *_):
        pass


def test_whoever_takes_the_port_meanwhile_learns_nothing_that_opens_the_next_gateway(browser, live):
    with shown_by_a_gateway(browser, live) as shown:
        shown.gateway.process.kill()
        shown.gateway.stop()
        with http.server.ThreadingHTTPServer(("127.0.0.1", shown.gateway.port), Impostor) as impostor:
            threading.Thread(target=impostor.serve_forever, daemon=True).start()
            shown.until_text("#gateway", "Something else than your gateway answers on this port")
            impostor.shutdown()
        again(live, shown)
        shown.page.wait_for_selector("#gateway", state="hidden")

        told = list(Impostor.told)
        assert {path for path, _, _ in told} == {"/api/return"}
        for _, headers, body in told:
            assert "X-Rota-Key" not in headers
            for value in (*body.values(), *headers.values()):
                shown.gateway.key = value
                assert shown.gateway.ask("GET", "/api/job/0")[0] == 401
            assert shown.gateway.ask("POST", "/api/return", {**body, "theirs": "1.x", "proof": "0" * 64})[0] == 401


# In a terminal


def test_top_prints_one_frame_without_a_terminal(live, jobs):
    said = live.run("top", "--once", "--show", "all")

    assert "servers are up" in said
    assert "their-name" in said
    assert "waits" in said
    mine = live.run("top", "--once", "--show", "all", "--token-file", "mine.token")
    assert not any(word in mine for word in FOREIGN)


def test_top_fills_a_terminal_until_q(live, jobs):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ROTA, "top", "--every", "0.2"], cwd=live.folder, env={**environment(live.folder), "TERM": "xterm"},
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = ""
    pressed = False
    try:
        end = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):
                    seen += os.read(ours, 65536).decode(errors="replace")
            if "servers are up" in seen and not pressed:
                pressed = True
                os.write(ours, b"\ts")
            if "waiting jobs, by tenant" in seen:
                os.write(ours, b"q")
        assert process.wait(5) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)

    assert "servers are up" in seen
    assert "\x1b[?1049h" in seen
    assert "\x1b[?1049l" in seen  # the screen is as it was before
