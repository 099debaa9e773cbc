"""Personas by the builder and as data: one agent a domain, one clock and one event bus for all."""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_agents import AgentError, PersonaConfig, Personas, ReactiveAgents, read_persona, tool
from reactive_agents.core.errors import DecodeError, InvalidConfig
from reactive_agents.core.events import ModelTextStreamed, TaskStarted, ToolCallCompleted
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.persona_events import PersonaEventReceived
from reactive_agents.core.personas import DomainEvent
from reactive_agents.effects import attempt
from reactive_agents.testing import (
    EventRecorder,
    FakeClock,
    InMemoryPersonaStore,
    ScriptedLLM,
    answer,
    call,
    forever,
    say,
)
from reactive_agents.testing.core import START
from tests.support.personas import assessed, planned
from tests.support.virtual_time import in_virtual_time

pytestmark = pytest.mark.anyio


@tool
def weather(place: str) -> str:
    """The weather of a place."""
    return f"It rains in {place}."


async def test_the_configuration_and_memory_of_a_persona_are_not_written_by_it(tmp_path: Path) -> None:
    path, memory = tmp_path / "ada.json", str(tmp_path / "ada.db")
    agent = {"tools": ["file-write"], "workspace": str(tmp_path), "reasoning": {}}
    described = {"name": "Ada", "memory": memory, "reasoning": False, "evaluation": "off"}
    path.write_text(json.dumps({**described, "domains": [{"name": "chat", "agent": agent}]}))
    writes = [call("file-write", path=each, content="x") for each in ("ada.json", "ada.db", "ada.db-wal")]
    events = EventRecorder()
    async with (
        Personas.from_config(path).with_llm(ScriptedLLM(*writes, forever(answer("Done.")))).build() as ada
    ):
        ada.subscribe(events)
        await ada.send("Ada, write it.")
    called = [event for event in events.of(ToolCallCompleted) if event.tool_name == "file-write"]
    assert [event.success for event in called] == [False] * 3
    assert json.loads(path.read_text())["name"] == "Ada"


async def test_functions_of_a_domain_can_be_named_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_rules.py").write_text(
        "SENT = []\nasync def deliver(event, text):\n    SENT.append(text)\n"
        "def describe(event):\n    return 'Say it: ' + event.content\n"
        "def engage(event, transcript):\n    return event.author != 'Eve'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    functions = {name: {"function": f"shop_rules:{name}"} for name in ("deliver", "describe", "engage")}
    path = tmp_path / "ada.json"
    domain: dict[str, Any] = {"name": "chat", "reasoning": False, **functions}
    described = {"name": "Ada", "memory": str(tmp_path / "ada.db"), "domains": [domain]}
    path.write_text(json.dumps(described))
    llm = ScriptedLLM(forever(say("So.")))
    with pytest.raises(AgentError, match="allow_tools_from"):
        Personas.from_config(path).with_llm(llm).build()
    async with Personas.from_config(path, allow_tools_from=("shop_rules",)).with_llm(llm).build() as ada:
        outcome = await ada.send("Is it so?")
        assert (await ada.send("Is it?", author="Eve")).status == "declined"
    assert sys.modules["shop_rules"].SENT == ["So."]
    assert outcome.plan is not None
    assert outcome.plan.task.description == "Say it: Is it so?"
    for wrong in ("shop_rules:SENT", "shop_rules:missing"):
        domain["engage"] = {"function": wrong}
        path.write_text(json.dumps(described))
        with pytest.raises(AgentError, match=r"domains\.chat\.engage\.function"):
            Personas.from_config(path, allow_tools_from=("shop_rules",)).with_llm(llm).build()


