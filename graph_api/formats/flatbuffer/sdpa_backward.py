"""`sdpa_backward` on the wire."""

from __future__ import annotations

from ...enums import DiagonalAlignment
from ...ops.sdpa_backward import SdpaBackward
from .schema_types import LONG
from .wire_form import COSTS, WireForm, flags, floats, mode, number, uids

FORM = WireForm(
    SdpaBackward,
    code=15,
    fields=(
        *uids("q", "k", "v", "o", "do", "stats", "dq", "dk", "dv"),
        *uids("scale", "attn_mask", "seq_len_q", "seq_len_kv", "seed", "offset", optional=True),
        *uids("dropout_mask", "dropout_scale", "dropout_scale_inv", "dbias", optional=True),
        *flags("alibi_mask", "padding_mask", "causal_mask", "causal_mask_bottom_right"),
        *floats("dropout_probability", "attn_scale_value"),
        number("left_bound", LONG, None),
        number("right_bound", LONG, None),
        mode("diagonal_alignment", DiagonalAlignment, DiagonalAlignment.TOP_LEFT),
        *COSTS,
    ),
)
