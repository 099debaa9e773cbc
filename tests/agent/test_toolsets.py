"""Toolsets: prefixed, renamed, filtered, and chosen for each run; tools of a single run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest
from pydantic import BaseModel, Field

from reactive_agents import AgentError, ReactiveAgents, RunContext, agent_tool, tool
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.core.errors import ExecutionError, InvalidConfig, ServiceFailed
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.engine import ExecutionContext
from reactive_agents.testing import ScriptedLLM, answer, call, calls, forever, say
from tests.adapters.tools.mcp.servers import old
from tests.support.plans import plan, satisfied, tool_step

pytestmark = pytest.mark.anyio


@attrs.frozen
class Crm:
    """An object whose methods are tools."""

    name: str
    admin: bool = False

    def search(self, text: str) -> str:
        """Search."""
        return f"{self.name}: {text}"

    async def delete(self, ctx: RunContext[Crm], text: str) -> str:
        """Delete."""
        return f"{ctx.deps.name} deletes {text}"


def search(text: str) -> str:
    """Search elsewhere."""
    return f"elsewhere: {text}"


EAST = Crm("east")


def agent_with(*turns: Any, deps: Any = Crm) -> tuple[Any, ScriptedLLM]:
    model = ScriptedLLM(*turns, forever(answer("Done.")))
    return ReactiveAgents.create(deps=deps).with_llm(model).with_reasoning(), model


def offered(model: ScriptedLLM, index: int = -1) -> list[str]:
    return [each.name for each in model.requests[index].tools if each.name not in ("final-answer", "recall")]


# --- under other names ------------------------------------------------------------------------------------


async def test_tools_of_several_objects_stand_side_by_side() -> None:
    builder, model = agent_with(
        calls(call("east_search", text="tea"), call("find_west", text="tea"), call("search", text="tea"))
    )
    west = Crm("west")
    agent = (
        builder.with_toolset([EAST.search, EAST.delete], prefix="east_")
        .with_toolset([west.search, west.delete], rename={"search": "find_west"}, only=["search"])
        .with_tools(search)
        .build()
    )
    result = await agent.run("Find tea.", deps=EAST)
    assert offered(model, 0) == ["east_search", "east_delete", "find_west", "search"]
    assert list(result.tool_results.values()) == ["east: tea", "west: tea", "elsewhere: tea"]
    assert tool(EAST.search).name == "search"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": 3}, "toolset.prefix: got 3, expected a text."),
        ({"prefix": "a b"}, "toolset: got 'a bsearch', expected 1 to 64 letters, digits"),
        (
            {"rename": {"serch": "find"}},
            "toolset.rename: got 'serch', expected names of the toolset's tools: d",
        ),
        ({"rename": {"search": "recall"}}, "toolset: got 'recall', expected 1 to 64 letters"),
        ({"rename": {"search": "delete"}}, "toolset: got 'delete', expected each tool name once."),
        (
            {"rename": ["search"]},
            "toolset.rename: got an array of 1 item, expected new names by names of tools.",
        ),
        ({"only": "search"}, "toolset.only: got 'search', expected names of tools."),
        ({"only": ["x"]}, "toolset.only: got 'x', expected names of the toolset's tools: delete, search."),
        (
            {"filter": 3},
            "toolset.filter: got 3, expected a function of the RunContext and the ToolDefinition.",
        ),
    ],
)
def test_a_wrong_toolset_is_refused_by_build(options: dict[str, Any], message: str) -> None:
    builder, _ = agent_with()
    with pytest.raises(AgentError) as refused:
        builder.with_toolset([EAST.search, EAST.delete], **options).build()
    assert message in str(refused.value)


def test_names_that_clash_are_refused_by_build() -> None:
    builder, _ = agent_with()
    with pytest.raises(AgentError, match="tools: got 'search', expected each tool name once"):
        builder.with_tools(search).with_toolset([EAST.search]).build()
    with pytest.raises(AgentError, match=r"tools: got 'delete', which takes RunContext\[Crm\]"):
        agent_with(deps=int)[0].with_toolset([EAST.delete]).build()
    for wrong in (3, "search", lambda one, two: []):
        with pytest.raises(AgentError, match="expected a list of tools"):
            builder.with_toolset(wrong).build()


# --- chosen for each run ----------------------------------------------------------------------------------


def admins(ctx: RunContext[Crm], definition: ToolDefinition) -> bool:
    """Keep dangerous tools to admins."""
    return ctx.deps.admin or definition.name != "crm_delete"


async def async_admins(ctx: RunContext[Crm], definition: ToolDefinition) -> bool:
    """Do the same, asynchronously."""
    return admins(ctx, definition)


def for_run(ctx: RunContext[Crm]) -> list[Any]:
    """Return the tools of a run."""
    return [ctx.deps.search, *([ctx.deps.delete] if ctx.deps.admin else [])]


async def async_for_run(ctx: RunContext[Crm]) -> tuple[Any, ...]:
    """Return the tools of a run, asynchronously."""
    return tuple(for_run(ctx))


@pytest.mark.parametrize("chosen", ["filter", "async filter", "function", "async function"])
async def test_a_run_has_the_tools_that_are_chosen_for_it(chosen: str) -> None:
    turns = (call("crm_search", text="tea"), answer("Done."))
    builder, model = agent_with(*turns, call("crm_delete", text="tea"), answer("Done."))
    toolsets: dict[str, Any] = {
        "filter": ([EAST.search, EAST.delete], {"filter": admins}),
        "async filter": ([EAST.search, EAST.delete], {"filter": async_admins}),
        "function": (for_run, {}),
        "async function": (async_for_run, {}),
    }
    source, options = toolsets[chosen]
    agent = builder.with_toolset(source, prefix="crm_", **options).with_required_tools("crm_search").build()
    result = await agent.run("Find tea.", deps=EAST)
    assert offered(model, 0) == ["crm_search"]
    assert list(result.tool_results.values()) == ["east: tea"]
    result = await agent.run("Delete tea.", deps=Crm("east", admin=True))
    assert offered(model, 2) == ["crm_search", "crm_delete"]
    assert "east deletes tea" in result.tool_results.values()


async def test_a_run_without_any_chosen_tool_has_none() -> None:
    builder, model = agent_with()
    agent = builder.with_toolset(lambda: []).build()
    await agent.run("Say hello.", deps=EAST)
    assert offered(model) == []


def _raises(ctx: RunContext[Crm]) -> list[Any]:
    raise LookupError("no such tenant")


def _no_tools() -> Any:
    return "search"


def _no_tool() -> Any:
    return [3]


def _no_such() -> Any:
    def bad(*args: int) -> None: ...

    return [bad]


def _raising_filter(ctx: RunContext[Crm], definition: ToolDefinition) -> bool:
    raise LookupError("no such tenant")


def _odd_filter(ctx: RunContext[Crm], definition: ToolDefinition) -> Any:
    return None


@pytest.mark.parametrize(
    ("toolset", "options", "message"),
    [
        (_raises, {}, "The toolset function '_raises' raised LookupError: no such tenant."),
        (_no_tools, {}, "The toolset function '_no_tools' returned 'search', expected a list of tools."),
        (_no_tool, {}, "The toolset function '_no_tool' returned 3, expected tools."),
        (_no_such, {}, "The toolset function '_no_such' returned what cannot be a tool: "),
        (
            [EAST.search],
            {"filter": _raising_filter},
            "The toolset function '_raising_filter' raised LookupError",
        ),
        ([EAST.search], {"filter": _odd_filter}, "'_odd_filter' returned None, expected True or False."),
    ],
)
async def test_a_function_that_fails_is_named_and_fails_the_run(
    toolset: Any, options: dict[str, Any], message: str
) -> None:
    builder, model = agent_with()
    with pytest.raises(AgentError) as failed:
        await builder.with_toolset(toolset, **options).build().run("Go.", deps=EAST)
    error = failed.value.error
    assert isinstance(error, ExecutionError)
    assert isinstance(error.cause, ServiceFailed)
    assert message in error.message
    assert model.requests == []


# --- chosen before each turn ------------------------------------------------------------------------------

erased: list[str] = []


def sign_in(ctx: RunContext[object]) -> str:
    """Sign in."""
    ctx.state["signed_in"] = True
    return "signed in"


def erase(text: str) -> str:
    """Erase a text."""
    erased.append(text)
    return "erased"


def signed_in(ctx: RunContext[object], definition: ToolDefinition) -> bool:
    return bool(ctx.state.get("signed_in"))


async def signed_in_later(ctx: RunContext[object], definition: ToolDefinition) -> bool:
    await anyio.lowlevel.checkpoint()
    return signed_in(ctx, definition)


def guarded(*turns: Any, keeps: Any = signed_in) -> tuple[Any, ScriptedLLM]:
    """An agent that may erase texts once it has signed in."""
    erased.clear()
    builder, model = agent_with(*turns, deps=None)
    return builder.with_tools(sign_in).with_toolset([erase], filter=keeps, each_turn=True), model


@pytest.mark.parametrize("keeps", [signed_in, signed_in_later])
async def test_a_filter_may_be_asked_before_each_turn_and_hold_for_its_calls(keeps: Any) -> None:
    turns = (call("erase", text="a"), call("sign_in"), call("erase", text="b"))
    builder, model = guarded(*turns, keeps=keeps)
    result = await builder.build().run("Erase a and b.")
    assert [offered(model, index) for index in range(3)] == [["sign_in"], ["sign_in"], ["sign_in", "erase"]]
    assert erased == ["b"]
    seen = [step.content for step in result.steps if step.type == "observation"]
    assert seen[0].startswith("Unknown tool 'erase'. Known tools: sign_in, final-answer")


async def test_no_call_in_the_text_of_an_answer_is_made_of_a_tool_that_the_turn_does_not_have() -> None:
    text = say('{"name": "erase", "arguments": {"text": "a"}}')
    for builder in (guarded(text, text, text)[0], guarded(text)[0].with_max_iterations(1)):
        await builder.build().run("Erase a.")
        assert erased == []


async def test_a_step_of_a_plan_cannot_call_a_tool_that_its_turn_does_not_have() -> None:
    builder, _ = guarded(plan(tool_step("erase", text="a")), forever(satisfied()))
    result = await builder.with_reasoning("plan-execute-reflect").build().run("Erase a.")
    assert erased == []
    assert "Unknown tool 'erase'" in "".join(step.content for step in result.steps)


async def test_a_required_tool_that_no_turn_had_is_named() -> None:
    builder, model = guarded(keeps=lambda ctx, definition: False)
    result = await builder.with_required_tools("erase").build().run("Erase a.")
    assert (result.status, all("erase" not in offered(model, i) for i in range(len(model.requests)))) == (
        "partial",
        True,
    )
    assert "erase" in result.reason


async def test_a_filter_that_raises_before_a_turn_is_named_and_fails_the_run() -> None:
    def once(ctx: RunContext[object], definition: ToolDefinition) -> bool:
        if ctx.usage.calls:
            raise ValueError("no database")
        return True

    builder, model = guarded(call("sign_in"), keeps=once)
    with pytest.raises(AgentError, match="once' raised ValueError: no database") as caught:
        await builder.build().run("Erase a.")
    assert isinstance(caught.value.error, ExecutionError)
    assert len(model.requests) == 1


async def test_tools_that_a_function_chose_for_the_run_are_filtered_before_each_turn() -> None:
    builder, model = agent_with(call("sign_in"), deps=None)
    builder = builder.with_toolset(lambda: [sign_in, erase], filter=later_than_one, each_turn=True)
    await builder.build().run("Sign in.")
    assert [offered(model, index) for index in range(2)] == [["sign_in"], ["sign_in", "erase"]]


def later_than_one(ctx: RunContext[object], definition: ToolDefinition) -> bool:
    return definition.name == "sign_in" or ctx.usage.calls > 0


@pytest.mark.system
async def test_tools_of_a_server_are_filtered_before_each_turn() -> None:
    builder, model = agent_with(call("described", text="a"), deps=None)
    server = old("--described", approve="never", env={"TEST_DESCRIPTION": "Say it."})

    def once(ctx: RunContext[object], definition: ToolDefinition) -> bool:
        return definition.name == "described" and not ctx.usage.calls

    async with builder.with_mcp(server, filter=once, each_turn=True).build() as agent:
        result = await agent.run("Say a.")
    assert [offered(model, index) for index in range(2)] == [["described"], []]
    assert result.tool_results == {"described-1": "said a"}


async def test_a_run_that_continues_has_the_tools_that_its_turns_had(tmp_path: Path) -> None:
    asked: list[int] = []

    def alternating(ctx: RunContext[object], definition: ToolDefinition) -> bool:
        asked.append(ctx.usage.calls)
        return len(asked) % 2 == 1

    builder, _ = guarded(call("erase", text="a"), call("sign_in"), keeps=alternating)
    builder = builder.with_durability(tmp_path / "r.db", recover=False)
    with anyio.CancelScope() as process:

        async def end(context: ExecutionContext) -> None:
            if context.iteration == 2:
                process.cancel()
                await anyio.sleep_forever()

        await builder.with_hook("think", "before", end).build().run("Erase a.", run_id="r1")
    model = ScriptedLLM(answer("It is erased."))
    result = await builder.with_llm(model).build().runs.resume("r1")
    assert result.status == "completed"
    assert asked == [0, 1, 2]  # the third turn was not taken, but its tools were chosen
    assert offered(model) == ["sign_in", "erase"]


def test_only_a_filter_can_be_asked_before_each_turn() -> None:
    builder = ReactiveAgents.create().with_model("offline")
    for wrong in (builder.with_toolset([erase], each_turn=True), builder.with_mcp(each_turn=True)):
        with pytest.raises(AgentError, match=r"toolset\.each_turn: got True, expected False, or True with"):
            wrong.build()


# --- definitions of a turn --------------------------------------------------------------------------------

paid: list[tuple[str, int]] = []


@tool
def pay(account: str, euros: int) -> str:
    """Pay from an account."""
    paid.append((account, euros))
    return f"{euros} paid"


def of_user(ctx: RunContext[list[str]], definition: ToolDefinition) -> ToolDefinition | None:
    """Offer the user's accounts; none in the fourth turn."""
    properties: Any = definition.parameters["properties"]
    properties["account"]["enum"] = ctx.deps[: 1 + ctx.usage.calls // 2]
    described = attrs.evolve(definition, description=f"Pay, as {ctx.user}.")
    return None if ctx.usage.calls == 3 else described


async def of_user_later(ctx: RunContext[list[str]], definition: ToolDefinition) -> ToolDefinition | None:
    await anyio.lowlevel.checkpoint()
    return of_user(ctx, definition)


def paying(*turns: Any, prepare: Any = of_user, pays: Any = pay, **options: Any) -> tuple[Any, ScriptedLLM]:
    paid.clear()
    builder, model = agent_with(*turns, deps=list)
    return builder.with_toolset([pays], prepare=prepare, **options), model


def accounts(model: ScriptedLLM, index: int) -> list[Any]:
    return [
        (each.description, each.parameters["properties"]["account"]["enum"])  # type: ignore[index, call-overload]
        for each in model.requests[index].tools
        if each.name == "pay"
    ]


@pytest.mark.parametrize("prepare", [of_user, of_user_later])
async def test_definitions_are_prepared_before_each_turn_and_hold_for_its_calls(prepare: Any) -> None:
    turns = [call("pay", account="b", euros=1), call("pay", account="a", euros="2")]
    turns += [call("pay", account="b", euros=3), call("pay", account="b", euros=4)]
    builder, model = paying(*turns, prepare=prepare)
    result = await builder.build().run("Pay.", deps=["a", "b"], user="Ada")
    first, later = [("Pay, as Ada.", ["a"])], [("Pay, as Ada.", ["a", "b"])]
    assert [accounts(model, index) for index in range(4)] == [first, first, later, []]
    assert paid == [("a", 2), ("b", 3)]
    seen = [step.content for step in result.steps if step.type == "observation"]
    assert '"a"' in seen[0]
    assert "account" in seen[0]
    assert seen[3].startswith("Unknown tool 'pay'")
    assert pay.definition.description == "Pay from an account."
    assert "enum" not in str(pay.definition.parameters)


async def test_a_definition_that_stays_as_prepared_is_the_same_object_in_each_turn() -> None:
    builder, model = paying(call("pay", account="a", euros=1))
    await builder.build().run("Pay.", deps=["a"])
    assert model.requests[0].tools[0] is model.requests[1].tools[0]


async def test_a_filter_of_the_toolset_is_asked_before_its_definitions_are_prepared() -> None:
    def keeps(ctx: RunContext[list[str]], definition: ToolDefinition) -> bool:
        return ctx.usage.calls == 1

    for each_turn, shown in ((True, [0, 1]), (False, [0, 0])):
        builder, model = paying(call("pay", account="a", euros=1), filter=keeps, each_turn=each_turn)
        await builder.build().run("Pay.", deps=["a"])
        assert [len(accounts(model, index)) for index in range(2)] == shown


async def test_a_person_approves_by_the_definition_of_the_turn_and_cannot_edit_beyond_it() -> None:
    requests: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        requests.append(request)
        return ApprovalDecision(True, arguments={"account": "b" if len(requests) == 1 else "a", "euros": 5})

    needs = attrs.evolve(pay, requires_approval=True)
    turns = (call("pay", account="a", euros=1), call("pay", account="a", euros=2))
    builder, _ = paying(*turns, pays=needs, prepare=lambda ctx, each: of_user(ctx, each))
    result = await builder.with_approval(approve).build().run("Pay.", deps=["a"])
    assert [each.parameters["properties"]["account"]["enum"] for each in requests] == [["a"], ["a"]]  # type: ignore[index, call-overload]
    assert paid == [("a", 5)]
    assert "could not be taken" in "".join(step.content for step in result.steps)


@pytest.mark.parametrize(
    ("prepare", "problem"),
    [
        (lambda ctx, each: True, "returned True, expected the ToolDefinition, changed or not, or None"),
        (lambda ctx, each: attrs.evolve(each, risk="high"), "changed more of the tool 'pay' than its desc"),
        (lambda ctx, each: attrs.evolve(each, name="other"), "changed more of the tool 'pay' than its desc"),
        (lambda ctx, each: attrs.evolve(each, description=None), "the description None, expected a text"),
        (lambda ctx, each: attrs.evolve(each, parameters={"type": 3}), "parameters that cannot be used"),
        (
            lambda ctx, each: attrs.evolve(
                each, parameters={"type": "object", "properties": {"day": {"type": "string"}}}
            ),
            "gave the tool 'pay' the parameter 'day', which it does not take",
        ),
        (lambda ctx, each: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
async def test_a_definition_that_cannot_be_shown_fails_the_run(prepare: Any, problem: str) -> None:
    builder, model = paying(prepare=prepare)
    with pytest.raises(AgentError, match=f"The toolset function '<lambda>' .*{problem}"):
        await builder.build().run("Pay.", deps=["a"])
    assert model.requests == []


async def test_a_run_that_continues_has_the_definitions_that_its_turns_had(tmp_path: Path) -> None:
    asked: list[int] = []

    def prepare(ctx: RunContext[list[str]], definition: ToolDefinition) -> ToolDefinition | None:
        asked.append(ctx.usage.calls)
        properties: Any = definition.parameters["properties"]
        properties["account"]["enum"] = [str(len(asked))]
        return attrs.evolve(definition, description="Pay.")

    builder, _ = paying(call("pay", account="1", euros=1), prepare=prepare)
    builder = builder.with_durability(tmp_path / "r.db", recover=False)
    with anyio.CancelScope() as process:

        async def end(context: ExecutionContext) -> None:
            if context.iteration == 1:
                process.cancel()
                await anyio.sleep_forever()

        hooked = builder.with_hook("think", "before", end).build()
        await hooked.run("Pay.", deps=["a"], run_id="r1")
    model = ScriptedLLM(call("pay", account="2", euros=2), answer("It is paid."))
    result = await builder.with_llm(model).build().runs.resume("r1", deps=["a"])
    assert result.status == "completed"
    assert asked == [0, 1, 2]
    assert [accounts(model, index) for index in range(2)] == [[("Pay.", ["2"])], [("Pay.", ["3"])]]
    assert paid == [("1", 1), ("2", 2)]


@pytest.mark.system
async def test_definitions_of_a_server_are_prepared_and_hold_for_its_calls() -> None:
    builder, model = agent_with(call("described", text="b"), call("described", text="a"), deps=None)
    server = old("--described", approve="never", env={"TEST_DESCRIPTION": "Say it."})

    def prepare(ctx: RunContext[object], definition: ToolDefinition) -> ToolDefinition | None:
        if definition.name != "described":
            return None
        properties: Any = definition.parameters["properties"]
        properties["text"]["enum"] = ["a"]
        return definition

    async with builder.with_mcp(server, prepare=prepare).build() as agent:
        result = await agent.run("Say a.")
    assert offered(model, 0) == ["described"]
    assert result.tool_results == {"described-1": "said a"}
    assert '"a"' in next(step.content for step in result.steps if step.type == "observation")


async def test_a_parameter_may_be_named_that_a_pattern_of_the_tool_allows() -> None:
    def tag(**fields: str) -> str:
        """Tag a picture."""
        return f"tagged with {fields}"

    own = {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}
    shown = {"type": "object", "properties": {"x-place": {"type": "string"}}, "additionalProperties": False}
    llm = ScriptedLLM(call("tag", {"x-place": "Oslo"}), answer("It is tagged."))
    agent = (
        ReactiveAgents.create()
        .with_llm(llm)
        .with_reasoning()
        .with_toolset(
            [tool(parameters=own)(tag)], prepare=lambda _, each: attrs.evolve(each, parameters=shown)
        )
        .build()
    )
    assert (await agent.run("Tag it.")).steps[1].content == "tagged with {'x-place': 'Oslo'}"


async def test_a_call_of_a_tool_that_the_turn_does_not_have_does_nothing_of_the_task() -> None:
    def send(to: str) -> str:
        """Send a mail."""
        raise AssertionError("the turn does not have it")

    made = [call("search", text="sky"), call("send", to="Ada")]
    llm = ScriptedLLM(*made, forever(answer("I sent the mail to Ada.")))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(search)
    agent = builder.with_toolset([send], prepare=lambda _, own: None).build()
    result = await agent.run("Search for sky and send it to Ada.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_done")


@pytest.mark.parametrize(
    ("task", "tried", "said", "status"),
    [
        ("Search for sky and send it to Ada.", "send", "I sent the mail to Ada.", "partial"),
        ("Book a room for Ada.", "book_room", "The room is booked.", "partial"),
        ("Book a room for Ada.", "book_room", "I cannot book rooms: there is no tool for it.", "abstained"),
        ("Write a poem about rain.", "write_poem", "Rain falls softly on the town.", "completed"),
        ("Search for sky.", "web_search", "elsewhere: sky", "completed"),
    ],
)
async def test_a_call_of_a_tool_that_there_is_not_does_nothing_of_the_task(
    task: str, tried: str, said: str, status: str
) -> None:
    llm = ScriptedLLM(call("search", text="sky"), call(tried, text="sky"), forever(answer(said)))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(search).build()
    assert (await agent.run(task)).status == status


def test_only_a_function_prepares_definitions() -> None:
    builder = ReactiveAgents.create().with_model("offline")
    for wrong in (builder.with_toolset([erase], prepare=True), builder.with_mcp(prepare=print_nothing)):
        with pytest.raises(
            AgentError, match=r"toolset\.prepare: got .*expected a function of the RunContext"
        ):
            wrong.build()


def print_nothing() -> None:
    """Take no definition."""


async def test_names_that_clash_in_a_run_fail_it() -> None:
    builder, model = agent_with()
    agents = {
        "the agent's": builder.with_tools(search).with_toolset(for_run).build(),
        "another toolset's": builder.with_toolset(for_run).with_toolset(for_run).build(),
        "one of the run": builder.with_toolset(for_run).build(),
    }
    for whose, agent in agents.items():
        options = {"tools": [search]} if whose == "one of the run" else {}
        with pytest.raises(AgentError) as failed:
            await agent.run("Go.", deps=EAST, **options)
        error = failed.value.error
        assert isinstance(error, ExecutionError)
        assert error.cause == InvalidConfig("tools", "'search'", "each tool name once"), whose
    assert model.requests == []


# --- tools of a single run --------------------------------------------------------------------------------


async def test_tools_of_a_run_are_added_to_the_agents_for_that_run() -> None:
    builder, model = agent_with(
        calls(call("search", text="tea"), call("delete", text="tea")), answer("Done.")
    )
    agent = builder.with_tools("calculator").build()
    result = await agent.run("Find tea.", deps=EAST, tools=[search, EAST.delete])
    assert list(result.tool_results.values()) == ["elsewhere: tea", "east deletes tea"]
    assert offered(model, 0) == ["calculator", "search", "delete"]
    await agent.run("Find tea.", deps=EAST)
    assert offered(model) == ["calculator"]


async def test_an_agent_without_tools_may_be_given_some_in_a_run() -> None:
    builder, model = agent_with(call("calculator", expression="1 + 1"), deps=None)
    agent = builder.build()
    assert (await agent.run("What is 1 + 1?", tools=["calculator"])).tool_results == {"calculator-1": "2"}
    await agent.run("Say hello.")
    assert offered(model) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "tools: got 3, expected a list of tools."),
        ("calculator", "tools: got 'calculator', expected a list of tools."),
        ([3], "tools: got 3, expected a function, a tool, or the name of one."),
        (["no-such"], "tools: got 'no-such', expected one of calculator,"),
    ],
)
async def test_wrong_tools_of_a_run_are_refused(given: Any, message: str) -> None:
    builder, model = agent_with(deps=None)
    with pytest.raises(AgentError) as refused:
        await builder.build().run("Go.", tools=given)
    assert message in str(refused.value)
    assert model.requests == []


async def test_a_tool_of_other_dependencies_is_refused_in_a_run() -> None:
    builder, model = agent_with(deps=int)
    for options in ({"tools": [EAST.delete]}, {}):
        agent = builder.build() if options else builder.with_toolset(lambda: [EAST.delete]).build()
        with pytest.raises(AgentError) as refused:
            await agent.run("Go.", deps=3, **options)
        assert str(refused.value) == (
            "tools: got 'delete', which takes RunContext[Crm], "
            "expected tools for the dependencies of the run, an int."
        )
    assert model.requests == []


async def test_approval_budgets_and_agents_hold_for_tools_of_a_run() -> None:
    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    inner, _ = agent_with(deps=None)
    builder, _ = agent_with(call("pay", amount=3), call("agent", task="Say done."), deps=None)
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.tool_name)
        return True

    result = await builder.build().run(
        "Pay.", tools=[pay, agent_tool(inner.with_tools("calculator").build())], approver=approve
    )
    assert (asked, list(result.tool_results.values())) == (["pay"], ["paid 3", "Done."])


def test_servers_and_required_tools_go_with_toolsets() -> None:
    builder, _ = agent_with()
    described = builder.with_toolset(for_run).with_mcp(McpServer("far", url="https://example.com/mcp"))
    described.with_required_tools("whatever").build()


class Customer(BaseModel):
    first_name: str = Field(alias="firstName")


async def test_a_call_that_fits_as_it_was_sent_needs_no_other_form_of_its_values() -> None:
    def greet(customer: Customer) -> str:
        """Greet somebody."""
        return f"Hello {customer.first_name}"

    made = call("greet", customer={"firstName": "Ada"})
    told = "Greet a customer of today."
    builder, _ = paying(
        made, answer("Done."), pays=greet, prepare=lambda _, own: attrs.evolve(own, description=told)
    )
    result = await builder.build().run("Greet Ada.", deps=[])
    assert result.tool_results == {"greet-1": "Hello Ada"}