async def test_a_check_of_the_program_is_named_in_the_file_or_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_checks.py").write_text("def check(event, answer, calls):\n    return '132' in answer\n")
    monkeypatch.syspath_prepend(tmp_path)
    domain: dict[str, Any] = {"name": "chat", "check": {"function": "shop_checks:check"}}
    described = {"name": "Ada", "memory": ":memory:", "domains": [domain]}
    named = Personas.from_config(described, allow_tools_from=("shop_checks",))
    given = Personas.create("Ada").with_memory(":memory:")
    given = given.with_domain("chat", check=lambda event, answer, calls: "132" in answer)
    for personas in (named, given):
        llm = ScriptedLLM(planned("Say it."), say("It is 12 grams."), assessed())
        async with personas.with_llm(llm).build() as ada:
            evaluation = (await ada.send("How many grams?")).evaluation
        assert evaluation is not None
        assert (evaluation.meets_criteria, evaluation.evidence) == (False, "check")


async def test_a_persona_may_be_entered_where_it_is_entered_already() -> None:
    """As by a program and by the application of its channels, which it serves."""
    described = Personas.create("Ada").with_memory(":memory:").with_options(reasoning=False)
    built = described.with_llm(ScriptedLLM(say("One."), say("Two."))).with_domain("chat").build()
    async with built as ada:
        async with built:
            assert (await ada.send("First.")).answer == "One."
        assert (await ada.send("Second.")).answer == "Two."


async def test_a_declined_call_is_denied_access_whatever_the_person_says() -> None:
    @tool(requires_approval=True)
    def refund(order: int) -> str:
        """Refund an order."""
        return "Refunded."

    foreseen = {"timeout": ("Try again.",), "access_denied": ("Say that it was denied.",)}
    llm = ScriptedLLM(
        planned("Refund it.", contingencies=foreseen),
        call("refund", order=7, when="Refund it."),
        answer("It is not refunded.", when="Refund it."),
        forever(answer("It was denied.", when="Say that it was denied.")),
        assessed(),
    )
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(refund)
    agent = agent.with_approval(lambda _: ApprovalDecision(False, "The time limit of refunds is over."))
    described = Personas.create("Ada").with_memory(":memory:").with_llm(llm).with_domain("chat", agent)
    async with described.build() as ada:
        outcome = await ada.send("Refund my order.")
    assert (outcome.status, outcome.answer) == ("completed", "It was denied.")


@in_virtual_time
async def test_the_time_of_a_step_stands_still_while_it_waits_for_a_person() -> None:
    @tool(requires_approval=True)
    async def refund(order: int) -> str:
        """Refund an order."""
        return "Refunded."

    async def after_lunch(_: ApprovalRequest) -> bool:
        await anyio.sleep(50)
        return True

    llm = ScriptedLLM(call("refund", order=7), answer("Order 7 is refunded."))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(refund)
    agent = agent.with_approval(after_lunch, timeout_s=100)
    described = Personas.create("Ada").with_memory(":memory:").with_llm(llm).with_domain("chat", agent)
    described = described.with_options(reasoning=False, evaluation="off", timeouts={"step_s": 10.0})
    async with described.build() as ada:
        outcome = await ada.send("Refund order 7.")
    assert (outcome.status, outcome.answer) == ("completed", "Order 7 is refunded.")


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_answer_is_streamed_to_subscribers(streaming: bool) -> None:
    llm = ScriptedLLM(planned("Look.", "Say it."), say("Seen."), say("It is 132 grams."), assessed())
    described = Personas.create("Ada").with_memory(":memory:").with_llm(llm).with_domain("chat")
    events = EventRecorder()
    async with described.with_options(streaming=streaming).build() as ada:
        ada.subscribe(events)
        assert (await ada.send("How many grams?", context="general")).answer == "It is 132 grams."
    streamed = events.of(ModelTextStreamed)
    assert "".join(each.text for each in streamed) == ("It is 132 grams." if streaming else "")
    runs = {each.run_id for each in events.of(TaskStarted) if each.metadata["room"] == "general"}
    assert bool(streamed) == streaming
    assert {each.run_id for each in streamed} <= runs


