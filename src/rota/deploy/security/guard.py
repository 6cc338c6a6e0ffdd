"""The interceptor in front of every call.

Who is it, may it do this, and only then is the request even decoded.

A method without a rule is refused. Bytes of a request are decoded after the caller is known, so
that a stranger's garbage never reaches a decoder; what cannot be decoded is refused like everything
else.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc

from rota.core.errors import ConfigError
from rota.deploy.security.audit import Audit, RefusalReason
from rota.deploy.security.identity import Denied, Identity, identify, set_current
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.subjects import Role
from rota.deploy.security.tokens import TokenVerifier

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

_OF_STRANGERS = {
    RefusalReason.UNKNOWN_METHOD: grpc.StatusCode.UNIMPLEMENTED,
    RefusalReason.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
}


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
    ) -> None:
        """`check` looks at every decoded request and raises ConfigError if it is out of bounds."""
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

    async def _enter(self, context: Any, method: str) -> None:
        try:
            set_current(self.check(context, method))
        except Denied as denied:
            await self._refuse(context, method, denied)

    async def _refuse(self, context: Any, method: str, denied: Denied) -> None:
        self.audit.refused(str(context.peer()), method, denied.reason, denied.why)
        refused = (
            grpc.StatusCode.PERMISSION_DENIED if denied.known else grpc.StatusCode.UNAUTHENTICATED
        )
        await context.abort(_OF_STRANGERS.get(denied.reason, refused), denied.why)

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
            await self._enter(context, method)
            try:
                answer = inner(self._strict(decode)(request), context)
                return await answer if inspect.isawaitable(answer) else answer
            except _Malformed as error:
                denied = Denied(RefusalReason.MALFORMED, str(error))
                await self._refuse(context, method, denied)

        return call

    def _streaming(
        self, inner: Callable[..., Any], decode: Any, method: str
    ) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            await self._enter(context, method)
            try:
                answers = inner(self._strict(decode)(request), context)
                if inspect.isawaitable(answers):  # a handler that writes through the context itself
                    await answers
                    return
                async for answer in answers:
                    yield answer
            except _Malformed as error:
                denied = Denied(RefusalReason.MALFORMED, str(error))
                await self._refuse(context, method, denied)

        return call

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


def _abilities(identity: Identity) -> frozenset[str]:
    if identity.role is not Role.CLIENT:
        return frozenset({identity.role.value})
    abilities = {CLIENT}
    if identity.tenant:
        abilities.add(USER)
    if identity.admin:
        abilities.add(ADMIN)
    return frozenset(abilities)
