# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aten norms, softmax and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ....graph_api.tensor import Scalar, Tensor
from .call import AtenOp, Built, Call, Family, compute_type

__all__ = ["OPS"]

Dims = tuple[int, ...]

# ---------------------------------------------------------------------------- norms


def _layer_norm(c: Call) -> Tensor:
    dims, count = c.type("input").dims, _normalised(c)
    y = c.graph.layernorm(
        c.tensor("input"),
        c.shaped(c.tensor("weight"), dims[-count:]) if c.has("weight") else 1.0,
        c.shaped(c.tensor("bias"), dims[-count:]) if c.has("bias") else 0.0,
        epsilon=float(c.number("eps")),
        normalized_dim_count=count,
        compute_data_type=c.compute,
    ).y
    return y


def _normalised(c: Call) -> int:
    dims, shape = c.type("input").dims, c.integers("normalized_shape")
    if not shape or dims[-len(shape) :] != shape:
        raise c.refuse("normalized_shape", list(shape), f"the last of {list(dims)}")
    return len(shape)


def _with_statistics(c: Call) -> Built:
    """Return a layer norm with mean and 1/√(variance + eps)."""
    dims, count = c.type("input").dims, _normalised(c)
    if not _read(c, 1) and not _read(c, 2):
        return (_layer_norm(c), None, None)
    found = c.graph.layernorm(
        c.tensor("input"),
        c.shaped(c.tensor("weight"), dims[-count:]) if c.has("weight") else 1.0,
        c.shaped(c.tensor("bias"), dims[-count:]) if c.has("bias") else 0.0,
        epsilon=float(c.number("eps")),
        forward_phase="training",
        normalized_dim_count=count,
        compute_data_type=c.compute,
    )
    return (found.y, found.mean, found.inv_variance)


def _read(c: Call, place: int) -> bool:
    """Whether anything reads a result."""
    value = c.op.results[place]
    return value in c.function.returned or value in c.function.users()


def _rms_norm(c: Call) -> Tensor:
    dims, count = c.type("input").dims, _normalised(c)
    if not c.has("eps"):
        raise c.refuse("eps", "none", "a number")
    epsilon = float(c.number("eps"))
    if not c.has("weight"):
        return _divided_by_root(c, c.tensor("input"), tuple(range(len(dims)))[-count:], epsilon)
    return c.graph.rmsnorm(
        c.tensor("input"),
        c.shaped(c.tensor("weight"), (*(1,) * (len(dims) - count), *dims[-count:])),
        epsilon=epsilon,
        compute_data_type=c.compute,
    ).y


def _divided_by_root(c: Call, x: Tensor, axes: Dims, epsilon: float) -> Tensor:
    squares = c.pointwise("mul", x, x)
    mean = c.graph.reduction(squares, mode="avg", axes=axes, compute_data_type=c.compute)
    return c.pointwise("mul", x, c.pointwise("rsqrt", c.pointwise("add", mean, epsilon)))


def _batch_norm(c: Call) -> Tensor:
    if c.takes("training"):
        c.must_be("training", False)
    if not c.has("running_mean") or not c.has("running_var"):
        raise c.refuse("running_mean", "none", "a tensor")
    dims = c.type("input").dims
    if not 2 <= len(dims) <= 5:
        raise c.refuse("input", f"rank {len(dims)}", "rank 2 to 5")
    channels = (1, dims[1], *(1,) * (len(dims) - 2))
    mean, variance = (c.shaped(c.tensor(p), channels) for p in ("running_mean", "running_var"))
    epsilon = float(c.number("eps"))
    if c.has("weight") and c.has("bias"):
        return c.graph.batchnorm_inference_variance_ext(
            c.tensor("input"),
            mean,
            variance,
            c.shaped(c.tensor("weight"), channels),
            c.shaped(c.tensor("bias"), channels),
            epsilon,
            compute_data_type=c.compute,
        )
    y = c.pointwise("sub", c.tensor("input"), mean)
    y = c.pointwise("mul", y, c.pointwise("rsqrt", c.pointwise("add", variance, epsilon)))
    if c.has("weight"):
        y = c.pointwise("mul", y, c.shaped(c.tensor("weight"), channels))
    return c.pointwise("add", y, c.shaped(c.tensor("bias"), channels)) if c.has("bias") else y


