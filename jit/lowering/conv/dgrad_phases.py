# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient of several groups by a convolution of dy for each phase of its strides, on CPUs.

No zero is multiplied, unlike with zeros between the elements of dy.  Everything is channels-last,
so that phases are interleaved by runs of channels.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ....graph_api.ops.conv_fprop import ConvFprop
from ...emit.builder import Builder, Value
from .dgrad_flipped import exchanged
from .direct_nhwc import channels_first, direct_nhwc_of_groups, rows_of_channels
from .im2col_gemm import channels_second
from .phases import Phase, joined, phases_of

__all__ = ["by_phases"]


def by_phases(
    b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType, *, last: bool
) -> Value:
    """Return dx; the filter is in the order of cross-correlation.

    ``last``: dy is laid out channels-last, as dx will be then.
    """
    dy, w = (b.convert(v, accumulate) for v in (dy, w))  # once, not for each phase
    dy = dy if last else rows_of_channels(b, dy)
    filter = b.materialise(exchanged(b, w, op.dx_dims[1] // w.shape[1]))
    extents = tuple(-(-n // s) for n, s in zip(op.dx_dims[2:], op.stride, strict=True))

    def part(phases: Sequence[Phase]) -> Value:
        return _phase(b, dy, filter, phases, extents, accumulate)

    whole = joined(b, op, phases_of(w.shape[2:], op), part)
    return channels_second(b, whole, whole.shape) if last else channels_first(b, whole)


def _phase(
    b: Builder,
    dy: Value,
    w: Value,
    phases: Sequence[Phase],
    extents: tuple[int, ...],
    accumulate: DataType,
) -> Value:
    """Return the elements of dx of one phase, (N, extents..., C)."""
    before, after = [], []
    shape = (dy.shape[0], *extents, w.shape[0])
    for axis, (phase, extent) in enumerate(zip(phases, extents, strict=True), 2):
        end = phase.start + extent + (phase.count - 1) * phase.dilation
        low, high = max(phase.start, 0), min(end, dy.shape[axis])
        if not phase.count or low >= high:
            return b.literal(0, accumulate, shape)
        before.append(low - phase.start)
        after.append(end - high)
        dy = b.slice(dy, axis, low, high)
        stop = phase.first + (phase.count - 1) * phase.step + 1
        w = b.slice(w, axis, phase.first, stop, phase.step)
    op = ConvFprop(
        pre_padding=tuple(before),
        post_padding=tuple(after),
        stride=(1,) * len(extents),
        dilation=tuple(phase.dilation for phase in phases),
        conv_mode=ConvMode.CONVOLUTION,
    )
    y = direct_nhwc_of_groups(b, dy, w, op, accumulate, last=True)
    return b.permute(y, (0, *range(2, y.rank), 1))
