# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantisation to a narrow type with one scale per block of elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from .. import arguments
from ..dtypes import DataType
from ..errors import Problem
from ..layout import strides_in_order
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports, results
from .fields import Absent, Field, Kind, inputs, outputs


@dataclass(frozen=True, kw_only=True)
class BlockScaleQuantize(Op):
    """y = x / scale, one scale for each block of consecutive elements along a dim.

    Attributes
    ----------
    block_size : int or None
        Elements of a block.
    axis : int or None
        Dim that is divided into blocks; the last one when None.
    transpose : bool
        y and scale have that dim innermost in memory, unless strides are set.
    element, factor : DataType
        Types of y and scale, which the arithmetic depends on; ``settle`` reads them off the ports.
    """

    block_size: int | None = None
    axis: int | None = None
    transpose: bool = False
    element: DataType = DataType.UNSET
    factor: DataType = DataType.UNSET

    NAME: ClassVar[str] = "block_scale_quantize"
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"), Port("scale"))
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x", "scale": "x"}
    RULES: ClassVar[Mapping[str, str]] = {
        "BLOCKQ-01": "the axis is between -rank and rank - 1",
        "BLOCKQ-02": "the block size is at least 1 and divides x's extent along the axis",
        "BLOCKQ-03": "x holds floats, and the compute type is a floating one",
        "BLOCKQ-04": "y has a floating type of 8 bits or less with a sign",
        "BLOCKQ-05": "scale has a floating type",
    }
    TYPE_NAME: ClassVar[str] = "BlockScaleQuantizeAttributes"
    WIRE_CODE: ClassVar[int | None] = 14
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x"),
        *outputs("y", "scale"),
        Field(name="block_size", kind=Kind.INT, bits=32, absent=Absent.OMITTED),
        Field(name="axis", kind=Kind.INT, absent=Absent.OMITTED),
        Field(name="transpose", kind=Kind.BOOL, default=False),
    )

    def resolve(self, t: Ports) -> Self:
        rank = len(t.dims("x"))
        axis = rank - 1 if self.axis is None else self.axis
        return replace(self, axis=axis % rank if -rank <= axis < rank else axis)

    def settle(self, t: Ports) -> Self:
        # The strides that transpose asked for are those of y now.
        element, factor = t["y"].data_type, t["scale"].data_type
        return replace(self, transpose=False, element=element, factor=factor)

    def check(self, t: Ports) -> Iterator[Problem]:
        x = t.dims("x")
        if not t["x"].data_type.is_float:
            yield t.problem("BLOCKQ-03", "x", t["x"].data_type.json, "a floating type")
        if not t.compute.is_float:
            hint = 'pass compute_data_type="float"'
            got = t.compute.json
            yield t.problem("BLOCKQ-03", "compute_data_type", got, "a floating type", hint)
        assert self.axis is not None
        if not 0 <= self.axis < len(x):
            yield t.problem("BLOCKQ-01", "axis", self.axis, f"-{len(x)} to {len(x) - 1}")
            return
        extent = x[self.axis]
        if self.block_size is None or self.block_size < 1 or extent % self.block_size:
            wanted = f"a divisor of {extent}, x's extent along dim {self.axis}"
            yield t.problem("BLOCKQ-02", "block_size", self.block_size, wanted)

    def check_outputs(self, t: Ports) -> Iterator[Problem]:
        y, scale = t["y"].data_type, t["scale"].data_type
        if not y.is_float or y.bits > 8 or y is DataType.FP8_E8M0:
            hint = 'set it with set_data_type("fp8_e4m3")'
            yield t.problem("BLOCKQ-04", "y", y.json, "an fp8, fp6 or fp4 type", hint)
        if not scale.is_float:
            hint = 'set it with set_data_type("fp8_e8m0")'
            yield t.problem("BLOCKQ-05", "scale", scale.json, "a floating type", hint)

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        x, axis = t.dims("x"), self.axis
        assert axis is not None
        assert self.block_size is not None
        blocks = (*x[:axis], x[axis] // self.block_size, *x[axis + 1 :])
        order = (*(a for a in range(len(x)) if a != axis), axis)
        strides = [strides_in_order(d, order) if self.transpose else None for d in (x, blocks)]
        return {
            "y": Inferred(dims=x, strides=strides[0]),
            "scale": Inferred(dims=blocks, strides=strides[1], data_type=DataType.FP8_E8M0),
        }

    def follows(self, at: Axis) -> Follows:
        return "blocks along it have one scale" if at.axis == self.axis else at.to()


@results
class BlockScaleQuantizeResult(NamedTuple):
    """Results of ``Graph.block_scale_quantize``."""

    y: Tensor
    scale: Tensor


def block_scale_quantize(
    graph: OpSink,
    x: Tensor,
    *,
    block_size: int,
    axis: int | None = None,
    transpose: bool = False,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> BlockScaleQuantizeResult:
    """Quantise blocks of a tensor, each with a scale of its own: x ≈ y · scale.

    With scales of type FP8_E8M0 as in the OCP Microscaling Formats (MX) specification 1.0, section
    6.3: scale = 2^(⌊log2 max|x|⌋ - ⌊log2 largest(y)⌋).  With other types, such as FP8_E4M3 for
    NVFP4: scale = max|x| / largest(y), rounded to its type.  In both cases y = x / scale, rounded
    to nearest even; what is too large becomes the largest number.  A block of zeros has the
    smallest scale and y = 0.

    Parameters
    ----------
    x : Tensor
        Any rank and layout; finite floats.
    block_size : int
        Elements of a block: 32 for the MX types, 16 for NVFP4.  Divides the extent.
    axis : int, optional
        Dim that is divided into blocks; the last one by default.
    transpose : bool
        Lay y and scale out in memory with that dim innermost, as a matmul wants it.
    compute_data_type : DataType or str
        Floating type to compute in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    BlockScaleQuantizeResult
        y, x's dims, whose data type (FP8, FP6 or FP4) must be set; scale, x's dims with the
        number of blocks along the axis, FP8_E8M0 unless set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (BLOCKQ-…).
    """
    node = arguments.label(name, BlockScaleQuantize.NAME)
    op = BlockScaleQuantize(
        block_size=arguments.integer(block_size, port="block_size", node=node),
        axis=arguments.integer(axis, port="axis", node=node),
        transpose=arguments.flag(transpose, port="transpose", node=node),
    )
    made = graph.add_node(
        op, {"x": x}, outputs=("y", "scale"), compute=compute_data_type, name=name
    )
    return BlockScaleQuantizeResult(made["y"], made["scale"])
