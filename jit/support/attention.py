"""What of attention is declined."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.dtypes import DataType
from ...graph_api.enums import AttentionImplementation
from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.attention import AttentionOp
from ...graph_api.ops.sdpa import Sdpa
from ..target import Target
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-SDPA-01": "attention without random dropout, whose random numbers hipDNN does not define",
    "IREE-SDPA-02": "attention without block mask, scales of fp8 or hints other than the default",
    "IREE-SDPA-03": "attention for gfx9 with keys in order, and with bounds only where that was checked",
}

_RANDOM = ("seed", "offset", "rng_dump")
_FP8 = ("block_mask", "descale_q", "descale_k", "descale_v", "descale_s")
_FP8_RESULTS = ("scale_s", "scale_o", "amax_s", "amax_o")


def problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    """Yield why attention is not served."""
    op = node.op
    assert isinstance(op, AttentionOp)

    dropout = "pass a dropout_mask with its dropout_scale"
    if op.dropout_probability:
        got = op.dropout_probability
        yield problem(node, "IREE-SDPA-01", "dropout_probability", got, "none, or 0", dropout)
    connected = {*node.inputs, *node.outputs}
    for port in _RANDOM:
        if port in connected:
            yield problem(node, "IREE-SDPA-01", port, "a tensor", "nothing", dropout)
    for port in (*_FP8, *_FP8_RESULTS):
        if port in connected:
            yield problem(node, "IREE-SDPA-02", port, "a tensor", "nothing")
    if isinstance(op, Sdpa):
        if op.implementation is not AttentionImplementation.AUTO:
            yield problem(node, "IREE-SDPA-02", "implementation", op.implementation.json, "AUTO")
        kind = graph.tensors[node.inputs["q"]].data_type
        if op.mma_core_mode not in (DataType.UNSET, kind):
            wanted = f"unset, or {kind.json} as q's"
            yield problem(node, "IREE-SDPA-02", "mma_core_mode", op.mma_core_mode.json, wanted)
    if not target.is_gfx9:
        return
    for port in ("page_table_k", "page_table_v"):
        if port in connected:  # IREE 3.13 ends by SIGSEGV
            yield problem(node, "IREE-SDPA-03", port, "a tensor", "k and v in order")
    left, right, _ = op.band
    if (left, right) != (None, None) and not _fused(graph, node):
        # The emulated kernels do not end; nothing was run on hardware.
        port = "right_bound" if left is None else "left_bound"
        hint = "pass the bounds as a boolean attn_mask"
        yield problem(node, "IREE-SDPA-03", port, right if left is None else left, "no bound", hint)


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
