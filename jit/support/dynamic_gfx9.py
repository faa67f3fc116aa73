"""Which dynamic dims are served on gfx9: those of forms whose code was checked by emulation.

Checked are pointwise ops, products with an open number of rows, and reductions and norms of rows
whose length is fixed, in half, bfloat16 and float, alone and fused with one another (sizes 1 to
65).
Several of IREE's miscompiles on gfx9 depend on sizes that open code does not know
(docs/design/0002-gfx9-forms.md), so that everything else is declined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import NamedTuple

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.reduction import Reduction
from ...graph_api.ops.row_norms import normalised_dims

__all__ = ["Refusal", "refusals"]

_TYPES = (DataType.HALF, DataType.BFLOAT16, DataType.FLOAT)
# Rows of other lengths are unrolled by one thread (up to 64 in good time), or padded.
_WAVE = 64
_TILE = 16
"""Extents of matrix instructions; other products are compiled apart, by their sizes."""


class Refusal(NamedTuple):
    """What is not served: a port (or ``""``), what it has, and what is served there."""

    port: str
    got: str
    wanted: str


Marks = Mapping[str, tuple[str, ...]]
Check = Callable[[FrozenGraph, FrozenNode, Marks], Iterator[Refusal]]


def refusals(graph: FrozenGraph, node: FrozenNode, marks: Marks) -> Iterator[Refusal]:
    """Yield why a node with dynamic dims is not served on gfx9."""
    check = _CHECKS.get(node.op.NAME)
    if check is None:
        yield Refusal("", f"{node.op.NAME} with dynamic dims", f"one of {', '.join(_CHECKS)}")
        return
    for port, uid in (*node.inputs.items(), *node.outputs.items()):
        spec = graph.tensors[uid]
        if spec.data_type not in _TYPES:
            wanted = f"one of {', '.join(t.json for t in _TYPES)}"
            yield Refusal(port, spec.data_type.json, wanted)
        if spec.runtime_scalar:
            yield Refusal(port, "a scalar read at execution", "a tensor, or a number")
    if node.compute_data_type is not DataType.FLOAT:
        yield Refusal("compute_data_type", node.compute_data_type.json, "float")
    yield from check(graph, node, marks)


def _pointwise(graph: FrozenGraph, node: FrozenNode, marks: Marks) -> Iterator[Refusal]:
    return iter(())


def _matmul(graph: FrozenGraph, node: FrozenNode, marks: Marks) -> Iterator[Refusal]:
    a, b = (graph.tensors[node.inputs[port]] for port in ("a", "b"))
    if marks.get("b") or any(marks["a"][axis] for axis in range(len(a.dims)) if axis != 0):
        port = "b" if marks.get("b") else "a"
        yield Refusal(port, f"dynamic dims {list(marks[port])}", "dynamic rows of a only")
    if len(a.dims) != 2:
        yield Refusal("a", f"rank {len(a.dims)}", "rank 2")
    if a.layout.order != tuple(range(len(a.dims))):
        yield Refusal("a", f"strides {list(a.strides)}", "rows that lie in one piece")
    if any(n % _TILE for n in b.dims[-2:]):
        yield Refusal("b", f"dims {list(b.dims)}", f"multiples of {_TILE}")


def _reduction(graph: FrozenGraph, node: FrozenNode, marks: Marks) -> Iterator[Refusal]:
    x = graph.tensors[node.inputs["x"]]
    assert isinstance(node.op, Reduction)
    axes = [axis for axis in node.op.axes or () if x.dims[axis] != 1]
    yield from _rows(graph, node, axes, marks)


def _norm(graph: FrozenGraph, node: FrozenNode, marks: Marks) -> Iterator[Refusal]:
    x, scale = (graph.tensors[node.inputs[port]].dims for port in ("x", "scale"))
    axes = normalised_dims(x, scale, getattr(node.op, "normalized_dim_count", 0))
    yield from _rows(graph, node, list(axes), marks)


def _rows(graph: FrozenGraph, node: FrozenNode, axes: list[int], marks: Marks) -> Iterator[Refusal]:
    x = graph.tensors[node.inputs["x"]]
    rank = len(x.dims)
    in_order = x.virtual or x.layout.order == tuple(range(rank))
    if not in_order or axes != list(range(rank - len(axes), rank)):
        got = f"rows over dims {axes}, strides {list(x.strides)}"
        yield Refusal("x", got, "rows over the last dims that lie in one piece")
    elif any(marks["x"][axis] for axis in axes):
        yield Refusal("x", "rows of an open length", "a fixed length")
    elif (length := prod(x.dims[axis] for axis in axes)) > _WAVE and length % _WAVE:
        wanted = f"at most {_WAVE}, or a multiple of it"
        yield Refusal("x", f"rows of {length} elements", wanted)


_CHECKS: dict[str, Check] = {
    "batchnorm_inference": _pointwise,
    "batchnorm_inference_variance_ext": _pointwise,
    "layernorm": _norm,
    "matmul": _matmul,
    "pointwise": _pointwise,
    "reduction": _reduction,
    "rmsnorm": _norm,
}
