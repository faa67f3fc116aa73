# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What attention and its gradient share: counts, strategies, declines."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem
from ...graph_api.ops.attention import AttentionOp
from ...graph_api.ops.sdpa import Sdpa
from ..node_context import NodeContext
from .blocking import BLOCKED
from .hoisting import KEEP_EXPRESSIONS
from .multiply_types import up_to_float
from .op_info import Dims, problem
from .strategy import Strategy

__all__ = [
    "IN_TILES",
    "RULES",
    "declines",
    "fits_tiles",
    "flags",
    "fuses",
    "key_count",
    "keys_of",
]

RULES: dict[str, str] = {
    "IREE-SDPA-01": "attention without random dropout, whose random numbers hipDNN does not define",
    "IREE-SDPA-02": "attention without block mask, scales of fp8 or hints other than the default",
    "IREE-SDPA-03": "attention for gfx9 that is not fused has up to 256 keys, or a multiple of 64",
    "IREE-SDPA-04": "an ALiBi mask, whose slopes are a table in code, is for at most 4096 heads",
}

_MOST_HEADS = 4096
_TYPES = (DataType.HALF, DataType.BFLOAT16, DataType.FLOAT)
_RANDOM = ("seed", "offset", "rng_dump")
_FP8 = ("block_mask", "descale_q", "descale_k", "descale_v", "descale_s")
_FP8_RESULTS = ("scale_s", "scale_o", "amax_s", "amax_o")


def key_count(op: object, dims: Dims) -> int:
    """Return how many keys each query meets."""
    if "page_table_k" not in dims:
        return dims["k"][2]
    limit = op.max_seq_len_kv if isinstance(op, Sdpa) else None
    return limit or dims["k"][2] * dims["page_table_k"][2]


def keys_of(context: NodeContext) -> int:
    """Return how many keys each query of a node meets."""
    return key_count(context.op, {port: context.dims(port) for port in context.node.inputs})


def fits_tiles(context: NodeContext) -> bool:
    """Return whether the matmuls of a node can be in tiles of our own."""
    return context.target.is_cpu and up_to_float(context, "q", "k", "v") and not context.dynamic


IN_TILES = Strategy(
    name=BLOCKED,
    help="the same, with matmuls in tiles for the target's registers and caches: in blocks, as dot "
    "products or by rows, what is estimated to be fastest",
    fits=fits_tiles,
    why="operands of floats of up to 32 bits, float compute, fixed dims, on the CPU",
    portable=False,
)
"""Of attention and of its gradient."""


def flags(context: NodeContext) -> Iterator[str]:
    """Keep distances between queries and keys expressions."""
    yield KEEP_EXPRESSIONS


def fuses(context: NodeContext) -> bool:
    """Return whether IREE's attention kernel for gfx9 computes exactly this node."""
    op, node = context.op, context.node
    return (
        isinstance(op, Sdpa)
        and set(node.inputs) <= {"q", "k", "v", "attn_mask"}
        and set(node.outputs) == {"o"}
        and context.kind("q") is context.kind("k") is context.kind("v")
        and context.kind("q") in _TYPES
        and node.compute_data_type is DataType.FLOAT
        and not op.alibi_mask
        and context.dims("k")[1] == context.dims("v")[1]
        and (
            op.band == (None, None, False)
            or (op.band == (None, 0, False) and "attn_mask" not in node.inputs)
        )
    )


def declines(context: NodeContext) -> Iterator[Problem]:
    """Yield why attention is not served."""
    op, node = context.op, context.node
    assert isinstance(op, AttentionOp)

    heads = context.dims("q")[1]
    if op.alibi_mask and heads > _MOST_HEADS:
        wanted = f"at most {_MOST_HEADS} with an alibi_mask"
        yield problem(node, "IREE-SDPA-04", "q", f"{heads} heads", wanted)
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
