"""`rmsnorm_backward` on the wire."""

from __future__ import annotations

from ...ops.rmsnorm_backward import RmsnormBackward
from .wire_form import WireForm, uid, uids

FORM = WireForm(
    RmsnormBackward,
    code=17,
    fields=(*uids("dy", "x", "scale", "inv_rms", "dx", "dscale"), uid("dbias", optional=True)),
)
