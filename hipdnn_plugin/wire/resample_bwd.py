"""`resample_bwd` on the wire."""

from __future__ import annotations

from ...graph_api.ops.resample_bwd import ResampleBwd
from .form import WireForm, uid, uids
from .resample_fwd import TACIT, WINDOW

FORM = WireForm(
    ResampleBwd,
    code=21,
    fields=(*uids("dy", "dx"), uid("index", optional=True), *WINDOW),
    tacit=TACIT,
)
