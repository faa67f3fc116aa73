"""`conv_fprop` on the wire, and the fields that the three convolutions share."""

from __future__ import annotations

from ...enums import ConvMode
from ...ops.conv_fprop import ConvFprop
from .wire_form import COSTS, WireForm, longs, mode, uids

GEOMETRY = (
    *longs("pre_padding", "post_padding", "stride", "dilation"),
    mode("conv_mode", ConvMode, ConvMode.UNSET),
    *COSTS,
)

FORM = WireForm(ConvFprop, code=5, fields=(*uids("x", "w", "y"), *GEOMETRY))