async def test_what_the_agent_of_a_domain_remembers_of_the_rooms_of_a_user_is_deleted_with_them(
    tmp_path: Path,
) -> None:
    def stored() -> bytes:
        return b"".join(each.read_bytes() for each in tmp_path.iterdir()).lower()

    path = tmp_path / "ada.db"
    llm = ScriptedLLM(say("Zebra4711 is refunded."), say("Otter12 is refunded."), forever(say("[]")))
    agent = ReactiveAgents.create().with_reasoning().with_memory(path)
    described = Personas.create("Ada").with_memory(path).with_llm(llm).with_domain("chat", agent)
    async with described.with_options(reasoning=False).build() as ada:
        await ada.send("Refund Zebra4711.", context="a", author="Bob")
        await ada.send("Refund Otter12.", context="b", author="Eve")
        store = ada.persona.services.store
        assert min(stored().count(name) for name in (b"zebra4711", b"otter12")) > 0
        assert (await attempt(store.forget(ada.persona.settings.id, user="Bob"))).unwrap() == 1
    assert b"zebra4711" not in stored()
    assert b"otter12 is refunded" in stored()


async def test_each_domain_has_its_own_tools_role_and_output_channel(tmp_path: Path) -> None:
    posted: list[tuple[str, str]] = []

    async def post(event: DomainEvent, answer: str) -> None:
        posted.append((event.content, answer))

    llm = ScriptedLLM(
        planned("Look at the weather."),
        call("weather", place="Oslo", when="Look at the weather."),
        answer("Take an umbrella.", when="It rains in Oslo."),
        assessed("Look at the weather before advising on clothes."),
        planned("Write the function."),
        say("def f(): ...", when="Write the function."),
        assessed(),
    )
    chat = ReactiveAgents.create().with_reasoning().with_tools(weather).with_system_prompt("You chat.")
    described = (
        Personas.create("Ada")
        .with_memory(tmp_path / "ada.db")
        .with_llm(llm)
        .with_domain("chat", chat, deliver=post)
        .with_domain("code", describe=lambda event: f"Program: {event.content}")
    )
    recorder = EventRecorder()
    async with described.build() as ada:
        ada.subscribe(recorder)
        first = await ada.send("What do I wear in Oslo?")
        second = await ada.send("A function, please.", domain="code", context="main.py")
        assert (first.answer, second.answer) == ("Take an umbrella.", "def f(): ...")
        assert second.plan is not None
        assert second.plan.task.description == "Program: A function, please."
        assert len((await attempt(ada.reasoning.learnings("chat"))).unwrap()) == 1
        assert (await attempt(ada.reasoning.learnings("code"))).unwrap() == ()
    assert posted == [("What do I wear in Oslo?", "Take an umbrella.")]
    assert [event.tool_name for event in recorder.of(ToolCallCompleted)] == ["weather"]
    assert [event.agent_id for event in recorder.of(TaskStarted)] == ["Ada-chat", "Ada-code"]
    assert "weather" in {tool.name for request in llm.requests for tool in request.tools}
    assert any("You chat." in request.messages[0].content for request in llm.requests)
    assert (tmp_path / "ada.db").exists()


async def test_what_it_knows_is_there_for_a_persona_built_anew(tmp_path: Path) -> None:
    described = Personas.create("Ada").with_memory(tmp_path / "ada.db").with_domain("chat")
    turns = (planned("Answer."), say("So.", when="Answer."), assessed("Be brief in answers."))
    async with described.with_llm(ScriptedLLM(*turns)).build() as ada:
        await ada.send("Hello?")
    later = ScriptedLLM(planned("Answer again."), say("So.", when="Answer again."), assessed())
    async with described.with_llm(later).build() as ada:
        await ada.send("And now something else entirely?")
    shown = "\n".join(message.content for message in later.requests[0].messages)
    assert (
        "1. Be brief in answers. (confidence 0.67, succeeded in 1 of 1 tasks, learned in 1 task(s))" in shown
    )
    assert "self-reflection: Learned: Be brief in answers." in shown


