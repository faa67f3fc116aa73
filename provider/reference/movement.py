"""What the references of ops that only move elements share: nothing is computed or rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.tensor import Tensor
from .base import NUMBERS, Arrays, Context, Domain, Reference, Sample
from .building import padded_strides
from .convert import Array

__all__ = ["ALL", "LAYOUTS", "moving", "one"]

Move = Callable[[Any, Arrays, Context, bool], Array]
"""From op, inputs, context and "these are errors" to y."""

ALL = (*NUMBERS, DataType.BOOLEAN)

_X = (2, 6, 5, 7)
LAYOUTS: tuple[tuple[str, tuple[int, ...], str], ...] = (
    ("nhwc", channels_last_strides(_X), "nhwc"),
    ("odd_permutation", strides_in_order(_X, (2, 0, 3, 1)), "permuted"),
    ("padded", tuple(padded_strides(_X, range(4), (0, 1, 0, 2))), "padded"),
    ("broadcast", (35, 0, 7, 1), "broadcast"),
)
"""Name, strides and tags of inputs with dims (2, 6, 5, 7)."""


def moving(move: Move, samples: Callable[[], tuple[Sample, ...]]) -> Reference:
    """Return the reference of an op whose errors move as its elements do."""

    def evaluate(op: Any, inputs: Arrays, ctx: Context) -> Arrays:
        return {"y": move(op, inputs, ctx, False)}

    def bound(op: Any, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
        spread = {port: np.broadcast_to(errors[port], a.shape) for port, a in inputs.items()}
        return {"y": move(op, spread, ctx, True)}

    return Reference(
        evaluate=evaluate,
        bound=bound,
        domain=lambda op, port, ctx: Domain(),
        samples=samples,
        exact_ports=lambda op, ctx: frozenset(ctx.inputs),
    )


def one(
    apply: Callable[[Graph, Any], Tensor],
    dims: tuple[int, ...] = _X,
    strides: tuple[int, ...] | None = None,
    result: tuple[int, ...] | None = None,
) -> Callable[[DataType], Graph]:
    """Return the builder of a graph with one input, whose result lies with strides ``result``."""

    def build(data_type: DataType) -> Graph:
        g = Graph(io_data_type=data_type)
        y = g.output(apply(g, g.tensor(dims=dims, strides=strides, name="x")), name="y")
        if result:
            y.set_stride(result)
        return g

    return build
