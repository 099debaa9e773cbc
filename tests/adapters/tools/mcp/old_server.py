"""A server written by hand for an older version of the protocol, which also answers what no server should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

VERSION = "2025-03-26"
CANCELLED: list[object] = []
UNANSWERED: list[object] = []
ASKED: dict[str, dict[str, Any]] = {
    "asks": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
    "asks-user": {
        "method": "elicitation/create",
        "params": {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}},
    },
    "asks-folders": {"method": "roots/list"},
}
READS = {"annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object"}}


def tool(name: str) -> dict[str, Any]:
    """A tool of a listing."""
    return {"name": name, **READS}


def listing(cursor: str | None) -> dict[str, Any]:
    """Two pages, or pages without an end."""
    if "--odd" in sys.argv:  # each of these would fail the page, but for the last two
        odd: list[Any] = [
            {"name": "schemaless", "annotations": READS["annotations"]},
            {"name": "textual", "inputSchema": "none"},
            {"name": "nonsense", "inputSchema": {"type": "nonsense"}},
            {"name": "properties", "inputSchema": {"type": "object", "properties": 3}},
            "no tool at all",
            {
                "name": "remote",
                "inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://x/y"}}},
            },
            {"name": "typeless", "annotations": READS["annotations"], "inputSchema": {}},
        ]
        return {"tools": [*odd, tool("fine")]}
    if "--shaped" in sys.argv:
        return {"tools": [{**tool("fine"), "outputSchema": json.loads(os.environ["TEST_SHAPE"])}]}
    if "--endless" in sys.argv:
        return {"tools": [tool("fine")], "nextCursor": "more"}
    if "--described" in sys.argv:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        described = {"name": os.environ.get("TEST_TOOL", "described"), "inputSchema": schema}
        described["annotations"] = json.loads(os.environ.get("TEST_HINTS", "{}"))
        return {"tools": [tool("fine"), {**described, "description": os.environ["TEST_DESCRIPTION"]}]}
    if cursor is None:
        return {"tools": [tool("fine"), tool("refused")], "nextCursor": "2"}
    return {
        "tools": [
            tool(name)
            for name in (
                "empty",
                "half",
                "malformed",
                "never",
                "long",
                *ASKED,
                "deaf",
                "pid",
                "cancelled",
                "unanswered",
                "die",
                "hang",
                "breed",
            )
        ]
    }


def call(name: str) -> dict[str, Any]:
    """Return the answer to a call."""
    match name:
        case "fine" if "TEST_SHAPE" in os.environ:
            return {"result": {"content": [], "structuredContent": {"n": "7"}}}
        case "fine" if "TEST_CONTENT" in os.environ:
            return {"result": {"content": json.loads(os.environ["TEST_CONTENT"])}}
        case "fine" | "described":
            return {"result": {"content": [{"type": "text", "text": "fine"}]}}
        case "refused":
            return {"error": {"code": int(os.environ.get("TEST_CODE", "-32602")), "message": "not today"}}
        case "pid":
            return {"result": {"content": [{"type": "text", "text": str(os.getpid())}]}}
        case "hang":
            time.sleep(3_600)
            return {}
        case "die":
            os._exit(7)
        case "breed":
            child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)  # which holds the output
            return {"result": {"content": [{"type": "text", "text": str(child.pid)}]}}
        case "cancelled":
            return {"result": {"content": [{"type": "text", "text": str(len(CANCELLED))}]}}
        case "unanswered":
            return {"result": {"content": [{"type": "text", "text": str(len(UNANSWERED))}]}}
        case "half":
            return {"result": {"content": [{"type": "text", "text": "half a \ud83d"}]}}
        case "empty":
            return {"result": {"content": [], "isError": True}}
        case "long":
            return {"result": {"content": [{"type": "text", "text": "x" * 34_000_000}]}}
        case _:
            return {"result": {"content": "no list"}}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a message, if it gets one."""
    match message:
        case {"method": "initialize"}:
            about = {"name": "old", "version": "1"}
            capabilities: dict[str, Any] = {} if "--bare" in sys.argv else {"tools": {}}
            return {"result": {"protocolVersion": VERSION, "capabilities": capabilities, "serverInfo": about}}
        case {"method": "tools/list"}:
            return {"result": listing(message.get("params", {}).get("cursor"))}
        case {"method": "notifications/cancelled"}:
            CANCELLED.append(message["params"]["requestId"])
            return None
        case {"method": "tools/call", "params": {"name": "never"}}:
            UNANSWERED.append(message["id"])
            return None
        case {"method": "tools/call", "params": {"name": "deaf"}}:
            os.close(0)  # what is written to it from now on is refused
            write({"id": message["id"], **call("fine")})
            time.sleep(0.2)
            os._exit(0)
        case {"method": "tools/call", "params": {"name": str(name)}} if name in ASKED:
            write({"id": "q", **ASKED[name]})
            reply = json.loads(sys.stdin.readline())
            text = reply["error"]["message"]
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case {"method": "tools/call", "params": {"name": "described", "arguments": {"text": text}}}:
            return {"result": {"content": [{"type": "text", "text": f"said {text}"}]}}
        case {"method": "tools/call"} if "--garbage" in sys.argv:
            for _ in range(1_000):
                write({"method": "notifications/progress", "params": {"progressToken": [], "progress": "x"}})
            return call("fine")
        case {"method": "tools/call"} if "--notes" in sys.argv:
            for _ in range(30):
                write({"method": "notifications/of_no_version"})
            return call("fine")
        case {"method": "tools/call"}:
            return call(message["params"]["name"])
        case {"id": _}:
            return {"error": {"code": -32601, "message": "unknown method"}}
        case _:
            return None


def write(message: dict[str, Any]) -> None:
    """Send a message."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    """Answer until the input ends."""
    if path := os.environ.get("TEST_LOG"):
        with Path(path).open("a", encoding="utf-8") as log:
            log.write(f"started {os.getpid()}\n")
    if "--slow" in sys.argv:
        time.sleep(0.3)
    while line := sys.stdin.readline():
        message = json.loads(line)
        reply = answer(message)
        if reply is not None:
            write({"id": message["id"], **reply})


if __name__ == "__main__":
    main()
