"""What a docstring says about a function or a class and each of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from attrs import field, frozen


@frozen
class Documentation:
    """A docstring, taken apart.

    Attributes:
        text: the prose, without the sections on arguments, results and errors.
        arguments: what is said about each argument or attribute, by name, on one line.
    """

    text: str = ""
    arguments: Mapping[str, str] = field(factory=dict)


def read_docstring(docstring: str | None) -> Documentation:
    """The parts of a docstring in Google, numpy, reST or Epydoc style; all of it as prose when it is none."""
    if not docstring or not docstring.strip():
        return Documentation()
    from docstring_parser import ParseError, parse
    from docstring_parser.common import DocstringParam, DocstringRaises, DocstringReturns

    plain = inspect.cleandoc(docstring)
    try:
        parsed = parse(docstring)
    except ParseError:
        return Documentation(plain)
    if not any(isinstance(part, DocstringParam | DocstringReturns | DocstringRaises) for part in parsed.meta):
        return Documentation(plain)
    paragraphs = (parsed.short_description, parsed.long_description)
    return Documentation(
        text="\n\n".join(paragraph.strip() for paragraph in paragraphs if paragraph),
        arguments={
            parameter.arg_name: " ".join(parameter.description.split())
            for parameter in parsed.params
            if parameter.description
        },
    )
