"""A real MCP server as a process of its own, over its standard streams or over HTTP on a loopback address.

python tests/support/mcp_server.py [--garbage] [--complain TEXT] [--http [--key KEY] [--oauth] [--port PORT]]
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    InputRequiredResult,
    ListRootsRequest,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

PROGRAM = Path(__file__)
PICTURE = b"\x89PNG, as it were"
locked: list[bool] = []


class Forecast(BaseModel):
    """Return the forecast."""

    city: str
    degrees: float


@contextmanager
def http_server(*options: str, env: dict[str, str] | None = None) -> Iterator[tuple[str, int]]:
    """The address and the process id of a server that runs within the block."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), "--http", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    with process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.kill()


def make_server() -> MCPServer[Any]:
    """The server with its tools."""
    server = MCPServer("a server for tests")
    only_reads = ToolAnnotations(read_only_hint=True)
    only_adds = ToolAnnotations(destructive_hint=False, idempotent_hint=True)
    wire = os.dup(1)  # the library moves the standard output away from print

    @server.tool(annotations=only_reads)
    def forecast(city: str, days: int = 1) -> Forecast:
        """Tell the weather."""
        return Forecast(city=city, degrees=20.5 + days)

    @server.tool(annotations=only_reads, structured_output=False)
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool(annotations=only_adds, structured_output=False)
    def note(text: str) -> str:
        """Add a line to the log of the test."""
        log(text)
        return "noted"

    @server.tool(structured_output=False)
    def erase(path: str) -> str:
        """Erase something; destructive, since it says nothing of itself."""
        log(f"erased {path}")
        return "erased"

    @server.tool(name="dotted.name", annotations=only_reads, structured_output=False)
    def dotted() -> str:
        """A name that no model API takes."""
        return "dots"

    @server.tool(annotations=only_reads, structured_output=False)
    def fail(reason: str) -> str:
        """Fail."""
        raise ToolError(reason)

    @server.tool(annotations=only_reads, structured_output=False)
    async def slow(seconds: float) -> str:
        """Take a while, and say in the log what came of it."""
        try:
            log("slow begun")
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            log("slow cancelled")
            raise
        return "done"

    @server.tool(annotations=only_reads, structured_output=False)
    async def pages(count: int, context: Context[Any, Any]) -> str:
        """Read pages, and tell of each."""
        for page in range(1, count + 1):
            await context.report_progress(page, count, f"page {page}")
        return "read"

    @server.tool(annotations=only_reads, structured_output=False)
    async def recite(chars: int, reports: int, context: Context[Any, Any]) -> str:
        """Return a long text, after reports of progress."""
        for done in range(reports):
            await context.report_progress(done, reports)
        return "x" * chars

    @server.tool(annotations=only_reads, structured_output=False)
    def lock() -> str:
        """Refuse the key of all later requests."""
        locked.append(True)
        return "locked"

    @server.tool(annotations=only_reads, structured_output=False)
    async def carried(context: Context[Any, Any]) -> str:
        """Return the context of the trace that the call came with."""
        return str((context.request_context.meta or {}).get("traceparent"))

    present, everybody = [], anyio.Event()

    @server.tool(annotations=only_reads, structured_output=False)
    async def meet(people: int) -> str:
        """Come back as soon as so many calls are under way at once."""
        present.append(1)
        if len(present) == people:
            everybody.set()
        await everybody.wait()
        return "met"

    @server.tool(annotations=only_reads, structured_output=False)
    def die(code: int) -> str:
        """End the process in the middle of the call."""
        print("I die now", file=sys.stderr, flush=True)
        os._exit(code)

    @server.tool(annotations=only_reads, structured_output=False)
    def babble() -> str:
        """Write what is no message between the messages."""
        os.write(wire, b"chatter\n{\xff not json}\n\n[]\n")
        return "babbled"

    @server.tool(annotations=only_reads, structured_output=False)
    def picture() -> list[Any]:
        """A text and a picture."""
        return ["Look:", Image(data=PICTURE, format="png")]

    @server.tool(annotations=only_reads)
    def resource() -> CallToolResult:
        """Structured content with a resource."""
        text = TextResourceContents(uri="file:///a.txt", mime_type="text/plain", text="äh")
        blocks = [TextContent(text="shown"), EmbeddedResource(resource=text)]
        return CallToolResult(content=blocks, structured_content={"n": 1})

    @server.tool(annotations=only_reads, structured_output=False)
    def breed() -> str:
        """Start a child that holds the standard streams and outlives its parent unless it is ended."""
        child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=wire, pass_fds=(wire,))
        return str(child.pid)

    @server.tool(annotations=only_reads, structured_output=False)
    def identify() -> str:
        """The process id."""
        return str(os.getpid())

    @server.tool(annotations=only_reads, structured_output=False)
    def variable(name: str) -> str:
        """A variable of the environment."""
        return os.environ.get(name, "")

    if os.environ.get("TEST_DESCRIPTION"):
        server.add_tool(echo, name="described", description=os.environ["TEST_DESCRIPTION"])

    @server.tool(annotations=only_reads)
    def ask(kind: str) -> InputRequiredResult:
        """Ask the client for what the protocol has besides tools."""
        asked = {
            "sampling": CreateMessageRequest(params=CreateMessageRequestParams(messages=[], max_tokens=1)),
            "elicitation": ElicitRequest(
                params=ElicitRequestFormParams(
                    message="Your password?", requested_schema={"type": "object", "properties": {}}
                )
            ),
            "roots": ListRootsRequest(),
        }
        return InputRequiredResult(input_requests={"q": asked[kind]})

    return server


