"""Who may call what, and what a tenant learns of others: every kind of caller and every call, with a real scheduler.

The table in docs/security.md is what this test finds: `make access-matrix` writes it again.
"""

import contextlib
import datetime as dt
import os
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from google.protobuf.json_format import MessageToJson
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2

from faults import Site, until
from rota.deploy.control import Client
from rota.deploy.security import certs
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.client import ClientSettings
from rota.deploy.security.places import revoked_file, tokens_file
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile
from rota.deploy.security.transport import open_channel
from rota.deploy.server.serving import RULES
from rota.rpc import rota_pb2 as pb
from secure import NOW, YEAR, a_client, a_site, an_agent

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN = "<!-- access matrix: made by `make access-matrix`, checked by tests/e2e/test_access.py -->\n"
END = "<!-- end of the access matrix -->\n"
REWRITE = "ROTA_REWRITE_ACCESS_MATRIX"
SIGNS = {
    "UNAUTHENTICATED": "?",
    "PERMISSION_DENIED": "no",
    "UNIMPLEMENTED": "none",
    "UNAVAILABLE": "-",
}
"""How a refusal is written in the table; every other status is that of a caller who was let in."""
CALLS = [
    *(method for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods),
    *(m for m in health_pb2.DESCRIPTOR.services_by_name["Health"].methods if m.name in ("Check", "Watch")),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    place = a_site(folder / "certs")
    with Site(folder, certs=place, host="localhost") as found:
        tokens = TokenFile(tokens_file(place))
        found.tokens = {t: tokens.add(t, admin=t == "root")[1] for t in ("root", "vision", "speech")}
        found.token_file = tokens
        bundle = load_bundle(place, Role.CLIENT, "admin")
        found.clients = {
            t: Client(settings=ClientSettings(found.address, bundle, token)) for t, token in found.tokens.items()
        }
        found.client = found.clients["root"]
        until(found._answers, 30, "the scheduler's answer")
        found.agent("node1", "emulate:v100=4", certs=place)
        yield found
        for client in found.clients.values():
            client.close()


def callers(site, folder):
    """A channel for every kind of caller, by its name in the table."""
    place = site.certs
    foreign = a_site(folder / "foreign")
    good = load_bundle(place, Role.CLIENT, "admin")
    agent = an_agent(place)
    scheduler = load_bundle(place, Role.SCHEDULER)
    ended = _ended(place)
    mallory = a_client(place, "mallory")
    Revocations(revoked_file(place)).revoke(Role.CLIENT, "mallory", dt.datetime.now(dt.timezone.utc))
    gone, gone_text = site.token_file.add("vision")
    site.token_file.revoke(gone)
    vision = site.tokens["vision"]
    bound = a_client(place, "bob", tenant="speech")
    stranger = replace(a_client(foreign, "eve"), authority=good.authority)
    bare = grpc.ssl_channel_credentials(good.authority)
    return {
        "no TLS": grpc.insecure_channel(site.address),
        "no certificate": grpc.secure_channel(site.address, bare),
        "other authority": open_channel(site.address, bundle=stranger, token=vision, sync=True),
        "ended certificate": open_channel(site.address, bundle=ended, token=vision, sync=True),
        "revoked certificate": open_channel(site.address, bundle=mallory, token=vision, sync=True),
        "scheduler": open_channel(site.address, bundle=replace(scheduler), sync=True),
        "agent": open_channel(site.address, bundle=agent, sync=True),
        "no token": open_channel(site.address, bundle=good, sync=True),
        "revoked token": open_channel(site.address, bundle=good, token=gone_text, sync=True),
        "other tenant's token": open_channel(site.address, bundle=bound, token=vision, sync=True),
        "user": open_channel(site.address, bundle=good, token=vision, sync=True),
        "administrator": open_channel(site.address, bundle=good, token=site.tokens["root"], sync=True),
    }


def _ended(place):
    """The bundle of a certificate that was good an hour ago."""
    made = NOW - 2 * YEAR
    certs.issue(place, Subject(Role.CLIENT, "late"), made, force=True)
    return load_bundle(place, Role.CLIENT, "late", made)


def status_of(channel, method):
    """How a call ends; a request says what it must to be looked at."""
    request = GetMessageClass(method.input_type)()
    if "node" in method.input_type.fields_by_name:
        request.node = "node1" if method.containing_service.name == "Fleet" else "nobody"
    if method.name == "Logs":
        request.job = 10**6
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = channel.unary_stream if method.server_streaming else channel.unary_unary
    call = kind(path, lambda message: message.SerializeToString(), GetMessageClass(method.output_type).FromString)
    try:
        answer = call(request, timeout=10)
        if method.server_streaming:
            next(answer, None)
            answer.cancel()
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


@pytest.fixture(scope="module")
def matrix(site, tmp_path_factory):
    """(call, caller) -> status."""
    channels = callers(site, tmp_path_factory.mktemp("callers"))
    found = {}
    for name, channel in channels.items():
        with channel:
            for method in CALLS:
                found[f"{method.containing_service.name}.{method.name}", name] = status_of(channel, method)
    return found


def table_of(matrix):
    calls = list(dict.fromkeys(call for call, _ in matrix))
    names = list(dict.fromkeys(name for _, name in matrix))
    rows = [f"| call | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for call in calls:
        cells = (SIGNS.get(matrix[call, name], "yes") for name in names)
        rows.append(f"| `{call}` | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def test_the_table_of_callers_and_calls_in_the_documentation_is_what_the_scheduler_does(matrix):
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    told, _, after = rest.partition(END)
    table = table_of(matrix)
    if os.environ.get(REWRITE):
        PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")
        told = table

    assert told == table, "run `make access-matrix` and look at what changed"


def test_strangers_get_nowhere_and_nobody_is_let_in_twice(matrix):
    let_in = {key for key, status in matrix.items() if status not in SIGNS}

    assert {name for _, name in let_in} == {"agent", "no token", "user", "administrator"}
    assert {call for call, name in let_in if name == "no token"} == {"Health.Check", "Health.Watch"}
    assert {call for call, name in let_in if name == "agent"} & {call for call, name in let_in if name == "user"} <= {
        "Health.Check",
        "Health.Watch",
    }


def test_every_call_has_a_rule_by_name():
    ours = {f"/{method.containing_service.full_name}/{method.name}" for method in CALLS if "rota" in method.full_name}

    assert {path for path in RULES if "rota" in path} == ours
    assert not [path for path in RULES if "rota" in path and path.endswith("*")]


# What a tenant learns of others


def answers_to(client, job):
    """Everything that a user can be told, as one text."""
    stub = client._stub
    texts = [
        MessageToJson(stub.ListJobs(pb.ListJobsRequest())),
        MessageToJson(stub.ListJobs(pb.ListJobsRequest(tenant="vision"))),
        MessageToJson(stub.ListJobs(pb.ListJobsRequest(jobs=[job]))),
        MessageToJson(stub.ListNodes(pb.Empty())),
        *(line.json for line in stub.Events(pb.EventsRequest())),
    ]
    calls = (
        lambda: stub.GetJob(pb.JobRequest(job=job)),
        lambda: stub.Cancel(pb.CancelRequest(jobs=[job])),
        lambda: list(stub.Events(pb.EventsRequest(job=job))),
        lambda: list(stub.Logs(pb.LogsRequest(job=job))),
        lambda: stub.Submit(pb.SubmitRequest(jobs=[pb.JobSpec(argv=["true"], gpus=1, tenant="vision")])),
    )
    for call in calls:
        with pytest.raises(grpc.RpcError) as error:
            call()
        texts.append(error.value.details())
    return "\n".join(texts)


def test_a_tenant_learns_nothing_of_the_jobs_of_another(site):
    theirs = site.clients["vision"]
    mine = site.clients["speech"]
    for _ in range(7):  # so that the number of theirs is in no other text
        theirs.submit([{"emulated": True, "profile": "resnet18-32", "steps": 1}])
    (job,) = theirs.submit(
        [
            {
                "argv": ["sh", "-c", "echo their-output; sleep 600"],
                "name": "their-name",
                "gpus": 2,
                "env": {"THEIRS": "x"},
            }
        ]
    )
    (own,) = mine.submit([{"argv": ["sleep", "600"], "name": "own-name", "gpus": 1}])
    until(lambda: {theirs.job(job).phase, mine.job(own).phase} == {"running"}, 30, "both run")

    told = answers_to(mine, job)

    assert "own-name" in told
    for secret in ("their-name", "their-output", "THEIRS", "vision,", '"vision"'):
        assert secret not in told.replace("not for 'vision'", ""), secret
    (node,) = mine.nodes()
    assert (list(node.jobs), node.busy) == ([own], 3), "sums are told, numbers of others' jobs are not"
    assert set(site.client.nodes()[0].jobs) == {job, own}
    with contextlib.suppress(grpc.RpcError):
        mine._stub.GetJob(pb.JobRequest(job=10**6))
    assert _refusal(mine, job) == _refusal(mine, 10**6).replace(str(10**6), str(job)), "as if there were none"


def _refusal(client, job):
    with pytest.raises(grpc.RpcError) as error:
        client._stub.GetJob(pb.JobRequest(job=job))
    return error.value.details()


def test_a_tenant_is_told_the_number_of_its_own_jobs_and_an_administrator_of_all(site):
    site.client.cancel([job.job for job in site.client.jobs(["running", "queued"])])
    until(lambda: site.client.status().running == 0, 30, "the end of all")
    owner, other = site.clients["speech"], site.clients["vision"]
    before, all_before = owner.status(), site.client.status()
    for client in (owner, other):
        (job,) = client.submit([{"emulated": True, "profile": "resnet18-32", "steps": 1}])
        site.done(job)

    mine = owner.status()
    everything = site.client.status()

    assert (mine.queued, mine.running, mine.finished - before.finished, mine.cancelled) == (0, 0, 1, before.cancelled)
    assert everything.finished - all_before.finished == 2
    assert mine.last_failed_decision == ""


def test_values_of_variables_are_shown_to_nobody_not_even_to_administrators(site):
    value = "the-value-of-a-secret"
    owner = site.clients["vision"]
    (job,) = owner.submit([{"argv": ["true"], "env": {"API_KEY": value}, "max_restarts": 0}])
    site.done(job)

    for client in (owner, site.client):
        stub = client._stub
        told = [
            MessageToJson(stub.ListJobs(pb.ListJobsRequest(jobs=[job]))),
            MessageToJson(stub.GetJob(pb.JobRequest(job=job))),
            *(line.json for line in stub.Events(pb.EventsRequest())),
            *(line.json for line in stub.Events(pb.EventsRequest(job=job))),
        ]
        assert all('"API_KEY": "***"' in text for text in told[:2])
        assert value not in "".join(told)
    assert value not in (site.folder / "scheduler.log").read_text()
    for name in ("state.db", "state.db-wal"):
        assert value.encode() not in (site.folder / name).read_bytes()
