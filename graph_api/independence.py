"""Which dynamic dims may be padded: those along which no op mixes entries.

A size that is rounded up adds entries at the end of a dim.  They are harmless when each result
entry comes from the operand entries of the same position alone: then whatever stands in the added
entries stays there, through all nodes, and is cut off at the end.  Each op says for an axis of an
operand which axis of its results follows it entry by entry, or what mixes it.  An op that is not
in the table is taken to mix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from .dynamic import DERIVED
from .errors import Problem
from .frozen import FrozenGraph, FrozenNode
from .ops.attention import AttentionOp
from .ops.block_scale_quantize import BlockScaleQuantize
from .ops.concatenate import Concatenate
from .ops.conv_fprop import ConvFprop, ConvOp
from .ops.pad import Pad
from .ops.reduction import Reduction
from .ops.row_norms import normalised_dims
from .ops.slice import Slice
from .ops.transpose import Transpose

__all__ = ["RULES", "mixing"]

RULES: dict[str, str] = {
    "MIX-01": "no op mixes entries along a dim that is padded",
    "MIX-02": "the op is known to keep the entries of a padded dim apart",
}

_HINT = "build(exact=True) compiles each size that is met"

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _At:
    """An axis of an operand, with the node around it."""

    graph: FrozenGraph
    node: FrozenNode
    port: str
    axis: int

    def dims(self, port: str) -> Ints:
        node = self.node
        return self.graph.tensors[node.inputs.get(port) or node.outputs[port]].dims

    def mark(self, port: str, axis: int) -> str:
        """Return the name of the dynamic dim there, or ``""``."""
        node = self.node
        marks = self.graph.tensors[node.inputs.get(port) or node.outputs[port]].dynamic
        return marks[axis] if marks else ""

    @property
    def rank(self) -> int:
        return len(self.dims(self.port))

    def to(self, axis: int | None = None) -> Mapping[str, int]:
        """Return one axis (the same one, unless told) for all results."""
        return dict.fromkeys(self.node.outputs, self.axis if axis is None else axis)


Follows = Callable[[_At], Mapping[str, int] | Mapping[str, int | None] | str]
"""Returns the axis of each result that follows the operand's (None: the result does not depend
on the entries that are added), or what mixes its entries."""


def mixing(graph: FrozenGraph) -> Iterator[Problem]:
    """Yield every node that mixes entries along a dynamic dim, with what mixes them.

    When nothing is yielded, each result of the graph, cut to some sizes, is that of the operands
    cut to these sizes, whatever else the operands hold.  (Keys that a padding mask hides are the
    one exception: they have the weight zero, so they must be finite.)
    """
    used = {uid for node in graph.nodes for uid in node.inputs.values()} | set(graph.outputs)
    for node in graph.nodes:
        for port, uid in node.inputs.items():
            for axis, name in enumerate(graph.tensors[uid].dynamic):
                if name and (found := _problem(graph, node, port, axis, name, used)) is not None:
                    yield found


def _problem(
    graph: FrozenGraph, node: FrozenNode, port: str, axis: int, name: str, used: set[int]
) -> Problem | None:
    def wrong(rule: str, got: str, wanted: str) -> Problem:
        got = f"dim {axis} ({name}): {got}" if name != DERIVED else f"dim {axis}: {got}"
        return Problem(rule=rule, node=node.label, port=port, got=got, wanted=wanted, hint=_HINT)

    if name == DERIVED:
        got = "an extent that varies with a dynamic dim without being it"
        return wrong("MIX-01", got, "the dynamic dim itself")
    follows = _FOLLOWS.get(node.op.NAME)
    if follows is None:
        return wrong("MIX-02", node.op.NAME, f"one of {', '.join(_FOLLOWS)}")
    found = follows(_At(graph, node, port, axis))
    wanted = "each entry of the result from the operand's entry of the same position"
    if isinstance(found, str):
        return wrong("MIX-01", found, wanted)
    for result, uid in node.outputs.items():
        if uid not in used:
            continue
        if result not in found:
            return wrong("MIX-01", f"{result} is a sum over it", wanted)
        to, marks = found[result], graph.tensors[uid].dynamic
        if to is not None and (not marks or marks[to] != name):
            return wrong("MIX-01", f"{result} does not have the dim as it is", wanted)
    return None


def _aligned(at: _At) -> Mapping[str, int]:
    """Ranks are aligned at their ends, as NumPy does."""
    return {p: at.axis + len(at.dims(p)) - at.rank for p in at.node.outputs}


def _matmul(at: _At) -> Mapping[str, int] | str:
    if at.axis == at.rank - (1 if at.port == "a" else 2):
        return "K, which is summed over"
    if at.axis < at.rank - 2:
        other = "b" if at.port == "a" else "a"
        if at.dims(other)[at.axis] != 1 and at.mark(other, at.axis) != at.mark(at.port, at.axis):
            return f"which batch of {other} is taken depends on its extent"
    return at.to()


def _reduction(at: _At) -> Mapping[str, int] | str:
    op = at.node.op
    assert isinstance(op, Reduction)
    axes = [axis % at.rank for axis in op.axes or range(at.rank)]
    return f"{op.mode.name} over it" if at.axis in axes else at.to()


def _fprop(at: _At) -> Mapping[str, int] | str:
    op, x, w = at.node.op, at.dims("x"), at.dims("w")
    assert isinstance(op, ConvFprop)
    if at.port == "x":
        if at.axis == 0:
            return at.to()
        if at.axis == 1:
            return "channels, which are summed over"
        i = at.axis - 2
        point = (w[at.axis], op.stride[i], op.pre_padding[i], op.post_padding[i]) == (1, 1, 0, 0)
        return at.to() if point else "a window of several positions"
    if at.axis == 0 and x[1] == w[1]:
        return at.to(1)
    return "which channels a filter takes depends on the number of filters, or they are summed"


def _dgrad(at: _At) -> Mapping[str, int] | str:
    op = at.node.op
    assert isinstance(op, ConvOp)
    return at.to() if (at.port, at.axis) == ("dy", 0) else "a sum over it, or over windows"


def _summed(at: _At) -> str:
    return "the filter's gradient is a sum over it"


def _rows(at: _At) -> Mapping[str, int] | str:
    op = at.node.op
    x = at.dims("x")
    axes = normalised_dims(x, at.dims("scale"), getattr(op, "normalized_dim_count", 0))
    if at.port in ("scale", "bias", "epsilon") or at.axis in axes:
        return "a dim that is normalised"
    # Gradients of the parameters are sums over all rows.
    return {p: at.axis for p in at.node.outputs if p not in ("dscale", "dbias")}


def _channels_apart(at: _At) -> Mapping[str, int] | str:
    return at.to() if at.rank == len(at.dims("y")) else "dims are not aligned with x's"


def _statistics(at: _At) -> Mapping[str, int] | str:
    return at.to() if (at.axis, at.rank) == (1, len(at.dims("x"))) else "statistics are over it"


def _attention(at: _At) -> Mapping[str, int | None] | str:
    op, results = at.node.op, at.node.outputs
    assert isinstance(op, AttentionOp)
    port, axis = at.port, at.axis + 4 - at.rank  # masks may have fewer dims
    forward = op.NAME == "sdpa"
    bottom = getattr(at.node.source, "band", op.band)[2] and not op.padding_mask
    rows = [p for p in results if p not in ("amax_s", "amax_o")]  # those are of all entries
    if op.dropout_probability:
        return "which weights are dropped depends on its extent"
    if f"page_table_{port}" in at.node.inputs:
        return "blocks, which a table picks"
    if axis == 0 and port in _PER_BATCH:
        return dict.fromkeys(rows, 0)
    if axis == 1:
        return "which heads share keys depends on their number"
    if axis == 2 and forward and port in ("q", "attn_mask", "dropout_mask"):
        return "the diagonal ends at the last query" if bottom else dict.fromkeys(rows, 2)
    if axis == 3 and forward and port == "v":
        return {p: 3 if p == "o" else None for p in rows}
    if axis == 2 and forward and port in ("k", "v") and op.padding_mask:
        # Weights beyond seq_len_kv are zero.
        return dict.fromkeys((p for p in rows if p != "rng_dump"), None)
    return "a sum over it"


_PER_BATCH = (
    *("q", "k", "v", "o", "do", "stats", "attn_mask", "dropout_mask"),
    *("seq_len_q", "seq_len_kv", "page_table_k", "page_table_v"),
)


def _pooling(at: _At) -> Mapping[str, int] | str:
    return at.to() if at.axis < 2 else "a window of several positions"


def _quantize(at: _At) -> Mapping[str, int] | str:
    op = at.node.op
    assert isinstance(op, BlockScaleQuantize)
    return "blocks along it have one scale" if at.axis == op.axis else at.to()


def _dequantize(at: _At) -> Mapping[str, int] | str:
    other = "scale" if at.port == "x" else "x"
    alone = at.port == "x" and at.dims(other)[at.axis] == 1
    same = at.mark(other, at.axis) == at.mark(at.port, at.axis)
    return at.to() if alone or same else "blocks along it have one scale"


def _concatenate(at: _At) -> Mapping[str, int] | str:
    op = at.node.op
    assert isinstance(op, Concatenate)
    return "tensors are joined along it" if at.axis == op.axis % at.rank else at.to()


def _transpose(at: _At) -> Mapping[str, int]:
    op = at.node.op
    assert isinstance(op, Transpose)
    return at.to(op.permutation.index(at.axis))


def _slice(at: _At) -> Mapping[str, int] | str:
    op = at.node.op
    assert isinstance(op, Slice)
    return at.to() if op.starts[at.axis] == 0 else "a part of it is taken"


def _pad(at: _At) -> Mapping[str, int] | str:
    op = at.node.op
    assert isinstance(op, Pad)
    kept = op.pre_padding[at.axis] == op.post_padding[at.axis] == 0
    return at.to() if kept else "it is padded or cut"


def _reshape(at: _At) -> Mapping[str, int] | str:
    """The same dim of y is one with as many elements before it, and as many behind."""
    x, y, name = at.dims("x"), at.dims("y"), at.mark("x", at.axis)
    if any(at.mark("x", axis) for axis in range(at.axis)):
        return "a dynamic dim stands before it"
    for axis in range(len(y)):
        same = at.mark("y", axis) == name and not any(at.mark("y", i) for i in range(axis))
        if same and prod(y[:axis]) == prod(x[: at.axis]):
            return at.to(axis)
    return "it is joined with other dims"


_FOLLOWS: dict[str, Follows] = {
    "batchnorm": _statistics,
    "batchnorm_backward": _statistics,
    "batchnorm_inference": _channels_apart,
    "batchnorm_inference_variance_ext": _channels_apart,
    "block_scale_dequantize": _dequantize,
    "block_scale_quantize": _quantize,
    "concatenate": _concatenate,
    "conv_dgrad": _dgrad,
    "conv_fprop": _fprop,
    "conv_wgrad": _summed,
    "layernorm": _rows,
    "layernorm_backward": _rows,
    "matmul": _matmul,
    "pad": _pad,
    "pointwise": _aligned,
    "reduction": _reduction,
    "reshape": _reshape,
    "resample_bwd": _pooling,
    "resample_fwd": _pooling,
    "rmsnorm": _rows,
    "rmsnorm_backward": _rows,
    "sdpa": _attention,
    "sdpa_backward": _attention,
    "slice": _slice,
    "transpose": _transpose,
}
