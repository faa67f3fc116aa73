"""What of attention is declined."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.dtypes import DataType
from ...graph_api.enums import AttentionImplementation
from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.attention import AttentionOp
from ...graph_api.ops.sdpa import Sdpa
from ..lowering.fused_attention import fuses
from ..target import Target
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-SDPA-01": "attention without random dropout, whose random numbers hipDNN does not define",
    "IREE-SDPA-02": "attention without block mask, scales of fp8 or hints other than the default",
    "IREE-SDPA-03": "attention for gfx9 that is not fused has up to 256 keys, or a multiple of 64",
}

MOST_KEYS = 256
"""Of rows that are no multiple of 64 long: IREE 3.13 gives such a row to one thread and unrolls it,
which takes 24 s to compile for 255 keys with bounds, and minutes for 500."""
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
        yield from _long_rows(graph, node, target)


def _long_rows(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    op = node.op
    assert isinstance(op, Sdpa)
    specs = {port: graph.tensors[uid] for port, uid in node.inputs.items()}
    heads = {port: specs[port].dims[1] for port in ("k", "v")}
    kinds = {port: spec.data_type for port, spec in specs.items()}
    table = specs.get("page_table_k")
    held = specs["k"].dims[2] * (table.dims[2] if table else 1)
    keys = op.max_seq_len_kv or held
    if target.is_gfx9 and keys > MOST_KEYS and keys % 64 and not fuses(node, heads, kinds):
        hint = "pad k and v, and hide the rest: padding_mask with seq_len_kv, or attn_mask"
        wanted = f"up to {MOST_KEYS} keys, or a multiple of 64"
        yield problem(node, "IREE-SDPA-03", "k", f"{keys} keys", wanted, hint)
