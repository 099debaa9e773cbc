"""Servers that behave as the platforms of channels do, with what they were sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.servers import listening


@define(eq=False)
class AnswerReceiver:
    """A server that takes answers and knows idempotency keys.

    Attributes:
        failures: the responses to give first.
        requests: the headers and body of each request.
        shown: the messages by their keys.
    """

    failures: list[Response] = field(factory=list)
    requests: list[tuple[dict[str, str], bytes]] = field(factory=list)
    shown: dict[str, dict[str, Any]] = field(factory=dict)

    async def take(self, request: Request) -> Response:
        """Take an answer."""
        body = await request.body()
        self.requests.append((dict(request.headers), body))
        if self.failures:
            return self.failures.pop(0)
        self.shown.setdefault(request.headers["idempotency-key"], json.loads(body))
        return JSONResponse({"id": f"m{len(self.shown)}"})


@asynccontextmanager
async def answer_receiver() -> AsyncIterator[tuple[AnswerReceiver, str]]:
    """A receiver of answers, and its address."""
    receiver = AnswerReceiver()
    app = Starlette(routes=[Route("/answers", receiver.take, methods=["POST"])])
    async with listening(app) as address:
        yield receiver, f"{address}/answers"
