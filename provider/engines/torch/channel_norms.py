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
from .torch_op import Around, Kernel, TorchOp, loads, number

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


FORM = "batchnorm.form"
FORMS = ("centred", "folded")
"""The mean is taken from x first, which is exact near it; or, as ``torch.batch_norm`` does, factor
and summand are made of the statistics, in one pass, which cancels where x is near the mean."""


def _affine(torch: Any, x: Any, mean: Any, inverse: Any, scale: Any, bias: Any) -> Any:
    # Not folded into one factor and one summand, which would cancel where x is near the mean.
    return torch.addcmul(bias, x - mean, inverse * scale)


def _folded(torch: Any, x: Any, mean: Any, variance: Any, scale: Any, bias: Any, e: float) -> Any:
    flat = [t.reshape(-1) for t in (scale, bias, mean, variance)]
    return torch.batch_norm(x, *flat, False, 0.0, e, True)


def _inference(n: Around, torch: Any) -> Kernel:
    if n.forms.get(FORM) == "folded":

        def one(x: Any, mean: Any, inverse: Any, scale: Any, bias: Any) -> Any:
            return _folded(torch, x, mean, inverse.pow(-2), scale, bias, 0.0)

        return Kernel(run=one, loads=loads(n, torch))

    def run(x: Any, mean: Any, inverse: Any, scale: Any, bias: Any, *, out: Any = None) -> Any:
        return torch.addcmul(bias, x - mean, inverse * scale, out=out)

    return Kernel(run=run, loads=loads(n, torch), takes_out=True)


def _inference_variance(n: Around, torch: Any) -> Kernel:
    epsilon = number(n, "epsilon")

    def formula(v: dict[str, Any]) -> Results:
        if n.forms.get(FORM) == "folded" and epsilon is not None:
            scale, bias, variance = v["scale"], v["bias"], v["variance"]
            return {"y": _folded(torch, v["x"], v["mean"], variance, scale, bias, epsilon)}
        inverse = torch.rsqrt(v["variance"] + v["epsilon"].reshape(-1))
        return {"y": _affine(torch, v["x"], v["mean"], inverse, v["scale"], v["bias"])}

    return _named(n, torch, formula)


_RUNNING = ("next_running_mean", "next_running_variance")


def _training(n: Around, torch: Any) -> Kernel:
    x = n.inputs["x"].dims
    shape, count = (1, x[1], *(1,) * (len(x) - 2)), prod(x) // x[1]
    epsilon = number(n, "epsilon")
    momentum = number(n, "momentum") if "momentum" in n.inputs else None
    kept = [port for port in _RUNNING if port in n.outputs]
    # PyTorch's kernel keeps both or none, by a known momentum, of more than one element.
    native = epsilon is not None and (
        not kept or (len(kept) == 2 and momentum is not None and count > 1)
    )
    over = [i for i in range(len(x)) if i != 1]

    def whole(v: dict[str, Any]) -> Results:
        running = [v[port.replace("next", "prev")].reshape(-1).clone() for port in kept]
        scale, bias = v["scale"].reshape(-1), v["bias"].reshape(-1)
        y, mean, inverse = torch.native_batch_norm(
            v["x"], scale, bias, *(running or (None, None)), True, momentum or 0.0, epsilon
        )
        rows = dict(zip(kept, running, strict=True), mean=mean, inv_variance=inverse)
        return {"y": y, **{port: row.reshape(shape) for port, row in rows.items()}}

    def formula(v: dict[str, Any]) -> Results:
        variance, mean = torch.var_mean(v["x"], over, correction=0, keepdim=True)
        inverse = torch.rsqrt(variance + v["epsilon"].reshape(-1))
        y = _affine(torch, v["x"], mean, inverse, v["scale"], v["bias"])
        found = {"y": y, "mean": mean, "inv_variance": inverse}
        unbiased = variance * (count / max(count - 1, 1))
        for port in kept:
            before = v[port.replace("next", "prev")]
            value = mean if port == _RUNNING[0] else unbiased
            found[port] = before + v["momentum"].reshape(-1) * (value - before)
        return found

    return _named(n, torch, whole if native else formula)


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