async def test_a_service_is_swapped_by_an_override(tmp_path: Path) -> None:
    llm = ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed())
    store = InMemoryPersonaStore()
    ada = Personas.create("Ada").with_llm(llm).with_store(store).with_domain("chat").build()
    recorder = EventRecorder()
    with ada.container.core.clock.override(FakeClock()):
        async with ada:
            ada.subscribe(recorder)
            outcome = await ada.send("Hello?")
    assert outcome.plan is not None
    assert outcome.plan.plan.created_at == START
    assert {event.at for event in recorder.events} == {START}  # also those of the agent in the domain
    assert list(store.plans.values()) == [outcome.plan]


def test_a_file_describes_a_persona(tmp_path: Path) -> None:
    path = tmp_path / "ada.toml"
    path.write_text(
        'name = "Ada"\nmemory = "ada.db"\nrole = "You help."\nevaluation_model = "small/judge"\n'
        "[model]\nmodel = 'offline'\n[engagement]\nmax_events = 3\nwindow_s = 10\n"
        "[[domains]]\nname = 'chat'\n[domains.agent]\ntools = ['calculator']\nreasoning = {}\n"
    )
    config = read_persona(path).unwrap()
    assert isinstance(config, PersonaConfig)
    settings = config.settings()
    assert (settings.id, settings.name, settings.evaluation_model) == ("Ada", "Ada", "small/judge")
    assert (settings.engagement.max_events, settings.engagement.window_s) == (3, 10.0)
    ada = Personas.from_config(path).build()
    assert ada.persona.domains["chat"].tool_names() == ("calculator",)


GOOD: dict[str, Any] = {"name": "Ada", "memory": "ada.db", "domains": [{"name": "chat"}]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nickname": "A"}, "$.nickname"),
        ({"inbox": {"overflow": "panic"}}, "$.inbox.overflow"),
        ({"learning": {"min_confidence": 2}}, "$.learning.min_confidence"),
        ({"domains": []}, "domains: got none, expected one domain or more"),
        ({"domains": [{"name": "chat"}, {"name": "chat"}]}, "domains: got chat, chat"),
        (
            {"domains": [{"name": "chat", "agent": {"tools": ["nothing"]}}], "model": {"model": "offline"}},
            "'nothing'",
        ),
        ({}, "model: got"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentError) as raised:
        Personas.from_config({**GOOD, **changes}).build()
    assert isinstance(raised.value.error, DecodeError | InvalidConfig)
    assert said in str(raised.value)


BUILDER, AGENT = ReactiveAgents.create(), ReactiveAgents.create().with_llm(ScriptedLLM(say("Hello."))).build()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": None}, "name: got None, expected the name of a domain"),
        ({"name": ""}, "name: got '', expected the name of a domain"),
        ({"name": ["chat"]}, "name: got an array of 1 item, expected the name of a domain"),
        ({"agent": AGENT}, "agent: got a ReactiveAgent, expected a builder of an agent"),
        ({"templates": None}, "templates: got None, expected a list of PlanTemplate"),
        ({"templates": "all"}, "templates: got 'all', expected a list of PlanTemplate"),
        ({"templates": ["all"]}, "templates: got 'all', expected a list of PlanTemplate"),
        ({"schedules": None}, "schedules: got None, expected a list of EventSchedule"),
        ({"channel": True}, "channel: got True, expected a ChannelConfig or a Channel"),
        ({"channel": BUILDER}, "channel: got ReactiveAgents("),
        ({"deliver": "there"}, "deliver: got 'there', expected a function"),
        ({"engage": True}, "engage: got True, expected a function"),
    ],
)
def test_what_is_wrong_of_a_domain_is_named(options: dict[str, Any], said: str) -> None:
    untyped: Any = Personas.create("Ada").with_store(InMemoryPersonaStore()).with_llm(ScriptedLLM())
    with pytest.raises(AgentError) as raised:
        untyped.with_domain(**{"name": "chat", **options}).build()
    assert str(raised.value).startswith(said)


KEYED = "event, text, and optionally key, which is given by name"


