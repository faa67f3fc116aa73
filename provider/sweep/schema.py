# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a suite file may hold: its keys and the types of their values.

``docs/reference/suite.schema.json`` is made from these classes; `suite` reads files by them.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert
from msgspec.structs import fields

from ...graph_api.dtypes import DataType

__all__ = [
    "DTYPE_SETS",
    "TYPE_WORDS",
    "CaseEntry",
    "DrawEntry",
    "IncludeEntry",
    "NodeEntry",
    "RangeEntry",
    "ResultEntry",
    "SuiteEntry",
    "TensorEntry",
    "checked",
    "keys",
    "resolved_type",
    "type_set",
    "typed_targets",
    "wide_type",
]

Extent = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]
Scalar = bool | int | float
Layout = Literal["contiguous", "channels_last"]
Words = str | list[str]

_FLOATS = (DataType.FLOAT, DataType.HALF, DataType.BFLOAT16, DataType.DOUBLE)
_INTEGERS = (DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64)
_FP8 = (
    DataType.FP8_E4M3,
    DataType.FP8_E5M2,
    DataType.FP8_E4M3_FNUZ,
    DataType.FP8_E5M2_FNUZ,
)
_PACKED_FLOATS = (DataType.FP4_E2M1, DataType.FP6_E2M3, DataType.FP6_E3M2)

DTYPE_SETS: dict[str, tuple[DataType, ...]] = {
    "floats": _FLOATS,
    "integers": _INTEGERS,
    "numbers": (*_FLOATS, *_INTEGERS),
    "fp8": _FP8,
    "packed": (DataType.INT4, *_PACKED_FLOATS),
    "narrow": (*_FP8, DataType.INT4, *_PACKED_FLOATS),
    "narrow_floats": (*_FP8, *_PACKED_FLOATS),
}
"""Words for several types in ``dtypes``; FP8_E8M0, without a zero or a sign, is in none of them."""

TYPE_WORDS: dict[str, str] = {
    "dtype": "the type that the case is built for",
    "wide": "the type in which sums of `dtype` are kept: double, float, int64 or int32",
    "sum": "`dtype` for floats, `wide` for integers",
}
"""Words for a type that depends on the one that the case is built for."""


# What msgspec calls things, in the words of the format.
_PLAIN = {
    "array": "a list",
    "object": "a mapping",
    "str": "a text",
    "int": "an integer",
    "Invalid enum value": "contiguous or channels_last, not",
}


