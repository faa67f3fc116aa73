# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Multiplication of blocks of elements by one scale each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports
from .fields import Absent, Field, Kind, inputs, outputs


@dataclass(frozen=True, kw_only=True)
class BlockScaleDequantize(Op):
    """y = x · scale, one scale for each block of elements.

    Attributes
    ----------
    block_size : tuple of int or None
        Elements of a block in each dim; one number is the size along the one dim in which
        scale is smaller than x; empty: ``resolve`` derives it from the dims.
    is_negative_scale : bool
        hipDNN does not define it; it is kept, and no engine serves it.
    """

    block_size: tuple[int, ...] | None = None
    is_negative_scale: bool = False

    NAME: ClassVar[str] = "block_scale_dequantize"
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"), Port("scale"))
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    RULES: ClassVar[Mapping[str, str]] = {
        "BLOCKD-01": "scale has x's rank, and each of its dims divides x's",
        "BLOCKD-02": "block sizes are those that follow from the dims of x and scale",
        "BLOCKD-03": "scale holds floats, x holds numbers, and the compute type is a floating one",
    }
    TYPE_NAME: ClassVar[str] = "BlockScaleDequantizeAttributes"
    WIRE_CODE: ClassVar[int | None] = 13
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x", "scale"),
        *outputs("y"),
        Field(name="block_size", kind=Kind.INTS, bits=32, absent=Absent.OMITTED),
        Field(name="is_negative_scale", kind=Kind.BOOL, default=False),
    )

    def check(self, t: Ports) -> Iterator[Problem]:
        x, scale = t.dims("x"), t.dims("scale")
        if not t["scale"].data_type.is_float:
            yield t.problem("BLOCKD-03", "scale", t["scale"].data_type.json, "a floating type")
        if t["x"].data_type.is_bool:
            yield t.problem("BLOCKD-03", "x", "boolean", "floats or integers")
        if not t.compute.is_float:
            hint = 'pass compute_data_type="float"'
            got = t.compute.json
            yield t.problem("BLOCKD-03", "compute_data_type", got, "a floating type", hint)
        if len(scale) != len(x) or any(m % n for m, n in zip(x, scale, strict=True)):
            wanted = f"divisors of x's dims {list(x)}"
            yield t.problem("BLOCKD-01", "scale", f"dims {list(scale)}", wanted)
            return
        sizes = _sizes(x, scale)
        given = self.block_size or sizes
        along = [n for n in sizes if n > 1]
        if given != sizes and not (len(given) == 1 and along in ([], [given[0]])):
            wanted = f"{list(sizes)}, x's dims over scale's"
            yield t.problem("BLOCKD-02", "block_size", list(given), wanted)

    def settle(self, t: Ports) -> Self:
        return replace(self, block_size=_sizes(t.dims("x"), t.dims("scale")))

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"y": Inferred(dims=t.dims("x"))}

    def follows(self, at: Axis) -> Follows:
        other = "scale" if at.port == "x" else "x"
        alone = at.port == "x" and at.dims[other][at.axis] == 1
        same = at.mark(other, at.axis) == at.mark(at.port, at.axis)
        return at.to() if alone or same else "blocks along it have one scale"


def _sizes(x: tuple[int, ...], scale: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(m // n for m, n in zip(x, scale, strict=True))


def block_scale_dequantize(
    graph: OpSink,
    x: Tensor,
    scale: Tensor,
    *,
    block_size: int | Sequence[int] | None = None,
    is_negative_scale: bool = False,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Multiply blocks of a tensor by one scale each: y = x · scale.

    The inverse of ``block_scale_quantize``; blocks may span several dims.

    Parameters
    ----------
    x : Tensor
        Any rank and layout; FP8, FP6, FP4, INT4 or any other numbers.
    scale : Tensor
        x's rank; the number of blocks in each dim.  FP8_E8M0 for the MX types.
    block_size : int or sequence of int, optional
        Elements of a block in each dim, or along the one dim that has blocks; the dims of x and
        scale say the same.
    is_negative_scale : bool
        A parameter that hipDNN does not define; no engine serves it.
    compute_data_type : DataType or str
        Floating type to compute in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y, x's dims, in the layout of ``x`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (BLOCKD-…).
    """
    node = arguments.label(name, BlockScaleDequantize.NAME)
    sizes = None
    if block_size is not None:
        sizes = arguments.integers(block_size, port="block_size", node=node)
    negative = arguments.flag(is_negative_scale, port="is_negative_scale", node=node)
    op = BlockScaleDequantize(block_size=sizes or None, is_negative_scale=negative)
    made = graph.add_node(op, {"x": x, "scale": scale}, compute=compute_data_type, name=name)
    return made["y"]
