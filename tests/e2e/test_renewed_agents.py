"""The certificate of an agent is replaced while a job runs there."""

import datetime as dt
import time

import pytest

from faults import Site, results, until
from rota.deploy.control import Client
from rota.deploy.security import certs
from rota.deploy.security.places import tokens_file
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile


@pytest.mark.long
def test_an_agent_goes_on_with_its_renewed_certificate_when_the_old_one_has_ended(tmp_path):
    folder, now = tmp_path / "certs", dt.datetime.now(dt.timezone.utc)
    certs.create_authority(folder, now)
    certs.issue(folder, Subject(Role.SCHEDULER, "scheduler"), now, hosts=["127.0.0.1"], out=folder)
    certs.issue(folder, Subject(Role.CLIENT, "admin"), now, out=folder)
    token = tmp_path / "token"
    token.write_text(TokenFile(tokens_file(folder)).add("lab", admin=True)[1])
    token.chmod(0o600)
    agent = Subject(Role.AGENT, "n0")
    with Site(tmp_path, certs=folder, dead_after=3, lease=6) as site:
        site.client = Client(site.address, certs=folder, token_file=token)
        until(site._answers, 30, "the scheduler's answer")
        ends = time.time() + 20.0
        certs.issue(folder, agent, dt.datetime.now(dt.timezone.utc), days=20.0 / 86400.0, out=tmp_path / "for-n0")
        site.agent("n0", "emulate:v100=1", certs=tmp_path / "for-n0")
        job = site.submit(steps=500)
        until(lambda: site.steps(job), 30)
        certs.issue(folder, agent, dt.datetime.now(dt.timezone.utc), out=tmp_path / "for-n0", force=True)
        until(lambda: "is used from here on" in site.log("n0"), 15, "a look at the new certificate")
        time.sleep(max(0.0, ends + 5.0 - time.time()))
        (done,) = site.done(job, seconds=60)

        assert site.node("n0") == "up"
        assert (done.phase, done.epoch) == ("finished", 1)
        assert [row[4] for row in site.steps(job)] == results(500)
        assert site.events("NodeLost") == []
