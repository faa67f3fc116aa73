# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten's quantised values: integers with scale and zero point."""

from __future__ import annotations

from collections.abc import Callable

from ....graph_api.tensor import Scalar, Tensor
from .call import AtenOp, Built, Call, Family, Quantised

__all__ = ["OPS"]


def _made(c: Call) -> Built:
    return Quantised(c.tensor("self"), c.operand("scale"), c.operand("zero_point"))


def _made_by_channel(c: Call) -> Built:
    rank = len(c.type("self").dims)
    axis = c.axis("axis", rank)

    def along(name: str) -> Tensor:
        (count,) = c.type(name).graph_dims
        return c.shaped(
            c.tensor(name), tuple(count if i == axis else 1 for i in range(rank)) or (1,)
        )

    return Quantised(c.tensor("self"), along("scale"), along("zero_point"), axis)


def _plain(c: Call) -> Tensor:
    q = c.quantised("self")
    return _scaled(c, q.tensor, q.scale, q.zero_point)


def _scaled(c: Call, x: Tensor, scale: Scalar | Tensor, zero: Scalar | Tensor) -> Tensor:
    """Return ``(x - zero) · scale``, the difference exact in the compute type."""
    if isinstance(zero, Tensor) or zero != 0:
        x = c.pointwise("sub", x, zero)
    return c.pointwise("mul", x, scale)


def _integers(c: Call) -> Tensor:
    return c.quantised("self").tensor


def _row(operands: str, build: Callable[[Call], Built]) -> AtenOp:
    return AtenOp(tuple(operands.split()), build, Family.POINTWISE)


OPS: dict[str, AtenOp] = {
    "aten._make_per_tensor_quantized_tensor": _row("self scale zero_point", _made),
    "aten._make_per_channel_quantized_tensor": _row("self scale zero_point axis", _made_by_channel),
    "aten.dequantize.self": _row("self", _plain),
    "aten.dequantize.tensor": _row("self", _plain),
    "aten.int_repr": _row("self", _integers),
}