def log(line: str) -> None:
    """Add a line to the file that the environment names."""
    if path := os.environ.get("TEST_LOG"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def main() -> None:
    """Serve until the client leaves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--garbage", action="store_true", help="write what is no message first")
    parser.add_argument("--complain", default="", help="write this to the standard error and exit with 3")
    parser.add_argument("--http", action="store_true", help="write the address, then serve HTTP")
    parser.add_argument("--key", default="", help="a bearer token that HTTP requests must have")
    parser.add_argument("--oauth", action="store_true", help="take only tokens of its own OAuth endpoints")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    log(f"started {os.getpid()}")
    if options.complain:
        print(options.complain, file=sys.stderr)
        raise SystemExit(3)
    if options.garbage:
        print("Welcome!\n\n{not json", flush=True)
    if options.http:
        serve_http(options.key, options.port, oauth=options.oauth)
        return
    make_server().run()


def serve_http(key: str, port: int, *, oauth: bool) -> None:
    """Serve streamable HTTP on a loopback address, which is written first."""
    import uvicorn

    app = make_server().streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        sent = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
        if scope["type"] == "http" and key and (locked or sent != f"Bearer {key}"):
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        await app(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", port))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    print(f"{address}/mcp", flush=True)
    served: Any = with_oauth(app, address) if oauth else guarded
    uvicorn.Server(uvicorn.Config(served, log_level="error")).run(sockets=[listener])


CLIENT = ("the-client", "client-of-harbour")
"""The id and the secret of a client that is known from the start."""


def with_oauth(app: Any, address: str) -> Any:
    """Serve an application to those who have a token, and the endpoints that give one.

    ``/authorize`` agrees at once. ``/revoke`` makes the tokens so far invalid.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import Route

    secrets_of: dict[str, str] = dict([CLIENT])
    challenges, tokens = dict[str, str](), list[str]()
    issued: list[str] = []

    async def resource(request: Request) -> Response:
        return JSONResponse({"resource": f"{address}/mcp", "authorization_servers": [address]})

    async def metadata(request: Request) -> Response:
        ends = {f"{each}_endpoint": f"{address}/{each}" for each in ("token", "authorize", "register")}
        ends["authorization_endpoint"] = ends.pop("authorize_endpoint")
        ends["registration_endpoint"] = ends.pop("register_endpoint")
        grants = ["authorization_code", "refresh_token", "client_credentials"]
        supported = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
        return JSONResponse({"issuer": address, "grant_types_supported": grants, **ends, **supported})

    async def register(request: Request) -> Response:
        given = await request.json()
        made = {**given, "client_id": f"client-{len(secrets_of)}", "client_secret": "registered-of-harbour"}
        secrets_of[made["client_id"]] = made["client_secret"]
        return JSONResponse({**made, "token_endpoint_auth_method": "client_secret_post"}, 201)

    async def authorize(request: Request) -> Response:
        asked = request.query_params
        code = f"code-of-evening-{len(challenges)}"
        challenges[code] = asked["code_challenge"]
        answer = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{answer}", 302)

    async def token(request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        basic = request.headers.get("Authorization", "").partition(" ")[2]
        client = tuple(base64.b64decode(basic).decode().split(":")) or ("",)
        client = client if len(client) == 2 else (form.get("client_id", ""), form.get("client_secret", ""))
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
        by_code = challenges.pop(form.get("code", ""), "") == challenge
        allowed = by_code or form["grant_type"] == "client_credentials"
        if secrets_of.get(client[0]) != client[1] or not allowed:
            said = f"{client[1]} is not the secret of {client[0]}"
            return JSONResponse({"error": "invalid_client", "error_description": said}, 401)
        issued.append("")
        tokens.append(f"harbour-evening-{len(issued)}")
        again = {"refresh_token": f"harbour-morning-{len(issued)}"}
        return JSONResponse({"access_token": tokens[-1], "token_type": "Bearer", "expires_in": 3600, **again})

    async def revoke(request: Request) -> Response:
        tokens.clear()
        return Response()

    known = "/.well-known/oauth-"
    paths = {f"{known}protected-resource/mcp": resource, f"{known}authorization-server": metadata}
    paths |= {"/authorize": authorize, "/token": token, "/register": register, "/revoke": revoke}
    others = Starlette(routes=[Route(path, made, methods=["GET", "POST"]) for path, made in paths.items()])

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] == "/mcp":
            sent = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
            if scope["type"] == "http" and sent.removeprefix("Bearer ") not in tokens:
                where = f'Bearer resource_metadata="{address}{known}protected-resource/mcp"'
                await Response("no", 401, {"WWW-Authenticate": where})(scope, receive, send)
            else:
                await app(scope, receive, send)
        else:
            await others(scope, receive, send)

    return guarded


if __name__ == "__main__":
    main()
