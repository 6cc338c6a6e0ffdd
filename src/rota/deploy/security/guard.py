"""The interceptor in front of every call.

Who is it, may it do this, and only then is the request even decoded.

A method without a rule is refused. Bytes of a request are decoded after the caller is known, so
that a stranger's garbage never reaches a decoder; what cannot be decoded is refused like everything
else.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import Message

from rota.core.errors import ConfigError
from rota.deploy.security.admission import RETRY_AFTER, Admission, TooMany
from rota.deploy.security.audit import Audit, RefusalReason
from rota.deploy.security.identity import Denied, Identity, identify, set_current
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.subjects import Role
from rota.deploy.security.tokens import TokenVerifier
from rota.deploy.tenants import Tenants

# What a rule can ask for.
AGENT = "agent"
"""The certificate of an agent."""
JOIN = "join"
"""A join ticket."""
CLIENT = "client"
"""The certificate of a client."""
USER = "user"
"""The certificate of a client and a token."""
ADMIN = "admin"
"""The certificate of a client and the token of an administrator."""

HEALTH = {"/grpc.health.v1.Health/*": frozenset({AGENT, CLIENT})}
"""Rule for the standard health service: whoever has a certificate may ask."""

_STATUS_OF_REASON = {
    RefusalReason.UNKNOWN_METHOD: grpc.StatusCode.UNIMPLEMENTED,
    RefusalReason.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    RefusalReason.TOO_MANY: grpc.StatusCode.RESOURCE_EXHAUSTED,
}

RECHECK_S = 2.0
"""Seconds after which it is looked again whether the caller of an open stream is still accepted."""
_END = object()


class _Malformed(Exception):
    """A request that its decoder does not accept, or that is out of bounds."""


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Lets calls through by rules: from `/service/Method` or `/service/*` to who may call it."""

    def __init__(
        self,
        rules: Mapping[str, frozenset[str]],
        tokens: TokenVerifier | None,
        audit: Audit | None = None,
        *,
        revoked: Revocations | None = None,
        insecure: bool = False,
        check: Callable[[Any], None] = lambda _: None,
        admission: Admission | None = None,
        uncounted: frozenset[str] = frozenset(),
        more_bytes: Callable[[Any], int] = lambda _: 0,
    ) -> None:
        """`check` looks at every decoded request and raises ConfigError if it is out of bounds.

        `more_bytes` says how many bytes a decoded request stands for beyond its own.
        Calls to `uncounted` methods and their answers do not count as requests of a tenant.
        """
        unknown = sorted(
            {who for allowed in rules.values() for who in allowed}
            - {AGENT, JOIN, CLIENT, USER, ADMIN}
        )
        if unknown:
            raise ValueError(f"rules name {unknown}; known are agent, join, client, user, admin")
        self._rules = dict(rules)
        self._tokens = tokens
        self._revoked = revoked
        self._insecure = insecure
        self._check_bounds = check
        self._more_bytes = more_bytes
        self._admission = admission or Admission(Tenants())
        self._uncounted = uncounted
        self.audit = audit or Audit()
        self._guarded: dict[str, tuple[Any, Any]] = {}

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        """Wrap the handler of a call; who calls is known only when the handler gets its context."""
        handler = await continuation(details)
        method = details.method
        if handler is None:
            return grpc.unary_unary_rpc_method_handler(self._nobody(method))
        wrapped_handler, guarded = self._guarded.get(method, (None, None))
        if wrapped_handler is not handler:
            guarded = self._wrap(handler, method)
            self._guarded[method] = (handler, guarded)
        return guarded

    def check(self, context: Any, method: str) -> Identity:
        """Who calls a method, if they may. Raises Denied."""
        identity = self._identify(context)
        allowed = self._rules.get(method) or self._rules.get(f"{method.rpartition('/')[0]}/*")
        if allowed is None:
            raise Denied(RefusalReason.WRONG_ROLE, "no rule says who may call this", known=True)
        if identity.insecure or allowed & _abilities(identity):
            return identity
        if identity.role is Role.CLIENT and identity.tenant is None and allowed & {USER, ADMIN}:
            raise Denied(
                RefusalReason.NO_TOKEN,
                "this needs a token; an administrator makes one with `rota tokens create`",
            )
        raise Denied(
            RefusalReason.WRONG_ROLE,
            f"{identity} may not call this; {' or '.join(sorted(allowed))} may",
            known=True,
        )

    def _identify(self, context: Any) -> Identity:
        return identify(context, self._tokens, self._revoked, insecure=self._insecure)

    def _enter(self, request: Any, context: Any, method: str) -> Identity:
        """Who calls, if they may, now. Raises Denied."""
        identity = self.check(context, method)
        if method not in self._uncounted:
            self._admission.request(identity)
            if isinstance(request, bytes):
                self._admission.charge(identity, len(request))
        set_current(identity)
        return identity

    async def _refuse(self, context: Any, method: str, denied: Denied) -> None:
        self.audit.refused(str(context.peer()), method, denied.reason, denied.why)
        refused = (
            grpc.StatusCode.PERMISSION_DENIED if denied.known else grpc.StatusCode.UNAUTHENTICATED
        )
        waits = (
            ((RETRY_AFTER, f"{denied.retry_after_s:.3f}"),) if isinstance(denied, TooMany) else ()
        )
        await context.abort(_STATUS_OF_REASON.get(denied.reason, refused), denied.why, waits)

    def _nobody(self, method: str) -> Callable[[Any, Any], Awaitable[Any]]:
        async def call(_request: Any, context: Any) -> None:
            denied = Denied(RefusalReason.UNKNOWN_METHOD, "there is no such method")
            try:
                self._identify(context)
            except Denied as stranger:
                denied = stranger
            await self._refuse(context, method, denied)

        return call

    def _wrap(self, handler: Any, method: str) -> Any:
        decode = handler.request_deserializer
        encode = handler.response_serializer
        if handler.request_streaming:
            # Messages of a stream are decoded when the handler asks for them: after the check.
            if handler.response_streaming:
                both = self._streaming(handler.stream_stream, None, method)
                return grpc.stream_stream_rpc_method_handler(both, self._strict(decode), encode)
            requests = self._single(handler.stream_unary, None, method)
            return grpc.stream_unary_rpc_method_handler(requests, self._strict(decode), encode)
        if handler.response_streaming:
            answers = self._streaming(handler.unary_stream, decode, method)
            return grpc.unary_stream_rpc_method_handler(answers, None, encode)
        return grpc.unary_unary_rpc_method_handler(
            self._single(handler.unary_unary, decode, method), None, encode
        )

    def _single(
        self, inner: Callable[..., Any], decode: Any, method: str
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        async def call(request: Any, context: Any) -> Any:
            try:
                identity = self._enter(request, context, method)
                message = self._strict(decode)(request)
                if method not in self._uncounted:
                    self._admission.charge(identity, self._more_bytes(message))
                answer = inner(message, context)
                return self._counted(
                    identity, method, await answer if inspect.isawaitable(answer) else answer
                )
            except Denied as denied:
                await self._refuse(context, method, denied)
            except _Malformed as error:
                malformed = Denied(RefusalReason.MALFORMED, str(error))
                await self._refuse(context, method, malformed)

        return call

    def _counted(self, identity: Identity, method: str, answer: Any) -> Any:
        if isinstance(answer, Message) and method not in self._uncounted:
            self._admission.charge(identity, answer.ByteSize())
        return answer

    def _streaming(
        self, inner: Callable[..., Any], decode: Any, method: str
    ) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                identity = self._enter(request, context, method)
                with self._admission.stream(identity):
                    answers = inner(self._strict(decode)(request), context)
                    if inspect.isawaitable(
                        answers
                    ):  # a handler that writes through the context itself
                        await answers
                        return
                    async with contextlib.aclosing(
                        self._while_allowed(answers, context, method)
                    ) as allowed:
                        async for answer in allowed:
                            yield answer
            except Denied as denied:
                await self._refuse(context, method, denied)
            except _Malformed as error:
                malformed = Denied(RefusalReason.MALFORMED, str(error))
                await self._refuse(context, method, malformed)

        return call

    async def _while_allowed(
        self, answers: AsyncIterator[Any], context: Any, method: str
    ) -> AsyncGenerator[Any, None]:
        """The answers of a stream for as long as its caller may have them. Raises Denied.

        A certificate or token that was revoked, or has ended, ends also a silent stream.
        """
        watch = _StreamWatch(lambda: self.check(context, method))
        try:
            while True:
                answer = await watch.awaited(anext(answers, _END))
                if answer is _END:
                    return
                yield answer
        finally:
            watch.end()
            if inspect.isasyncgen(answers):
                await answers.aclose()

    def _strict(self, decode: Callable[[bytes], Any] | None) -> Callable[[Any], Any]:
        """A decoder with one exception for whatever fails, and for what is out of bounds."""
        if decode is None:
            return lambda raw: raw

        def strictly(raw: bytes) -> Any:
            try:
                message = decode(raw)
            except Exception as error:
                raise _Malformed("the request cannot be decoded") from error
            try:
                self._check_bounds(message)
            except ConfigError as error:
                raise _Malformed(str(error)) from error
            return message

        return strictly


class _StreamWatch:
    """Looks from time to time whether the caller of a stream is still accepted.

    A timer and not a task: a stream of many small answers costs no more for it.
    """

    def __init__(self, check: Callable[[], object]) -> None:
        self._check = check
        self._task = asyncio.current_task()
        self._denied: Denied | None = None
        self._waiting = False
        self._timer = asyncio.get_running_loop().call_later(RECHECK_S, self._look)

    async def awaited(self, coming: Awaitable[Any]) -> Any:
        """What is coming, unless the caller is not accepted any more. Raises Denied."""
        self._waiting = True
        try:
            answer = await coming
        except asyncio.CancelledError:
            if self._denied is None:
                raise
        finally:
            self._waiting = False
        if self._denied is not None:
            raise self._denied
        return answer

    def end(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        try:
            self._check()
        except Denied as denied:
            self._denied = denied
            if self._waiting and self._task is not None:
                self._task.cancel()
        else:
            self._timer = asyncio.get_running_loop().call_later(RECHECK_S, self._look)


def _abilities(identity: Identity) -> frozenset[str]:
    if identity.role is not Role.CLIENT:
        return frozenset({identity.role.value})
    abilities = {CLIENT}
    if identity.tenant:
        abilities.add(USER)
    if identity.admin:
        abilities.add(ADMIN)
    return frozenset(abilities)
