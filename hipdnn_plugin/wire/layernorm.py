"""`layernorm` on the wire."""

from __future__ import annotations

from ...graph_api.enums import NormFwdPhase
from ...graph_api.ops.layernorm import Layernorm
from .form import WireForm, mode, number, uids
from .schema import LONG

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
