"""Functions become tools, or say why they cannot."""

from __future__ import annotations

import functools
import gc
import json
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import pytest
from attrs import evolve
from pydantic import Field
from returns.result import Success

from reactive_agents.adapters.tools import schema
from reactive_agents.adapters.tools.decorator import Tool, as_tool, tool
from reactive_agents.adapters.tools.schema import build_schema
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.core.run_context import RunContext, can_take
from reactive_agents.core.tools import ToolContext, ToolDefinition

if TYPE_CHECKING:
    from decimal import Decimal as Unseen


def test_a_bare_decorator_reads_name_docstring_and_annotations() -> None:
    @tool
    def count_words(text: str, least: int = 1) -> int:
        """Count the words of a text.

        Args:
            text: what to count in
            least: letters that a word needs
        """
        return len([word for word in text.split() if len(word) >= least])

    assert isinstance(count_words, Tool)
    assert count_words.definition == ToolDefinition(
        name="count_words",
        description="Count the words of a text.",
        parameters={
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "what to count in"},
                "least": {"type": "integer", "description": "letters that a word needs", "default": 1},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
    )


def test_a_tool_is_still_callable() -> None:
    @tool
    def double(number: int) -> int:
        return number * 2

    assert double(21) == 42
    assert double(number=1) == 2


def test_options_reach_the_definition() -> None:
    @tool(
        name="send-mail",
        description="Send it.",
        timeout_s=2.5,
        requires_approval=True,
        risk="high",
        output=True,
        idempotent=True,
    )
    def send(to: str) -> None:
        """Not shown."""

    definition = send.definition
    assert (definition.name, definition.description) == ("send-mail", "Send it.")
    assert (definition.timeout_s, definition.requires_approval, definition.risk) == (2.5, True, "high")
    assert (definition.output, definition.idempotent) == (True, True)


def test_a_tool_is_frozen_and_its_definition_is_made_once() -> None:
    @tool
    def nothing() -> None: ...

    assert nothing.definition is nothing.definition
    assert nothing.definition.description == "nothing"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        nothing.name = "other"  # type: ignore[misc]


def test_as_tool_keeps_a_tool_and_makes_one_of_a_function() -> None:
    def plain(a: int) -> int:
        return a

    made = as_tool(plain)
    assert made.name == "plain"
    assert as_tool(made) is made


def test_a_bound_method_is_a_tool() -> None:
    class Shop:
        def __init__(self, stock: int) -> None:
            self.stock = stock

        def take(self, amount: int) -> int:
            """Take some."""
            return self.stock - amount

    made = tool(Shop(5).take)
    assert list(made.definition.parameters["properties"]) == ["amount"]  # type: ignore[arg-type]
    assert made(2) == 3


def test_types_of_the_enclosing_function_are_found() -> None:
    @dataclass
    class Local:
        size: int

    @tool
    def measure(thing: Local) -> int:
        return thing.size

    assert measure.definition.parameters["required"] == ["thing"]


def test_the_context_is_hidden() -> None:
    @tool
    def first(context: ToolContext, a: int) -> None: ...

    @tool
    def second(a: int, *, run: ToolContext | None = None) -> None: ...

    for made, parameter in ((first, "context"), (second, "run")):
        assert made.context_parameter == parameter
        assert made.definition.parameters["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize("name", ["", "with blank", "a.b", "ü", "x" * 65, "line\n", 3])
def test_names_that_providers_refuse(name: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="tool name"):

        @tool(name=name)
        def anything() -> None: ...


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ToolDefinitionError, match=r"tool\(name="):
        tool(lambda a: a)
    assert tool(name="identity")(lambda a: a).name == "identity"


@pytest.mark.parametrize("timeout_s", [0, -1.0, float("nan"), float("inf")])
def test_timeouts_that_make_no_sense(timeout_s: float) -> None:
    with pytest.raises(ToolDefinitionError, match="timeout_s"):

        @tool(timeout_s=timeout_s)
        def anything() -> None: ...


OF_ARGUMENTS = "of the arguments, or of a RunContext and the arguments"


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        *((each, "yes", "True or False") for each in ("return_direct", "external", "idempotent", "output")),
        *((each, 1, "True or False") for each in ("external", "volatile", "resumable")),
        ("risk", "deadly", "one of low, medium, high"),
        ("risk", ["low"], "one of low, medium, high"),
        ("timeout_s", "3", "seconds above 0"),
        ("timeout_s", True, "seconds above 0"),
        ("retries", "2", "a whole number, 0 or more"),
        ("description", 3, "a text"),
        ("was_done", "paid", "a function"),
        *(
            ("requires_approval", each, f"True, False, or a function {OF_ARGUMENTS}")
            for each in (1, "always", None, lambda: True, lambda one, two, three: True)
        ),
    ],
)
def test_an_option_of_a_wrong_type_is_named_with_what_was_expected(
    option: str, value: object, expected: str
) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ToolDefinitionError) as refused:

        @tool(**options)
        def pay() -> None: ...

    assert str(refused.value) == f"The tool 'pay' has {option}={value!r}: give it {expected}."


