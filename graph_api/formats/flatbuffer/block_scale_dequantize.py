"""`block_scale_dequantize` on the wire."""

from __future__ import annotations

from ...ops.block_scale_dequantize import BlockScaleDequantize
from .wire_form import WireForm, flags, ints, uids

FORM = WireForm(
    BlockScaleDequantize,
    code=13,
    fields=(*uids("x", "scale", "y"), ints("block_size"), *flags("is_negative_scale")),
)
