# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic in suites: expressions of the names of axes, read by ``ast`` and never run as Python.

Numbers, texts, names, ``+ - * / // %``, comparisons, ``and or not``, ``a if b else c``, lists and
``min`` and ``max``.  There is no call of anything else, no attribute, no index and no power, and
every result is below 2^63, so that a text from elsewhere can neither do nor cost anything.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

__all__ = ["ExpressionError", "evaluate", "is_name", "names_in"]

_MOST_CHARACTERS = 200
_LARGEST = 2**63
_TEXT = re.compile(r"[\w\s.,+\-*/%<>=!()\[\]'\"]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a // b if _whole(a, b) and a % b == 0 else a / b,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


class ExpressionError(ValueError):
    """An expression that has no value; ``hint`` names what is spelled most like an unknown name."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


def is_name(text: object) -> bool:
    """Whether a text is one name."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


@lru_cache(4096)
def names_in(text: str) -> frozenset[str]:
    """Return the names that an expression reads; none for a text that is no expression."""
    tree = _parsed(text)
    if tree is None:
        return frozenset()
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(node.id for node in found if id(node) not in called)


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression.

    Parameters
    ----------
    text : str
    names : mapping
        Values of the names that it may read.

    Raises
    ------
    ExpressionError
        For what is no expression, an unknown name, a wrong operand, a division by zero, or a
        result of 2^63 or more.
    """
    tree = _parsed(text)
    if tree is None:
        raise ExpressionError(f"{text:.80} is no expression")
    try:
        return _value(tree, names)
    except (TypeError, ZeroDivisionError, OverflowError) as error:
        raise ExpressionError(f"{text}: {error}") from None


@lru_cache(4096)
def _parsed(text: str) -> ast.expr | None:
    """Return the tree of an expression, or None for another text."""
    if len(text) > _MOST_CHARACTERS or not _TEXT.fullmatch(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as «invalid decimal literal»
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    reader = _READERS.get(type(node))
    if reader is None:
        wanted = "numbers, names, + - * / // %, comparisons, min and max"
        raise ExpressionError(f"{ast.unparse(node):.80} is not allowed; {wanted} are")
    found = reader(node, names)
    if isinstance(found, int | float) and not abs(found) < _LARGEST:
        raise ExpressionError(f"{ast.unparse(node):.80} is too large")
    return found


def _constant(node: ast.Constant, names: Mapping[str, Any]) -> Any:
    if not isinstance(node.value, bool | int | float | str):
        raise ExpressionError(f"{node.value!r:.80} is not allowed")
    return node.value


def _name(node: ast.Name, names: Mapping[str, Any]) -> Any:
    if node.id in names:
        return names[node.id]
    near = get_close_matches(node.id, list(names), 1)
    hint = f"did you mean {near[0]}?" if near else ""
    raise ExpressionError(f"{node.id}, which is no axis", hint)


def _binary(node: ast.BinOp, names: Mapping[str, Any]) -> Any:
    apply = _BINARY.get(type(node.op))
    if apply is None:
        raise ExpressionError(f"{ast.unparse(node):.80}: only + - * / // % are allowed")
    return apply(*_numbers(node, _value(node.left, names), _value(node.right, names)))


def _unary(node: ast.UnaryOp, names: Mapping[str, Any]) -> Any:
    apply = _UNARY.get(type(node.op))
    if apply is None:
        raise ExpressionError(f"{ast.unparse(node):.80} is not allowed")
    operand = _value(node.operand, names)
    return apply(operand if isinstance(node.op, ast.Not) else _numbers(node, operand)[0])


def _boolean(node: ast.BoolOp, names: Mapping[str, Any]) -> Any:
    found = None
    for part in node.values:
        found = _value(part, names)
        if bool(found) is isinstance(node.op, ast.Or):
            break
    return found


def _comparison(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for kind, part in zip(node.ops, node.comparators, strict=True):
        apply, right = _COMPARISONS.get(type(kind)), _value(part, names)
        if apply is None:
            raise ExpressionError(f"{ast.unparse(node):.80} is not allowed")
        if not apply(left, right):
            return False
        left = right
    return True


def _choice(node: ast.IfExp, names: Mapping[str, Any]) -> Any:
    return _value(node.body if _value(node.test, names) else node.orelse, names)


def _call(node: ast.Call, names: Mapping[str, Any]) -> Any:
    function = _FUNCTIONS.get(node.func.id) if isinstance(node.func, ast.Name) else None
    if function is None or node.keywords or len(node.args) < 2:
        raise ExpressionError(f"{ast.unparse(node):.80}: only min and max of two or more are known")
    return function(*_numbers(node, *(_value(part, names) for part in node.args)))


def _sequence(node: ast.Tuple | ast.List, names: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(_value(part, names) for part in node.elts)


_READERS: dict[type[ast.expr], Callable[..., Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _comparison,
    ast.IfExp: _choice,
    ast.Call: _call,
    ast.Tuple: _sequence,
    ast.List: _sequence,
}


def _numbers(node: ast.expr, *values: Any) -> Sequence[Any]:
    for value in values:
        if not isinstance(value, int | float):
            raise ExpressionError(f"{ast.unparse(node):.80}: {value!r:.40} is no number")
    return values


def _whole(*values: Any) -> bool:
    return all(isinstance(value, int) for value in values)
