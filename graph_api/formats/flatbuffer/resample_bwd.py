"""`resample_bwd` on the wire."""

from __future__ import annotations

from ...ops.resample_bwd import ResampleBwd
from .resample_fwd import TACIT, WINDOW
from .wire_form import WireForm, uid, uids

FORM = WireForm(
    ResampleBwd,
    code=21,
    fields=(*uids("dy", "dx"), uid("index", optional=True), *WINDOW),
    tacit=TACIT,
)
