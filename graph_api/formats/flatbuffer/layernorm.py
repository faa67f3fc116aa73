"""`layernorm` on the wire."""

from __future__ import annotations

from ...enums import NormFwdPhase
from ...ops.layernorm import Layernorm
from .schema_types import LONG
from .wire_form import WireForm, mode, number, uids

FORM = WireForm(
    Layernorm,
    code=11,
    fields=(
        *uids("x", "scale", "bias", "epsilon", "y"),
        number("normalized_dim_count", LONG),
        *uids("mean", "inv_variance", optional=True),
        mode("forward_phase", NormFwdPhase, NormFwdPhase.NOT_SET),
    ),
)
