# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What other libraries call the methods of ``Graph``, for error texts; ops have their own names."""

from __future__ import annotations

__all__ = ["METHODS", "RECIPES", "here"]

METHODS = {
    **dict.fromkeys(("astype", "convert", "to"), "cast"),
    **dict.fromkeys(("select", "where"), "binary_select"),
    **dict.fromkeys(("input", "placeholder"), "tensor"),
    **{"silu": "swish", "maximum": "max", "minimum": "min"},
}
"""Those that are no ops of their own."""

RECIPES = {
    "group_norm": "layernorm of x reshaped to (N, groups, -1), with normalized_dim_count=1, "
    "scale 1.0 and bias 0.0; reshape back, then mul and add",
    "leaky_relu": "relu with lower_clip_slope",
    **dict.fromkeys(("clamp", "clip", "hardtanh", "relu6"), "relu with lower_clip and upper_clip"),
    "log_softmax": "log of softmax",
    "stack": "concatenate of tensors that reshape gave one more dim",
    "var": "reduction of the squares less the square of the reduction, both with mode avg",
    "dropout": "sdpa with dropout_probability, or mul by a mask that is an input",
}
"""Name -> how it is written here, in more than one call or with an argument."""


def here(name: object) -> str:
    """Return how a method of another library is written here, as a sentence's end, or ``""``."""
    from .ops import OPS

    ours = METHODS | RECIPES | {there: op.NAME for op in OPS.values() for there in op.ELSEWHERE}
    return f"here it is {ours[name]}" if isinstance(name, str) and name in ours else ""
