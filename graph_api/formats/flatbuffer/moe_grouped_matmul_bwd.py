"""`moe_grouped_matmul_bwd` on the wire."""

from __future__ import annotations

from ...ops.moe_grouped_matmul_bwd import MoeGroupedMatmulBwd
from .wire_form import WireForm, uids

FORM = WireForm(
    MoeGroupedMatmulBwd,
    code=23,
    fields=uids("doutput", "token", "first_token_offset", "dweight"),
)
