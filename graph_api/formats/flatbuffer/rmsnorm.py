"""`rmsnorm` on the wire."""

from __future__ import annotations

from ...enums import NormFwdPhase
from ...ops.rmsnorm import Rmsnorm
from .wire_form import WireForm, mode, uids

FORM = WireForm(
    Rmsnorm,
    code=10,
    fields=(
        *uids("x", "scale", "epsilon", "y"),
        *uids("bias", "inv_rms", optional=True),
        mode("forward_phase", NormFwdPhase, NormFwdPhase.NOT_SET),
    ),
)
