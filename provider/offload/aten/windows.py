# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten pooling and resizing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....graph_api.ops.resample_fwd import Resampled
from ....graph_api.tensor import Tensor
from .call import AtenOp, Built, Call, Family

__all__ = ["OPS"]

Ints = tuple[int, ...]


def _spatial(c: Call, count: int) -> Ints:
    dims = c.type("self").dims
    if len(dims) != count + 2:
        raise c.refuse("self", f"rank {len(dims)}", f"rank {count + 2}: (N, C, spatial...)")
    return dims[2:]


def _windows(c: Call, count: int) -> tuple[Ints, Ints, list[tuple[int, int]]]:
    """Return size, stride, and padding of windows, with what ceil_mode adds behind."""
    extents = _spatial(c, count)
    size = c.integers("kernel_size", count)
    given = c.has("stride") and c.constant("stride") != ()
    stride = c.integers("stride", count) if given else size
    padding = [(n, n) for n in c.integers("padding", count)]
    if c.takes("dilation") and any(n != 1 for n in c.integers("dilation", count)):
        raise c.refuse("dilation", list(c.integers("dilation")), "ones")
    if c.flag("ceil_mode"):
        found = []
        for n, k, s, (p, _) in zip(extents, size, stride, padding, strict=True):
            windows = -(-(n + 2 * p - k) // s) + 1
            if (windows - 1) * s >= n + p:  # a window that begins in the padding is left out
                windows -= 1
            found.append((p, max(p, (windows - 1) * s + k - n - p)))
        padding = found
    return size, stride, padding


def _window(
    mode: str, size: Ints, stride: Ints, padding: list[tuple[int, int]] | None = None
) -> dict[str, Any]:
    """Return what tells hipDNN's pooling, and its gradient, which windows there are."""
    return {
        "resample_mode": mode,
        "window": size,
        "stride": stride,
        "pre_padding": [pre for pre, _ in padding or ()],
        "post_padding": [post for _, post in padding or ()],
        "padding_mode": "neg_inf_pad" if mode == "maxpool" else "zero_pad",
    }


def _pooled(c: Call, about: dict[str, Any], *, index: bool = False) -> Resampled:
    return c.graph.resample_fwd(
        c.tensor("self"), **about, generate_index=index, compute_data_type=c.compute
    )


def _pool(
    c: Call, mode: str, size: Ints, stride: Ints, padding: list[tuple[int, int]] | None = None
) -> Tensor:
    """Return the pooled input; a window over all of it is a reduction, which more engines serve."""
    x, kind = c.tensor("self"), c.type("self")
    padded = any(n for pair in padding or () for n in pair)
    if size != kind.dims[2:] or padded or not kind.data_type.is_float:
        return _pooled(c, _window(mode, size, stride, padding)).y
    over, axes = "max" if mode == "maxpool" else "avg", range(2, len(kind.dims))
    return c.graph.reduction(x, mode=over, axes=axes, compute_data_type=c.compute)


def _max_pool(count: int) -> Callable[[Call], Tensor]:
    return lambda c: _pool(c, "maxpool", *_windows(c, count))


def _max_pool_with_indices(count: int) -> Callable[[Call], Built]:
    """Both count positions within the whole plane, row by row; the first of equal ones is taken."""

    def build(c: Call) -> Built:
        about = _window("maxpool", *_windows(c, count))
        return tuple(_pooled(c, about, index=c.is_read(1)))

    return build


def _pool_backward(c: Call, about: dict[str, Any], index: Tensor | None = None) -> Tensor:
    return c.graph.resample_bwd(
        c.tensor("grad_output"),
        **about,
        index=index,
        dx_dims=c.type("self").dims,
        compute_data_type=c.compute,
    )


def _max_pool_backward(count: int) -> Callable[[Call], Tensor]:
    return lambda c: _pool_backward(c, _window("maxpool", *_windows(c, count)), c.tensor("indices"))


def _averages(c: Call, count: int) -> tuple[str, Ints, Ints, list[tuple[int, int]]]:
    """Return mode, size, stride and padding of windows that are averaged."""
    size, stride, padding = _windows(c, count)
    if c.takes("divisor_override"):
        c.must_be("divisor_override", None)
    # What ceil_mode adds behind the padding is never counted.
    counted = c.flag("count_include_pad") and any(c.integers("padding"))
    if counted and any(pre != post for pre, post in padding):
        raise c.refuse("ceil_mode", "true", "false, as padding is counted")
    padded = any(n for pair in padding for n in pair)
    mode = "include" if counted or not padded else "exclude"
    return f"avgpool_{mode}_padding", size, stride, padding


def _avg_pool(count: int) -> Callable[[Call], Tensor]:
    return lambda c: _pool(c, *_averages(c, count))


def _avg_pool_backward(count: int) -> Callable[[Call], Tensor]:
    return lambda c: _pool_backward(c, _window(*_averages(c, count)))


def _adaptive(count: int) -> Callable[[Call], Tensor]:
    def build(c: Call) -> Tensor:
        extents, wanted = _spatial(c, count), c.integers("output_size", count)
        if any(n % m for n, m in zip(extents, wanted, strict=True)):
            raise c.refuse("output_size", list(wanted), f"divisors of {list(extents)}")
        size = tuple(n // m for n, m in zip(extents, wanted, strict=True))
        return _pool(c, "avgpool_include_padding", size, size)

    return build


def _resized(mode: str, count: int) -> Callable[[Call], Tensor]:
    def build(c: Call) -> Tensor:
        extents, wanted = _spatial(c, count), c.result().dims[2:]
        coordinates = "asymmetric"
        if mode == "bilinear":
            coordinates = "align_corners" if c.flag("align_corners") else "half_pixel"
        for name in c.names:
            # A scale that is not the ratio of the extents moves the positions.
            if name.startswith("scale") and c.has(name) and coordinates != "align_corners":
                factors = c.constant(name)
                factors = factors if isinstance(factors, tuple) else (factors,)
                places = {"scales_h": (0,), "scales_w": (count - 1,)}.get(name, range(count))
                for factor, i in zip(factors, places, strict=False):
                    if factor is not None and factor * extents[i] != wanted[i]:
                        ratio = f"{wanted[i]}/{extents[i]}, the ratio of the extents"
                        raise c.refuse(name, factor, ratio)
        y = c.graph.resample_fwd(
            c.tensor("self"),
            resample_mode=mode,
            size=wanted,
            coordinates=coordinates,
            compute_data_type=c.compute,
        ).y
        return y

    return build


def _row(operands: str, build: Callable[[Call], Built]) -> AtenOp:
    return AtenOp(tuple(operands.split()), build, Family.WINDOW)


_AVERAGE = "self kernel_size stride padding ceil_mode count_include_pad"

OPS: dict[str, AtenOp] = {
    **{
        f"aten.max_pool{n}d": _row(
            "self kernel_size stride padding dilation ceil_mode", _max_pool(n)
        )
        for n in (1, 2, 3)
    },
    **{
        f"aten.max_pool{n}d_with_indices": _row(
            "self kernel_size stride padding dilation ceil_mode", _max_pool_with_indices(n)
        )
        for n in (2, 3)
    },
    **{
        f"aten.max_pool{n}d_with_indices_backward": _row(
            "grad_output self kernel_size stride padding dilation ceil_mode indices",
            _max_pool_backward(n),
        )
        for n in (2, 3)
    },
    "aten.avg_pool1d": _row(_AVERAGE, _avg_pool(1)),
    **{f"aten.avg_pool{n}d": _row(f"{_AVERAGE} divisor_override", _avg_pool(n)) for n in (2, 3)},
    **{
        f"aten.avg_pool{n}d_backward": _row(
            f"grad_output {_AVERAGE} divisor_override", _avg_pool_backward(n)
        )
        for n in (2, 3)
    },
    **{f"aten.adaptive_avg_pool{n}d": _row("self output_size", _adaptive(n)) for n in (1, 2, 3)},
    "aten._adaptive_avg_pool2d": _row("self output_size", _adaptive(2)),
    "aten.upsample_nearest2d": _row("self output_size scales_h scales_w", _resized("nearest", 2)),
    "aten.upsample_nearest2d.vec": _row("self output_size scale_factors", _resized("nearest", 2)),
    "aten.upsample_bilinear2d": _row(
        "self output_size align_corners scales_h scales_w", _resized("bilinear", 2)
    ),
    "aten.upsample_bilinear2d.vec": _row(
        "self output_size align_corners scale_factors", _resized("bilinear", 2)
    ),
}
