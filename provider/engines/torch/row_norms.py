"""Layer normalisation, its relative by the root mean square, and their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from ....graph_api.errors import Problem
from ....graph_api.ops.row_norms import aligned, normalised_dims
from .channel_norms import _named
from .torch_op import Around, Kernel, TorchOp, loads, number

__all__ = ["LAYERNORM", "LAYERNORM_BACKWARD", "RMSNORM", "RMSNORM_BACKWARD"]


def _problems(n: Around) -> Iterator[Problem]:
    yield from n.only_floats()


def _axes(n: Around) -> list[int]:
    count = getattr(n.op, "normalized_dim_count", 0)
    return list(normalised_dims(n.inputs["x"].dims, n.inputs["scale"].dims, count))


def _trailing(n: Around) -> tuple[int, ...]:
    """Return the normalised dims where these are the last ones and scale spans them, else ()."""
    x, axes = n.inputs["x"].dims, _axes(n)
    first = len(x) - len(axes)
    if axes != list(range(first, len(x))):
        return ()
    same = prod(n.inputs["scale"].dims) == prod(x[first:])
    return tuple(x[first:]) if same else ()


def _wide(n: Around, operand: Any) -> Any:
    """Return an operand with leading ones up to x's rank."""
    return operand.reshape(aligned(tuple(operand.shape), len(n.inputs["x"].dims)))


def _mean(torch: Any, x: Any, axes: list[int]) -> Any:
    # No dims mean all of them to PyTorch.
    return torch.mean(x, axes, keepdim=True) if axes else x


def _statistics(torch: Any, x: Any, axes: list[int]) -> tuple[Any, Any]:
    """Return the biased variance and the mean."""
    if not axes:
        return torch.zeros_like(x), x
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return variance, mean


def _layernorm(n: Around, torch: Any) -> Kernel:
    axes, rows, epsilon = _axes(n), _trailing(n), number(n, "epsilon")
    if rows and epsilon is not None:
        return _native(n, torch, rows, epsilon)

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        x = v["x"]
        variance, mean = _statistics(torch, x, axes)
        inverse = torch.rsqrt(variance + v["epsilon"].reshape(-1))
        normal = (x - mean) * inverse
        y = normal * _wide(n, v["scale"]) + _wide(n, v["bias"])
        return {"y": y, "mean": mean, "inv_variance": inverse}

    return _named(n, torch, formula)


def _native(n: Around, torch: Any, rows: tuple[int, ...], epsilon: float) -> Kernel:
    if len(n.outputs) == 1:
        norm = torch.nn.functional.layer_norm

        def one(x: Any, scale: Any, bias: Any, _: Any) -> Any:
            return norm(x, rows, scale.reshape(rows), bias.reshape(rows), epsilon)

        return Kernel(run=one, loads=loads(n, torch))

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        scale, bias = v["scale"].reshape(rows), v["bias"].reshape(rows)
        y, mean, inverse = torch.native_layer_norm(v["x"], rows, scale, bias, epsilon)
        return {"y": y, "mean": mean, "inv_variance": inverse}

    return _named(n, torch, formula)


def _rmsnorm(n: Around, torch: Any) -> Kernel:
    axes, rows, epsilon = _axes(n), _trailing(n), number(n, "epsilon")
    biased = "bias" in n.inputs
    if rows and epsilon is not None and len(n.outputs) == 1:
        norm = torch.nn.functional.rms_norm

        def one(x: Any, scale: Any, _: Any, bias: Any = None) -> Any:
            y = norm(x, rows, scale.reshape(rows), epsilon)
            return y.add_(bias.reshape(rows)) if biased else y

        return Kernel(run=one, loads=loads(n, torch))

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        x = v["x"]
        square = _mean(torch, x * x, axes)
        inverse = torch.rsqrt(square + v["epsilon"].reshape(-1))
        y = x * inverse * _wide(n, v["scale"])
        y = y + _wide(n, v["bias"]) if biased else y
        return {"y": y, "inv_rms": inverse}

    return _named(n, torch, formula)


def _columns(n: Around) -> list[int]:
    """Return the dims over which dscale and dbias are summed."""
    wide = aligned(n.inputs["scale"].dims, len(n.inputs["x"].dims))
    return [i for i, extent in enumerate(wide) if extent == 1]


def _gradients(n: Around, torch: Any, v: dict[str, Any], normal: Any) -> dict[str, Any]:
    dims, over = n.inputs["scale"].dims, _columns(n)
    summands = {"dscale": v["dy"] * normal, "dbias": v["dy"]}
    return {
        port: (torch.sum(x, over) if over else x).reshape(dims)
        for port, x in summands.items()
        if port in n.outputs
    }


def _layernorm_backward(n: Around, torch: Any) -> Kernel:
    axes, saved = _axes(n), "mean" in n.inputs

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        x = v["x"]
        if saved:
            mean, inverse = v["mean"], v["inv_variance"]
        else:
            variance, mean = _statistics(torch, x, axes)
            inverse = torch.rsqrt(variance + v["epsilon"].reshape(-1))
        normal = (x - mean) * inverse
        g = v["dy"] * _wide(n, v["scale"])
        along = _mean(torch, g * normal, axes)
        dx = (g - _mean(torch, g, axes) - normal * along) * inverse
        return {"dx": dx, **_gradients(n, torch, v, normal)}

    return _named(n, torch, formula)


def _rmsnorm_backward(n: Around, torch: Any) -> Kernel:
    axes = _axes(n)

    def formula(v: dict[str, Any]) -> dict[str, Any]:
        inverse = v["inv_rms"]
        normal = v["x"] * inverse
        g = v["dy"] * _wide(n, v["scale"])
        along = _mean(torch, g * normal, axes)
        return {"dx": (g - normal * along) * inverse, **_gradients(n, torch, v, normal)}

    return _named(n, torch, formula)


LAYERNORM = TorchOp(problems=_problems, kernel=_layernorm)
LAYERNORM_BACKWARD = TorchOp(problems=_problems, kernel=_layernorm_backward)
RMSNORM = TorchOp(problems=_problems, kernel=_rmsnorm)
RMSNORM_BACKWARD = TorchOp(problems=_problems, kernel=_rmsnorm_backward)
