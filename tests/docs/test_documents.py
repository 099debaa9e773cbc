"""The documents: their links lead somewhere, their code runs, and what must be told is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args, get_origin, get_type_hints

import attrs
import pytest
from dependency_injector import providers
from hypothesis.errors import HypothesisWarning

import reactive_agents
from reactive_agents import AgentConfig, PersonaConfig, Personas, ReactiveAgents, read_config, read_persona
from reactive_agents.agent.config import read_document
from reactive_agents.agent.run_options import RunOptions
from reactive_agents.cli.app import SUBCOMMANDS
from reactive_agents.containers import RuntimeContainer
from reactive_agents.core import bases, run_errors
from reactive_agents.core.events import AgentEvent
from reactive_agents.engine import LIFECYCLE_PHASES
from reactive_agents.evaluation import CasesFile
from reactive_agents.reasoning import StrategyRegistry
from reactive_agents.server.api import OPERATIONS
from tests.docs.site import COMPLETE
from tests.support.command_line import parsed_command

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [*DOCUMENTS, *RECORDS, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]


@attrs.frozen
class Block:
    """A fenced block of a document; ``line`` is where its content begins."""

    path: Path
    line: int
    language: str
    content: str

    @property
    def name(self) -> str:
        """The name of the block in a test's output."""
        return f"{self.path.parent.name}/{self.path.name}:{self.line}"


def blocks_of(path: Path) -> list[Block]:
    """The fenced blocks of a document."""
    text = path.read_text(encoding="utf-8")
    fences = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [Block(path, text.count("\n", 0, m.start()) + 2, m[1], m[2]) for m in fences]


def prose_of(path: Path) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


BLOCKS = [block for path in PAGES for block in blocks_of(path)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
PROSE = "\n".join(map(prose_of, DOCUMENTS))

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)