def _takes_many(*numbers: int) -> None: ...
def _takes_any(**options: int) -> None: ...
def _by_position(number: int, /) -> None: ...


def _yields() -> Iterator[int]:
    yield 1


async def _yields_async() -> AsyncIterator[int]:
    yield 1


class _Class:
    def method(self, number: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (_takes_many, "take a list"),
        (_takes_any, "take a dict"),
        (_by_position, "remove the '/'"),
        (_yields, "return a list"),
        (_yields_async, "return a list"),
        (_Class.method, "bound method"),
        (_Class, "wrap it in a def"),
        (partial(_takes_many, 1), r"not from functools\.partial\(.*: wrap it in a def"),
        (max, "wrap it in a def|take a list"),
    ],
)
def test_functions_that_cannot_be_tools_are_told_what_to_change(function: Any, advice: str) -> None:
    with pytest.raises(ToolDefinitionError, match=advice):
        tool(function)


def test_an_annotation_that_is_not_there_at_run_time() -> None:
    @tool
    def convert(amount: Unseen) -> None: ...

    with pytest.raises(ToolDefinitionError, match="has an annotation that cannot be resolved: name 'Unseen'"):
        _ = convert.definition


def test_an_annotation_without_a_json_form_names_the_argument() -> None:
    class Opaque: ...

    @tool
    def use(fine: int, thing: Opaque) -> None: ...

    with pytest.raises(ToolDefinitionError, match="its argument 'thing'"):
        _ = use.definition


def test_a_type_that_cannot_be_loaded_is_named_with_its_reason() -> None:
    class Needy:
        @classmethod
        def __get_pydantic_core_schema__(cls, *_: object) -> None:
            raise ImportError("phonenumbers is not installed")

    @tool
    def dial(number: Needy) -> None: ...

    with pytest.raises(ToolDefinitionError, match="'number' as JSON: phonenumbers is not installed"):
        _ = dial.definition


def test_a_field_as_default_is_explained() -> None:
    @tool
    def use(size: int = Field(3, ge=1)) -> None: ...

    with pytest.raises(ToolDefinitionError, match=r"size: Annotated\["):
        _ = use.definition


def test_two_contexts_are_one_too_many() -> None:
    @tool
    def use(a: ToolContext, b: Annotated[ToolContext, "again"]) -> None: ...

    with pytest.raises(ToolDefinitionError, match="more than one ToolContext: a, b"):
        _ = use.definition


def test_making_tools_loads_no_schema_library() -> None:
    script = (
        "import sys\n"
        "from reactive_agents.adapters.tools.decorator import tool\n"
        "from reactive_agents.adapters.tools.builtin import builtin_tools\n"
        "from reactive_agents.adapters.tools.service import LocalToolService\n"
        "@tool\n"
        "def f(a: int) -> int: return a\n"
        "builtin_tools()\n"
        "heavy = {'pydantic', 'pydantic_core', 'docstring_parser', 'simpleeval'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "f.definition\n"
        "print('pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True"]


def test_a_function_is_read_once_however_often_it_becomes_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shop:
        def take(self, amount: int) -> int:
            """Take some."""
            return amount

    def order(amount: int) -> int:
        """Order some."""
        return amount

    read: list[str] = []

    def count(name: str, *rest: Any) -> Any:
        read.append(name)
        return build_schema(name, *rest)

    monkeypatch.setattr(schema, "build_schema", count)
    orders = [as_tool(order) for _ in range(3)]
    takes = [as_tool(Shop().take) for _ in range(3)]
    assert len({id(each.definition) for each in orders}) == 1
    assert len({id(each.definition) for each in takes}) == 1
    assert read == ["order", "take"]
    slow = evolve(as_tool(order), name="slow-order", timeout_s=3)
    assert [each.definition.name for each in (slow, as_tool(order))] == ["slow-order", "order"]
    assert read == ["order", "take"]


def test_functions_that_became_tools_are_not_kept() -> None:
    def tool_of_a_request() -> weakref.ref[Any]:
        def order(amount: int) -> int:
            return amount

        assert as_tool(order).definition.name == "order"
        return weakref.ref(order)

    gone = tool_of_a_request()
    gc.collect()
    assert gone() is None


def test_functions_that_are_defined_anew_are_read_once() -> None:
    def tool_of_a_request(user: str) -> Tool:
        def orders(since: int | str, most: int = 9) -> str:
            """Return the orders of the user.

            Args:
                since: the year.
            """
            return f"{user} {since} {most}"

        return as_tool(orders)

    one, other = tool_of_a_request("ada"), tool_of_a_request("bob")
    assert one.schema is other.schema
    assert one.definition is other.definition
    assert (one(2026), other(2026)) == ("ada 2026 9", "bob 2026 9")


