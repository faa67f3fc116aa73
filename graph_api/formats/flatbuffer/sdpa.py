"""`sdpa` on the wire."""

from __future__ import annotations

from ...dtypes import DataType
from ...enums import AttentionImplementation, DiagonalAlignment
from ...ops.sdpa import Sdpa
from .schema_types import INT, LONG
from .wire_form import COSTS, WireForm, flags, floats, mode, number, uids

FORM = WireForm(
    Sdpa,
    code=12,
    fields=(
        *uids("q", "k", "v", "o"),
        *uids("attn_mask", "scale", "seq_len_q", "seq_len_kv", "seed", "offset", optional=True),
        *uids("dropout_mask", "dropout_scale", "page_table_k", "page_table_v", optional=True),
        *uids("block_mask", "sink_token", optional=True),
        *uids("descale_q", "descale_k", "descale_v", "descale_s", optional=True),
        *uids("scale_s", "scale_o", optional=True),
        *uids("stats", "max", "sum_exp", "rng_dump", "amax_s", "amax_o", optional=True),
        *flags("generate_stats", default=None),
        *flags("alibi_mask", "padding_mask", "causal_mask", "causal_mask_bottom_right"),
        *floats("dropout_probability", "attn_scale_value"),
        number("left_bound", LONG, None),
        number("right_bound", LONG, None),
        number("max_seq_len_kv", INT, None),
        mode("diagonal_alignment", DiagonalAlignment, DiagonalAlignment.TOP_LEFT),
        mode("mma_core_mode", DataType, DataType.UNSET),
        mode("implementation", AttentionImplementation, AttentionImplementation.AUTO),
        *COSTS,
    ),
)
