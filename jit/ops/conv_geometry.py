# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A forward convolution as it is about to be emitted, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..target import Target
from ..workarounds import strikes

if TYPE_CHECKING:
    from ...graph_api.ops.conv_fprop import ConvOp

__all__ = ["EXPLICIT_PADDING", "GEMM", "Convolution"]

Ints = tuple[int, ...]

EXPLICIT_PADDING = ("W-055", "W-056", "W-057", "W-058", "W-116", "W-124", "W-137")
"""The defects that are avoided by padding as a concatenation with zeros."""

GEMM = frozenset({"im2col_gemm", "row_im2col", "winograd"})
"""The strategies that make matmuls of a convolution, with the input channels-last."""


class Convolution(NamedTuple):
    """A forward convolution: that of a node, or one that a gradient is made of.

    Attributes
    ----------
    x, w : tuple of int
        Dims of input and filter.
    op : ConvOp
        Padding, stride and dilation.
    computed : bool
        Whether the input is computed, not an argument of the function.
    doubled : bool
        Whether two channels of it may be one and zeros (W-059).
    """

    x: Ints
    w: Ints
    op: ConvOp
    computed: bool = False
    doubled: bool = False

    @property
    def padding(self) -> list[tuple[int, int]]:
        """Zeros before and after each spatial dim."""
        return list(zip(self.op.pre_padding, self.op.post_padding, strict=True))

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return any(map(any, self.padding))

    @property
    def extents(self) -> Ints:
        """Spatial dims of the result."""
        return self.op.output_extents(self.x[2:], self.w[2:])

    @property
    def linear(self) -> bool:
        """Whether at most one spatial dim of input, filter and result is larger than 1."""
        dims = zip(self.x[2:], self.w[2:], self.extents, strict=True)
        return sum(max(sizes) > 1 for sizes in dims) <= 1

    def explicit_padding(self, target: Target) -> tuple[str, ...]:
        """Return the defects for which the padding is concatenated zeros."""
        if not self.padded:
            return ()
        return tuple(number for number in EXPLICIT_PADDING if strikes(number, target, self))
