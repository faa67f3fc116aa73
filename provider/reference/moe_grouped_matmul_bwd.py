"""Gradient of the experts' weights: the outer product of each row is added to its expert's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.ops.moe_grouped_matmul_bwd import MoeGroupedMatmulBwd
from .analysis import bilinear_bound, scaled_domain
from .base import Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph
from .convert import Array
from .moe_grouped_matmul import expert_of

__all__ = ["REFERENCE", "sample_problems"]

Dims = tuple[int, ...]


def _add_up(owners: list[int], token: Array, doutput: Array, experts: int) -> Array:
    result = np.zeros((experts, token.shape[2], doutput.shape[2]), dtype=token.dtype)
    for row, expert in enumerate(owners):
        if expert >= 0:
            result[expert] += np.outer(token[0, row], doutput[0, row])
    return result


def _owners(inputs: Arrays, experts: int) -> list[int]:
    offsets = inputs["first_token_offset"]
    return [expert_of(row, offsets, experts) for row in range(inputs["token"].shape[1])]


def evaluate(op: MoeGroupedMatmulBwd, inputs: Arrays, ctx: Context) -> Arrays:
    experts = ctx.outputs["dweight"].dims[0]
    owners = _owners(inputs, experts)
    return {"dweight": ctx.finish(_add_up(owners, inputs["token"], inputs["doutput"], experts))}


def bound(
    op: MoeGroupedMatmulBwd, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    experts = ctx.outputs["dweight"].dims[0]
    owners = _owners(inputs, experts)
    token, doutput = ((inputs[port], errors[port]) for port in ("token", "doutput"))
    # All rows are summed, those of other experts as zeros.
    n = inputs["token"].shape[1]
    found = bilinear_bound(lambda x, dy: _add_up(owners, x, dy, experts), token, doutput, n, ctx)
    return {"dweight": found}


def domain(op: MoeGroupedMatmulBwd, port: str, ctx: Context) -> Domain:
    rows = ctx.inputs["token"].dims[1]
    if port == "first_token_offset":
        return Domain(ints=(0, rows // 2))
    return scaled_domain(rows, port, "token", ctx)


def exact_ports(op: MoeGroupedMatmulBwd, ctx: Context) -> frozenset[str]:
    return frozenset({"first_token_offset"})


def _plain(
    rows: int, weight: Dims, groups: int = 0, *, strides: dict[str, Any] | None = None
) -> Callable[[DataType], Graph]:
    at = strides or {}

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        experts, k, n = weight
        dweight = g.moe_grouped_matmul_bwd(
            g.tensor(dims=(1, rows, n), strides=at.get("doutput"), name="doutput"),
            g.tensor(dims=(1, rows, k), strides=at.get("token"), name="token"),
            g.tensor(dims=(groups or experts, 1, 1), data_type="int32", name="first_token_offset"),
            dweight_dims=weight,
        )
        g.output(dweight, name="dweight")
        if "dweight" in at:
            dweight.set_stride(at["dweight"])
        return g

    return build


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the weight gradient."""
    sample = sampler("moe_grouped_matmul_bwd")
    padded = {"doutput": padded_strides((1, 9, 10), range(3), (0, 0, 6))}
    return (
        sample("ones", _plain(1, (1, 1, 1)), "size1"),
        sample("plain", _plain(9, (3, 12, 10)), ""),
        sample("tile_plus1", _plain(33, (2, 17, 33)), "tile"),
        sample("batches", _plain(13, (2, 8, 7), 4), "prime"),
        sample("rows", _plain(9, (3, 12, 10), strides={"dweight": (120, 10, 1)}), "permuted"),
        sample("padded_doutput", _plain(9, (3, 12, 10), strides=padded), "padded"),
    )


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    samples=sample_problems,
    exact_ports=exact_ports,
)
