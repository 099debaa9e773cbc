"""A real HTTP server on a loopback address that speaks the OpenAI protocol: chat from a script, embeddings.

>>> with OpenAIServer(Answer("Hello.")) as server:
...     print(server.base_url.startswith("http://127.0.0.1:"))
True
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

from attrs import field, frozen


@frozen
class Call:
    """A tool call in an answer. ``arguments`` is JSON text, or an object to be written as such."""

    name: str
    arguments: str | Mapping[str, object] = "{}"
    id: str | None = "call-a"

    @property
    def text(self) -> str:
        """The arguments as they go over the wire."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@frozen
class Answer:
    """A good answer: JSON, or server-sent events when the request asks for a stream.

    Attributes:
        usage: input and output tokens; ``None`` leaves the usage out.
        finish_reason: empty for the one that fits.
        delay_s: seconds before the answer, and in a stream before each piece.
        cut_after: pieces of the stream to send before the connection is dropped.
        stalls_after: pieces to send before nothing more comes.
        choices: false for an answer without any choice.
    """

    content: str | None = None
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    usage: tuple[int, int] | None = (11, 7)
    finish_reason: str = ""
    model: str = "gpt-4o-mini"
    delay_s: float = 0.0
    cut_after: int | None = None
    stalls_after: int | None = None
    choices: bool = True

    @property
    def finish(self) -> str:
        """The finish reason that is sent."""
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    def body(self) -> dict[str, object]:
        """The answer as one JSON document."""
        message: dict[str, object] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [_call(call) for call in self.calls]
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return self._envelope("chat.completion", [choice] if self.choices else [], with_usage=True)

    def pieces(self) -> Iterator[dict[str, object]]:
        """The answer as the chunks of a stream, usage in the last."""
        for text in _halves(self.reasoning):
            yield self._chunk({"reasoning_content": text})
        for text in _halves(self.content or ""):
            yield self._chunk({"role": "assistant", "content": text})
        for index, call in enumerate(self.calls):
            first, *rest = _halves(call.text) or [""]
            yield self._chunk({"tool_calls": [{"index": index, **_call(call, first)}]})
            for text in rest:
                yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
        yield self._chunk({}, self.finish)
        if self.usage is not None:
            yield self._envelope("chat.completion.chunk", [], with_usage=True)

    def _chunk(self, delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return self._envelope("chat.completion.chunk", [choice] if self.choices else [])

    def _envelope(self, kind: str, choices: list[Any], *, with_usage: bool = False) -> dict[str, object]:
        envelope: dict[str, object] = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": self.model}
        if with_usage and self.usage is not None:
            read, written = self.usage
            envelope["usage"] = {
                "prompt_tokens": read,
                "completion_tokens": written,
                "total_tokens": read + written,
            }
        return {**envelope, "choices": choices}


@frozen
class Raw:
    """Exactly this status, body and headers."""

    status: int
    body: str | bytes = ""
    headers: Mapping[str, str] = field(factory=dict)
    delay_s: float = 0.0


Reply: TypeAlias = Answer | Raw


def refusal(
    status: int, message: str = "no", *, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Raw:
    """An error answer in the OpenAI form."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Raw(status, json.dumps({"error": error}), headers or {})


def sent_events(chunks: Iterable[Mapping[str, object]], *, done: bool = False) -> Raw:
    """A stream of just these chunks, which ends as if it were whole."""
    lines = [*map(json.dumps, chunks), *["[DONE]"] * done]
    return Raw(200, "".join(f"data: {line}\n\n" for line in lines), {"Content-Type": "text/event-stream"})


def embeddings(*vectors: Sequence[float]) -> Raw:
    """An answer with vectors, the last one first, as the protocol allows."""
    data = [{"object": "embedding", "index": n, "embedding": list(each)} for n, each in enumerate(vectors)]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    body = {"object": "list", "model": "text-embedding-3-small", "data": data[::-1], "usage": usage}
    return Raw(200, json.dumps(body))


@frozen
class Received:
    """One request as the server got it; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class OpenAIServer:
    """Answers each request with the next reply, and with status 404 when the script is used up.

    Args:
        replies: the script.
        embed: answers the questions for embeddings, text by text; without it the script does.
        together: nothing is answered before so many requests have come.

    Attributes:
        requests: what was asked, in order.
        asked: set when the first request has come.
        hung_up: set when a client closed the connection before the answer was complete.
    """

    def __init__(
        self,
        *replies: Reply,
        embed: Callable[[str], Sequence[float]] | None = None,
        together: int = 1,
    ) -> None:
        self._replies = iter(replies)
        self._together = threading.Barrier(together) if together > 1 else None
        self._embed = embed
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self.requests: list[Received] = []
        self.asked = threading.Event()
        self.hung_up = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.002,))

    @property
    def base_url(self) -> str:
        """The address to give to a client."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def open_connections(self) -> int:
        """How many connections of clients are open now."""
        with self._lock:
            return len(self._sockets)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        with self._lock:
            for connection in self._sockets:
                connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()
        self._thread.join()

    def _next(self, received: Received) -> Reply:
        if self._together is not None:
            self._together.wait()
        with self._lock:
            self.requests.append(received)
            self.asked.set()
            if self._embed is not None and received.path.endswith("/embeddings"):
                return embeddings(*map(self._embed, received.body["input"]))
            return next(self._replies, refusal(404, "the script of the server is used up"))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                with server._lock:
                    server._sockets.add(self.request)
                super().setup()

            def finish(self) -> None:
                with server._lock:
                    server._sockets.discard(self.request)
                super().finish()

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server._next(Received(self.path, headers, body))
                try:
                    self._send(reply, stream=bool(body.get("stream")))
                except ConnectionError:  # the client left while something was sent
                    server.hung_up.set()
                    self.close_connection = True

            def _send(self, reply: Reply, *, stream: bool) -> None:
                if isinstance(reply, Answer) and stream:
                    self._stream(reply)
                elif isinstance(reply, Answer):
                    self._whole(Raw(200, json.dumps(reply.body()), delay_s=reply.delay_s))
                else:
                    self._whole(reply)

            def _whole(self, reply: Raw) -> None:
                if self._client_leaves_within(reply.delay_s):
                    return
                content = reply.body if isinstance(reply.body, bytes) else reply.body.encode()
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _stream(self, reply: Answer) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for sent, piece in enumerate(reply.pieces()):
                    if reply.cut_after == sent:
                        self.close_connection = True
                        return
                    silence_s = 600.0 if reply.stalls_after == sent else reply.delay_s
                    if self._client_leaves_within(silence_s):
                        return
                    self._send_event(json.dumps(piece))
                self._send_event("[DONE]")
                self.wfile.write(b"0\r\n\r\n")

            def _send_event(self, text: str) -> None:
                event = f"data: {text}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))

            def _client_leaves_within(self, seconds: float) -> bool:
                readable, _, _ = select.select([self.request], [], [], seconds)
                if readable and self.request.recv(1, socket.MSG_PEEK) == b"":
                    server.hung_up.set()
                    self.close_connection = True
                    return True
                return False

        return Handler


def _call(call: Call, arguments: str | None = None) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.text if arguments is None else arguments}
    identity = {} if call.id is None else {"id": call.id}
    return {**identity, "type": "function", "function": function}


def _halves(text: str) -> list[str]:
    middle = (len(text) + 1) // 2
    return [part for part in (text[:middle], text[middle:]) if part]
