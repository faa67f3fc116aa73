# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Between memory (function arguments) and logical dims (what lowerings see)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

from torch_mlir import ir

from ...graph_api.dtypes import DataType
from ...graph_api.layout import Layout, byte_runs, runs
from ...graph_api.tensor import TensorSpec
from . import narrow
from .builder import Builder, T, Value
from .dims import sizes
from .scatter import scatter

__all__ = ["argument", "argument_shape", "channels_last", "contents", "store", "to_logical"]


def argument_shape(spec: TensorSpec) -> tuple[int, ...]:
    """Return the shape of the function argument for a tensor with a buffer."""
    layout = spec.layout
    if layout.padded:
        return (layout.span,)
    dims = sizes(spec)
    return tuple(1 if axis in layout.broadcast else dims[axis] for axis in layout.order)


def argument(spec: TensorSpec) -> tuple[tuple[int, ...], DataType]:
    """Return shape and type of the function argument; types below 8 bits are flat bytes."""
    shape = argument_shape(spec)
    if spec.data_type.bits < 8:
        return (spec.data_type.nbytes(prod(shape)),), DataType.UINT8
    return shape, spec.data_type


def to_logical(b: Builder, given: Value, spec: TensorSpec) -> Value:
    """Return an argument with the tensor's logical dims."""
    layout = spec.layout
    if spec.data_type.bits < 8:
        shape = argument_shape(spec)
        given = b.reshape(narrow.unpack(b, given, prod(shape), spec.data_type), shape)
    value = _without_gaps(b, given, layout) if layout.padded else given
    inverse = [layout.order.index(axis) for axis in range(len(spec.dims))]
    logical = b.expand(b.permute(value, inverse), sizes(spec))
    return replace(logical, order=layout.order, repeated=bool(layout.broadcast), argument=True)


def contents(b: Builder, spec: TensorSpec, output: Any) -> tuple[Value, tuple[int, ...]]:
    """Return what a dense output holds, in memory order, and the order.

    All of it must be overwritten: the compiler is given the memory (``iree.abi.consume``, W-120).
    """
    shape, dtype = argument(spec)
    function, number = output.owner.owner, output.arg_number
    marks = [ir.DictAttr.get({}) for _ in output.owner.arguments]
    if "arg_attrs" in function.attributes:
        marks = list(function.attributes["arg_attrs"])
    marks[number] = ir.DictAttr.get({"iree.abi.consume": ir.UnitAttr.get()})
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
    held = T.CopyToValueTensorOp(output, results=[b.type(shape, dtype)]).result
    return Value(held, shape, dtype), spec.layout.order


def store(b: Builder, value: Value, spec: TensorSpec, output: Any, zero: Any) -> None:
    """Write a logical value to an output: in the order of its memory, packed, around its gaps.

    ``zero`` is an index that `scatter.zero` has made for an output with gaps.
    """
    bits, layout = spec.data_type.bits, spec.layout
    given = b.permute(value, layout.order)
    if bits < 8:
        given = narrow.pack(b, given)
    if layout.padded:
        (span,), _ = argument(spec)
        where = runs(layout) if bits >= 8 else byte_runs(layout, bits)
        assert where is not None, "IREE-05 declines it"
        given = scatter(b, given, where, span, zero)
    T.OverwriteTensorContentsOp(given.ssa, output)


def _without_gaps(b: Builder, flat: Value, layout: Layout) -> Value:
    """Return the elements of a padded tensor, which spans a flat argument, in memory order.

    The flat range is extended to full outer rows, seen as a block with one dim per stride, and
    the wanted part is sliced out; IREE turns this into loads with the right strides.
    """
    live = [(d, s) for d, s in zip(layout.shape, layout.strides, strict=True) if s and d > 1]
    if not live:
        return b.reshape(flat, layout.shape)
    if any(outer % inner for (_, outer), (_, inner) in pairwise(live)):
        return b.reshape(_row_by_row(b, flat, live), layout.shape)
    block = [live[0][0]]
    block += [outer // inner for (_, outer), (_, inner) in pairwise(live)]
    block.append(live[-1][1])
    value = b.pad(flat, [0], [prod(block) - layout.span])
    value = b.reshape(value, block)
    for axis, extent in enumerate([*(d for d, _ in live), 1]):
        value = b.slice(value, axis, 0, extent)
    return b.reshape(value, layout.shape)


def _row_by_row(b: Builder, flat: Value, live: Sequence[tuple[int, int]]) -> Value:
    """Return the elements, by extent and stride of each dim, where no block has all strides.

    Of rows whose pitch is no multiple of the distance of their elements, say: each is cut to what
    lies within it before the next dim is looked at.
    """
    value = flat
    for extent, stride in live:
        *outer, span = value.shape
        last = span - (extent - 1) * stride
        value = b.pad(value, [0], [stride - last])
        value = b.slice(b.reshape(value, [*outer, extent, stride]), len(outer) + 1, 0, last)
    return value


def channels_last(x: Value) -> bool:
    """Return whether the second dim of a value is known to be the innermost one."""
    return x.order == (0, *range(2, x.rank), 1)
