"""What every call of a channel gets: a deadline if it has none, and metadata of the connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

Metadata = tuple[tuple[str, str], ...]


def sync_interceptor(metadata: Metadata, deadline_s: float) -> Any:
    """For blocking channels."""
    return _Sync(metadata, deadline_s)


def aio_interceptors(metadata: Metadata, deadline_s: float) -> list[Any]:
    """For grpc.aio channels, which want one object per kind of call.

    Streams are only touched if there is need.
    """
    first: list[Any] = [_UnaryUnary(metadata, deadline_s)]
    streams = (_UnaryStream, _StreamUnary, _StreamStream)
    return first + ([interceptor(metadata, None) for interceptor in streams] if metadata else [])


class _Defaults:
    def __init__(self, metadata: Metadata, deadline_s: float | None) -> None:
        self._metadata = metadata
        self._deadline_s = deadline_s

    def _filled(self, details: Any) -> Any:
        timeout = details.timeout if details.timeout is not None else self._deadline_s
        metadata = grpc.aio.Metadata(*(details.metadata or ()), *self._metadata)
        return grpc.aio.ClientCallDetails(
            details.method,
            timeout,
            metadata,
            details.credentials,
            getattr(details, "wait_for_ready", None),
        )


class _UnaryUnary(_Defaults, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], details: Any, request: Any
    ) -> Any:
        return await continuation(self._filled(details), request)


class _UnaryStream(_Defaults, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self, continuation: Callable[..., Any], details: Any, request: Any
    ) -> Any:
        return await continuation(self._filled(details), request)


class _StreamUnary(_Defaults, grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(
        self, continuation: Callable[..., Any], details: Any, requests: Any
    ) -> Any:
        return await continuation(self._filled(details), requests)


class _StreamStream(_Defaults, grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(
        self, continuation: Callable[..., Any], details: Any, requests: Any
    ) -> Any:
        return await continuation(self._filled(details), requests)


class _SyncDetails(grpc.ClientCallDetails):
    def __init__(self, details: Any, metadata: Metadata, deadline_s: float | None) -> None:
        self.method = details.method
        self.credentials = details.credentials
        self.timeout = details.timeout if details.timeout is not None else deadline_s
        self.metadata = (*(details.metadata or ()), *metadata)
        self.wait_for_ready = details.wait_for_ready
        self.compression = details.compression


class _Sync(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    def __init__(self, metadata: Metadata, deadline_s: float) -> None:
        self._metadata = metadata
        self._deadline_s = deadline_s

    def intercept_unary_unary(
        self, continuation: Callable[..., Any], details: Any, request: Any
    ) -> Any:
        return continuation(_SyncDetails(details, self._metadata, self._deadline_s), request)

    def intercept_unary_stream(
        self, continuation: Callable[..., Any], details: Any, request: Any
    ) -> Any:
        return continuation(_SyncDetails(details, self._metadata, None), request)

    def intercept_stream_unary(
        self, continuation: Callable[..., Any], details: Any, requests: Any
    ) -> Any:
        return continuation(_SyncDetails(details, self._metadata, None), requests)

    def intercept_stream_stream(
        self, continuation: Callable[..., Any], details: Any, requests: Any
    ) -> Any:
        return continuation(_SyncDetails(details, self._metadata, None), requests)
