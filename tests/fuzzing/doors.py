"""What is fuzzed beside files: the agent's socket, frames of output, and every call of a real scheduler."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

import grpc
import seeds
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from oracle import MOST_RSS, Found, peak_rss
from targets import Target

from rota.core.errors import ConfigError
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.subjects import Role
from rota.deploy.security.tokens import TokenFile
from rota.deploy.security.transport import open_channel
from rota.deploy.worker.endpoint import Endpoint
from rota.deploy.worker.frames import FrameReader, first_time, output_bytes, segment_named
from rota.deploy.worker.ranks import AttemptId, RankId
from rota.deploy.worker.task_keys import TaskKeys
from rota.rpc import rota_pb2 as pb

_TEXTS = (
    "", "a", "node1", "node2", "default", "vision", "v100", "resnet18-32", "queued", "running", "ended", "start",
    "stop", "completed", "failed",
    "a" * 255, "a" * 257, "a" * 5000, "a" * 200_000, "\x00", "\n", "\x1b[2J", "é", "\u202e", "../..",
    "/dev/zero", "--privileged", "nan", "{}", "[" * 5000, '{"op":"at","step":1}', '{"op":1}', "[1]", "***", "a=b",
)  # fmt: skip
_WHOLE = (0, 1, 2, 3, 7, 64, 1024, 10**6, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**64 - 1)
_FLOATS = (0.0, -0.0, 0.5, 1.0, -1.0, 1e9, 1e18, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
_CALL_S = 20.0
"""On the clock, which others may use as well."""
_LISTEN_S = 0.05
"""How long a stream of answers is listened to."""
_BAD = (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


# The line between a job and its agent


class _RunningEndpoint:
    """An agent's end of the line, in a thread; what it hears is made into a report, as an agent does."""

    def __init__(self, folder):
        self.path = folder / "socket" / "agent"
        self.keys = TaskKeys(folder / "key")
        self.wrong = []
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: self.wrong.append(context))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _start(self):
        self.endpoint = Endpoint(self.path, on_change=self._changed, on_answer=self._answered, keys=self.keys)
        await self.endpoint.start()
        self.endpoint.expect(AttemptId("7", 1), (0, 1), 2)
        self.endpoint.set_lease(AttemptId("7", 1), 3600.0)

    def _changed(self, rank):
        state = pb.TaskState(step=rank.step, saved_step=rank.saved or 0, detail=rank.detail or "")
        state.outcome = rank.failure or ""
        state.saved_path = rank.saved_path or ""
        state.SerializeToString()

    def _answered(self, _attempt, rank, message):
        pb.GangMessage(rank=rank, json=json.dumps(message)).SerializeToString()

    def said(self, data):
        """Say something, then hello as a rank that is expected; the lease must come."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_CALL_S)
            line.connect(str(self.path))
            with contextlib.suppress(OSError):  # it may hang up at once
                line.sendall(data)
                line.shutdown(socket.SHUT_WR)
                line.recv(100)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_CALL_S)
            line.connect(str(self.path))
            line.sendall(_hello(self.keys, 1))
            if b'"op":"lease"' not in line.recv(1000):
                raise Found("a rank that said hello was not told its lease")
        if self.wrong:
            problem = self.wrong.pop()
            raise Found(str(problem.get("message"))) from problem.get("exception")

    def close(self):
        """Stop listening."""
        asyncio.run_coroutine_threadsafe(self.endpoint.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def _hello(keys, rank):
    key = keys.of(RankId(AttemptId("7", 1), rank))
    return json.dumps({"op": "hello", "job": "7", "epoch": 1, "rank": rank, "step": 0, "key": key}).encode() + b"\n"


def _socket(folder):
    running = _RunningEndpoint(folder)
    good = seeds.SOCKET.replace(b"KEY", running.keys.of(RankId(AttemptId("7", 1), 0)).encode())
    hello = _hello(running.keys, 0)

    def make(mutator):
        data = mutator.mutated([good])
        return hello + data if mutator.random.random() < 0.7 else data

    return Target(name="agent-socket", seeds=[good], feed=running.said, make=make, close=running.close)


def _frames(folder):
    path = folder / "000001-0"

    def feed(data):
        whole = list(FrameReader().feed(data))
        reader = FrameReader()
        size = max(7, len(data) // 100)
        pieces = [frame for at in range(0, len(data), size) for frame in reader.feed(data[at : at + size])]
        if pieces != whole:
            raise Found("frames depend on the pieces in which they come")
        output_bytes(data)
        path.write_bytes(data)
        first_time(path)
        segment_named(data[:40].decode("latin-1"))

    return Target(name="log-frames", seeds=[seeds.FRAMES], feed=feed)


# A real scheduler


class _Server:
    """`rota serve` with certificates, and channels of a tenant, an administrator and an agent."""

    def __init__(self, folder):
        site = seeds.certificates(folder / "certs")
        self._said = folder / "server.log"
        # What is fuzzed is what a call does, not how many there may be.
        (folder / "tenants.toml").write_text(
            "[default]\nrequests_per_s = 1000000.0\nrequest_burst = 1000000\nmax_scheduler_share = 1.0\n"
        )
        command = [
            sys.executable, "-m", "rota.cli", "serve", "--state", str(folder / "state.db"), "--listen", "127.0.0.1:0",
            "--tenants", str(folder / "tenants.toml"),
            "--certs", str(site), "--json", "--while-stdin", "--policy", "las", "--round", "60", "--time-scale", "60",
        ]  # fmt: skip
        with self._said.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "HOME": str(folder)},
            )
        line = self.process.stdout.readline()
        if not line:
            raise Found(f"the scheduler did not start: {self._said.read_text()}")
        self.address = json.loads(line)["address"]
        tokens = TokenFile(site / "tokens.json")
        client = load_bundle(site, Role.CLIENT, "alice")
        agent = load_bundle(site, Role.AGENT, "node1")
        self.channels = {
            "tenant": open_channel(self.address, bundle=client, token=tokens.add("vision")[1], sync=True),
            "admin": open_channel(self.address, bundle=client, token=tokens.add("ops", admin=True)[1], sync=True),
            "agent": open_channel(self.address, bundle=agent, sync=True),
        }
        self._logged = 0
        self._checked = time.monotonic()

    def call(self, who, method, data):
        """A request as bytes; whether it was refused. Found if it failed inside of the scheduler."""
        path = f"/rota.v1.{method.containing_service.name}/{method.name}"
        channel = self.channels[who]
        answer = message_factory.GetMessageClass(method.output_type)
        kind = channel.unary_stream if method.server_streaming else channel.unary_unary
        call = kind(path, request_serializer=lambda raw: raw, response_deserializer=answer.FromString)
        try:
            if method.server_streaming:
                self._listen(call(data, timeout=_LISTEN_S))
            else:
                answered = call(data, timeout=_CALL_S)
                self._tidy(method, answered)
        except grpc.RpcError as error:
            late = method.server_streaming and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            if error.code() in _BAD and not late:
                raise Found(f"{method.name}: {error.code().name}: {error.details()}\n{self._news()}") from None
            return not late
        return False

    def _listen(self, stream):
        for _ in zip(range(5), stream, strict=False):
            pass
        stream.cancel()

    def _tidy(self, method, answered):
        """Jobs that were accepted are cancelled: what many of them do is not what is looked for here."""
        if method.name == "Submit" and answered.jobs:
            cancel = self.channels["admin"].unary_unary(
                "/rota.v1.Control/Cancel", pb.CancelRequest.SerializeToString, pb.CancelReply.FromString
            )
            for start in range(0, len(answered.jobs), 1000):
                cancel(pb.CancelRequest(jobs=answered.jobs[start : start + 1000]), timeout=_CALL_S)

    def check(self):
        """It answers a good request, has not grown and has not complained."""
        ask = self.channels["admin"].unary_unary(
            "/rota.v1.Control/Status", pb.Empty.SerializeToString, pb.StatusReply.FromString
        )
        try:
            ask(pb.Empty(), timeout=_CALL_S)
        except grpc.RpcError as error:
            raise Found(f"no answer to a good request: {error.code().name} {error.details()}\n{self._news()}") from None
        if peak_rss(self.process.pid) > MOST_RSS:
            raise Found(f"the scheduler holds {peak_rss(self.process.pid) / 1e6:,.0f} MB")
        news = self._news()
        if "Traceback" in news:
            raise Found(f"the scheduler complains:\n{news[-3000:]}")

    def _news(self):
        """What the scheduler has written since the last time."""
        text = self._said.read_bytes()[self._logged :]
        self._logged += len(text)
        return text.decode(errors="replace")

    def close(self):
        """End it, and wait."""
        for channel in self.channels.values():
            channel.close()
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def _calls(name, service, callers):
    """Every method of a service, called by somebody who may."""

    def make(folder):
        server = _Server(folder)
        methods = list(pb.DESCRIPTOR.services_by_name[service].methods)

        def feed(data):
            method = methods[data[0] % len(methods)]
            refused = server.call(callers[data[1] % len(callers)], method, data[2:])
            server.check()
            if refused:
                raise ConfigError("refused")

        def message(mutator):
            number = mutator.random.randrange(len(methods))
            request = message_factory.GetMessageClass(methods[number].input_type)()
            _fill(request, mutator.random, 0)
            data = request.SerializeToString()
            if data and mutator.random.random() < 0.15:
                data = mutator.of_bytes(data, [data])
            return bytes([number, mutator.random.randrange(len(callers))]) + data

        good = [bytes([number, 0]) for number in range(len(methods)) if methods[number].input_type.name == "Empty"]
        return Target(name=name, seeds=good, feed=feed, make=message, close=server.close)

    return name, make


def _fill(message, random, depth):
    """Set some fields to values of the right type, likely and unlikely ones."""
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.35:
            continue
        with contextlib.suppress(ValueError, TypeError, DecodeError):
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                _fill_map(getattr(message, field.name), field, random)
            elif _repeated(field):
                _fill_list(getattr(message, field.name), field, random, depth)
            elif field.message_type is not None:
                _fill(getattr(message, field.name), random, depth + 1)
            else:
                setattr(message, field.name, _value(field, random))


def _fill_map(entries, field, random):
    for _ in range(random.choice((0, 1, 1, 3, 2000))):
        key = _value(field.message_type.fields_by_name["key"], random)
        entries[key] = _value(field.message_type.fields_by_name["value"], random)


def _fill_list(entries, field, random, depth):
    for _ in range(random.choice((0, 1, 1, 2, 5, 30) if depth else (1, 1, 2, 5, 30))):
        if field.message_type is not None:
            _fill(entries.add(), random, depth + 1)
        else:
            entries.append(_value(field, random))
    if len(entries) == 1 and random.random() < 0.1 and len(str(entries[0])) < 1000:
        entries.extend([entries[0]] * 12_000)


def _value(field, random):
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = random.choice(_TEXTS)
        return text if field.type == FieldDescriptor.TYPE_STRING else text.encode() + random.randbytes(3)
    if field.cpp_type in {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}:
        return random.choice(_FLOATS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    number = random.choice(_WHOLE)
    signed = -number if random.random() < 0.2 else number
    fits = -(2**31) <= signed < 2**31 if field.cpp_type == FieldDescriptor.CPPTYPE_INT32 else signed < 2**63
    return signed if fits else 1


def _repeated(field):
    return (
        field.is_repeated if hasattr(FieldDescriptor, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED
    )


DOORS = {
    "agent-socket": _socket,
    "log-frames": _frames,
    **dict(
        [_calls("grpc-control", "Control", ("tenant", "tenant", "admin")), _calls("grpc-fleet", "Fleet", ("agent",))]
    ),
}
"""Name to what makes the target in a folder."""
