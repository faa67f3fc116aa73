"""Rows times the weights of their experts: where each row comes from, then one product a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import MoeGroupedMatmulMode as Mode
from ...graph_api.graph import Graph
from ...graph_api.ops.moe_grouped_matmul import MoeGroupedMatmul
from .analysis import bilinear_bound, product, scaled_domain
from .base import FLOATS, INTEGERS, Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph, wide_type
from .convert import Array

__all__ = ["REFERENCE", "expert_of", "sample_problems"]

Dims = tuple[int, ...]
INDICES = ("first_token_offset", "token_index", "token_ks")


def expert_of(row: int, offsets: Array, experts: int) -> int:
    """Return the expert of a row, or -1: as many groups as start at or before it come before."""
    begun = sum(1 for start in offsets.ravel() if start <= row)
    return (begun - 1) % experts if begun else -1


def _routes(op: MoeGroupedMatmul, inputs: Arrays, rows: int) -> list[tuple[int, int]]:
    """Return (source, expert) of each row of the output; expert -1 where nothing is written."""
    offsets, experts = inputs["first_token_offset"], inputs["weight"].shape[0]
    tokens = inputs["token"].shape[1]
    found = [(0, -1)] * rows
    index = inputs["token_index"].ravel() if "token_index" in inputs else np.arange(tokens)
    for r in reversed(range(min(rows, len(index)))):  # of two for one place the first stays
        expert = expert_of(r, offsets, experts)
        if op.mode is not Mode.SCATTER:
            found[r] = (int(np.clip(index[r], 0, tokens - 1)), expert)
        elif expert >= 0:
            place = int(index[r]) * op.top_k + int(inputs["token_ks"].ravel()[r])
            if 0 <= place < rows:
                found[place] = (r, expert)
    return found


def _apply(routes: list[tuple[int, int]], token: Array, weight: Array) -> Array:
    result = np.zeros((1, len(routes), weight.shape[2]), dtype=token.dtype)
    for place, (source, expert) in enumerate(routes):
        if expert >= 0:
            result[0, place] = product(token[0, source : source + 1], weight[expert])[0]
    return result


def evaluate(op: MoeGroupedMatmul, inputs: Arrays, ctx: Context) -> Arrays:
    routes = _routes(op, inputs, ctx.outputs["output"].dims[1])
    return {"output": ctx.finish(_apply(routes, inputs["token"], inputs["weight"]))}


def bound(
    op: MoeGroupedMatmul, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    routes = _routes(op, inputs, ctx.outputs["output"].dims[1])
    token, weight = ((inputs[port], errors[port]) for port in ("token", "weight"))
    k = inputs["weight"].shape[1]
    found = bilinear_bound(lambda x, w: _apply(routes, x, w), token, weight, k, ctx)
    return {"output": found}


def domain(op: MoeGroupedMatmul, port: str, ctx: Context) -> Domain:
    if port in INDICES:
        rows = ctx.outputs["output"].dims[1]
        most = {"token_index": ctx.inputs["token"].dims[1] - 1, "token_ks": max(op.top_k - 1, 0)}
        if op.mode is Mode.SCATTER:
            most["token_index"] = (rows - 1) // op.top_k
        # The later half of the rows has an expert, whatever is drawn.
        return Domain(ints=(0, most.get(port, rows // 2)))
    return scaled_domain(ctx.inputs["weight"].dims[1], port, "token", ctx)


def exact_ports(op: MoeGroupedMatmul, ctx: Context) -> frozenset[str]:
    return frozenset(INDICES)


def _plain(
    token: Dims,
    weight: Dims,
    groups: int = 0,
    *,
    rows: int = 0,
    mode: str = "none",
    top_k: int = 0,
    strides: dict[str, Any] | None = None,
    result: DataType | None = None,
) -> Callable[[DataType], Graph]:
    at = strides or {}

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)

        def table(count: Dims, name: str) -> Any:
            return g.tensor(dims=count, data_type=DataType.INT32, name=name)

        routes = {}
        if mode != "none":
            routes["token_index"] = table((1, rows, 1), "token_index")
        if mode == "scatter":
            routes["token_ks"] = table((1, rows, 1), "token_ks")
        y = g.moe_grouped_matmul(
            g.tensor(dims=token, strides=at.get("token"), name="token"),
            g.tensor(dims=weight, strides=at.get("weight"), name="weight"),
            table((groups or weight[0], 1, 1), "first_token_offset"),
            mode=mode,
            top_k=top_k,
            **routes,
        )
        kind = data_type if data_type.is_float else wide_type(data_type)
        g.output(y, name="output", data_type=result or kind)
        return g

    return build


def _feed_forward(data_type: DataType) -> Graph:
    """Tokens to their experts, an activation, the second layer, and back."""
    g = sample_graph(data_type)
    token, offsets, index, ks = (
        g.tensor(dims=(1, 8, 16), name="token"),
        *(
            g.tensor(dims=d, data_type=DataType.INT32, name=n)
            for d, n in (((3, 1, 1), "offsets"), ((1, 8, 1), "index"), ((1, 8, 1), "ks"))
        ),
    )
    first, second = g.tensor(dims=(3, 16, 24), name="w1"), g.tensor(dims=(3, 24, 16), name="w2")
    hidden = g.moe_grouped_matmul(token, first, offsets, token_index=index, mode="gather")
    y = g.moe_grouped_matmul(
        g.relu(hidden),
        second,
        offsets,
        token_index=index,
        token_ks=ks,
        mode="scatter",
        top_k=2,
    )
    g.output(y, name="output")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems."""
    sample = sampler("moe_grouped_matmul")
    t, w = (1, 9, 12), (3, 12, 10)
    columns = {"weight": (120, 1, 12)}
    padded = {"token": padded_strides(t, range(3), (0, 0, 4))}
    return (
        sample("ones", _plain((1, 1, 1), (1, 1, 1)), "size1"),
        sample("plain", _plain(t, w), "", (*FLOATS, *INTEGERS[:1])),
        sample("tile_plus1", _plain((1, 33, 17), (2, 17, 33)), "tile"),
        sample("batches", _plain((1, 13, 8), (2, 8, 7), 6), "prime"),
        sample("columns", _plain(t, w, strides=columns), "transposed"),
        sample("padded_token", _plain(t, w, strides=padded), "padded"),
        sample("gather", _plain(t, w, rows=14, mode="gather"), "gather"),
        sample("gather_few", _plain(t, w, rows=1, mode="gather"), "gather size1"),
        sample("scatter", _plain(t, w, rows=9, mode="scatter", top_k=1), "scatter"),
        sample("scatter_top2", _plain(t, w, rows=6, mode="scatter", top_k=2), "scatter"),
        sample("half_to_float", _plain(t, w, result=DataType.FLOAT), "mixed", FLOATS[1:3]),
        sample("feed_forward", _feed_forward, "chain gather scatter"),
    )


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    samples=sample_problems,
    exact_ports=exact_ports,
)
