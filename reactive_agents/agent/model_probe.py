"""A probe of a model and its server by a dozen short requests.

Each request asks for one thing that a run relies on, over the same adapter as a run. A request that fails
makes its own finding unknown, with the reason, and costs no other finding. When the server cannot be reached
at all, the remaining subjects are not tried.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Final

from attrs import evolve
from returns.result import Failure, Result

from reactive_agents.adapters.llm.profiled_llm import SqliteModelProfiles, adapted
from reactive_agents.adapters.llm.providers import server_address
from reactive_agents.adapters.llm.response_cache import CachedLLM
from reactive_agents.adapters.system import state_directory
from reactive_agents.containers import RuntimeContainer
from reactive_agents.core import errors
from reactive_agents.core.governance import SpendingRecord
from reactive_agents.core.ids import CallId, RunId, TaskId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import Message, SystemMessage, ToolCall, UserMessage
from reactive_agents.core.model_profiles import (
    PROBE_SUBJECTS,
    PROFILES_FILE,
    ModelProfile,
    ProbeFinding,
    ProbeOutcome,
    ProbeSubject,
)
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt
from reactive_agents.kernel import MeteredLLM, RunEvents
from reactive_agents.kernel.call_parsing.parser import parse_calls
from reactive_agents.kernel.run_budget import RunBudget
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.ports import Clock, CostTracker

PURPOSE: Final = "probe"
LONGEST_PROMPT: Final = 32_768
"""Tokens of the longest prompt that a probe sends by default."""

_SHORTEST_PROMPT: Final = 2_048
_CHARACTERS_PER_TOKEN: Final = 4
_SHARE_KEPT: Final = 0.5
"""A prompt was cut when the server reports less than this share of what was sent, by an estimate."""
_SURE_SHARE: Final = 0.75
"""The share of the estimate that is counted on where the server reports no tokens."""
_LEAST_COUNTED: Final = 1_024
"""Tokens that the shortest prompt has at least: who knows its beginning did not read fewer."""
_CODE: Final = "7413"
_SHOWN: Final = 80


def _object(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": dict(properties), "required": [*properties]}


_TEXT: Final[JsonObject] = {"type": "string"}
_NUMBER: Final[JsonObject] = {"type": "number"}
_WEATHER: Final = ToolDefinition("weather", "Get the weather of a city now.", _object(city=_TEXT))
_ORDER: Final = ToolDefinition(
    "order",
    "Order dishes.",
    _object(
        guest=_object(name=_TEXT, seats={"type": "integer"}),
        dishes={"type": "array", "items": _object(name=_TEXT, price=_NUMBER)},
        deposit=_NUMBER,
    ),
)
_ANSWER_SCHEMA: Final = _object(city=_TEXT, country=_TEXT)


async def probe_agent(
    container: RuntimeContainer,
    *,
    longest_prompt: int = LONGEST_PROMPT,
    report: Callable[[ProbeFinding], object] = lambda _: None,
) -> tuple[ModelProfile, str]:
    """Probe an agent's model, and store its profile where ``with_model`` finds it.

    The agent's budget holds for the probe, and its cost file has it as a run. Return the profile, and why it
    could not be stored; empty when it was.
    """
    config, clock = container.model_config(), container.core.clock()
    llm = container.models.llm()
    address = server_address(llm.model, config.base_url, os.environ)
    if isinstance(llm, CachedLLM):
        llm = llm.inner  # recorded answers tell nothing of the server
    ids, bus = container.core.ids(), container.core.events()
    events = RunEvents(bus, clock, RunId(ids.new()), TaskId(ids.new()))
    guard = container.governance.budget().value_or(None)
    prices, counter = container.models.prices(), container.models.counter()
    budget = None if guard is None else RunBudget(guard, events, prices=prices, counter=counter)
    meter = MeteredLLM(llm, events, clock, budget=budget)
    profile = await probe_model(meter, clock, address=address, longest_prompt=longest_prompt, report=report)
    tracker = container.governance.cost_tracker().value_or(None)
    if tracker is not None:
        agent_id = container.settings().agent_id
        record = SpendingRecord(events.run_id, events.task_id, agent_id, meter.models, clock.now())
        await call_service("cost tracking", tracker, CostTracker.record, None, record)
    store = SqliteModelProfiles(config.profiles or state_directory(os.environ) / PROFILES_FILE)
    try:
        stored = await attempt(store.save(profile))
    finally:
        await store.aclose()
    if isinstance(stored, Failure):
        return profile, stored.failure().message
    return stored.unwrap(), ""


async def probe_model(
    llm: MeteredLLM,
    clock: Clock,
    *,
    address: str = "",
    longest_prompt: int = LONGEST_PROMPT,
    report: Callable[[ProbeFinding], object] = lambda _: None,
) -> ModelProfile:
    """Return the profile of a model.

    Args:
        llm: asks the model; its usage is that of the probe.
        address: the address of the server, without credentials.
        longest_prompt: tokens of the longest prompt to send, 2048 or more.
        report: called with each finding.
    """
    probe = _Probe(llm, clock, report)
    await probe.run(max(longest_prompt, _SHORTEST_PROMPT))
    findings = tuple(probe.findings[subject] for subject in PROBE_SUBJECTS)
    return ModelProfile(llm.model, address, findings, llm.usage)


class _Probe:
    def __init__(self, llm: MeteredLLM, clock: Clock, report: Callable[[ProbeFinding], object]) -> None:
        self._llm = llm
        self._clock = clock
        self._report = report
        self._unreachable: str | None = None
        self.findings: dict[ProbeSubject, ProbeFinding] = {}

    async def run(self, longest_prompt: int) -> None:
        await self._answer()
        plain = _request("Answer with the single word: ready")
        await self._ask_with("temperature", evolve(plain, temperature=0.2))
        await self._ask_with("max_tokens", evolve(plain, max_tokens=256))
        await self._tool_calls()
        await self._parallel_calls()
        await self._nested_arguments()
        await self._restraint()
        await self._structured_output()
        await self._window(longest_prompt)
        await self._unknown_model()

    def _found(self, subject: ProbeSubject, outcome: ProbeOutcome, detail: str, value: str = "") -> None:
        finding = ProbeFinding(subject, outcome, detail, self._clock.now(), value)
        self.findings[subject] = finding
        self._report(finding)

    async def _ask(self, request: ModelRequest) -> Result[ModelResponse, errors.LLMErrors]:
        if self._unreachable is not None:
            return Failure(errors.ModelUnavailable(self._unreachable, self._llm.model))
        profile = ModelProfile(self._llm.model, "", tuple(self.findings.values()))
        answer: Result[ModelResponse, errors.LLMErrors] = await attempt(
            self._llm.complete(adapted(request, profile))
        )
        error = answer.failure() if isinstance(answer, Failure) else None
        if isinstance(
            error, errors.AuthenticationFailed | errors.BudgetExceeded | errors.BudgetUnavailable
        ) or (isinstance(error, errors.ModelUnavailable) and error.status is None):
            self._unreachable = error.message
        return answer

    async def _ask_about(self, subject: ProbeSubject, request: ModelRequest) -> ModelResponse | None:
        """Return the answer; without one, ``subject`` is not known."""
        answer = await self._ask(request)
        if isinstance(answer, Failure):
            self._found(subject, "not known", answer.failure().message)
            return None
        return answer.unwrap()

    async def _ask_with(self, parameter: ProbeSubject, request: ModelRequest) -> ModelResponse | None:
        """Return the answer to a request with a parameter; find out whether it is taken."""
        answer = await self._ask(request)
        if not isinstance(answer, Failure):
            self._found(parameter, "yes", "A request with the parameter was answered.")
            return answer.unwrap()
        error = answer.failure()
        refused = _refuses(error, parameter) and self._answers
        self._found(parameter, "no" if refused else "not known", error.message)
        return None

    @property
    def _answers(self) -> bool:
        """Whether the server answers a request without any option."""
        found = self.findings.get("answer")
        return found is not None and found.outcome == "yes"

    # --- subjects -------------------------------------------------------------------------------------

    async def _answer(self) -> None:
        answer = await self._ask(_request("Answer with the single word: ready"))
        if isinstance(answer, Failure):
            error = answer.failure()
            if isinstance(error, errors.RequestRejected):  # so is everything else: an unknown model, for one
                self._unreachable = error.message
            self._found("answer", "not known", error.message)
            return
        said = answer.unwrap().content.strip() or answer.unwrap().thinking.strip()
        self._found("answer", "yes" if said else "no", f"It answered {_short(said)}.")

    async def _tool_calls(self) -> None:
        request = _request("What is the weather in Oslo now? Find out with the tool.", _WEATHER)
        answer = await self._ask(request)
        calls: tuple[ToolCall, ...] = ()
        error = answer.failure() if isinstance(answer, Failure) else None
        if not isinstance(answer, Failure):
            native = bool(answer.unwrap().tool_calls)
            calls = _calls(answer.unwrap(), _WEATHER)
            if calls:
                how = "by the protocol" if native else "as text"
                self._found("tool calls", "yes", f"It called a tool {how}.", "native" if native else "text")
                return
        elif not (_refuses(answer.failure(), "tools") and self._answers):
            self._found("tool calls", "not known", answer.failure().message)
            return
        # whatever is asked from here on has its tools in the prompt
        self.findings["tool calls"] = ProbeFinding("tool calls", "yes", "", self._clock.now(), "prompt")
        again = await self._ask(request)
        refusal = f" The server refuses tools: {error.message}" if error is not None else ""
        if isinstance(again, Failure):
            self._found("tool calls", "not known", f"{again.failure().message}{refusal}")
        elif _calls(again.unwrap(), _WEATHER):
            self._found("tool calls", "yes", f"It calls tools that the prompt describes.{refusal}", "prompt")
        else:
            said = _short(again.unwrap().content)
            self._found("tool calls", "no", f"It made no call, and answered {said}.{refusal}")

    async def _parallel_calls(self) -> None:
        request = evolve(
            _request("What is the weather in Oslo and in Lima? Call the tool for both at once.", _WEATHER),
            parallel_tool_calls=True,
        )
        answer = await self._ask_with("parallel_tool_calls", request)
        if answer is None:
            answer = await self._ask_about("parallel calls", request)
        if answer is None:
            return
        cities = {str(call.arguments.get("city", "")).casefold() for call in _calls(answer, _WEATHER)}
        both = any("oslo" in city for city in cities) and any("lima" in city for city in cities)
        both = both and len(cities) >= 2
        detail = (
            "It made both calls in one turn." if both else f"It made {len(cities) or 'none'} of two calls."
        )
        self._found("parallel calls", "yes" if both else "no", detail)

    async def _nested_arguments(self) -> None:
        task = (
            "Order with the tool: the guest is Ada with 4 seats; the dishes are soup at 6.5 and bread at 2; "
            "the deposit is 20."
        )
        answer = await self._ask_about("nested arguments", _request(task, _ORDER))
        if answer is None:
            self._found("numbers", "not known", self.findings["nested arguments"].detail)
            return
        calls = _calls(answer, _ORDER)
        if not calls or calls[0].malformed:
            said = f"arguments that are not JSON: {_short(calls[0].malformed)}" if calls else "no call"
            self._found("nested arguments", "no", f"It made {said}.")
            self._found("numbers", "not known", f"It made {said}.")
            return
        given = calls[0].arguments
        guest, dishes = given.get("guest"), given.get("dishes")
        dish = dishes[0] if isinstance(dishes, list) and dishes else None
        nested = isinstance(guest, dict) and isinstance(dish, dict) and {"name", "seats"} <= guest.keys()
        shown = _short(calls[0].arguments_text)
        self._found("nested arguments", "yes" if nested else "no", f"It gave {shown}.")
        numbers: list[Json] = [given.get("deposit")]
        numbers += [guest.get("seats")] if isinstance(guest, dict) else []
        numbers += [dish.get("price")] if isinstance(dish, dict) else []
        plain = all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers)
        whole = isinstance(given.get("deposit"), int)
        if not plain:
            self._found("numbers", "no", f"It gave {_short(json.dumps(numbers))} for numbers.")
        elif whole:
            self._found("numbers", "yes", "It gave numbers, a whole one also where a fraction may be.")
        else:
            self._found("numbers", "yes", "It gave numbers.")

    async def _restraint(self) -> None:
        task = "What is 7 plus 5? No tool is of use for this: answer with the number."
        answer = await self._ask_about("restraint", _request(task, _WEATHER))
        if answer is None:
            return
        calls = _calls(answer, _WEATHER)
        right = not calls and "12" in answer.content
        said = f"called {calls[0].name}" if calls else f"answered {_short(answer.content)}"
        self._found("restraint", "yes" if right else "no", f"Without need of a tool it {said}.")

    async def _structured_output(self) -> None:
        task = "Which city is the capital of France? Answer with a JSON object with city and country."
        request = evolve(_request(task), response_schema=_ANSWER_SCHEMA)
        answer = await self._ask_with("response_format", request)
        if answer is None:
            answer = await self._ask_about("structured output", request)
        if answer is None:
            return
        right = _is_object(answer.content, {"city", "country"})
        self._found("structured output", "yes" if right else "no", f"It answered {_short(answer.content)}.")

    async def _window(self, longest: int) -> None:
        """Search for the longest prompt whose beginning the model knows."""
        sizes = [_SHORTEST_PROMPT]
        while sizes[-1] * 2 <= longest:
            sizes.append(sizes[-1] * 2)
        known, lost = -1, len(sizes)
        passed, problem, miscounted = 0, "", ""
        while known + 1 < lost:
            tried = (known + lost) // 2
            size = sizes[tried]
            answer = await self._ask(_long_request(size))
            if isinstance(answer, Failure):
                error = answer.failure()
                if isinstance(error, errors.ContextOverflow) and error.limit:
                    self._found("context window", "no", error.message, str(error.limit))
                    return
                problem = error.message
                if not isinstance(error, errors.ContextOverflow | errors.RequestRejected):
                    break  # nothing is known of longer prompts, nor of this one
                lost = tried
                continue
            response = answer.unwrap()
            counted = response.usage.input_tokens if response.usage.reported else 0
            if 0 < counted < _LEAST_COUNTED and _CODE in response.content:
                miscounted = f" Its count of tokens is wrong: {counted:,} for about {size:,}."
                counted = 0
            if 0 < counted < size * _SHARE_KEPT:
                detail = f"Of a prompt of about {size:,} tokens the server read {counted:,}."
                self._found("context window", "no", detail, str(max(counted, passed)))
                return
            if _CODE in response.content:
                known, passed = tried, counted or int(size * _SURE_SHARE)
            else:
                lost, problem = tried, f"At {size:,} tokens it did not know how the prompt begins."
        if known + 1 == lost and lost < len(sizes) and passed:
            self._found("context window", "no", problem + miscounted, str(passed))
        elif passed:
            seen = f"It knew the beginning of a prompt of {passed:,} tokens"
            detail = f"{seen}. {problem}" if problem else f"{seen}, the longest that was sent."
            self._found("context window", "yes", detail + miscounted, str(passed))
        else:
            self._found("context window", "not known", problem + miscounted)

    async def _unknown_model(self) -> None:
        provider, slash, _ = self._llm.model.partition("/")
        name = f"{provider}{slash}no-such-model" if slash else "no-such-model"
        answer = await self._ask(evolve(_request("Answer with the single word: ready"), model=name))
        if not isinstance(answer, Failure):
            self._found("unknown model", "no", "The server answers whatever model is named.")
            return
        error = answer.failure()
        refused = isinstance(error, errors.RequestRejected) and self._answers
        self._found("unknown model", "yes" if refused else "not known", error.message)


# --- requests and answers -------------------------------------------------------------------------------


def _request(task: str, *tools: ToolDefinition) -> ModelRequest:
    messages: tuple[Message, ...] = (SystemMessage("You are a helpful assistant."), UserMessage(task))
    return ModelRequest(messages, tools, PURPOSE, exact=True)


def _long_request(tokens: int) -> ModelRequest:
    """Return a prompt of about so many tokens that asks about its beginning."""
    lines = (f"Entry {number}: nothing of note happened on this day." for number in range(1, tokens))
    room = tokens * _CHARACTERS_PER_TOKEN
    filler: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        filler.append(line)
    middle = len(filler) // 2
    return ModelRequest(
        (
            UserMessage(
                f"The code word is {_CODE}. Remember it. A diary follows.\n" + "\n".join(filler[:middle])
            ),
            UserMessage("\n".join(filler[middle:])),
            UserMessage(
                "The diary ends here. Which code word stands before the diary? Answer with it alone."
            ),
        ),
        purpose=PURPOSE,
        exact=True,
    )


def _calls(answer: ModelResponse, tool: ToolDefinition) -> tuple[ToolCall, ...]:
    """Return the calls of the tool as the model made them, without repairs."""
    if answer.tool_calls:
        return tuple(call for call in answer.tool_calls if call.name == tool.name)
    written = parse_calls(answer.content, (tool.name,)).calls
    return tuple(
        ToolCall(CallId(f"call-{n}"), each.name, each.arguments) for n, each in enumerate(written, 1)
    )


def _refuses(error: errors.LLMErrors, parameter: str) -> bool:
    """Whether an error is the server's word against a parameter."""
    if isinstance(error, errors.RequestRejected):
        return error.status is None or error.status in (400, 404, 405, 422, 501)
    named = isinstance(error, errors.ModelUnavailable) and error.status is not None
    return named and parameter in error.message


def _is_object(text: str, keys: set[str]) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, Mapping) and keys <= value.keys()


def _short(text: str) -> str:
    return json.dumps(shortened(" ".join(text.split()), _SHOWN), ensure_ascii=False)
