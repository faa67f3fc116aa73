# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversion of what a script passes: plain Python values, or a ``GraphError`` at once.

NumPy's numbers are welcome; what JSON and the wire format could not hold is not.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TypeVar

from .dtypes import DataType
from .enums import ModeEnum
from .errors import GraphError
from .script_line import refused
from .values import Scalar, plain_number

__all__ = [
    "choice",
    "data_type",
    "flag",
    "integer",
    "integers",
    "label",
    "mode",
    "nearest",
    "real",
    "scalar",
    "shown",
    "suggestion",
    "text",
]

M = TypeVar("M", bound=ModeEnum)
_LEAST, _LARGEST = -(2**63), 2**63 - 1


def integers(values: object, *, port: str, node: str = "") -> tuple[int, ...]:
    """Return one integer, or several, as a tuple of int; a bool is no integer.

    hipDNN stores 64 bits, so nothing that needs more gets any further.
    """
    if isinstance(
        values, tuple | list
    ):  # nearly always; the question whether it is an array is slow
        items = tuple(values)
    else:
        items = tuple(values) if isinstance(values, Iterable) and _is_array(values) else (values,)
    kinds = set(map(type, items))
    try:
        if bool not in kinds:
            # operator.index takes NumPy integers and refuses floats and strings.
            found = items if kinds == {int} else tuple(map(operator.index, items))
            if not found or (min(found) >= _LEAST and max(found) <= _LARGEST):
                return found
    except TypeError:
        pass
    hint = "-1 stands for what is left, a dynamic dim too" if _dynamic(items) else ""
    raise _wrong("PARAM-01", values, "64-bit integers", port, node, hint)


def _dynamic(items: Iterable[object]) -> bool:
    # Only a DynamicDim has an example; its module imports this one.
    return any(hasattr(item, "example") for item in items)


def integer(value: object, *, port: str, node: str = "") -> int | None:
    """Return an integer as an int, and None as None."""
    if value is None or (type(value) is int and _LEAST <= value <= _LARGEST):
        return value
    found = integers(value, port=port, node=node)
    if len(found) != 1:
        raise _wrong("PARAM-01", value, "one 64-bit integer", port, node)
    return found[0]


def real(value: object, *, port: str, node: str = "") -> float | None:
    """Return a number as a float, and None as None; a bool is no number."""
    if value is None:
        return None
    number = plain_number(value)
    try:
        if number is not None and not isinstance(number, bool):
            return float(number)
    except OverflowError:
        pass
    raise _wrong("PARAM-05", value, "a number", port, node)


def scalar(value: object, *, port: str, node: str = "") -> Scalar:
    """Return a number as a plain bool, int or float."""
    number = plain_number(value)
    if number is None:
        raise _wrong("PARAM-05", value, "a bool, int or float", port, node)
    return number


def flag(value: object, *, port: str, node: str = "") -> bool:
    """Return a bool."""
    number = plain_number(value)
    if isinstance(number, bool):
        return number
    raise _wrong("PARAM-05", value, "True or False", port, node)


def text(value: object, *, port: str, node: str = "") -> str:
    """Return a string that UTF-8 can hold."""
    if isinstance(value, str):
        try:
            value.encode()
            return value
        except UnicodeEncodeError:  # half of a surrogate pair
            pass
    raise _wrong("PARAM-05", value, "a string of Unicode text", port, node)


def label(name: str, op: str) -> str:
    """Return what a node is called in messages: its name, or its op."""
    return text(name, port="name", node=op) or op


def data_type(value: DataType | str, *, port: str, node: str = "") -> DataType:
    """Return the DataType for a member or one of its spellings."""
    try:
        return DataType.parse(value)
    except ValueError:
        raise _unknown("PARAM-02", value, [t.json for t in DataType], port, node) from None


def mode(enum: type[M], value: M | str | int, *, port: str, node: str = "") -> M:
    """Return the member of a mode enum for a member or one of its spellings."""
    try:
        return enum.parse(value)
    except ValueError:
        raise _unknown("PARAM-04", value, [m.json for m in enum], port, node) from None


def choice(value: str, known: tuple[str, ...], *, port: str, node: str = "") -> str:
    """Return one of a few words."""
    if isinstance(value, str) and value in known:
        return value
    raise _unknown("PARAM-04", value, list(known), port, node)


def _is_array(values: object) -> bool:
    # An array without dims is a number, although its class can be iterated over.
    return not isinstance(values, str | bytes) and getattr(values, "shape", None) != ()


def _wrong(rule: str, got: object, wanted: str, port: str, node: str, hint: str = "") -> GraphError:
    told = {"got": shown(got), "wanted": wanted, "hint": hint}
    message = "an argument has the wrong type or spelling"
    return refused(message, rule=rule, node=node, port=port, **told)


def _unknown(rule: str, got: object, known: list[str], port: str, node: str) -> GraphError:
    return _wrong(rule, got, f"one of {', '.join(known)}", port, node, nearest(got, known))


# What other libraries call modes and types, and what that is here.
_ELSEWHERE = {
    **{"mean": "avg", "average": "avg", "sum": "add", "prod": "mul", "absmax": "amax"},
    **{"l1": "norm1", "l2": "norm2"},
    **{
        "maximum": "max_op",
        "minimum": "min_op",
        "where": "binary_select",
        "select": "binary_select",
    },
    **{"silu": "swish_fwd", "silu_backward": "swish_bwd", "cast": "identity", "iota": "gen_index"},
    **{"float8": "fp8_e4m3", "fp8": "fp8_e4m3", "float6": "fp6_e2m3", "float4": "fp4_e2m1"},
}


def nearest(word: object, known: Iterable[str]) -> str:
    """Return the question whether another word was meant; empty where none is like it.

    A word of other libraries (``mean``) is like that of ours which means the same (``avg``).
    """
    from difflib import get_close_matches

    if not isinstance(word, str):
        return ""
    names = {name.lower(): name for name in known}
    meant = _ELSEWHERE.get(word.lower())
    near = [meant] if meant in names else get_close_matches(word.lower(), names, n=1)
    return f"did you mean {names[near[0]]!r}?" if near else ""


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return `nearest` as the end of a sentence: ``"; did you mean 'relu'?"``, or nothing."""
    near = nearest(word, known)
    return f"; {near}" if near else ""


def shown(value: object) -> str:
    """Return ``repr`` of any value, on one line and of bearable length."""
    try:
        line = repr(value)
    except ValueError:  # an integer of more digits than Python is willing to print
        line = f"<{type(value).__name__} with too many digits>"
    return line if len(line) <= 80 else line[:77] + "..."
