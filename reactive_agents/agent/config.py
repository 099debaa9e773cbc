"""Declarative configuration of an agent, which files can hold."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast

from attrs import evolve, field, fields, frozen, has
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.providers import default_model, is_well_known, provider_of
from reactive_agents.adapters.system import write_for_owner
from reactive_agents.adapters.tools import mcp
from reactive_agents.agent.errors import AgentError, value_or_raise
from reactive_agents.agent.validation import checked_options, wrong_path
from reactive_agents.core import config
from reactive_agents.core.codec import abbreviated, decode, encode, from_json
from reactive_agents.core.errors import ConfigErrors, DecodeError, FieldProblem, InvalidConfig
from reactive_agents.core.json import Json
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.values import lazy_pattern

T = TypeVar("T")

MODEL_EXPECTED = "a model such as 'openai/gpt-4o-mini', 'ollama/llama3.2' or 'offline'"

_SETTINGS = tuple(each.name for each in fields(RunSettings))
_settings_of = attrgetter(*_SETTINGS)


@frozen(slots=False, eq=False, repr=False)
class AgentConfig(RunSettings):
    """The configuration of an agent: settings of its runs, and services.

    Attributes:
        model: the model that answers; its key is never written.
        tools: names of built-in tools, and ``module:function`` for custom ones.
        external_tools: tools that other programs execute.
        handoffs: agents that a conversation may be handed to, as ``module:agent``.
        mcp_servers: servers whose tools the agent has too; their environment and headers are written. In a
            document, also the path of a file as for :func:`load_mcp_servers`.
        skills: folders of skills, or folders that have such folders.
        workspace: the directory to which file tools are confined; ``None`` for the current one.
        sessions: where conversations are kept; in the process by default.
        run_log: where the events of runs are kept; ``None`` keeps none.
        memory: switches memory on; the fields below switch on their services likewise.
        redaction: patterns of secrets, besides the known ones, to keep out of events, logs, memory and audit.
    """

    model: config.ModelConfig = field(factory=config.ModelConfig)
    tools: tuple[str, ...] = ()
    external_tools: tuple[config.ExternalToolConfig, ...] = ()
    handoffs: tuple[str, ...] = ()
    mcp_servers: tuple[mcp.McpServer, ...] = ()
    skills: tuple[str, ...] = ()
    workspace: str | None = None
    sessions: config.SessionsConfig = config.SessionsConfig()
    run_log: config.RunLogConfig | None = None
    memory: config.MemoryConfig | None = None
    guardrails: config.GuardrailsConfig | None = None
    cost: config.CostConfig | None = None
    audit: config.AuditConfig | None = None
    redaction: config.RedactionConfig = config.RedactionConfig()

    @property
    def settings(self) -> RunSettings:
        """The settings of the agent's runs, without its services."""
        return RunSettings(*_settings_of(self))

    def to_json(self) -> str:
        """Return the configuration as a JSON document."""
        state = {"session_state": self.session_state} if self.session_state else {}  # where null is a value
        return json.dumps({**self._document(), **state}, ensure_ascii=False, indent=2) + "\n"

    def to_toml(self) -> str:
        """Return the configuration as a TOML document."""
        import tomli_w  # few programs write a configuration

        return tomli_w.dumps(self._document())

    def save(self, path: str | Path) -> None:
        """Write the configuration to a ``.json`` file, or as TOML to any other file.

        Only its owner can read a new file, since it holds the environment and headers of MCP servers.

        Raises:
            OSError: the file cannot be written.
        """
        target = Path(path)
        text = self.to_json() if target.suffix == ".json" else self.to_toml()
        write_for_owner(target, text)

    def _document(self) -> dict[str, Any]:
        keyless = evolve(self, model=self.model.keyless)
        document = cast(dict[str, Any], _without_nothing(encode(keyless)))
        own = (each.name for each in fields(AgentConfig) if each.name not in _SETTINGS)
        first = (name for name in ("name", *own) if name in document)
        return {name: document[name] for name in (*first, *document)}


def read_config(
    source: AgentConfig | Mapping[str, Any] | str | Path, *, allow_tools_from: Collection[str] = ()
) -> Result[AgentConfig, ConfigErrors]:
    """Return the configuration in a mapping or a ``.json`` or ``.toml`` file.

    Args:
        allow_tools_from: modules whose functions, and those of modules in them, the file or mapping may name.

    Fails with ``DecodeError``, which names the path of each wrong field, or with ``InvalidConfig`` when the
    file cannot be read or names a function of another module.
    """
    return read_document(source, AgentConfig, allow_tools_from=allow_tools_from)


