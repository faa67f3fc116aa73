# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements some way apart along the last dim, taken out of integers that hold several neighbours.

A CPU has no loads of every second element: the compiler makes a scalar load of each.  Neighbours
that are read together as an integer are told apart by a shift and a truncation, for which it has
instructions of whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from ...graph_api.dtypes import DataType
from .builder import Builder, Value
from .narrow import storage
from .structured import from_builtin, to_builtin

__all__ = ["combined_neighbours", "fits_integer", "with_neighbours"]

_INTEGERS = {32: DataType.INT32, 64: DataType.INT64}
# By whether elements are added, and whether they are floats.
_COMBINED = {
    (True, True): "arith.addf",
    (True, False): "arith.addi",
    (False, True): "arith.maximumf",
    (False, False): "arith.maxsi",
}


def fits_integer(dtype: DataType, count: int) -> bool:
    """Return whether so many neighbours, two at least, are an integer's bits."""
    return count > 1 and dtype.bits >= 8 and count * dtype.bits in _INTEGERS


def with_neighbours(b: Builder, x: Value, count: int) -> Value:
    """Return integers of ``count`` neighbours along the last dim, whose extent that divides."""
    kind = _INTEGERS[count * x.dtype.bits]
    shape = (*x.shape[:-1], x.shape[-1] // count)
    given = to_builtin(x)
    extents = [*given.type.shape[:-1], shape[-1]]
    result = ir.RankedTensorType.get(extents, ir.IntegerType.get_signless(kind.bits))
    # torch-mlir knows nothing of IREE's dialects
    ir.Context.current.allow_unregistered_dialects = True
    attributes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])}
    op = ir.Operation.create("iree_tensor_ext.bitcast", [result], [given], attributes)
    return from_builtin(b, op.result, shape, kind)


def combined_neighbours(
    b: Builder, seen: Sequence[tuple[Value, int]], dtype: DataType, result: DataType, *, added: bool
) -> Value:
    """Return the largest of some elements of integers of neighbours, or their sum.

    One op, as the compiler would give each way of taking elements out a dispatch of its own.

    Parameters
    ----------
    seen : sequence of (Value, int)
        Integers of one shape, and which of the neighbours is meant.
    dtype : DataType
        Type of the neighbours.
    result : DataType
        Type in which they are added; of the largest it is ``dtype``.
    added : bool
        Whether to add, instead of taking the largest; that is NaN where one is.
    """
    given = {v.ssa: v for v, _ in seen}
    shape = seen[0][0].shape
    operands = [to_builtin(v) for v in given.values()]
    start = to_builtin(b.literal(0, result, shape))
    wide, element = operands[0].type.element_type, start.type.element_type
    same = ir.AffineMapAttr.get(ir.AffineMap.get_identity(len(shape)))
    apart = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    op = ir.Operation.create(
        "linalg.generic",
        [start.type],
        [*operands, start],
        {
            "indexing_maps": ir.ArrayAttr.get([same] * (len(given) + 1)),
            "iterator_types": ir.ArrayAttr.get([apart] * len(shape)),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(given), 1]),
        },
        regions=1,
    )
    block = op.regions[0].blocks.append(*[wide] * len(given), element)
    combine = _COMBINED[added, dtype.is_float]
    integers = dict(zip(given, block.arguments, strict=False))  # the last one is the result's
    with ir.InsertionPoint(block):
        found = None
        for v, at in seen:
            one = _taken(integers[v.ssa], at, dtype)
            if one.type != element:
                one = ir.Operation.create("arith.extf", [element], [one]).result
            if found is not None:
                one = ir.Operation.create(combine, [element], [found, one]).result
            found = one
        ir.Operation.create("linalg.yield", operands=[found])
    return from_builtin(b, op.result, shape, result)


def _taken(integer: ir.Value, at: int, dtype: DataType) -> ir.Value:
    """Return one of the neighbours that are in an integer."""
    wide, bits = integer.type, ir.IntegerType.get_signless(dtype.bits)
    if at:
        amount = ir.IntegerAttr.get(wide, at * dtype.bits)
        shift = ir.Operation.create("arith.constant", [wide], attributes={"value": amount})
        integer = ir.Operation.create("arith.shrui", [wide], [integer, shift.result]).result
    found = ir.Operation.create("arith.trunci", [bits], [integer]).result
    if dtype.is_float:
        kind = ir.Type.parse(storage(dtype))
        found = ir.Operation.create("arith.bitcast", [kind], [found]).result
    return found
