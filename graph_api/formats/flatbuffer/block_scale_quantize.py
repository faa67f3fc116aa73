"""`block_scale_quantize` on the wire."""

from __future__ import annotations

from ...ops.block_scale_quantize import BlockScaleQuantize
from .schema_types import INT, LONG
from .wire_form import WireForm, flags, number, uids

FORM = WireForm(
    BlockScaleQuantize,
    code=14,
    fields=(
        *uids("x", "y", "scale"),
        number("block_size", INT, None),
        number("axis", LONG, None),
        *flags("transpose"),
    ),
)