def read_document(
    source: T | Mapping[str, Any] | str | Path, kind: type[T], *, allow_tools_from: Collection[str] = ()
) -> Result[T, ConfigErrors]:
    """Read a value of a class from a mapping or file; fails as :func:`read_config`."""
    if isinstance(source, kind):
        return checked_options(source)
    given: Any = allow_tools_from  # a text is a collection of texts too
    if isinstance(given, str) or not isinstance(given, Collection):
        return Failure(InvalidConfig("allow_tools_from", abbreviated(given), "names of modules"))
    return read_data(source, kind).bind(
        lambda read: _with_allowed_functions(frozenset(each for each in given if isinstance(each, str)), read)
    )


def _with_allowed_functions(modules: frozenset[str], checked: T) -> Result[T, ConfigErrors]:
    """Return the configuration; a function of another module is an ``InvalidConfig``."""
    for option, reference in _references(encode(checked), ""):
        parts = reference.partition(":")[0].split(".")
        if not any(".".join(parts[:count]) in modules for count in range(1, len(parts) + 1)):
            expected = "a built-in name, or a function of a module in allow_tools_from (--allow-tools-from)"
            return Failure(InvalidConfig(option, repr(reference), expected))
    return Success(checked)


def _references(value: Json, option: str) -> Iterator[tuple[str, str]]:
    """Return the functions that a configuration names as ``module:function``."""
    if isinstance(value, dict):
        for key, item in value.items():
            place = f"{option}.{key}".lstrip(".")
            if key == "function" and isinstance(item, str) and item:
                yield place, item
            elif key in ("tools", "handoffs") and isinstance(item, list):
                yield from ((place, each) for each in item if isinstance(each, str) and ":" in each)
            else:
                yield from _references(item, place)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item, option)


def read_data(source: object, kind: type[T]) -> Result[T, ConfigErrors]:
    """Read a value of which no function is used, whatever functions it names."""
    if isinstance(source, Mapping):
        return _decoded(dict(source), kind)
    if not isinstance(source, str | Path):
        return Failure(InvalidConfig("config", abbreviated(source), f"{kind.__name__}, a mapping or a path"))
    if (wrong := wrong_path("config", source)) is not None:
        return Failure(wrong)
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except (OSError, ValueError) as error:
        return Failure(InvalidConfig("config", repr(str(path)), f"a readable text file ({error})"))
    parsed: Result[Any, DecodeError] = from_json(text, Json) if path.suffix == ".json" else _from_toml(text)
    if isinstance(parsed, Failure):
        return Failure(evolve(parsed.failure(), type_name=kind.__name__, file=path.name))
    return _decoded(parsed.unwrap(), kind, path.name)


def _decoded(document: Any, kind: type[T], file: str = "") -> Result[T, ConfigErrors]:
    """Decode a document in which ``mcp_servers`` of agents may be the path of a file."""
    try:
        if kind is AgentConfig:
            document = _with_listed_servers(document)
        elif has(kind) and isinstance(document, dict) and isinstance(document.get("domains"), list):
            document = {**document, "domains": [*map(_with_agent, document["domains"])]}  # of a persona
    except AgentError as error:
        return Failure(cast(ConfigErrors, error.error))
    return decode(document, kind).alt(lambda wrong: evolve(wrong, file=file))


def _with_agent(domain: Any) -> Any:
    has_agent = isinstance(domain, dict) and "agent" in domain
    return {**domain, "agent": _with_listed_servers(domain["agent"])} if has_agent else domain


def _with_listed_servers(agent: Any) -> Any:
    path = agent.get("mcp_servers") if isinstance(agent, dict) else None
    return {**agent, "mcp_servers": encode(load_mcp_servers(path))} if isinstance(path, str) else agent


def load_mcp_servers(path: str | Path) -> tuple[mcp.McpServer, ...]:
    """Return the MCP servers of an ``mcp.json``, as editors have it.

    Its object ``mcpServers`` has by name ``command``, ``args``, ``env`` and ``cwd``, or ``url`` and
    ``headers``, and other fields of :class:`McpServer`; ``type`` is the transport, and a server that is
    ``disabled`` is left out. In texts, ``${NAME}`` is that variable of the environment, and
    ``${NAME:-default}`` has a default for one that is not set or empty.

    Raises:
        AgentError: the file cannot be read, a field is wrong, or a variable is not set; the error names the
            file and the field.
    """
    return value_or_raise(read_mcp_servers(path))


_VARIABLE = lazy_pattern(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^}]*))?\}|[^}]*\}?)")
_TRANSPORTS: Mapping[str, str] = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamableHttp": "url",
}


