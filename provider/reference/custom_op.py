"""Custom ops: code that only a compiler reads, so that nothing here can check it."""

from __future__ import annotations

from ...graph_api.ops.custom_op import CustomOp
from .base import Arrays, Context, Domain, Reference, Sample

__all__ = ["REFERENCE"]


def unsupported(op: CustomOp) -> str:
    return (
        f"the custom op {op.custom_op_id!r}, which is code without a meaning in NumPy: "
        "its results, and what is computed from them, cannot be verified"
    )


def evaluate(op: CustomOp, inputs: Arrays, ctx: Context) -> Arrays:
    raise NotImplementedError(unsupported(op))


def bound(op: CustomOp, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    raise NotImplementedError(unsupported(op))


def domain(op: CustomOp, port: str, ctx: Context) -> Domain:
    return Domain()


def samples() -> tuple[Sample, ...]:
    return ()


REFERENCE = Reference(
    evaluate=evaluate, bound=bound, domain=domain, samples=samples, unsupported=unsupported
)
