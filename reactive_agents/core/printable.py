"""Texts of models, tools and files, made safe to print on a terminal."""

from __future__ import annotations

import re
from html import escape
from typing import Any, Final

LINE_CHARACTERS = 160

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)


def one_line(text: str) -> str:
    """Return the text as one printable line of at most 160 characters."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= LINE_CHARACTERS else flat[: LINE_CHARACTERS - 1] + "…"


def printable(text: str) -> str:
    """Return the text without the control characters that could steer a terminal.

    Those that turn the direction of a text, and invisible ones, are left out as well. Line breaks and tabs
    stay.
    """
    return _CONTROL.sub("", text)


# --- results of runs: one line, and HTML for notebooks, in which all texts are escaped ---------------------


_LONGEST_OUTPUT: Final = 20_000
_MOST_STEPS: Final = 100
_LONGEST_IN_LINE: Final = 100


def line_of(result: Any) -> str:
    """Return the result in a line: its output, why it is not complete, and figures."""
    output = repr(result.output)
    shown = output if len(output) <= _LONGEST_IN_LINE else f"{output[: _LONGEST_IN_LINE - 1]}…"
    reason = "" if result.success else f", reason={one_line(result.reason)!r}"
    return f"{type(result).__name__}({shown}{reason}, {figures_of(result.metadata)})"


def figures_of(figures: Any) -> str:
    """Return model calls, tokens, cost and duration."""
    calls = f"{figures.model_calls} model call{'' if figures.model_calls == 1 else 's'}"
    cost = f"${figures.cost_usd:.4f}{' or more' if figures.unpriced_calls else ''}"
    return f"{calls}, {figures.tokens_used} tokens, {cost}, {figures.duration_ms / 1000:.1f} s"


def html_of(result: Any) -> str:
    """Return the result as HTML: status, output, figures, and the steps folded up."""
    output = result.output if isinstance(result.output, str) else repr(result.output)
    rows = [_block("pre", output[:_LONGEST_OUTPUT], "white-space: pre-wrap; margin: 0.4em 0")]
    if not result.success:
        rows.insert(0, _block("p", result.reason, "margin: 0.4em 0"))
    steps = "".join(map(_step, result.steps[:_MOST_STEPS]))
    left_out = len(result.steps) - _MOST_STEPS
    more = f"<li>and {left_out} more</li>" if left_out > 0 else ""
    folded = f"<details><summary>{len(result.steps)} steps</summary><ol>{steps}{more}</ol></details>"
    head = _block("strong", result.status) + " " + _block("span", figures_of(result.metadata), "opacity: 0.7")
    return f"<div>{head}{''.join(rows)}{folded if result.steps else ''}</div>"


def _step(step: Any) -> str:
    return f"<li>{_block('em', step.type)} {_block('code', one_line(step.content))}</li>"


def _block(tag: str, text: str, style: str = "") -> str:
    attribute = f' style="{style}"' if style else ""
    return f"<{tag}{attribute}>{escape(printable(text))}</{tag}>"
