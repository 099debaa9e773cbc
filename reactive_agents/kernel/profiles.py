"""Which context profile a run goes by: that of its model, with the overrides of its configuration."""

from __future__ import annotations

import re
from functools import cache

from attrs import asdict, evolve

from reactive_agents.core.config import (
    CONTEXT_PROFILES,
    ContextProfile,
    ContextProfileOverrides,
    ContextTier,
)

_NO_OVERRIDES = ContextProfileOverrides()
_LOCAL_RUNNERS = frozenset({"ollama", "ollama_chat", "lm_studio", "llamafile"})
_LOCAL_WORDS = frozenset({"nano", "tiny", "micro"})
_MID_WORDS = frozenset({"mini", "haiku", "flash", "lite", "small", "instant", "fast"})
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)b(?![a-z0-9])")
_LARGEST_LOCAL, _LEAST_LARGE = 15.0, 65.0  # billions of parameters
_FAMILIES: tuple[tuple[str, ContextTier], ...] = (
    (r"(?:phi|smollm|tinyllama|ministral|gemma)", "local"),
    (r"claude-(?:instant|[123](?![0-9]))", "large"),
    (r"claude-(?:\w+-)*(?:sonnet|opus)", "frontier"),
    (r"gpt-(?:[5-9]|[1-9]\d)(?!\d)", "frontier"),
    (r"gemini-(?:[\w.]+-)*pro", "frontier"),
    (r"grok-(?:[4-9]|[1-9]\d)", "frontier"),
    (r"o[13](?![a-z0-9])", "frontier"),
    (r"gpt-4(?:o|\.\d|-turbo)", "large"),
    (r"(?:mistral|pixtral)-large", "large"),
    (r"(?:deepseek|kimi|glm|grok|command-a|command-r-plus|nova-pro|nova-premier)", "large"),
    (r"qwen(?:[\d.]*)-(?:max|plus)", "large"),
)
"""Beginnings of names, after which the first that fits counts."""


@cache
def profile_for(model: str) -> ContextProfile:
    """The profile of a model, judged by its name alone; ``mid`` when the name says nothing.

    Args:
        model: as ``provider/model`` or without the provider. What runs on the user's own machine is
            ``local``; then the words for small models count, then the number of parameters, then the family.
    """
    return CONTEXT_PROFILES[_tier_of(model.lower())]


def merge_profile(baseline: ContextProfile, overrides: ContextProfileOverrides) -> ContextProfile:
    """The baseline, or the profile of the tier that the overrides name, with every field that they set."""
    if overrides == _NO_OVERRIDES:
        return baseline
    base = baseline if overrides.tier is None else CONTEXT_PROFILES[overrides.tier]
    return evolve(base, **{name: value for name, value in asdict(overrides).items() if value is not None})


def _tier_of(name: str) -> ContextTier:
    runner, _, _ = name.partition("/")
    words = set(re.split(r"[^a-z0-9.]+", name))
    if runner in _LOCAL_RUNNERS or words & _LOCAL_WORDS:
        return "local"
    sizes = [float(size) * int(experts or 1) for experts, size in _SIZE.findall(name)]
    if sizes and max(sizes) <= _LARGEST_LOCAL:
        return "local"
    if words & _MID_WORDS:
        return "mid"
    if sizes:
        return "large" if max(sizes) >= _LEAST_LARGE else "mid"
    for beginning, tier in _FAMILIES:
        if re.search(rf"(?<![a-z0-9]){beginning}", name):
            return tier
    return "mid"
