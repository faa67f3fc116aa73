# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pooling and resizing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ....graph_api.enums import PaddingMode, ResampleMode, ResizeCoordinates
from ....graph_api.errors import Problem
from .torch_op import TYPES, Kernel, NodeContext, TorchOp, dtype


def _padded_inside(n: NodeContext) -> bool:
    """Whether PyTorch's own padding is the op's: even, and at most half of the window."""
    op = n.op
    return bool(op.pre_padding == op.post_padding) and all(
        2 * p <= w for p, w in zip(op.pre_padding, op.window, strict=True)
    )


def _problems(n: NodeContext) -> Iterator[Problem]:
    op, mode = n.op, n.op.resample_mode
    if op.resizes:
        yield from _resize_problems(n)
        return
    yield from n.only_floats()
    own = not op.padded or _padded_inside(n)
    zeros = mode is ResampleMode.MAXPOOL and op.padding_mode is PaddingMode.ZERO_PAD
    excluded = mode is ResampleMode.AVGPOOL_EXCLUDE_PADDING
    if "index" in n.outputs and (not own or (op.padded and zeros)):
        got = f"padding {list(op.pre_padding)}, {list(op.post_padding)} with an index"
        wanted = "even padding of at most half of the window, which no maximum is taken from"
        yield n.problem("TORCH-ENG-07", "pre_padding", got, wanted)
    elif excluded and not own:
        got = f"padding {list(op.pre_padding)}, {list(op.post_padding)}"
        wanted = "even padding of at most half of the window for averages without it"
        yield n.problem("TORCH-ENG-07", "pre_padding", got, wanted)


def _kernel(n: NodeContext, torch: Any) -> Kernel:
    op, functional = n.op, torch.nn.functional
    if op.resizes:
        return _resize_kernel(n, torch)
    rank = len(n.inputs["x"].dims) - 2
    largest = op.resample_mode is ResampleMode.MAXPOOL
    zeros = largest and op.padding_mode is PaddingMode.ZERO_PAD
    own = not op.padded or (_padded_inside(n) and not zeros)
    padding = op.pre_padding if own else (0,) * rank
    pairs = zip(reversed(op.pre_padding), reversed(op.post_padding), strict=True)
    frame = [] if own else [side for pair in pairs for side in pair]
    fill = -math.inf if largest and not zeros else 0.0
    index = "index" in n.outputs
    more: dict[str, Any] = {"return_indices": index} if largest else {}
    if not largest:
        more = {"count_include_pad": op.resample_mode is ResampleMode.AVGPOOL_INCLUDE_PADDING}
    pool = getattr(functional, f"{'max' if largest else 'avg'}_pool{rank}d")

    def run(x: Any) -> Any:
        x = functional.pad(x, frame, value=fill) if frame else x
        return pool(x, op.window, op.stride, padding, **more)

    return Kernel(run=run, loads=(dtype(torch, n.internal),))


def _resize_problems(n: NodeContext) -> Iterator[Problem]:
    """Yield what PyTorch's ``interpolate`` does otherwise, or not exactly."""
    op, x = n.op, n.inputs["x"]
    linear = op.resample_mode is ResampleMode.BILINEAR
    known = [ResizeCoordinates.HALF_PIXEL] + [ResizeCoordinates.ALIGN_CORNERS] * linear
    if op.coordinates not in known:
        wanted = "one of " + ", ".join(c.json for c in known)
        yield n.problem("TORCH-ENG-07", "coordinates", op.coordinates.json, wanted)
    if linear:
        yield from n.only_floats()
        return
    if not x.data_type.is_float or x.data_type not in TYPES:
        wanted = "float, half, bfloat16 or double"
        yield n.problem("TORCH-ENG-04", "x", x.data_type.json, wanted)
    if any(max(a, b) % min(a, b) for a, b in zip(x.dims[2:], op.size, strict=True)):
        # It computes positions in float32, where those between two elements may come out wrong.
        wanted = "whole factors for NEAREST"
        yield n.problem("TORCH-ENG-07", "size", list(op.size), wanted)


def _resize_kernel(n: NodeContext, torch: Any) -> Kernel:
    op, interpolate = n.op, torch.nn.functional.interpolate
    if op.resample_mode is ResampleMode.NEAREST:
        return Kernel(run=lambda x: interpolate(x, op.size, mode="nearest-exact"), loads=(None,))
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(op.size)]
    corners = op.coordinates is ResizeCoordinates.ALIGN_CORNERS

    def run(x: Any) -> Any:
        return interpolate(x, op.size, mode=mode, align_corners=corners)

    return Kernel(run=run, loads=(dtype(torch, n.internal),))


TORCH = TorchOp(problems=_problems, kernel=_kernel, efficiency=0.006)
