"""Random draws that follow from a text: the same text gives the same draws, another one gives others."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from math import cos, log, pi, sqrt


def beta_draw(successes: float, failures: float, seed: str) -> float:
    """A draw of the Beta distribution, between 0 and 1.

    Args:
        successes: its first parameter, 1 or more.
        failures: its second parameter, 1 or more.
        seed: what the draw follows from.
    """
    uniforms = _uniforms(seed)
    one, other = _gamma(successes, uniforms), _gamma(failures, uniforms)
    return one / (one + other)


def _uniforms(seed: str) -> Iterator[float]:
    """Numbers above 0 and below 1, without end."""
    for number in count():
        digest = sha256(f"{number}:{seed}".encode(errors="replace")).digest()
        yield (int.from_bytes(digest[:6]) + 0.5) / 2**48


def _gamma(shape: float, uniforms: Iterator[float]) -> float:
    """A draw of the Gamma distribution for shapes of 1 or more (Marsaglia and Tsang, 2000)."""
    d = shape - 1 / 3
    c = 1 / sqrt(9 * d)
    while True:
        normal = sqrt(-2 * log(next(uniforms))) * cos(2 * pi * next(uniforms))
        v = (1 + c * normal) ** 3
        if v > 0 and log(next(uniforms)) < normal * normal / 2 + d - d * v + d * log(v):
            return d * v