def mentioned(name: str, text: str = PROSE) -> bool:
    """Whether the name occurs as a word of its own."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def anchor_of(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


# --- where a behaviour is tested ------------------------------------------------------------------------


def test_the_table_of_behaviours_names_every_test_file_or_its_folder_and_no_other() -> None:
    page = (ROOT / "docs" / "testing-the-project.md").read_text(encoding="utf-8")
    table = page.partition("## Where a behaviour is tested")[2]
    named = re.findall(r"`((?:tests|property_tests)/[^`]*)`", table)
    assert [path for path in named if not (ROOT / path).exists()] == []
    files = [
        str(path.relative_to(ROOT))
        for folder in ("tests", "property_tests")
        for path in (ROOT / folder).rglob("test_*.py")
    ]
    assert [file for file in files if not file.startswith(tuple(named))] == []
    behaviours = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    assert len(behaviours) == len(set(behaviours)), "each behaviour has one row"


# --- architecture ---------------------------------------------------------------------------------------


def test_each_feature_that_other_frameworks_have_names_its_tests_or_that_there_is_none() -> None:
    table = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8").partition("| feature |")[2]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:] if row.startswith("| ")]
    assert len(rows) > 30
    for _, page, *tests in rows:
        named = re.findall(r"`([\w/]+\.py)`", "".join(tests))
        assert all((ROOT / each).is_file() for each in named), named
        assert page.startswith("none") != bool(named)


def test_the_architecture_page_names_every_package_and_only_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "reactive_agents"
    packages = [f"`{path.name}/`" for path in package.iterdir() if (path / "__init__.py").exists()]
    assert [name for name in packages if name not in page] == []
    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page)
    assert len(named) > 30
    assert [path for path in named if not ((package / path).exists() or (ROOT / path).exists())] == []


def test_the_architecture_page_names_the_module_in_which_a_name_is_defined() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:\w+\.)?(\w+)`(?: and `\w+`)? in `((?:\w+/)*\w+\.py)`", page)
    assert len(named) > 40
    for name, path in named:
        text = (ROOT / "reactive_agents" / path).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:class|(?:async )?def) {name}\b|^{name}\b.* = ", text, re.M), (name, path)


@every_page
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+\w+\.py)`", prose_of(page))
    places = (ROOT, ROOT / "reactive_agents", page.parent)
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_index_of_decisions_names_every_record() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in RECORDS if path.name != "README.md" and f"({path.name})" not in index] == []


# --- links ----------------------------------------------------------------------------------------------


@every_page
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        if not found.exists() or (
            anchor and anchor not in map(anchor_of, re.findall(r"^#+ (.*)", found.read_text(), re.M))
        ):
            broken.append(target)
    assert broken == []


def test_the_index_names_every_page_and_every_example() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"\]\(([^)\s]+)\)", index))
    pages = {path.name for path in DOCUMENTS} - {"README.md"}
    examples = {f"examples/{path.name}" for path in (ROOT / "docs" / "examples").glob("*.py")}
    assert pages | examples <= targets


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.name)
def test_a_page_begins_with_its_title_and_what_it_is_for(page: Path) -> None:
    title, blank, purpose, *_ = page.read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert (blank, purpose[-1]) == ("", ".")


# --- code -----------------------------------------------------------------------------------------------


def test_examples_import_from_the_package_what_is_public_there() -> None:
    deep = re.compile(r"^from reactive_agents\.(?!testing)[\w.]+ import (\([^)]*\)|.*)$", re.M)
    found = {
        (page.name, name)
        for page in DOCUMENTS
        for block in blocks_of(page)
        for names in deep.findall(block.content)
        for name in re.findall(r"\w+", names)
        if name in reactive_agents.__all__
    }
    assert found == set()
    streamed = {"ModelTextRetracted", "ModelStreamRestarted", "ModelThinkingStreamed", "ToolProgressed"}
    asked = {"ApprovalRequested", "QuestionAsked", "QuestionRequest", "ExternalCallRequested", "HandoffInfo"}
    functions = {"gather", "messages_to_json", "messages_from_openai", "ToolDefinition"}
    assert streamed | asked | functions <= set(reactive_agents.__all__)
    assert all(hasattr(reactive_agents, name) for name in reactive_agents.__all__)


def test_most_python_blocks_are_complete() -> None:
    complete = [block for block in PYTHON if block.content.startswith(COMPLETE)]
    assert len(PYTHON) > 20
    assert len(complete) > 0.75 * len(PYTHON)


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.name)
def test_a_python_block_compiles_and_runs_when_it_is_complete(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = compile(block.content, block.name, "exec", dont_inherit=True)
    if not block.content.startswith(COMPLETE):
        return
    module = ModuleType("a_block_of_the_documents")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("default", HypothesisWarning)  # on CPython 3.14 it doubts its own generator
        exec(code, vars(module))


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "toml"], ids=lambda block: block.name
)
def test_a_toml_block_describes_an_agent_a_persona_or_cases(block: Block) -> None:
    document = tomllib.loads(block.content)
    if "domains" in document:
        assert isinstance(read_persona(document).unwrap(), PersonaConfig)
    elif "cases" in document:
        assert isinstance(read_document(document, CasesFile).unwrap(), CasesFile)
    else:
        assert isinstance(read_config(document).unwrap(), AgentConfig)


COMMANDS = [
    line
    for block in BLOCKS
    if block.language == "sh"
    for line in block.content.splitlines()
    if line.startswith("reactive-agents run ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_uses_options_that_there_are(line: str) -> None:
    used = set(re.findall(r"(?<=\s)-{1,2}[a-z][\w-]*", line))
    assert used <= options_of("run")


# --- what must be told ----------------------------------------------------------------------------------


def options_of(command: str) -> set[str]:
    """The options of a command, long and short, with ``--help``."""
    names = {name for parameter in parsed_command(command).params for name in parameter.opts}
    return {name for name in names if name.startswith("-")} | {"--help"}


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "models",
        "cost",
        "audit verify",
        "audit show",
        "persona run",
        "persona send",
        "plan",
        "explain",
        "learnings",
        "learnings override",
    ],
)
def test_every_option_of_the_command_line_is_told(command: str) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    options = options_of(command)
    assert "--json" in options or command == "learnings override"
    assert {option for option in options if f"`{option}`" not in page} == set()


@pytest.mark.parametrize("command", ["memory search", "memory show", "memory forget", "memory export"])
def test_every_option_of_the_memory_commands_is_told(command: str) -> None:
    page = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    assert {option for option in options_of(command) if f"`{option}`" not in page} == {"--help"}


def test_every_subcommand_has_a_section() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    told = " ".join(re.findall(r"^## (.*)$", page, re.M)).replace("`reactive-agents ", "`")
    assert [name for name in SUBCOMMANDS if f"`{name}`" not in told] == []


def test_every_operation_of_the_api_is_told() -> None:
    page = prose_of(ROOT / "docs" / "serving.md")
    told = {*re.findall(r"(/[^ `?]+)[`?]", page)}
    orders = {each.path for each in OPERATIONS if f"/{each.path.rpartition('/')[2]}" in told}
    assert {each.path for each in OPERATIONS} - told - orders == set()


def test_the_command_and_its_page_name_every_strategy() -> None:
    (option,) = (each for each in parsed_command("run").params if "--strategy" in each.opts)
    names = StrategyRegistry().names()
    assert [name for name in names if f"'{name}'" not in option.help] == []
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in page and f"`{name}(" not in page] == []


def values_of(hint: object) -> list[str]:
    """The texts that a type hint allows by ``Literal``."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [value for part in get_args(hint) for value in values_of(part)]


