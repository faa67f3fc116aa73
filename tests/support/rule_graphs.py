# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small graphs of one node, right or wrong as the options make them."""

from __future__ import annotations

from typing import Any

from hipdnn_iree.graph_api.enums import PointwiseMode
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops.pointwise import Pointwise

RELU = Pointwise(mode=PointwiseMode.RELU_FWD)


def x(g: Graph, *dims: int, **options: Any) -> Any:
    return g.tensor(dims=dims or (2, 3), name=options.pop("name", "x"), **options)


def relu(g: Graph, *dims: int, **options: Any) -> Any:
    """A relu node that is an output, on an input made with the options."""
    return g.relu(x(g, *dims, **options), name="relu").set_output()


def matmul(g: Graph, a: tuple[int, ...], b: tuple[int, ...]) -> Any:
    left, right = g.tensor(dims=a, name="a"), g.tensor(dims=b, name="b")
    return g.matmul(left, right, name="mm").set_output()


def reduce(g: Graph, **options: Any) -> Any:
    y_dims = options.pop("y", None)
    options.setdefault("mode", "add")
    y = g.reduction(x(g), name="sum", **options).set_output()
    if y_dims is not None:
        y.set_dim(y_dims)
    return y


def pw(g: Graph, *operands: Any, **options: Any) -> Any:
    operands = operands or (x(g),)
    return g.pointwise(*operands, name="pw", **options).set_output()


def node(g: Graph, op: Any, inputs: dict[str, Any], **options: Any) -> Any:
    options.setdefault("name", "n")
    results = g.add_node(op, inputs, **options)
    for tensor in results.values():
        tensor.set_output()
    return results


def frozen(g: Graph) -> None:
    y = relu(g)
    g.freeze()
    y.set_name("other")
