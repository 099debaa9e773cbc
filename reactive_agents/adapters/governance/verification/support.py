"""Which observation supports a claim. Adding an observation never takes support away."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import Decimal

from reactive_agents.adapters.governance.verification.claims import Claim
from reactive_agents.adapters.governance.verification.numbers import Number, rounds_to
from reactive_agents.adapters.governance.verification.observations import Observation, plain_words
from reactive_agents.core.governance import ClaimEvidence

_Found = tuple[str, str]


def evidence_for(claim: Claim, observations: Sequence[Observation]) -> ClaimEvidence:
    """The claim with the first observation that supports it, or without one."""
    found = _find(claim, observations)
    if found is None:
        return ClaimEvidence(claim.kind, claim.text, supported=False)
    return ClaimEvidence(claim.kind, claim.text, True, *found)


def _find(claim: Claim, observations: Sequence[Observation]) -> _Found | None:
    number = claim.number
    if number is not None:
        return (
            _first(observations, lambda seen: _same_number(number, seen))
            or _first(observations, lambda seen: _rounded(number, seen))
            or _calculated(number, observations)
        )
    words = plain_words(claim.text)
    if claim.kind == "quote":
        return _first(observations, lambda seen: seen.excerpt_of(words) if words in seen.words else None)
    if not words:
        return _first(observations, lambda seen: claim.text if claim.text in seen.text else None)
    if claim.kind == "number":
        exactly = re.compile(rf"(?<![0-9]){re.escape(claim.text)}(?![0-9])")
        dated = _first(observations, lambda seen: _place(exactly, seen))
        if dated is not None:
            return dated
    whole = _first(observations, lambda seen: seen.excerpt_of(words) if f" {words} " in seen.words else None)
    if whole is not None or claim.kind != "name":
        return whole
    parts = words.split(" ")
    return _first(
        observations,
        lambda seen: seen.excerpt_of(parts[-1]) if all(f" {part} " in seen.words for part in parts) else None,
    )


def _first(observations: Sequence[Observation], look: Callable[[Observation], str | None]) -> _Found | None:
    for seen in observations:
        excerpt = look(seen)
        if excerpt is not None:
            return seen.key, excerpt
    return None


def _place(pattern: re.Pattern[str], seen: Observation) -> str | None:
    match = pattern.search(seen.text)
    return seen.excerpt(*match.span()) if match else None


def _same_number(claimed: Number, seen: Observation) -> str | None:
    for value in (*claimed.values, *claimed.quantities):
        for number in seen.numbers.get(value, ()):
            if _fit(claimed, number):
                return seen.excerpt(number.start, number.end)
    return None


def _fit(claimed: Number, number: Number) -> bool:
    if claimed.dimension and number.dimension:
        return claimed.dimension == number.dimension and bool(
            set(claimed.quantities) & set(number.quantities)
        )
    if "share" in (claimed.dimension, number.dimension):
        return bool({*claimed.values, *claimed.quantities} & {*number.values, *number.quantities})
    return bool(set(claimed.values) & set(number.values))


def _rounded(claimed: Number, seen: Observation) -> str | None:
    if not claimed.decimals:
        return None
    half = Decimal(1).scaleb(-claimed.decimals) / 2
    for value in claimed.values:
        for scaled in dict.fromkeys((value, value * claimed.factor)):
            tolerance = half * (claimed.factor if scaled != value else 1)
            for index in range(bisect_left(seen.ordered, scaled - tolerance), len(seen.ordered)):
                if seen.ordered[index] > scaled + tolerance:
                    break
                for number in seen.numbers[seen.ordered[index]]:
                    if _is_rounded(claimed, number):
                        return seen.excerpt(number.start, number.end)
    return None


def _is_rounded(claimed: Number, number: Number) -> bool:
    same_unit = claimed.dimension == number.dimension and claimed.factor == number.factor
    return same_unit and any(
        rounds_to(exact, value, claimed.decimals) for exact in number.values for value in claimed.values
    )


def _calculated(claimed: Number, observations: Sequence[Observation]) -> _Found | None:
    """The sum, difference or ratio of two observed numbers that the claimed number is."""
    of_key = {value: seen.key for seen in reversed(observations) for value in seen.combined}
    values = sorted(of_key)
    half = Decimal(1).scaleb(-claimed.decimals) / 2 if claimed.decimals else Decimal(0)
    for target in claimed.values:
        for value in values:
            if (other := _within(values, target - value, half)) is not None:
                return of_key[value], f"{value} + {other} = {target}"
            if (other := _within(values, value - target, half)) is not None:
                return of_key[value], f"{value} - {other} = {target}"
    for target in dict.fromkeys((*claimed.values, *claimed.quantities)):
        share = half * claimed.factor if target in claimed.quantities else half
        for value in values:
            if value > 0 and (other := _within(values, target * value, share * value)) is not None:
                return of_key[other], f"{other} / {value} = {target}"
    return None


def _within(values: Sequence[Decimal], target: Decimal, tolerance: Decimal) -> Decimal | None:
    """The smallest of the sorted values that is as near to the target as the tolerance."""
    index = bisect_left(values, target - tolerance)
    if index < len(values) and values[index] <= target + tolerance:
        return values[index]
    return None
