"""Servers that behave as the platforms of channels do, with what they were sent."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field, frozen
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


@frozen(eq=False)
class Platform:
    """A platform with its routes, and the path that a channel is given."""

    server: Any
    routes: tuple[Route, ...]
    path: str


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


def answer_receiver() -> Platform:
    """A receiver of answers."""
    receiver = AnswerReceiver()
    return Platform(receiver, (Route("/answers", receiver.take, methods=["POST"]),), "/answers")


@define(eq=False)
class SlackServer:
    """A server with the methods of Slack that a channel calls.

    Attributes:
        token: the one that it takes.
        failures: the responses to give to the next messages, which are posted all the same if ``lossy``.
        messages: what was posted, by channel.
        statuses: the statuses that were set.
        asked: the methods in their order.
    """

    token: str
    lossy: bool = False
    failures: list[Response] = field(factory=list)
    messages: list[dict[str, Any]] = field(factory=list)
    statuses: list[dict[str, Any]] = field(factory=list)
    asked: list[str] = field(factory=list)

    async def call(self, request: Request) -> Response:
        """Answer a call of a method."""
        method = request.path_params["method"]
        self.asked.append(method)
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return JSONResponse({"ok": False, "error": "invalid_auth"})
        if method == "chat.postMessage":
            return self._post(json.loads(await request.body()))
        if method == "assistant.threads.setStatus":
            self.statuses.append(json.loads(await request.body()))
            return JSONResponse({"ok": True})
        query = request.query_params
        found = [each for each in self.messages if each["channel"] == query["channel"]]
        if method == "conversations.replies":
            found = [each for each in found if each.get("thread_ts") == query["ts"]]
        begin = int(query.get("cursor", "0"))
        after = str(begin + 2) if begin + 2 < len(found) else ""
        page = {"ok": True, "messages": found[begin : begin + 2]}
        return JSONResponse({**page, "response_metadata": {"next_cursor": after}})

    def _post(self, document: dict[str, Any]) -> Response:
        if document["channel"] == "CARCHIVED":
            return JSONResponse({"ok": False, "error": "is_archived"})
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None and not self.lossy:
            return failure
        posted = {**document, "ts": f"1700000000.{len(self.messages):06}"}
        self.messages.append(posted)
        return failure or JSONResponse({"ok": True, "channel": document["channel"], "ts": posted["ts"]})


def slack_server(token: str) -> Platform:
    """A server of Slack's methods."""
    server = SlackServer(token)
    return Platform(server, (Route("/api/{method}", server.call, methods=["GET", "POST"]),), "/api")


@define(eq=False)
class Homeserver:
    """A homeserver of Matrix with the methods that an application service calls.

    Attributes:
        token: the ``as_token``.
        failures: the responses to give first; what was sent is kept all the same.
        shown: the content of each message by its room and transaction.
        typing: the rooms in which the user typed, in order.
        joined: the rooms that the user joined.
    """

    token: str
    failures: list[Response] = field(factory=list)
    shown: dict[tuple[str, str], dict[str, Any]] = field(factory=dict)
    typing: list[str] = field(factory=list)
    joined: list[str] = field(factory=list)

    async def call(self, request: Request) -> Response:
        """Answer a call of a method."""
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return JSONResponse({"errcode": "M_UNKNOWN_TOKEN"}, 401)
        if request.query_params.get("user_id") != "@mira:example.org":
            return JSONResponse({"errcode": "M_FORBIDDEN"}, 403)
        match request.method, request.path_params["rest"].split("/"):
            case "PUT", ["rooms", room, "send", "m.room.message", transaction]:
                self.shown.setdefault((room, transaction), json.loads(await request.body()))
                if self.failures:
                    return self.failures.pop(0)
                number = list(self.shown).index((room, transaction))
                return JSONResponse({"event_id": f"$sent{number}"})
            case "PUT", ["rooms", room, "typing", _]:
                self.typing.append(room)
                return JSONResponse({})
            case "POST", ["join", room]:
                if self.failures:
                    return self.failures.pop(0)
                self.joined.append(room)
                return JSONResponse({"room_id": room})
        return JSONResponse({"errcode": "M_UNRECOGNIZED"}, 404)


def homeserver(token: str) -> Platform:
    """A homeserver of Matrix."""
    server = Homeserver(token)
    route = Route("/_matrix/client/v3/{rest:path}", server.call, methods=["POST", "PUT"])
    return Platform(server, (route,), "")