@pytest.mark.parametrize(
    ("name", "function", "expected"),
    [
        ("deliver", lambda event: None, KEYED),
        ("deliver", lambda event, text, name: None, KEYED),
        ("deliver", lambda event, text, key, /: None, KEYED),
        ("deliver", lambda event, text, key="", /: None, KEYED),
        ("describe", lambda: "", "event"),
        ("engage", lambda event: True, "event, transcript"),
        ("check", lambda event, answer: True, "event, answer, calls"),
    ],
)
def test_a_function_of_other_parameters_is_named(name: str, function: Any, expected: str) -> None:
    described = Personas.create("Ada").with_store(InMemoryPersonaStore()).with_llm(ScriptedLLM())
    with pytest.raises(AgentError, match=rf"^{name}: got .*, expected a function of {expected}\.$"):
        described.with_domain("chat", **{name: function}).build()


@pytest.mark.parametrize(
    "deliver",
    [
        lambda event, text: None,
        lambda event, text, key: None,
        lambda event, text, *, key: None,
        lambda event, text, tries=3, **more: None,
        lambda *given, **named: None,
        partial(lambda room, event, text: None, "room"),
        print,
    ],
)
def test_a_function_that_can_deliver_is_taken(deliver: Any) -> None:
    described = Personas.create("Ada").with_store(InMemoryPersonaStore()).with_llm(ScriptedLLM())
    assert described.with_domain("chat", deliver=deliver).build().name == "Ada"


def test_a_model_or_a_store_that_is_none_is_named() -> None:
    untyped: Any = Personas.create("Ada").with_domain("chat")
    with pytest.raises(AgentError, match=r"^llm: got True, expected an object with complete"):
        untyped.with_store(InMemoryPersonaStore()).with_llm(True).build()
    with pytest.raises(AgentError, match=r"^store: got 'ada.db', expected a PersonaStore"):
        untyped.with_llm(ScriptedLLM()).with_store("ada.db").build()


def test_a_domain_without_a_model_has_that_of_the_persona_with_its_own_options() -> None:
    chat = ReactiveAgents.create().with_prices(
        {"offline/small": {"input_usd_per_million": 1.0, "output_usd_per_million": 2.0}}
    )
    other = ReactiveAgents.create().with_model("openai/gpt-5.4", api_key="of-the-domain")
    described = Personas.from_config(
        {"name": "Ada", "memory": ":memory:", "model": {"model": "offline", "max_attempts": 2}}
    )
    ada = described.with_domain("chat", chat).with_domain("code", other).build()
    models = {name: domain.engine.ports.llm for name, domain in ada.persona.domains.items()}
    assert {name: each.model for name, each in models.items()} == {
        "chat": "offline/quotes",
        "code": "openai/gpt-5.4",
    }


async def test_secrets_are_stored_nowhere(tmp_path: Path) -> None:
    llm = ScriptedLLM(
        planned("Use code-4711."), say("It was code-4711.", when="Use code-4711."), assessed("Say code-4711.")
    )
    chat = ReactiveAgents.from_config({"redaction": {"patterns": ["code-[0-9]+"]}, "reasoning": {}})
    described = (
        Personas.create("Ada").with_memory(tmp_path / "ada.db").with_llm(llm).with_domain("chat", chat)
    )
    recorder = EventRecorder()
    async with described.build() as ada:
        ada.subscribe(recorder)
        outcome = await ada.send("My code is code-4711, and my key is AKIAIOSFODNN7EXAMPLE.")
        assert outcome.answer == "It was code-4711."  # the answer itself goes to who asked
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240 - a small file of the test
    assert b"code-4711" not in stored
    assert b"AKIAIOSFODNN7EXAMPLE" not in stored
    assert "code-4711" not in repr(recorder.events)


async def test_an_unknown_domain_and_an_event_without_content_are_refused(tmp_path: Path) -> None:
    described = Personas.create("Ada").with_memory(tmp_path / "a.db").with_llm(ScriptedLLM())
    async with described.with_domain("chat").build() as ada:
        with pytest.raises(AgentError, match=r"event\.content: got ' ', expected a text"):
            await ada.send(" ")
        with pytest.raises(AgentError, match=r"domain: got 'chess', expected one of chat\."):
            await ada.send("e4", domain="chess")