def test_the_parameters_of_a_function_that_is_defined_anew_are_read_once() -> None:
    def tool_of_a_request(most: int) -> Tool:
        def orders(since: str, most: int = most) -> str:
            return f"{since} {most}"

        return as_tool(orders)

    one, same, other = tool_of_a_request(9), tool_of_a_request(9), tool_of_a_request(5)
    assert same.signature.parameters is one.signature.parameters
    assert [each.default for each in other.signature.parameters][1:] == [5]


def test_what_a_function_of_a_request_was_made_with_is_not_kept() -> None:
    class Database:
        """Of one request."""

    def tool_of_a_request() -> weakref.ref[Any]:
        database = Database()

        def order(amount: int, database: Any = database) -> int:
            return amount

        assert as_tool(order).signature.parameters[1].default is database
        return weakref.ref(database)

    gone = tool_of_a_request()
    gc.collect()
    assert gone() is None


def _alike(kind: Any, default: Any, text: str = "Look up.") -> Tool:
    def look(item: Any = default) -> str:
        return str(item)

    look.__annotations__["item"] = kind
    look.__doc__ = text
    return as_tool(look)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_alike(int | str, 1), _alike(str | int, 1)),
        (_alike(int, 1), _alike(int, True)),
        (_alike(int, 1), _alike(float, 1)),
        (_alike(int, 1), _alike(int, 1, "Look it up.")),
        (_alike(list[int], None), _alike(list[bool], None)),
        (_alike(Annotated[int, Field(gt=1)], 2), _alike(Annotated[int, Field(gt=3)], 4)),
        (_alike(list[int], [1]), _alike(list[int], [2])),
    ],
)
def test_functions_that_differ_in_anything_are_described_each_by_itself(one: Tool, other: Tool) -> None:
    described = [
        (each.definition.description, json.dumps(each.definition.parameters)) for each in (one, other)
    ]
    assert described[0] != described[1]


def _redefined() -> tuple[str, str]:
    def run_cell(item: str) -> str:
        source = f"class Item:\n    {item}\nItem = dataclass(Item)\n@tool\ndef buy(order: Order): ...\n"
        exec(compile(source, "notebook", "exec", dont_inherit=True), notebook.__dict__)
        return json.dumps(notebook.__dict__["buy"].definition.parameters)

    notebook = sys.modules["notebook_of_orders"] = ModuleType("notebook_of_orders")
    notebook.__dict__.update(dataclass=dataclass, tool=tool)
    exec("@dataclass\nclass Order:\n    item: 'Item'\n", notebook.__dict__)
    return run_cell("name: str"), run_cell("code: int")


class _Choices:
    def __init__(self) -> None:
        self.known = ["red"]

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        return {**handler(core), "enum": [*self.known]}


def _chosen() -> tuple[str, str]:
    choices = _Choices()
    one = json.dumps(_alike(Annotated[str, choices], "").definition.parameters)
    choices.known.append("blue")
    return one, json.dumps(_alike(Annotated[str, choices], "").definition.parameters)


@pytest.mark.parametrize("described", [_redefined, _chosen])
def test_functions_are_described_with_what_their_types_say_now(
    described: Callable[[], tuple[str, str]],
) -> None:
    before, now = described()
    assert before != now


class _Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("It has no text.")


def test_a_function_may_have_an_annotation_that_cannot_be_printed() -> None:
    assert _alike(Annotated[str, _Unprintable()], "").definition.parameters["properties"]


def test_local_types_are_those_of_the_place_where_the_function_became_a_tool() -> None:
    def size(thing: Local) -> int:  # type: ignore[name-defined]  # noqa: F821
        return 0

    def first() -> Tool:
        @dataclass
        class Local:
            one: int

        return tool(size)

    def second() -> Tool:
        @dataclass
        class Local:
            two: int

        return tool(size)

    fields = [
        list(made().definition.parameters["$defs"]["Local"]["properties"])  # type: ignore[index, call-overload]
        for made in (first, second)
    ]
    assert fields == [["one"], ["two"]]


