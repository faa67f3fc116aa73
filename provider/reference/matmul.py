"""Matrix product; of two batch dims the smaller one is repeated element by element."""

from __future__ import annotations

from ...graph_api.ops.matmul import Matmul
from .analysis import bilinear_bound, product, scaled_domain
from .base import Arrays, Context, Domain, Reference
from .convert import Array

__all__ = ["REFERENCE"]


def _multiply(a: Array, b: Array) -> Array:
    for axis, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        # hipDNN: operand index = result index // (result extent // operand extent).
        a, b = a.repeat(max(m, n) // m, axis), b.repeat(max(m, n) // n, axis)
    return product(a, b)


def evaluate(op: Matmul, inputs: Arrays, ctx: Context) -> Arrays:
    return {"c": ctx.finish(_multiply(inputs["a"], inputs["b"]))}


def bound(op: Matmul, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    a, b = ((inputs[port], errors[port]) for port in ("a", "b"))
    return {"c": bilinear_bound(_multiply, a, b, ctx.inputs["a"].dims[-1], ctx)}


def domain(op: Matmul, port: str, ctx: Context) -> Domain:
    return scaled_domain(ctx.inputs["a"].dims[-1], port, "a", ctx)


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
)
