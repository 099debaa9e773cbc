"""The table of well-known providers: variables, default models, notes."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from attrs import frozen

from reactive_agents.core.values import Value

NO_MODEL = "none"
"""The name of the model of a workflow that asks none."""


@frozen(eq=False, repr=False)
class Provider(Value):
    """A provider of models.

    Attributes:
        name: the prefix of model strings.
        variables: required environment variables; one of each group is enough, the first is the usual one.
        default_model: a capable and affordable model with tool calls; ``None`` if only the user can know.
        local: whether it runs on the user's machine.
        ambient: whether credentials may also come from files or the machine's role, so that a missing
            variable proves nothing.
    """

    name: str
    variables: tuple[tuple[str, ...], ...] = ()
    default_model: str | None = None
    note: str = ""
    local: bool = False
    ambient: bool = False

    def missing(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unset variables, each group by its first name."""
        return tuple(group[0] for group in self.variables if not any(environment.get(name) for name in group))


PROVIDERS: tuple[Provider, ...] = (
    Provider("offline", (), "offline/quotes", "Needs no key and no network.", local=True),
    Provider("openai", (("OPENAI_API_KEY",),), "openai/gpt-5.4-mini"),
    Provider("anthropic", (("ANTHROPIC_API_KEY",),), "anthropic/claude-sonnet-5"),
    Provider("gemini", (("GEMINI_API_KEY", "GOOGLE_API_KEY"),), "gemini/gemini-flash-latest"),
    Provider("mistral", (("MISTRAL_API_KEY",),), "mistral/mistral-medium-latest"),
    Provider("groq", (("GROQ_API_KEY",),), "groq/openai/gpt-oss-120b"),
    Provider("deepseek", (("DEEPSEEK_API_KEY",),), "deepseek/deepseek-v4-flash"),
    Provider("xai", (("XAI_API_KEY",),), "xai/grok-4.5-latest"),
    Provider("openrouter", (("OPENROUTER_API_KEY",),), "openrouter/openrouter/auto"),
    Provider("together_ai", (("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),), "together_ai/openai/gpt-oss-120b"),
    Provider(
        "fireworks_ai",
        (("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),),
        "fireworks_ai/accounts/fireworks/models/deepseek-v4-flash",
    ),
    Provider("cohere", (("COHERE_API_KEY", "CO_API_KEY"),), "cohere/command-a-03-2025"),
    Provider("cerebras", (("CEREBRAS_API_KEY",),), "cerebras/gpt-oss-120b"),
    Provider("moonshot", (("MOONSHOT_API_KEY",),), "moonshot/kimi-k2.6"),
    Provider("dashscope", (("DASHSCOPE_API_KEY",),), "dashscope/qwen-plus"),
    Provider("deepinfra", (("DEEPINFRA_API_KEY",),), "deepinfra/meta-llama/Llama-3.3-70B-Instruct-Turbo"),
    Provider(
        "azure",
        (("AZURE_API_KEY",), ("AZURE_API_BASE",)),
        None,
        "The model is the name of your deployment: azure/<deployment>.",
    ),
    Provider(
        "bedrock",
        (("AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE"),),
        "bedrock/amazon.nova-pro-v1:0",
        "Any source of AWS credentials will do; needs the boto3 package.",
        ambient=True,
    ),
    Provider(
        "vertex_ai",
        (("VERTEXAI_PROJECT",), ("VERTEXAI_LOCATION",)),
        "vertex_ai/gemini-2.5-flash",
        "Takes Google's application default credentials; needs the google-auth package.",
        ambient=True,
    ),
    Provider(
        "ollama",
        (),
        "ollama/qwen3",
        "Address from OLLAMA_API_BASE, by default http://localhost:11434.",
        local=True,
    ),
)

_BY_NAME: dict[str, Provider] = {provider.name: provider for provider in PROVIDERS}
_BY_NAME["ollama_chat"] = _BY_NAME["ollama"]  # litellm's name for its better protocol
_FAMILIES: dict[str, tuple[str, ...]] = {
    "openai": ("gpt-", "chatgpt-", "o1", "o3", "o4"),
    "anthropic": ("claude-",),
    "gemini": ("gemini-",),
    "mistral": ("mistral-", "magistral-"),
    "deepseek": ("deepseek-",),
    "xai": ("grok-",),
    "cohere": ("command-",),
    "moonshot": ("kimi-",),
}
"""The providers of models that are named without one, by the beginnings of their names."""


def default_model(provider: str) -> str | None:
    """Return the default model of a provider; ``None`` if there is none."""
    known = _BY_NAME.get(provider)
    return known.default_model if known is not None else None


def missing_variables(model: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the missing variables without which a request to the model must fail.

    Args:
        model: as ``provider/model``; nothing is missing for an unknown provider, or one that finds
            credentials outside of the environment.
        environment: names and values of the variables that are set; an empty value counts as not set.
    """
    known = _BY_NAME.get(provider_of(model))
    return () if known is None or known.ambient else known.missing(environment)


def key_in(model: str, environment: Mapping[str, str]) -> str:
    """Return the key of a model's provider in the environment, or an empty text."""
    known = _BY_NAME.get(provider_of(model))
    names = [name for group in known.variables[:1] for name in group] if known is not None else []
    names.append(f"{provider_of(model).upper()}_API_KEY")
    return next((environment[name] for name in names if environment.get(name)), "")


def is_well_known(provider: str) -> bool:
    """Return whether the provider is in the table."""
    return provider in _BY_NAME


def is_local(model: str) -> bool:
    """Return whether the model, as ``provider/model``, runs on the user's machine."""
    known = _BY_NAME.get(provider_of(model))
    return known is not None and known.local


def provider_of(model: str) -> str:
    """Return the provider of a model string; empty if there is none."""
    provider, slash, _ = model.partition("/")
    return provider if slash else ""


def qualified_model(provider: str, model: str) -> str:
    """Return the model as ``provider/model``.

    Args:
        provider: the configured provider; empty if the model's name contains it.
        model: with or without the provider; empty for the provider's default model.

    Returns the model unchanged if its provider is unknown, and an empty text if there is no model.
    """
    if not model:
        return default_model(provider) or ""
    if provider:
        return model if model.startswith(f"{provider}/") else f"{provider}/{model}"
    if "/" in model:
        return model
    family = next((owner for owner, starts in _FAMILIES.items() if model.startswith(starts)), "")
    return f"{family}/{model}" if family else model


def alternative_model(provider: str, model: str) -> str:
    """Return the full name of a fallback or of the model of a request.

    A name with a slash is already a full model string; one without belongs to the configured provider.
    """
    return model if "/" in model else qualified_model(provider, model)


def server_address(model: str, base_url: str | None, environment: Mapping[str, str]) -> str:
    """Return the URL of a model's server without credentials.

    Empty for the provider's default URL.

    Args:
        model: as ``provider/model``.
        base_url: the configured URL; by default that of the provider's environment variable.
        environment: names and values of the variables that are set.
    """
    prefix = provider_of(model).upper().removesuffix("_CHAT")
    named = (f"{prefix}_API_BASE", f"{prefix}_BASE_URL")
    given = base_url or next((environment[name] for name in named if environment.get(name)), "")
    try:
        parts = urlsplit(given)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2].lower()
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