def read_mcp_servers(path: str | Path) -> Result[tuple[mcp.McpServer, ...], ConfigErrors]:
    """Return the servers of :func:`load_mcp_servers`, or the error."""
    if (wrong_file := wrong_path("mcp_servers", path)) is not None:
        return Failure(wrong_file)
    read: Result[Any, ConfigErrors] = read_data(path, cast(Any, dict[str, Json]))
    if isinstance(read, Failure):
        unread = read.failure()
        return Failure(evolve(unread, option="mcp_servers") if isinstance(unread, InvalidConfig) else unread)
    listed, found = read.unwrap().get("mcpServers"), list[mcp.McpServer]()
    problems: list[FieldProblem] = []
    if not isinstance(listed, dict):
        problem = f"got {abbreviated(listed)}, expected an object of servers by their names"
        problems.append(FieldProblem("$.mcpServers", problem))
        listed = {}
    for name, given in listed.items():
        server = _read_server(name, given, path)
        if isinstance(server, Failure):
            problems += server.failure()
        else:
            found += server.unwrap()
    if problems:
        return Failure(DecodeError("list of MCP servers", tuple(problems), Path(path).name))
    return Success(tuple(found))


def _read_server(
    name: str, given: Json, path: str | Path
) -> Result[tuple[mcp.McpServer, ...], list[FieldProblem]]:
    """Return the server that a file lists, none for one that is disabled."""
    place, wrong = f"$.mcpServers.{name}", list[FieldProblem]()
    if not isinstance(given, dict):
        return Failure([FieldProblem(place, f"got {abbreviated(given)}, expected an object")])
    fields = {key: _expanded(item, f"{place}.{key}", wrong) for key, item in given.items()}
    kind, disabled = fields.pop("type", None), fields.pop("disabled", False)
    if kind is not None and _TRANSPORTS.get(str(kind)) not in fields:
        expected = f"one of {', '.join(_TRANSPORTS)}, with a command or a url"
        wrong.append(FieldProblem(f"{place}.type", f"got {abbreviated(kind)}, expected {expected}"))
    if not isinstance(disabled, bool):
        wrong.append(FieldProblem(f"{place}.disabled", f"got {abbreviated(disabled)}, expected a boolean"))
    elif disabled:
        return Success(())
    if "listed_in" in fields:
        wrong.append(FieldProblem(f"{place}.listed_in", "unknown field"))
    if wrong:
        return Failure(wrong)
    server = decode({"listed_in": os.path.abspath(path), "name": name, **fields}, mcp.McpServer)
    return server.map(lambda read: (read,)).alt(
        lambda error: [evolve(each, path=place + each.path[1:]) for each in error.problems]
    )


def _expanded(value: Json, place: str, problems: list[FieldProblem]) -> Json:
    """Return JSON data with the variables of the environment.

    ``problems``: receives what is wrong.
    """
    if isinstance(value, dict):
        return {key: _expanded(item, f"{place}.{key}", problems) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, f"{place}[{index}]", problems) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def known(match: re.Match[str]) -> str:
        name, has_default, default = match.groups()
        if found := os.environ.get(name or ""):
            return found
        if has_default or (name and name in os.environ):
            return default or ""
        expected = f"the variable {name} to be set, or " if name else "${NAME} or "
        problems.append(FieldProblem(place, f"got {match[0]!r}, expected {expected}${{NAME:-default}}"))
        return ""

    return _VARIABLE.sub(known, value)


def _from_toml(text: str) -> Result[Any, DecodeError]:
    import tomllib

    try:
        return Success(tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        return Failure(DecodeError("", (FieldProblem("$", f"cannot be parsed: {error}"),)))


def _without_nothing(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nothing(item) for item in value]
    return value


# --- Which model a name means, and whose key goes with it ---


def name_model(
    known: config.ModelConfig, model: str, api_key: str | None = None, base_url: str | None = None
) -> config.ModelConfig:
    """Return the configuration with another model.

    Key and address stay only while the provider does: one provider's key never goes to another.

    Args:
        model: ``provider/model``, a model of the known provider, or a provider alone for its default model.
    """
    provider = known.provider or provider_of(known.model)
    if "/" not in model and default_model(model):
        return name_provider(known, model, api_key, base_url)
    named = provider_of(model) if is_well_known(provider_of(model)) else ""
    kept = known if not named or named == provider else _without_access(known)
    return evolve(
        kept,
        provider="" if named else known.provider,
        model=model,
        api_key=api_key or kept.api_key,
        base_url=kept.base_url if base_url is None else base_url,
    )


def name_provider(
    known: config.ModelConfig, provider: str, api_key: str | None = None, base_url: str | None = None
) -> config.ModelConfig:
    """Return the configuration with another provider and its default model."""
    own = known.provider or provider_of(known.model)
    kept = known if own in ("", provider) else evolve(_without_access(known), model="")
    address = kept.base_url if base_url is None else base_url
    return evolve(kept, provider=provider, api_key=api_key or kept.api_key, base_url=address)


def _without_access(known: config.ModelConfig) -> config.ModelConfig:
    return evolve(known, api_key=None, base_url=None)
