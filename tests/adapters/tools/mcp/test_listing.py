"""Names, schemas and hints of listed tools."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mcp.types import ListToolsResult, ServerCapabilities, Tool, ToolAnnotations, ToolsCapability
from mcp_types import methods

from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.adapters.tools.mcp.connection import list_tools
from reactive_agents.adapters.tools.mcp.listed_tools import ListingFilter, define_tools
from reactive_agents.adapters.tools.mcp.server import Approval
from reactive_agents.adapters.tools.signature import prefixed_name, valid_name
from reactive_agents.core.json import Json
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.ordered_acts import only_reads

FILES = McpServer("files", command="a")
WEB = McpServer("web", command="b")


def listed(name: str, **fields: Any) -> Tool:
    return Tool(name=name, input_schema={"type": "object"}, **fields)


def define(tool: Tool, approve: Approval = "destructive", *, trust_hints: bool = True) -> ToolDefinition:
    server = McpServer("files", command="a", timeout_s=7, approve=approve, trust_hints=trust_hints)
    return define_tools([(server, [tool])], ())[0].definition


def names(*listings: tuple[McpServer, list[str]], taken: tuple[str, ...] = ()) -> list[str]:
    made = define_tools([(server, [listed(name) for name in tools]) for server, tools in listings], taken)
    return [tool.definition.name for tool in made]


def test_names_stay_what_they_are() -> None:
    assert names((FILES, ["read", "write"]), (WEB, ["fetch"])) == ["read", "write", "fetch"]


def test_names_that_collide_get_the_name_of_their_server() -> None:
    found = names((FILES, ["read", "search"]), (WEB, ["search"]), taken=("read",))
    assert found == ["files-read", "files-search", "web-search"]


def test_no_tool_takes_a_name_that_reads_like_another() -> None:
    found = names((WEB, ["ask-user", "Ask_User", "final_answer", "file_read", "READ"]), taken=("file-read",))
    assert found == ["web-ask-user", "web-Ask_User-2", "web-final_answer", "web-file_read", "READ"]
    assert names((FILES, ["read_all"]), (WEB, ["Read-All"])) == ["files-read_all", "web-Read-All"]
    assert names((FILES, ["read", "Files_Read"]), (WEB, ["read"])) == [
        "files-read-2",
        "Files_Read",
        "web-read",
    ]
    final = McpServer("final", command="a")
    assert names((final, ["answer"]), (WEB, ["answer"])) == ["final-answer-2", "web-answer"]


def test_a_server_has_a_bounded_number_of_tools(caplog: pytest.LogCaptureFixture) -> None:
    assert len(names((WEB, [f"t{number}" for number in range(700)]))) == 500
    assert "700 tools; the first 500 are taken" in caplog.text


def test_names_that_no_model_takes_are_made_valid() -> None:
    found = names((FILES, ["a.b", "a/b", "grüße", "", "x" * 80, "x" * 81]))
    assert found[:4] == ["files-a_b", "files-a_b-2", "gr__e", "_"]
    assert len(set(found)) == 6
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in found)


def test_a_configuration_chooses_and_names_the_tools(caplog: pytest.LogCaptureFixture) -> None:
    crm = McpServer(
        "crm", command="a", only=["read", "write", "gone"], prefix="crm_", rename={"write": "save"}
    )
    assert names((crm, ["read", "write", "drop"]), (WEB, ["save", "crm_read2"])) == [
        "crm_read",
        "crm-save",
        "web-save",
        "crm_read2",
    ]
    assert "The MCP server 'crm' has no tool gone." in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"only": []},
        {"only": [""]},
        {"only": 5},
        {"prefix": "a b"},
        {"prefix": None},
        {"rename": {"read": "a b"}},
        {"rename": None},
        {"rename": {"": "a"}},
        {"rename": {"read": "find-it", "search": "Find_It"}},
        {"rename": {"read": "a"}, "only": ["search"]},
    ],
    ids=str,
)
def test_names_that_no_tool_can_have_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        McpServer("crm", command="a", **options)


def test_a_prefixed_name_does_not_take_that_of_another_tool() -> None:
    assert names((FILES, ["read", "files-read"]), (WEB, ["read"])) == [
        "files-read-2",
        "files-read",
        "web-read",
    ]


def test_long_names_with_a_prefix_stay_apart() -> None:
    taken: set[str] = set()
    for _ in range(3):
        taken.add(prefixed_name("server", "x" * 64, taken))
    assert len(taken) == 3
    assert max(map(len, taken)) == 64
    assert valid_name("x" * 64) == "x" * 64


def test_the_first_of_two_tools_of_one_name_is_there() -> None:
    tools = [listed("read", description="first"), listed("read", description="second")]
    assert [one.definition.description for one in define_tools([(FILES, tools)], ())] == ["first"]


def test_the_server_is_called_by_the_name_that_it_gave() -> None:
    (tool,) = define_tools([(FILES, [listed("a.b")])], ())
    assert (tool.name, tool.definition.name, tool.server) == ("a.b", "a_b", FILES)


def test_the_schema_is_taken_over() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"enum": [1]}}}
    assert define(Tool(name="a", input_schema=schema)).parameters == schema
    assert define(Tool(name="a", input_schema={})).parameters == {"type": "object", "properties": {}}


def test_a_tool_without_a_description_is_described_by_its_title_or_its_name() -> None:
    assert define(listed("read_it", description="Reads.")).description == "Reads."
    assert define(listed("read_it", title="Read it!")).description == "Read it!"
    assert define(listed("read_it", annotations=ToolAnnotations(title="Read"))).description == "Read"
    assert define(listed("read_it")).description == "read it"


@pytest.mark.parametrize(
    ("hints", "risk", "idempotent"),
    [
        (None, "high", False),
        (ToolAnnotations(), "high", False),
        (ToolAnnotations(read_only_hint=True), "low", True),
        (ToolAnnotations(read_only_hint=True, destructive_hint=True), "low", True),
        (ToolAnnotations(destructive_hint=False), "medium", False),
        (ToolAnnotations(destructive_hint=True, idempotent_hint=True), "high", True),
    ],
)
def test_hints_become_risk(hints: ToolAnnotations | None, risk: str, idempotent: bool) -> None:
    definition = define(listed("a", annotations=hints))
    assert (definition.risk, definition.idempotent) == (risk, idempotent)
    assert definition.timeout_s == 7
    assert definition.requires_approval is (risk == "high")
    assert define(listed("a", annotations=hints), "always").requires_approval
    assert not define(listed("a", annotations=hints), "never").requires_approval


def test_a_tool_that_is_trusted_to_read_only_reads_whatever_it_is_called() -> None:
    reads = ToolAnnotations(read_only_hint=True)
    assert only_reads(define(listed("stock", annotations=reads), "always"))
    adds = ToolAnnotations(destructive_hint=False, idempotent_hint=True)
    assert not only_reads(define(listed("stock", annotations=adds)))
    assert not only_reads(define(listed("stock", annotations=reads), trust_hints=False))


def test_hints_are_believed_of_a_trusted_server_only() -> None:
    harmless = listed("a", annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
    definition = define(harmless, trust_hints=False)
    assert (definition.risk, definition.requires_approval, definition.idempotent) == ("high", True, False)
    assert not McpServer("files", command="a").trust_hints


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_each_tool_of_a_listing_is_looked_at_without_the_rest(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []
    check = methods.validate_server_result

    def counted(method: str, version: str, data: Any) -> None:
        looked_at.append(json.dumps(data))
        check(method, version, data)

    monkeypatch.setattr(methods, "validate_server_result", counted)
    good: list[Json] = [{"name": f"t{number}", "inputSchema": {}} for number in range(50)]
    page: dict[str, Any] = {"tools": [*good, {"name": 5}], "_meta": {"a": ["b" * 100_000]}}
    tools = ListingFilter(WEB)
    tools({"protocolVersion": version})
    tools(page)
    assert [each["name"] for each in page["tools"]] == [f"t{number}" for number in range(50)]
    assert max(map(len, looked_at)) < 300


class _Pages:
    """Lists one long tool a page, without end."""

    server_capabilities = ServerCapabilities(tools=ToolsCapability())
    asked = 0

    async def list_tools(self, *, cursor: str | None) -> ListToolsResult:
        self.asked += 1
        tool = listed(f"t{cursor}", description="x" * 3_000_000)
        return ListToolsResult(tools=[tool], next_cursor=str(self.asked))


@pytest.mark.anyio
async def test_the_pages_of_a_listing_have_a_limit_together(caplog: pytest.LogCaptureFixture) -> None:
    client: Any = _Pages()
    assert [tool.name for tool in await list_tools(WEB, client)] == ["tNone", "t1"]
    assert client.asked == 3
    assert "'web' lists more than 8 MB of tools" in caplog.text
