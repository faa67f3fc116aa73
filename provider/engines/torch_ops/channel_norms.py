"""Batch normalisation.

PyTorch's kernels serve training and inference where epsilon and momentum are known; what else
the ops allow is a formula of its functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from ....graph_api.errors import Problem
from ....graph_api.ops.batchnorm_backward import DEFAULT_EPSILON
from .base import Around, Kernel, TorchOp, loads, number

__all__ = ["BACKWARD", "INFERENCE", "INFERENCE_VARIANCE", "TRAINING"]

Results = dict[str, Any]


def _problems(n: Around) -> Iterator[Problem]:
    yield from n.only_floats()
    if any(port.startswith("peer_stats") for port in n.inputs):
        wanted = "statistics of this process only"
        yield n.problem("TORCH-ENG-07", "peer_stats", "statistics of other devices", wanted)


def _named(n: Around, torch: Any, formula: Callable[[dict[str, Any]], Results]) -> Kernel:
    """Return the kernel of a formula from operands by port to results by port."""
    ports, results = tuple(n.inputs), tuple(n.outputs)

    def run(*operands: Any) -> Any:
        found = formula(dict(zip(ports, operands, strict=True)))
        made = tuple(found[port] for port in results)
        return made if len(made) > 1 else made[0]

    return Kernel(run=run, loads=loads(n, torch))


def _affine(torch: Any, x: Any, mean: Any, inverse: Any, scale: Any, bias: Any) -> Any:
    # Not folded into one factor and one summand, which would cancel where x is near the mean.
    return torch.addcmul(bias, x - mean, inverse * scale)


def _inference(n: Around, torch: Any) -> Kernel:
    def run(x: Any, mean: Any, inverse: Any, scale: Any, bias: Any, *, out: Any = None) -> Any:
        return torch.addcmul(bias, x - mean, inverse * scale, out=out)

    return Kernel(run=run, loads=loads(n, torch), takes_out=True)


def _inference_variance(n: Around, torch: Any) -> Kernel:
    def formula(v: dict[str, Any]) -> Results:
        inverse = torch.rsqrt(v["variance"] + v["epsilon"].reshape(-1))
        return {"y": _affine(torch, v["x"], v["mean"], inverse, v["scale"], v["bias"])}

    return _named(n, torch, formula)


def _training(n: Around, torch: Any) -> Kernel:
    x = n.inputs["x"].dims
    shape, count = (1, x[1], *(1,) * (len(x) - 2)), prod(x) // x[1]
    epsilon = number(n, "epsilon")
    over = [i for i in range(len(x)) if i != 1]

    def formula(v: dict[str, Any]) -> Results:
        if epsilon is not None:
            y, mean, inverse = torch.native_batch_norm(
                v["x"], v["scale"].reshape(-1), v["bias"].reshape(-1), None, None, True, 0, epsilon
            )
            mean, inverse = mean.reshape(shape), inverse.reshape(shape)
        else:
            variance, mean = torch.var_mean(v["x"], over, correction=0, keepdim=True)
            inverse = torch.rsqrt(variance + v["epsilon"].reshape(-1))
            y = _affine(torch, v["x"], mean, inverse, v["scale"], v["bias"])
        found = {"y": y, "mean": mean, "inv_variance": inverse}
        current = {"mean": mean}
        if "next_running_variance" in n.outputs:
            current["variance"] = torch.var(
                v["x"], over, correction=min(1, count - 1), keepdim=True
            )
        for what, value in current.items():
            if f"next_running_{what}" in n.outputs:
                before = v[f"prev_running_{what}"]
                step = v["momentum"].reshape(-1) * (value - before)
                found[f"next_running_{what}"] = before + step
        return found

    return _named(n, torch, formula)


def _backward(n: Around, torch: Any) -> Kernel:
    x = n.inputs["x"].dims
    shape = (1, x[1], *(1,) * (len(x) - 2))
    over = [i for i in range(len(x)) if i != 1]
    saved = "mean" in n.inputs

    def formula(v: dict[str, Any]) -> Results:
        if saved:
            mean, inverse = v["mean"], v["inv_variance"]
        else:
            variance, mean = torch.var_mean(v["x"], over, correction=0, keepdim=True)
            inverse = torch.rsqrt(variance + DEFAULT_EPSILON)
        dx, dscale, dbias = torch.ops.aten.native_batch_norm_backward.default(
            v["dy"],
            v["x"],
            v["scale"].reshape(-1),
            None,
            None,
            mean.reshape(-1),
            inverse.reshape(-1),
            True,
            DEFAULT_EPSILON,
            [True, True, True],
        )
        return {"dx": dx, "dscale": dscale.reshape(shape), "dbias": dbias.reshape(shape)}

    return _named(n, torch, formula)


TRAINING = TorchOp(problems=_problems, kernel=_training)
BACKWARD = TorchOp(problems=_problems, kernel=_backward)
INFERENCE = TorchOp(problems=_problems, kernel=_inference)
INFERENCE_VARIANCE = TorchOp(problems=_problems, kernel=_inference_variance)
