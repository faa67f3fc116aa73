# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A convolution whose result is joined with something (W-135)."""

from __future__ import annotations

from hipdnn_iree import Graph

__all__ = ["WAYS", "joined"]

WAYS = ("concatenate", "pad", "conv_fprop", "resample_fwd")


def joined(g: Graph, *, axis: int, by: str) -> None:
    """Describe a convolution, and what joins its result with something along an axis."""
    conv = g.conv_fprop(g.tensor(dims=(1, 4, 9, 9)), g.tensor(dims=(4, 4, 3, 3)))
    y, ends = g.relu(conv), [int(i == axis) for i in range(4)]
    if by == "concatenate":
        g.concatenate([y, g.tensor(dims=(1, 4, 7, 7))], axis=axis).set_output()
    elif by == "pad":
        g.pad(y, pre_padding=ends).set_output()
    elif by == "conv_fprop":  # padded by concatenation, of which W-057 is the reason
        options = {"stride": (2, 1), "pre_padding": ends[2:], "post_padding": (0, 0)}
        g.conv_fprop(y, g.tensor(dims=(5, 4, 1, 3)), **options).set_output()
    else:
        options = {"stride": (1, 1), "window": (2, 2), "post_padding": (0, 0)}
        options |= {"pre_padding": ends[2:], "padding_mode": "neg_inf_pad"}
        g.resample_fwd(y, resample_mode="maxpool", **options).y.set_output()
