"""`block_scale_quantize` on the wire."""

from __future__ import annotations

from ...graph_api.ops.block_scale_quantize import BlockScaleQuantize
from .form import WireForm, flags, number, uids
from .schema import INT, LONG

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