async def test_events_that_come_at_once_are_limited_like_those_that_come_one_by_one(tmp_path: Path) -> None:
    described = (
        Personas.create("Ada")
        .with_memory(tmp_path / "ada.db")
        .with_llm(ScriptedLLM(forever(say("Noted."))))
        .with_domain("chat")
        .with_options(reasoning=False, engagement={"max_events": 2, "window_s": 60})
    )
    statuses: list[tuple[str, str]] = []
    async with described.build() as ada:

        async def tell(context: str) -> None:
            statuses.append((context, (await ada.send("Hello.", context=context)).status))

        async with anyio.create_task_group() as group:
            for context in ("general",) * 5 + ("random",):
                group.start_soon(tell, context)
    assert statuses.count(("general", "completed")) == 2
    assert statuses.count(("general", "declined")) == 3
    assert statuses.count(("random", "completed")) == 1


@pytest.mark.parametrize("wrong", [{"content": 5}, {"context": None}, {"author": 7.5}])
async def test_an_event_of_what_is_no_text_is_refused_by_name(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    described = Personas.create("Ada").with_memory(tmp_path / "ada.db").with_domain("chat")
    async with described.with_llm(ScriptedLLM()).build() as ada:
        with pytest.raises(AgentError) as refused:
            await ada.send(**{"content": "Hello.", **wrong})
    assert refused.value.error == InvalidConfig(f"event.{name}", repr(wrong[name]), "a text")


def test_options_are_checked_as_data_is() -> None:
    with pytest.raises(AgentError, match=r"\$\.inbox\.capacity"):
        Personas.create("Ada").with_domain("chat").with_options(inbox={"capacity": 0}).build()
    assert Personas.create("Ada").with_options(max_replans=1).config.max_replans == 1


async def test_the_whole_cycle_on_the_offline_model_over_real_documents(tmp_path: Path) -> None:
    documents = tmp_path / "docs"
    shutil.copytree(Path(__file__).parents[2] / "docs", documents)
    (documents / "viaduct.md").write_text(
        "# The viaduct\n\nThe Altenbek viaduct over the river Nethe is 482 metres long.\n"
    )
    config = {
        **GOOD,
        "memory": str(tmp_path / "state" / "ada.db"),
        "model": {"model": "offline"},
        "domains": [
            {
                "name": "chat",
                "agent": {
                    "tools": ["file-search", "file-read"],
                    "workspace": str(documents),
                    "reasoning": {},
                },
            }
        ],
    }
    recorder = EventRecorder()
    async with Personas.from_config(config).build() as ada:
        ada.subscribe(recorder)
        outcome = await ada.send("How long is the Altenbek viaduct over the river Nethe?")
        assert outcome.status == "completed"
        assert "The Altenbek viaduct over the river Nethe is 482 metres long." in outcome.answer
        assert outcome.plan is not None
        assert (
            outcome.plan.plan.goal
            == "Respond to the message: How long is the Altenbek viaduct over the river Nethe?"
        )
        assert outcome.evaluation is not None
        questions = ("What is a kernel?", "Which strategies are there?", "How do I switch memory on?")
        for number, question in enumerate(questions):  # of one word or two, which little else stands beside
            planned_for = (await ada.send(question, context=f"room {number}")).plan
            assert planned_for is not None
            assert planned_for.plan.goal == f"Respond to the message: {question}"
            assert (planned_for.source, planned_for.plan.status) == ("model", "completed")
    assert len(recorder.of(PersonaEventReceived)) == 4
    assert {event.tool_name for event in recorder.of(ToolCallCompleted)} >= {"file-search", "file-read"}


def test_the_memory_can_be_an_address_that_is_shown_without_its_password() -> None:
    url = "postgresql://agents:hunter2@db.example/agents"
    described = Personas.create("Ada").with_memory(url)
    assert described.config.memory == url
    assert not described.problems
    assert "hunter2" not in repr(described.config)
    (problem,) = Personas.create("Ada").with_memory(Path(url)).problems
    assert "an address as a str" in problem.message