def test_every_event_is_told_with_its_fields() -> None:
    page = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    shared = {"run_id", "task_id", "sequence", "at", "agent", "parent_run_id"}
    for kind in get_args(AgentEvent):
        rows = [line for line in page.splitlines() if line.startswith(f"| `{kind.__name__}` |")]
        assert len(rows) == 1, kind
        fields = {attribute.name for attribute in attrs.fields(kind)} - shared
        assert {name for name in fields if f"`{name}`" not in rows[0]} == set(), kind
        for name, hint in get_type_hints(kind).items():
            left = [each for each in values_of(hint) if f"`{each}`" not in rows[0]]
            assert left in ([], values_of(hint)), f"{kind.__name__}.{name}: all values are told, or none"


def test_every_error_class_is_told() -> None:
    kinds = [
        kind.__name__
        for module in (bases, run_errors)
        for kind in vars(module).values()
        if getattr(kind, "__module__", "") == module.__name__ and attrs.has(kind)
        if not kind.__name__.startswith("_")  # what several have in common
    ]
    assert len(kinds) > 30
    assert [name for name in kinds if not mentioned(name)] == []


def test_every_field_of_a_persona_as_data_is_told() -> None:
    page = prose_of(ROOT / "docs" / "personas.md")
    fields = [attribute.name for attribute in attrs.fields(PersonaConfig)]
    assert [name for name in fields if f"`{name}`" not in page and f"`{name}(" not in page] == []


def test_every_method_of_the_builder_is_told() -> None:
    overview = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8").partition("## Options of the")[2]
    for builder, page in ((ReactiveAgents, overview), (Personas, prose_of(ROOT / "docs" / "personas.md"))):
        methods = [name for name in dir(builder) if name.startswith("with_")]
        assert len(methods) > 4
        assert [name for name in methods if not mentioned(name)] == []
        assert [name for name in methods if f"`{name}`" not in page and f"`{name}(" not in page] == []


def test_every_option_of_a_run_is_told() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    table = text.partition("\n## Options of one run\n")[2].partition("\nA wrong or misspelt option")[0]
    told = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert told == {*RunOptions.__annotations__, "deps", "output"}


def test_every_field_of_an_agent_as_data_is_told() -> None:
    page = prose_of(ROOT / "docs" / "declarative-configuration.md")
    fields = [attribute.name for attribute in attrs.fields(AgentConfig)]
    assert [name for name in fields if f"`{name}`" not in page and f"`{name}(" not in page] == []


@pytest.mark.parametrize("name", ["concepts.md", "hooks.md"])
def test_every_phase_is_told(name: str) -> None:
    page = prose_of(ROOT / "docs" / name)
    assert [phase for phase in LIFECYCLE_PHASES if f"`{phase}`" not in page] == []


def test_the_page_on_containers_lists_every_provider_and_no_other() -> None:
    rows = re.findall(r"^\| (?:`(\w+)`)? ?\| `(\w+)` \|", (ROOT / "docs/containers.md").read_text(), re.M)
    told: dict[str, set[str]] = {}
    layer = ""
    for named, provider in rows:
        layer = named or layer
        told.setdefault(layer, set()).add(provider)
    there = {
        name: set(layer.container.providers)
        for name, layer in RuntimeContainer().providers.items()
        if isinstance(layer, providers.Container)
    }
    assert told == there


@pytest.mark.system
def test_the_demo_finds_its_answer_first() -> None:
    question = "How does a run end when the iteration limit is reached, and what is 17 * 23?"
    tools = "calculator,file-search,file-read"
    done = subprocess.run(
        [sys.executable, "-m", "reactive_agents", "run", question, "--quiet", "--tools", tools, "-w", "docs"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, _, quoted, *_ = done.stdout.splitlines()
    assert first == "17 * 23 = 391"
    assert "When the iteration limit is reached, the run ends as `partial`" in quoted
    assert "(how-runs-end.md:" in quoted