def test_a_warning_says_that_models_are_not_told_of_tools_without_docstrings() -> None:
    script = (
        "from reactive_agents import ReactiveAgents\n"
        "for _ in range(2):\n"
        "    def look(what: str) -> str:\n"
        '        "Look."\n'
        '    ReactiveAgents.create().with_model("offline").with_reasoning().with_tools(look).build()\n'
    )
    done = subprocess.run([sys.executable, "-OO", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.count("Python was started with -OO, which removes docstrings") == 1


def test_a_type_that_is_missing_at_run_time_is_named_unless_the_model_does_not_see_it() -> None:
    unseen = "User" if sys.version_info >= (3, 14) else "'User'"  # evaluated when it is read since 3.14
    names: dict[str, Any] = {"RunContext": RunContext}
    source = f"""
def stock(product: str, context: RunContext[{unseen}]) -> {unseen}:
    return product

def lookup(user: {unseen}) -> str:
    return ""

def check(text: {unseen}, context: {unseen}) -> str:
    return ""
"""
    exec(compile(source, "shop.py", "exec", dont_inherit=True), names)
    assert as_tool(names["stock"]).run_parameter == "context"
    with pytest.raises(ToolDefinitionError, match=r"'lookup'.*'User'"):
        _ = as_tool(names["lookup"]).definition
    assert can_take(names["check"], 2)
    assert not can_take(names["check"], 1)


# --- arguments that a given schema describes --------------------------------------------------------------

ORDER = {"type": "object", "properties": {"no": {"type": "integer"}}, "required": ["no"]}


def test_a_given_schema_describes_arguments_that_the_function_takes_by_any_name() -> None:
    @tool(parameters=ORDER, risk="medium")
    def cancel(ctx: RunContext[int], **fields: Any) -> str:
        """Cancel an order."""
        return f"{fields} of {ctx.deps}"

    assert cancel.definition == ToolDefinition(
        name="cancel", description="Cancel an order.", parameters=ORDER, risk="medium"
    )
    assert (cancel.run_parameter, cancel.deps_type) == ("ctx", int)
    assert cancel(RunContext(7), no=1) == "{'no': 1} of 7"


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"type": "array"}, "The schema of the tool 'cancel' is not valid: its type is not object"),
        ("object", "The schema of the tool 'cancel' is not valid: its type is not object"),
        ({"type": "object", "properties": {"ctx": {}}}, "has 'ctx', which is the parameter of the function"),
    ],
)
def test_a_given_schema_that_describes_no_arguments_is_refused(parameters: Any, problem: str) -> None:
    def cancel(ctx: RunContext[int], **fields: Any) -> str:
        return f"{fields}"

    with pytest.raises(ToolDefinitionError, match=problem):
        _ = tool(parameters=parameters)(cancel).definition


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda no, reason: "", "'reason' is a required parameter of the function"),
        (lambda: "", "'no' is a property of the schema"),
        (lambda reason, **fields: "", "'reason' is a required parameter of the function"),
    ],
)
def test_a_given_schema_that_does_not_fit_the_parameters_of_its_function_is_refused(
    function: Callable[..., str], problem: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=problem):
        _ = tool(name="cancel", parameters=ORDER)(function).definition


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (lambda no, reason="": "", ORDER),
        (lambda **fields: "", ORDER),
        (lambda no, **fields: "", ORDER),
        (lambda no: "", {"type": "object", "allOf": [ORDER]}),  # its names are not looked for everywhere
        (lambda no: "", {"type": "object", "patternProperties": {"^no$": {}}}),
    ],
)
def test_a_given_schema_that_may_fit_its_function_is_taken(
    function: Callable[..., str], parameters: Any
) -> None:
    assert tool(name="cancel", parameters=parameters)(function).definition.parameters == parameters


def test_a_wrapper_may_give_what_a_given_schema_lacks() -> None:
    def cancel(database: str, no: int) -> str:
        return f"{no} in {database}"

    @functools.wraps(cancel)
    def with_database(**arguments: int) -> str:
        return cancel("shop", **arguments)

    made = tool(parameters=ORDER)(with_database)
    assert made.definition.parameters == ORDER
    assert made(no=3) == "3 in shop"


def test_a_function_that_another_program_runs_need_not_fit_its_schema() -> None:
    made = tool(name="cancel", parameters=ORDER, external=True)(lambda reason: "")
    assert made.definition.parameters == ORDER


def test_a_given_schema_that_is_changed_later_does_not_change_the_tool() -> None:
    parameters: dict[str, Any] = {"type": "object", "properties": {"no": {"type": "integer"}}}
    made = tool(name="cancel", parameters=parameters)(lambda **fields: "")
    parameters["properties"]["no"]["type"] = "string"
    parameters["properties"]["more"] = {}
    assert made.definition.parameters == {"type": "object", "properties": {"no": {"type": "integer"}}}
    assert made.schema.names == ("no",)
    assert made.schema.check is not None
    assert made.schema.check("cancel", {"no": 1}) == Success(None)


def test_a_function_of_any_arguments_needs_a_schema() -> None:
    def cancel(**fields: Any) -> str:
        return f"{fields}"

    assert tool(parameters=ORDER)(cancel).definition.parameters == ORDER
    with pytest.raises(ToolDefinitionError, match=r"takes \*\*fields.*tool\(parameters=…\)"):
        tool(cancel)
