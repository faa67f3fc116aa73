# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten convolutions, the transposed ones as gradients of forward ones."""

from __future__ import annotations

from collections.abc import Callable

from ....graph_api.tensor import Tensor
from .call import AtenOp, Call, Family, compute_type

__all__ = ["OPS"]

Ints = tuple[int, ...]


def _convolution(c: Call) -> Tensor:
    transposed = c.flag("transposed") if c.takes("transposed") else False
    return _conv(c, transposed=transposed)


def _transposed(c: Call) -> Tensor:
    return _conv(c, transposed=True)


def _conv(c: Call, *, transposed: bool) -> Tensor:
    x, w = c.type("input"), c.type("weight")
    spatial = len(x.dims) - 2
    if not 1 <= spatial <= 3 or len(w.dims) != len(x.dims):
        got = f"ranks {len(x.dims)} and {len(w.dims)}"
        raise c.refuse("input", got, "two equal ranks from 3 to 5: (N, C, spatial...)")
    stride = c.integers("stride", spatial)
    dilation = c.integers("dilation", spatial)
    groups = c.integer("groups")
    padding = _padding(c, w.dims[2:], stride, dilation)
    # Integers are multiplied exactly, and added up in the result's type.
    compute = compute_type(c.result().data_type)
    pre, post = [one for one, _ in padding], [one for _, one in padding]
    given = w.dims[0] if transposed else w.dims[1] * groups
    if x.dims[1] != given:
        raise c.refuse("groups", groups, f"a number that fits x's {x.dims[1]} channels")
    if not transposed:
        _no_output_padding(c)
        y = c.graph.conv_fprop(
            c.tensor("input"),
            c.tensor("weight"),
            pre_padding=pre,
            post_padding=post,
            stride=stride,
            dilation=dilation,
            compute_data_type=compute,
        )
    else:
        _check_output_padding(c, x.dims[2:], w.dims[2:], stride, dilation, padding)
        y = c.graph.conv_dgrad(
            c.tensor("input"),
            c.tensor("weight"),
            dx_dims=c.result().dims,
            pre_padding=pre,
            post_padding=post,
            stride=stride,
            dilation=dilation,
            compute_data_type=compute,
        )
    if not c.has("bias"):
        return y
    channels = c.type("bias").graph_dims
    bias = c.shaped(c.tensor("bias"), (1, *channels, *(1,) * spatial))
    return c.pointwise("add", y, bias)


def _padding(c: Call, size: Ints, stride: Ints, dilation: Ints) -> list[tuple[int, int]]:
    """Return zeros before and after each spatial dim."""
    spatial = len(stride)
    if c.constant("padding") == "valid":
        return [(0, 0)] * spatial
    if c.constant("padding") == "same":
        if any(s != 1 for s in stride):
            raise c.refuse("stride", list(stride), "1, as padding is 'same'")
        total = [d * (k - 1) for k, d in zip(size, dilation, strict=True)]
        return [(n // 2, n - n // 2) for n in total]
    return [(n, n) for n in c.integers("padding", spatial)]


def _no_output_padding(c: Call) -> None:
    if c.takes("output_padding") and any(c.integers("output_padding")):
        got = list(c.integers("output_padding"))
        raise c.refuse("output_padding", got, "zeros, as the convolution is not transposed")


def _check_output_padding(
    c: Call, x: Ints, w: Ints, stride: Ints, dilation: Ints, padding: list[tuple[int, int]]
) -> None:
    """Refuse a result whose dims are not those that the parameters give."""
    more = c.integers("output_padding", len(x)) if c.has("output_padding") else (0,) * len(x)
    wanted = tuple(
        (n - 1) * s - sum(p) + d * (k - 1) + o + 1
        for n, k, s, d, p, o in zip(x, w, stride, dilation, padding, more, strict=True)
    )
    if wanted != c.result().dims[2:]:
        got = list(c.result().dims[2:])
        raise c.refuse("output_padding", f"a result of {got}", f"a result of {list(wanted)}")


def _row(operands: str, build: Callable[[Call], Tensor] = _convolution) -> AtenOp:
    return AtenOp(tuple(operands.split()), build, Family.MATMUL)


_FORWARD = _row("input weight bias stride padding dilation groups")
_BACKWARD = _row("input weight bias stride padding output_padding groups dilation", _transposed)

OPS: dict[str, AtenOp] = {
    "aten.convolution": _row(
        "input weight bias stride padding dilation transposed output_padding groups"
    ),
    "aten._convolution": _row(
        "input weight bias stride padding dilation transposed output_padding groups "
        "benchmark deterministic cudnn_enabled allow_tf32"
    ),
    **{f"aten.conv{n}d": _FORWARD for n in (1, 2, 3)},
    **{f"aten.conv{n}d.padding": _FORWARD for n in (1, 2, 3)},
    "aten.conv_transpose1d": _BACKWARD,
    "aten.conv_transpose2d.input": _BACKWARD,
    "aten.conv_transpose3d.input": _BACKWARD,
}
