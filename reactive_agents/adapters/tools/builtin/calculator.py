"""The ``calculator`` tool."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.core.errors import ToolErrors, ToolFailed

Number: TypeAlias = int | float | bool

_MAX_CHARS = 500
_MAX_BITS = 4_000  # of a whole number: about 1,200 digits
_MAX_FACTORIAL = 400
_WRITTEN_OTHERWISE = (
    "a part of the expression is not arithmetic; write 1000 and not 1,000, 2 * 3 and not 2(3), "
    "sum(1, 2) and not sum([1, 2])"
)


class CalculationError(ValueError):
    """The expression has no answer; the message says why."""


@tool(idempotent=True)
def calculator(expression: str) -> Result[Number, ToolErrors]:
    """Work out an arithmetic expression as written, such as "sqrt(2) * (3 + 4) ** 2".

    Operators: + - * / // % ** and comparisons; ^ is not a power, write **. Angles are in radians.
    Names: pi, e, tau. Functions: sqrt, cbrt, exp, log(x, base), log2, log10, sin, cos, tan, asin, acos, atan,
    atan2, sinh, cosh, tanh, degrees, radians, hypot, abs, round, floor, ceil, trunc, min, max, sum, gcd,
    factorial, pow.

    Args:
        expression: what to work out, at most 500 characters
    """
    from simpleeval import FeatureNotAvailable, InvalidExpression, OperatorNotDefined

    try:
        return Success(_evaluate(expression))
    except ZeroDivisionError as error:
        return _failed("division by zero", error)
    except OverflowError as error:
        return _failed("the result is too large", error)
    except SyntaxError as error:
        return _failed(f"not an arithmetic expression: {error.msg}", error)
    except (RecursionError, MemoryError) as error:
        return _failed("the expression is nested too deep", error)
    except OperatorNotDefined as error:
        return _failed("the operators are + - * / // % ** and comparisons", error)
    except FeatureNotAvailable as error:
        return _failed(_WRITTEN_OTHERWISE, error)
    except (InvalidExpression, ValueError, TypeError, AttributeError) as error:
        return _failed(str(error), error)


def _failed(detail: str, error: Exception) -> Failure[ToolErrors]:
    return Failure(ToolFailed("calculator", detail, type(error).__name__))


def _evaluate(expression: str) -> Number:
    from simpleeval import SimpleEval

    if len(expression) > _MAX_CHARS:
        raise CalculationError(
            f"the expression has {len(expression)} characters, expected at most {_MAX_CHARS}"
        )
    parsed = ast.parse(expression.strip(), mode="eval").body
    evaluator: Any = SimpleEval(operators=_OPERATORS, functions=_FUNCTIONS, names=_NAMES)
    evaluator.nodes = {kind: evaluator.nodes[kind] for kind in _NODES} | {ast.Constant: _constant}
    return _checked(evaluator.eval(expression, previously_parsed=parsed))


def _checked(value: object) -> Number:
    if not isinstance(value, int | float):
        kind = "a complex number" if isinstance(value, complex) else "not a number"
        raise CalculationError(f"the result is {kind}")
    if isinstance(value, float) and math.isnan(value):
        raise CalculationError("the result is undefined")
    if isinstance(value, float) and math.isinf(value):
        raise OverflowError
    return value


def _constant(node: ast.Constant) -> Number:
    if isinstance(node.value, int | float):
        return node.value
    raise CalculationError(f"{node.value!r} is not a number")


def _multiply(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        _refuse_bits(left.bit_length() + right.bit_length())
    return left * right


def _power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1:
        _refuse_bits(base.bit_length() * exponent)
    return base**exponent


def _factorial(number: int) -> int:
    if number > _MAX_FACTORIAL:
        raise OverflowError
    return math.factorial(number)


def _round(number: Number, digits: int | None = None) -> Number:
    if digits is not None and abs(digits) > _MAX_CHARS:
        raise CalculationError(f"round takes at most {_MAX_CHARS} digits")
    return round(number, digits)


def _sum(*numbers: Number) -> Number:
    return sum(numbers)


def _refuse_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise OverflowError


def _explain_caret(left: Number, right: Number) -> NoReturn:
    raise CalculationError("^ is not a power here, write ** instead")


_NODES = (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword, ast.Name)

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.BitXor: _explain_caret,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_NAMES: Mapping[str, Number] = {"pi": math.pi, "e": math.e, "tau": math.tau, "true": True, "false": False}

_FROM_MATH = (
    "sqrt cbrt exp log log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh degrees radians hypot "
    "floor ceil trunc gcd"
)

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {name: getattr(math, name) for name in _FROM_MATH.split()} | {
    "abs": abs,
    "round": _round,
    "min": min,
    "max": max,
    "sum": _sum,
    "factorial": _factorial,
    "pow": _power,
}
