"""What of graphs with dynamic dims is declined: extents that code for all sizes cannot have.

What passes is compiled once and really run in the tests, at sizes 1, odd, prime and around tiles.
The rest is served with a plan for each size (``Graph.build(exact=True)``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ...graph_api.dynamic_dim import DERIVED
from ...graph_api.enums import PointwiseMode
from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.attention import AttentionOp
from ...graph_api.ops.conv_fprop import ConvOp
from ...graph_api.ops.pointwise import Pointwise
from ..target import Target
from . import dynamic_gfx9
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-DYN-01": "an extent that varies with a dynamic dim is that dim itself",
    "IREE-DYN-02": "the op has code for all sizes of a dynamic dim",
    "IREE-DYN-03": "dynamic are only those dims of an operand that the op's code leaves open",
    "IREE-DYN-04": "tensors with dynamic dims have a type of at least 8 bits",
    "IREE-DYN-05": "on gfx9 the op's code for all sizes is of a form that was checked by emulation",
    "IREE-DYN-06": "the target is one for which code for all sizes was checked",
}

_HINT = "build(exact=True) makes a plan for each size, build(buckets=...) for some"

Marks = Mapping[str, tuple[str, ...]]
Open = Callable[[FrozenNode, Marks], Iterator[tuple[str, int]]]
"""Yields the port and axis of each dynamic dim that is refused."""


def problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    """Yield why a node with dynamic dims is not served by one code for all sizes."""
    ports = {**node.inputs, **node.outputs}
    marks = {p: graph.tensors[u].dynamic for p, u in ports.items() if graph.tensors[u].dynamic}
    if not marks:
        return
    if target.is_gfx9:
        for port, got, wanted in dynamic_gfx9.refusals(graph, node, marks):
            yield problem(node, "IREE-DYN-05", port, got, wanted, _HINT)
    elif not target.is_cpu:
        wanted = "the CPU or gfx9"
        yield problem(node, "IREE-DYN-06", "", f"dynamic dims for {target}", wanted, _HINT)
    for port, names in marks.items():
        spec = graph.tensors[ports[port]]
        if DERIVED in names:
            axis = names.index(DERIVED)
            wanted = "a fixed extent, or a dynamic dim as it is"
            got = f"dim {axis}, which varies with a dynamic dim"
            yield problem(node, "IREE-DYN-01", port, got, wanted, _HINT)
        if spec.data_type.bits < 8:
            yield problem(
                node, "IREE-DYN-04", port, spec.data_type.json, "a type of at least 8 bits", _HINT
            )
    check = _CHECKS.get(node.op.NAME)
    if check is None:
        yield problem(node, "IREE-DYN-02", "", node.op.NAME, f"one of {', '.join(_CHECKS)}", _HINT)
        return
    for port, axis in check(node, marks):
        name = marks[port][axis]
        yield problem(
            node, "IREE-DYN-03", port, f"{name!r} as dim {axis}", "a fixed extent there", _HINT
        )


def _axes(marks: Marks, *ports: str) -> Iterator[tuple[str, int]]:
    """Yield each dynamic dim of some ports."""
    for port in ports:
        for axis, name in enumerate(marks.get(port, ())):
            if name:
                yield port, axis


def _pointwise(node: FrozenNode, marks: Marks) -> Iterator[tuple[str, int]]:
    op = node.op
    assert isinstance(op, Pointwise)
    if op.mode is PointwiseMode.GEN_INDEX:
        yield from _axes(marks, "in_0")


def _any(node: FrozenNode, marks: Marks) -> Iterator[tuple[str, int]]:
    return iter(())


def _rows(node: FrozenNode, marks: Marks) -> Iterator[tuple[str, int]]:
    # Lengths of rows choose the form of the code.
    yield from _axes(marks, "scale", "bias", "epsilon", "dscale", "dbias")


def _batch_only(port: str) -> Open:
    def check(node: FrozenNode, marks: Marks) -> Iterator[tuple[str, int]]:
        op = node.op
        assert isinstance(op, ConvOp)
        yield from ((p, axis) for p, axis in _axes(marks, port, "w") if (p, axis) != (port, 0))

    return check


def _channel_norm(node: FrozenNode, marks: Marks) -> Iterator[tuple[str, int]]:
    yield from ((p, axis) for p, axis in _axes(marks, "x") if axis == 1)


def _attention(node: FrozenNode, marks: Marks) -> Iterator[tuple[str, int]]:
    op = node.op
    assert isinstance(op, AttentionOp)
    banded = op.band != (None, None, False) or op.alibi_mask
    bottom = getattr(node.source, "band", op.band)[2]
    for port, axis in _axes(marks, *(p for p in marks if p in node.inputs)):
        if port not in ("q", "k", "v", "attn_mask"):
            yield port, axis
        elif port != "attn_mask" and (axis in (1, 3) or (axis == 2 and (banded or bottom))):
            # IREE 3.13 puts a mask of open size on the stack.
            yield port, axis


_CHECKS: dict[str, Open] = {
    "batchnorm_inference": _channel_norm,
    "batchnorm_inference_variance_ext": _channel_norm,
    "conv_dgrad": _batch_only("dy"),
    "conv_fprop": _batch_only("x"),
    "layernorm": _rows,
    "layernorm_backward": _rows,
    "matmul": _any,
    "pointwise": _pointwise,
    "reduction": _any,
    "rmsnorm": _rows,
    "rmsnorm_backward": _rows,
    "sdpa": _attention,
}