def _first_of_three(c: Call) -> Built:
    """Return an inference norm whose saved statistics nobody reads."""
    if _read(c, 1) or _read(c, 2):
        raise c.refuse("result", "statistics that are read", "the normalised tensor alone")
    return (_batch_norm(c), None, None)


def _group_norm(c: Call) -> Tensor:
    return _grouped(c, c.integer("num_groups"))


def _native_group_norm(c: Call) -> Built:
    if _read(c, 1) or _read(c, 2):
        raise c.refuse("result", "statistics that are read", "the normalised tensor alone")
    return (_grouped(c, c.integer("group")), None, None)


def _instance_norm(c: Call) -> Tensor:
    c.must_be("use_input_stats", True)
    return _grouped(c, c.type("input").dims[1])


def _grouped(c: Call, groups: int) -> Tensor:
    """Normalise groups of channels of each entry, then scale each channel."""
    dims = c.type("input").dims
    if len(dims) < 3 or dims[1] % groups:
        raise c.refuse("input", list(dims), f"dims (N, C, spatial...), C a multiple of {groups}")
    rows = (dims[0], groups, prod(dims[1:]) // groups)
    x = c.graph.reshape(c.tensor("input"), dim=rows)
    y = c.graph.layernorm(
        x,
        1.0,
        0.0,
        epsilon=float(c.number("eps")),
        normalized_dim_count=1,
        compute_data_type=c.compute,
    ).y
    y = c.graph.reshape(y, dim=dims)
    channels = (1, dims[1], *(1,) * (len(dims) - 2))
    if c.has("weight"):
        y = c.pointwise("mul", y, c.shaped(c.tensor("weight"), channels))
    return c.pointwise("add", y, c.shaped(c.tensor("bias"), channels)) if c.has("bias") else y


# ---------------------------------------------------------------------------- softmax


def _softmax(c: Call) -> Tensor:
    numerator, total = _exponentials(c)[1:]
    return c.pointwise("div", numerator, total)


def _log_softmax(c: Call) -> Tensor:
    shifted, _, total = _exponentials(c)
    return c.pointwise("sub", shifted, c.pointwise("log", total))


def _exponentials(c: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Return x - max, e to that, and the sum of it."""
    if not c.result().data_type.is_float:
        raise c.refuse("result", c.result().data_type.json, "a floating type")
    x, rank = c.tensor("self"), len(c.type("self").graph_dims)
    axes = (c.axis("dim", rank),)
    largest = c.graph.reduction(x, mode="max", axes=axes, compute_data_type=c.compute)
    shifted = c.pointwise("sub", x, largest)
    e = c.pointwise("exp", shifted)
    return shifted, e, c.graph.reduction(e, mode="add", axes=axes, compute_data_type=c.compute)


# ---------------------------------------------------------------------------- reductions


def _reduced(mode: str) -> Callable[[Call], Tensor]:
    def build(c: Call) -> Tensor:
        rank = len(c.type("self").dims)
        axes = c.axes("dim", rank) if c.takes("dim") else tuple(range(rank))
        if mode == "avg" and not c.result().data_type.is_float:
            raise c.refuse("result", c.result().data_type.json, "a floating type")
        return _reduce(c, c.tensor("self"), mode, axes)

    return build


def _reduce(c: Call, x: Tensor, mode: str, axes: Sequence[int]) -> Tensor:
    if not c.type("self").dims:
        return c.pointwise("identity", x)
    y = c.graph.reduction(x, mode=mode, axes=tuple(axes), compute_data_type=c.compute)
    keep = c.flag("keepdim") if c.takes("keepdim") else False
    dims = c.type("self").dims
    kept = tuple(1 if i in axes else n for i, n in enumerate(dims))
    return y if keep else c.shaped(y, tuple(n for i, n in enumerate(kept) if i not in axes) or (1,))


def _product(c: Call) -> Tensor:
    return _reduce(c, c.tensor("self"), "mul", (c.axis("dim", len(c.type("self").dims)),))


def _norm(c: Call) -> Tensor:
    order = c.number("ord") if c.takes("ord") else c.number("p") if c.has("p") else 2
    if order not in (1, 2):
        raise c.refuse("ord", order, "1 or 2")
    axes = c.axes("dim", len(c.type("self").dims))
    return _reduce(c, c.tensor("self"), f"norm{int(order)}", axes)


def _variance(c: Call) -> Tensor:
    """Return the variance, from x - mean."""
    x, dims = c.tensor("self"), c.type("self").dims
    axes = c.axes("dim", len(dims))
    correction: Scalar = (
        c.number("correction") if c.takes("correction") and c.has("correction") else 1
    )
    if c.takes("unbiased"):
        correction = int(c.flag("unbiased"))
    count = prod(dims[i] for i in axes)
    if count <= correction:
        raise c.refuse("self", f"{count} elements", f"more than {correction}")
    mean = c.graph.reduction(x, mode="avg", axes=axes, compute_data_type=c.compute)
    far = c.pointwise("sub", x, mean)
    total = _reduce(c, c.pointwise("mul", far, far), "add", axes)
    return c.pointwise("div", total, float(count - correction))


def _cumsum(c: Call) -> Tensor:
    kind = c.result().data_type
    rank = len(c.type("self").graph_dims)
    return c.graph.cumsum(
        c.tensor("self"), axis=c.axis("dim", rank), compute_data_type=compute_type(kind)
    )


def _rows(operands: str, *names: str, build: Callable[[Call], Built]) -> dict[str, AtenOp]:
    entry = AtenOp(tuple(operands.split()), build, Family.ROW)
    return {f"aten.{name}": entry for name in names}


_CHANNELS = "input weight bias running_mean running_var"

OPS: dict[str, AtenOp] = {
    **_rows("input normalized_shape weight bias eps cudnn_enable", "layer_norm", build=_layer_norm),
    **_rows("input normalized_shape weight bias eps", "native_layer_norm", build=_with_statistics),
    **_rows("input normalized_shape weight eps", "rms_norm", build=_rms_norm),
    **_rows("input num_groups weight bias eps cudnn_enabled", "group_norm", build=_group_norm),
    **_rows("input weight bias N C HxW group eps", "native_group_norm", build=_native_group_norm),
    **_rows(
        f"{_CHANNELS} use_input_stats momentum eps cudnn_enabled",
        "instance_norm",
        build=_instance_norm,
    ),
    **_rows("self dim dtype", "softmax.int", build=_softmax),
    **_rows("self dim half_to_float", "_softmax", build=_softmax),
    **_rows("self dim dtype", "log_softmax.int", build=_log_softmax),
    **_rows("self dim half_to_float", "_log_softmax", build=_log_softmax),
    **_rows("self dtype", "sum", build=_reduced("add")),
    **_rows("self dim keepdim dtype", "sum.dim_IntList", build=_reduced("add")),
    **_rows("self dtype", "mean", build=_reduced("avg")),
    **_rows("self dim keepdim dtype", "mean.dim", build=_reduced("avg")),
    **_rows("self dim keepdim", "amax", build=_reduced("max")),
    **_rows("self dim keepdim", "amin", build=_reduced("min")),
    **_rows("self", "max", build=_reduced("max")),
    **_rows("self", "min", build=_reduced("min")),
    **_rows("self dtype", "prod", build=_reduced("mul")),
    **_rows("self dim keepdim dtype", "prod.dim_int", build=_product),
    **_rows("self ord dim keepdim dtype", "linalg_vector_norm", build=_norm),
    **_rows("self p dim keepdim", "norm.ScalarOpt_dim", build=_norm),
    **_rows("self dim correction keepdim", "var.correction", build=_variance),
    **_rows("self dim unbiased keepdim", "var.dim", build=_variance),
    "aten.cumsum": AtenOp(("self", "dim", "dtype"), _cumsum, Family.WINDOW),
    # Between a convolution and what follows it stands what works channel by channel.
    **{
        name: AtenOp(tuple(operands.split()), build, Family.POINTWISE)
        for name, operands, build in (
            (
                "aten.batch_norm",
                f"{_CHANNELS} training momentum eps cudnn_enabled",
                _batch_norm,
            ),
            (
                "aten._native_batch_norm_legit_no_training",
                f"{_CHANNELS} momentum eps",
                _first_of_three,
            ),
            (
                "aten.native_batch_norm",
                f"{_CHANNELS} training momentum eps",
                _first_of_three,
            ),
        )
    },
}
