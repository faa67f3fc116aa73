"""`moe_grouped_matmul` on the wire."""

from __future__ import annotations

from ...enums import MoeGroupedMatmulMode
from ...ops.moe_grouped_matmul import MoeGroupedMatmul
from . import schema_types as s
from .wire_form import WireForm, mode, number, uids

FORM = WireForm(
    MoeGroupedMatmul,
    code=22,
    fields=(
        *uids("token", "weight", "first_token_offset"),
        *uids("token_index", "token_ks", optional=True),
        *uids("output"),
        mode("mode", MoeGroupedMatmulMode, MoeGroupedMatmulMode.NONE),
        number("top_k", s.INT, 0),
    ),
)
