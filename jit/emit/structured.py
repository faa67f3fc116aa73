# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of MLIR's linalg dialect, for what the Torch dialect cannot express.

A tensor leaves Torch's types for such an op and comes back after it, by the casts that torch-mlir's
own conversion makes; IREE takes such modules as it takes all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from ...graph_api.dtypes import DataType
from .builder import Builder, Value
from .dims import Dim
from .narrow import storage

__all__ = [
    "DEPTHWISE",
    "barrier",
    "depthwise",
    "from_builtin",
    "index",
    "inserted",
    "load_casts",
    "opaque",
    "sliced",
    "to_builtin",
]

DEPTHWISE = {1: "linalg.depthwise_conv_1d_nwc_wc", 2: "linalg.depthwise_conv_2d_nhwc_hwc"}
"""The depthwise convolution by the number of spatial dims."""


def load_casts(context: ir.Context) -> None:
    """Make a context know the casts between Torch's tensors and MLIR's own.

    W-038: the wheel registers their dialect only for passes that need it, so one is run on nothing.
    """
    with context, ir.Location.unknown():
        empty = ir.Module.create().operation
        PassManager.parse("builtin.module(torch-func-backend-type-conversion)").run(empty)


def depthwise(
    b: Builder, x: Value, w: Value, stride: Sequence[int], dilation: Sequence[int]
) -> Value:
    """Return the convolution of each channel with its own filter, without padding.

    Parameters
    ----------
    x : Value
        Input, dims (N, spatial..., C).
    w : Value
        Filters, dims (spatial..., C), of x's floating type.
    stride, dilation : sequence of int
        One value per spatial dim, of which there are one or two.

    Returns
    -------
    Value
        Dims (N, spatial..., C).
    """
    rank, dtype = len(stride), x.dtype
    image, filters = to_builtin(x), to_builtin(w)
    kind = image.type
    extents = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(kind.shape[1:-1], w.shape, stride, dilation, strict=False)
    ]
    zeros = to_builtin(b.literal(0, dtype, (kind.shape[0], *extents, kind.shape[-1])))
    element = kind.element_type
    numbers = ir.RankedTensorType.get([rank], ir.IntegerType.get_signless(64))
    op = ir.Operation.create(
        DEPTHWISE[rank],
        results=[zeros.type],
        operands=[image, filters, zeros],
        attributes={
            "strides": _numbers(stride, numbers),
            "dilations": _numbers(dilation, numbers),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1]),
        },
        regions=1,
    )
    block = op.regions[0].blocks.append(element, element, element)
    with ir.InsertionPoint(block):
        left, right, total = block.arguments
        term = ir.Operation.create("arith.mulf", [element], [left, right]).result
        total = ir.Operation.create("arith.addf", [element], [total, term]).result
        ir.Operation.create("linalg.yield", operands=[total])
    return from_builtin(b, op.result, tuple(zeros.type.shape), dtype)


def inserted(b: Builder, part: Value, whole: Value, place: Sequence[int]) -> Value:
    """Return a value with a part of it replaced, which is written there where it is computed.

    ``place``: where the part begins in each dim.
    """
    given = [to_builtin(v) for v in (part, whole)]
    attributes = _place(place, part.shape, [1, 1, 0, 0, 0])
    op = ir.Operation.create("tensor.insert_slice", [given[1].type], given, attributes)
    return from_builtin(b, op.result, whole.shape, whole.dtype)


def to_builtin(v: Value) -> ir.Value:
    """Return a value as a tensor of MLIR's own type, whose integers have no sign."""
    load_casts(ir.Context.current)
    element = ir.Type.parse(storage(v.dtype).removeprefix("s").removeprefix("u"))
    unknown = ir.ShapedType.get_dynamic_size()
    extents = [unknown if isinstance(extent, Dim) else extent for extent in v.shape]
    kind = ir.RankedTensorType.get(extents, element)
    return ir.Operation.create("torch_c.to_builtin_tensor", [kind], [v.ssa]).result


def from_builtin(b: Builder, ssa: Any, shape: tuple[int, ...], dtype: DataType) -> Value:
    """Return a tensor of MLIR's own type as a value."""
    made = ir.Operation.create("torch_c.from_builtin_tensor", [b.type(shape, dtype)], [ssa])
    return Value(made.result, shape, dtype)


def barrier(x: ir.Value, end: str) -> ir.Value:
    """Return a value that no op passes, at the ``"start"`` of what is computed apart or its end."""
    # torch-mlir knows nothing of IREE's dialects
    ir.Context.current.allow_unregistered_dialects = True
    name = f"iree_tensor_ext.compute_barrier.{end}"
    return ir.Operation.create(name, [x.type], [x]).result


def opaque(number: int) -> ir.Value:
    """Return an index that the compiler does not see, so that it is an argument of kernels.

    Kernels that differ in such numbers alone are compiled once.
    """
    ir.Context.current.allow_unregistered_dialects = True  # as in `barrier`
    known = index(number)
    return ir.Operation.create("util.optimization_barrier", [known.type], [known]).result


def index(number: int) -> ir.Value:
    """Return a number as an index."""
    kind = ir.IndexType.get()
    value = {"value": ir.IntegerAttr.get(kind, number)}
    return ir.Operation.create("arith.constant", [kind], attributes=value).result


def sliced(
    x: ir.Value,
    starts: Mapping[int, ir.Value],
    extents: Sequence[int],
    steps: Mapping[int, int] | None = None,
) -> ir.Value:
    """Return part of a tensor, which a kernel reads where it lies; from a known start it is copied.

    Parameters
    ----------
    x : ir.Value
    starts : mapping
        Where the part begins along some axes, as indices; along others at the first element.
    extents : sequence of int
        Of the part along all axes.  Dims of one element are left out of it.
    steps : mapping, optional
        Between its elements along some axes; 1 along others.
    """
    unknown, axes = ir.ShapedType.get_dynamic_stride_or_offset(), range(len(extents))
    attributes = _place(
        [unknown if axis in starts else 0 for axis in axes],
        extents,
        [1, len(starts), 0, 0],
        [(steps or {}).get(axis, 1) for axis in axes],
    )
    shape = [extent for extent in extents if extent > 1]
    kind = ir.RankedTensorType.get(shape, x.type.element_type)
    given = [x, *(starts[axis] for axis in sorted(starts))]
    return ir.Operation.create("tensor.extract_slice", [kind], given, attributes).result


def _place(
    offsets: Sequence[int],
    sizes: Sequence[int],
    segments: Sequence[int],
    strides: Sequence[int] | None = None,
) -> dict[str, ir.Attribute]:
    """Return the attributes of an op on part of a tensor, with so many operands of each kind."""
    numbers = ir.DenseI64ArrayAttr.get
    return {
        "static_offsets": numbers(offsets),
        "static_sizes": numbers(sizes),
        "static_strides": numbers(strides or [1] * len(sizes)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments),
    }


def _numbers(values: Sequence[int], kind: ir.Type) -> ir.Attribute:
    return ir.Attribute.parse(f"dense<{list(values)}> : {kind}")