class ResultEntry(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What is set on a result; a layout, an order and gaps need dims.

    Attributes
    ----------
    dims
        Logical dims.
    layout
        Memory order by its name.
    order
        Dims from outermost to innermost in memory.
    gaps
        Unused elements after each dim.
    strides
        In elements; instead of a layout, an order or gaps.
    type
        Element type: a name of hipDNN's, or `dtype`, `wide` or `sum`.
    """

    dims: Annotated[list[Extent], Meta(min_length=1)] | UnsetType = UNSET
    layout: Layout | UnsetType = UNSET
    order: list[Count] | UnsetType = UNSET
    gaps: list[Count] | UnsetType = UNSET
    strides: list[Count] | UnsetType = UNSET
    type: str = ""


class TensorEntry(ResultEntry, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """An input: its dims and how they are laid out, or the value of a scalar.

    Attributes
    ----------
    value
        Of a compile-time scalar.
    """

    value: Scalar | UnsetType = UNSET


class NodeEntry(Struct, omit_defaults=True, kw_only=True, rename={"in_": "in"}):
    """A call of a method of `Graph`; further keys are its keywords.

    Attributes
    ----------
    op
        The method.
    in_
        Operands in order: names, numbers, dims or tensors.
    out
        Names of the results; null for one that is not wanted.
    type
        Type of the results.
    """

    op: Name
    in_: Any = UNSET
    out: str | list[str | None] | UnsetType = UNSET
    type: str = ""


class RangeEntry(
    Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, rename={"from_": "from"}
):
    """The values of an axis, from one integer to another.

    Attributes
    ----------
    from_, to
        First value, and the largest; expressions of earlier axes as well.
    step
        What is added from one value to the next.
    times
        What is multiplied instead.
    log
        Whether small and large values are drawn equally often (with `random` only).
    """

    from_: int | str
    to: int | str
    step: int | str = 1
    times: Annotated[int, Meta(ge=2)] | None = None
    log: bool = False


class DrawEntry(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """How many points are drawn instead of taking all.

    Attributes
    ----------
    count
        How many.
    seed
        Equal seeds give equal points.
    """

    count: Annotated[int, Meta(ge=1, le=100_000)]
    seed: Count = 0


class IncludeEntry(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Other suites, and which of their problems are taken; a problem is a case in one type.

    Attributes
    ----------
    suites
        Files, or patterns of files, relative to this one.
    random
        How many problems are drawn of each file instead of taking all.
    where
        Expressions of `flops`, `bytes`, `op` and `dtype` that hold for the problems.
    """

    suites: Words
    random: Annotated[int, Meta(ge=1, le=100_000)] | DrawEntry | UnsetType = UNSET
    where: Words = []

    @property
    def patterns(self) -> list[str]:
        """The files."""
        return [self.suites] if isinstance(self.suites, str) else self.suites

    @property
    def takes_all(self) -> bool:
        """Whether all problems are taken."""
        return not self.where and self.random is UNSET

    @property
    def conditions(self) -> list[str]:
        """What holds for the problems."""
        return [self.where] if isinstance(self.where, str) else self.where


Axes = dict[str, str | list[Any] | RangeEntry]


class SharedEntry(Struct, omit_defaults=True, kw_only=True, rename={"for_": "for"}):
    """What a file, a group and a case can say; a case has all that is said around it.

    Attributes
    ----------
    tags
        What is special.
    dtypes
        Types that it is built for: names of hipDNN's, and `floats`, `integers`, `numbers`, `fp8`,
        `packed`, `narrow` or `narrow_floats`; or a mapping from targets to such types.
    targets
        Targets for which it makes sense; all by default.
    io
        Type of inputs and outputs; `dtype` by default.
    intermediate
        Type of intermediate tensors; the compute type by default.
    compute
        Type to compute in.
    for_
        Axes: a name, or several, and the values that are taken one after another.
    let
        Values that follow from axes, by name.
    where
        Expressions that hold for the points that are taken.
    random
        How many points are drawn instead of taking all.
    layouts
        A case for each: the layout of every tensor that says nothing of its own and has two
        extents above 1 at least.
    """

    tags: list[str] = []
    dtypes: Words | dict[str, Words] | UnsetType = UNSET
    targets: Words = []
    io: str | UnsetType = UNSET
    intermediate: str = ""
    compute: str = "wide"
    for_: Axes = {}
    let: dict[str, int | float | str] = {}
    where: bool | Words = []
    random: int | DrawEntry | UnsetType = UNSET
    layouts: list[Layout] | UnsetType = UNSET


class CaseEntry(SharedEntry, omit_defaults=True, kw_only=True, rename={"in_": "in", "for_": "for"}):
    """A problem, or a group of problems that share what is given beside `cases`.

    A case has nodes, or a graph file, or is one node of the file's op: then further keys are the
    ports and parameters of that op.

    Attributes
    ----------
    name
        Its own in the file; axes in braces, and those that it does not mention are appended.
    layout
        Of every tensor that says nothing of its own and has two extents above 1 at least.
    tensors
        Inputs, by name.
    results
        What is set on results, by name.
    nodes
        Calls in order.
    outputs
        Results that are outputs although a node reads them.
    graph
        A graph file, relative to the suite.
    op
        Method of `Graph` of a case of one node; the file's op by default.
    in_, out
        As of a node.
    cases
        Of a group.
    """

    name: Name | UnsetType = UNSET
    layout: Layout | UnsetType = UNSET
    tensors: dict[str, TensorEntry | list[Extent]] = {}
    results: dict[str, ResultEntry] = {}
    nodes: list[Any] | UnsetType = UNSET
    outputs: str | list[str] = []
    graph: Name | UnsetType = UNSET
    op: Name | UnsetType = UNSET
    in_: Any = UNSET
    out: str | list[str | None] | UnsetType = UNSET
    cases: list[Any] | UnsetType = UNSET


class SuiteEntry(
    SharedEntry,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    rename={"for_": "for"},
):
    """A file of cases.

    Attributes
    ----------
    title
        For tables.
    name
        With which the names of all cases begin.
    threads
        Of each engine; 0: its own choice.
    op
        The op that the cases are for; their names begin with it.
    sets
        Values of axes by name.
    include
        Further suites: files, or patterns of files, relative to this one, of which all problems
        or some are taken.
    cases
        Cases and groups of cases.
    """

    title: str = ""
    name: Name | UnsetType = UNSET
    threads: Count = 0
    op: Name | UnsetType = UNSET
    sets: dict[str, list[Any] | RangeEntry] = {}
    include: str | list[str | IncludeEntry] = []
    cases: list[Any] = []


@cache
def keys(kind: type[Struct]) -> dict[str, tuple[str, Any]]:
    """Return the keys of an entry, with the attribute that holds each and its type."""
    return {field.encode_name: (field.name, field.type) for field in fields(kind)}


def checked(kind: Any, value: Any) -> tuple[Any, str, str]:
    """Return the value as ``kind``; or None, where in it something is wrong, and what is wanted."""
    try:
        return convert(value, kind), "", ""
    except ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        wanted = text.removeprefix("Expected ").partition(", got")[0].replace("`", "")
        for word, plain in _PLAIN.items():
            wanted = wanted.replace(word, plain)
        return None, path.partition("[")[0].rstrip("`"), wanted


def wide_type(data_type: DataType) -> DataType:
    """Return the type in which sums of a type are usually kept."""
    if data_type.is_float:
        return DataType.DOUBLE if data_type is DataType.DOUBLE else DataType.FLOAT
    return DataType.INT64 if data_type is DataType.INT64 else DataType.INT32


def resolved_type(text: str, data_type: DataType) -> DataType:
    """Return the type that ``text`` names in a case that is built for ``data_type``.

    Raises
    ------
    ValueError
        For a text that names none.
    """
    if text == "dtype" or (text == "sum" and data_type.is_float):
        return data_type
    return wide_type(data_type) if text in TYPE_WORDS else DataType.parse(text)


def type_set(given: str | list[str]) -> tuple[DataType, ...]:
    """Return the types that ``dtypes`` names.

    Raises
    ------
    ValueError
        For a text that names none.
    """
    words = given.split() if isinstance(given, str) else given
    found = [DTYPE_SETS.get(word) or (DataType.parse(word),) for word in words]
    return tuple(dict.fromkeys(kind for some in found for kind in some))


def typed_targets(given: Any) -> dict[DataType, tuple[str, ...]]:
    """Return the types that ``dtypes`` names, each with the targets that it is limited to.

    Parameters
    ----------
    given : str, list of str, or mapping
        Types, or types by target.

    Raises
    ------
    AttributeError, TypeError, ValueError
        For what names none.
    """
    if not isinstance(given, dict):
        return dict.fromkeys(type_set(given), ())
    found: dict[DataType, tuple[str, ...]] = {}
    for target, words in given.items():
        for kind in type_set(words):
            found[kind] = (*found.get(kind, ()), str(target))
    return found
