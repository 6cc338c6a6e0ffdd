"""Calls that ask questions: each is handed to the desk with who asks."""

from __future__ import annotations

from typing import Any

from rota.deploy.server.handlers import Identify, answered
from rota.deploy.server.questions import QuestionDesk
from rota.rpc import rota_pb2 as pb


class QuestionHandlers:
    """Why, when, what if, who had how much."""

    identify: Identify
    _desk: QuestionDesk

    @answered
    async def Why(self, request: pb.JobRequest, context: Any) -> pb.Answer:
        """Why a job waits."""
        return await self._desk.why(request, self.identify(context))

    @answered
    async def Eta(self, request: pb.EtaRequest, context: Any) -> pb.Answer:
        """When jobs start and end."""
        return await self._desk.eta(request, self.identify(context))

    @answered
    async def WhatIf(self, request: pb.WhatIfRequest, context: Any) -> pb.Answer:
        """Who gains and who loses by a change."""
        return await self._desk.what_if(request, self.identify(context))

    @answered
    async def Ledger(self, request: pb.LedgerRequest, context: Any) -> pb.Answer:
        """Who had how much."""
        return await self._desk.ledger(request, self.identify(context))

    @answered
    async def Usage(self, request: pb.UsageRequest, context: Any) -> pb.Answer:
        """GPUs, CPUs and memory over time."""
        return await self._desk.usage(request, self.identify(context))

    @answered
    async def Occupancy(self, request: pb.OccupancyRequest, context: Any) -> pb.Answer:
        """Who held which GPUs when."""
        return await self._desk.occupancy(request, self.identify(context))
