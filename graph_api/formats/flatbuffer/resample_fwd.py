"""`resample_fwd` on the wire, and the fields that both directions share."""

from __future__ import annotations

from ...enums import PaddingMode, ResampleMode, ResizeCoordinates
from ...ops.resample_fwd import ResampleFwd
from .wire_form import WireForm, flags, longs, mode, uid, uids

WINDOW = (
    *longs("pre_padding", "post_padding", "stride", "window"),
    mode("resample_mode", ResampleMode, ResampleMode.NOT_SET),
    mode("padding_mode", PaddingMode, PaddingMode.NOT_SET),
)

TACIT = {"coordinates": ResizeCoordinates.HALF_PIXEL}

FORM = WireForm(
    ResampleFwd,
    code=19,
    fields=(
        *uids("x", "y"),
        uid("index", optional=True),
        *WINDOW,
        # False by default in older schemas; both mean that an index decides.
        *flags("generate_index", default=None),
    ),
    tacit=TACIT,
)
