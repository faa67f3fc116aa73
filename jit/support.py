"""Which frozen graphs the IREE engine serves: rules, decided without compiler or torch-mlir.

A graph that passes is compiled for real in the tests, for every sample problem and target; what
the compiler cannot do right is declined here by a rule that names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..graph_api.dtypes import DataType
from ..graph_api.enums import AttentionImplementation
from ..graph_api.errors import Problem
from ..graph_api.frozen import FrozenGraph, FrozenNode
from ..graph_api.ops.attention import AttentionOp
from ..graph_api.ops.conv_fprop import ConvOp
from ..graph_api.ops.row_norms import normalised_dims
from ..graph_api.ops.sdpa import Sdpa
from .lowering import LOWERINGS
from .target import Target

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-01": "the op has a lowering",
    "IREE-02": "every tensor has a data type that the lowering handles",
    "IREE-04": "scalars read at execution are not served yet",
    "IREE-05": "ragged tensors are not served yet",
    "IREE-06": "graphs with override shapes are not served yet",
    "IREE-07": "attention without random dropout, whose random numbers hipDNN does not define",
    "IREE-08": "attention without block mask, scales of fp8 or hints other than the default",
    "IREE-09": "attention for gfx9 with keys in order, and with bounds only where that was checked",
    "IREE-10": "norms for gfx9 whose long rows lie in one piece, or are a multiple of 64 long",
    "IREE-11": "convolutions for gfx9 that sum over one channel have no dilation",
    "IREE-12": "strided weight gradients for gfx9 with some dims of one tap have no padding",
}

SERVED_TYPES = (
    DataType.FLOAT,
    DataType.HALF,
    DataType.BFLOAT16,
    DataType.DOUBLE,
    DataType.INT8,
    DataType.UINT8,
    DataType.INT32,
    DataType.INT64,
    DataType.BOOLEAN,
)


def problems(graph: FrozenGraph, target: Target) -> Iterator[Problem]:
    """Yield every reason not to serve a graph for a target; nothing yielded is a promise."""
    if graph.is_override_shape_enabled:
        yield Problem(
            rule="IREE-06",
            port="is_override_shape_enabled",
            got="true",
            wanted="false",
            hint="build one plan per shape; the cache makes the second start cheap",
        )
    for node in graph.nodes:
        yield from _node_problems(graph, node, target)


def _node_problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    def problem(rule: str, port: str, got: object, wanted: str, hint: str = "") -> Problem:
        return Problem(
            rule=rule, node=node.label, port=port, got=str(got), wanted=wanted, hint=hint
        )

    if node.op.NAME not in LOWERINGS:
        yield problem("IREE-01", "", node.op.NAME, f"one of {', '.join(LOWERINGS)}")
    if isinstance(node.op, AttentionOp):
        yield from _attention_problems(graph, node, target)
    if node.op.NAME in _ROW_NORMS and target.is_gfx9 and (found := _scattered(graph, node)):
        hint = "make x contiguous, with the normalised dims last"
        yield problem("IREE-10", "x", found, f"at most {_SHORT_ROW} elements a row", hint)
    if isinstance(node.op, ConvOp) and target.is_gfx9:
        yield from _conv_problems(graph, node)
    for port, uid in (*node.inputs.items(), *node.outputs.items()):
        spec = graph.tensors[uid]
        if spec.data_type not in SERVED_TYPES:
            served = ", ".join(t.json for t in SERVED_TYPES)
            yield problem("IREE-02", port, spec.data_type.json, f"one of {served}")
        if spec.runtime_scalar and spec.value is None:
            yield problem(
                "IREE-04", port, "a scalar read at execution", "a tensor or a compile-time scalar"
            )
        if spec.ragged_offset_uid is not None:
            yield problem("IREE-05", port, "a ragged tensor", "a tensor with fixed dims")


def _conv_problems(graph: FrozenGraph, node: FrozenNode) -> Iterator[Problem]:
    """Yield what IREE 3.13 compiles to wrong numbers for gfx9 (found by emulation)."""
    op = node.op
    assert isinstance(op, ConvOp)
    dims = {
        port: graph.tensors[uid].dims for port, uid in (*node.inputs.items(), *node.outputs.items())
    }
    summed = {"conv_fprop": ("x", 1), "conv_dgrad": ("dy", 1)}.get(op.NAME)
    if summed and dims[summed[0]][summed[1]] == 1 and max(op.dilation) > 1:
        yield Problem(
            rule="IREE-11",
            node=node.label,
            port="dilation",
            got=f"{list(op.dilation)} with one channel",
            wanted="1 in each dim",
            hint="add a channel of zeros to both operands",
        )
    taps = dims["dw"][2:] if op.NAME == "conv_wgrad" else ()
    padded = any((*op.pre_padding, *op.post_padding))
    if 1 in taps and max(taps) > 1 and padded and max(op.stride) > 1:
        yield Problem(
            rule="IREE-12",
            node=node.label,
            port="pre_padding",
            got=f"{list(op.pre_padding)} with taps {list(taps)} and stride {list(op.stride)}",
            wanted="no padding",
            hint="pad x beforehand",
        )


_ROW_NORMS = ("layernorm", "layernorm_backward", "rmsnorm", "rmsnorm_backward")
# Up to here IREE 3.13 unrolls a scattered row in good time on gfx9; 1000 take over a minute.
_SHORT_ROW = 210


def _scattered(graph: FrozenGraph, node: FrozenNode) -> str:
    """Return what is wrong with the rows of a norm, or ``""``."""
    x, scale = (graph.tensors[node.inputs[port]] for port in ("x", "scale"))
    axes = normalised_dims(x.dims, scale.dims, getattr(node.op, "normalized_dim_count", 0))
    length = prod(x.dims[a] for a in axes)
    layout, rank = x.layout, len(x.dims)
    in_order = x.virtual or (layout.order == tuple(range(rank)) and not layout.broadcast)
    if in_order and axes == tuple(range(rank - len(axes), rank)):
        return ""
    if length <= _SHORT_ROW or length % 64 == 0:
        return ""
    return f"rows of {length} elements over dims {list(axes)}, strides {list(x.strides)}"


_RANDOM = ("seed", "offset", "rng_dump")
_FP8 = ("block_mask", "descale_q", "descale_k", "descale_v", "descale_s")
_FP8_RESULTS = ("scale_s", "scale_o", "amax_s", "amax_o")


def _attention_problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    op = node.op
    assert isinstance(op, AttentionOp)

    def problem(rule: str, port: str, got: object, wanted: str, hint: str = "") -> Problem:
        return Problem(
            rule=rule, node=node.label, port=port, got=str(got), wanted=wanted, hint=hint
        )

    dropout = "pass a dropout_mask with its dropout_scale"
    if op.dropout_probability:
        got = op.dropout_probability
        yield problem("IREE-07", "dropout_probability", got, "none, or 0", dropout)
    connected = {*node.inputs, *node.outputs}
    for port in _RANDOM:
        if port in connected:
            yield problem("IREE-07", port, "a tensor", "nothing", dropout)
    for port in (*_FP8, *_FP8_RESULTS):
        if port in connected:
            yield problem("IREE-08", port, "a tensor", "nothing")
    if isinstance(op, Sdpa):
        if op.implementation is not AttentionImplementation.AUTO:
            yield problem("IREE-08", "implementation", op.implementation.json, "AUTO")
        kind = graph.tensors[node.inputs["q"]].data_type
        if op.mma_core_mode not in (DataType.UNSET, kind):
            wanted = f"unset, or {kind.json} as q's"
            yield problem("IREE-08", "mma_core_mode", op.mma_core_mode.json, wanted)
    if not target.is_gfx9:
        return
    for port in ("page_table_k", "page_table_v"):
        if port in connected:  # IREE 3.13 ends by SIGSEGV
            yield problem("IREE-09", port, "a tensor", "k and v in order")
    left, right, _ = op.band
    if (left, right) != (None, None) and not _fused(graph, node):
        # The emulated kernels do not end; nothing was run on hardware.
        port = "right_bound" if left is None else "left_bound"
        hint = "pass the bounds as a boolean attn_mask"
        yield problem("IREE-09", port, right if left is None else left, "no bound", hint)


def _fused(graph: FrozenGraph, node: FrozenNode) -> bool:
    """Whether a causal attention is one that ``jit/lowering/sdpa.py`` emits as one op."""
    op = node.op
    specs = {port: graph.tensors[uid] for port, uid in node.inputs.items()}
    kind = specs["q"].data_type
    return (
        isinstance(op, Sdpa)
        and op.band == (None, 0, False)
        and not op.alibi_mask
        and set(specs) == {"q", "k", "v"}
        and set(node.outputs) == {"o"}
        and all(spec.data_type is kind for spec in specs.values())
        and kind in (DataType.HALF, DataType.BFLOAT16, DataType.FLOAT)
        and node.compute_data_type is DataType.FLOAT
        and specs["k"].dims[1] == specs["v"].dims[1]
    )
