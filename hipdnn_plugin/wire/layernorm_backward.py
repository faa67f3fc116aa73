"""`layernorm_backward` on the wire."""

from __future__ import annotations

from ...graph_api.ops.layernorm_backward import LayernormBackward
from .form import WireForm, number, uids
from .schema import LONG

FORM = WireForm(
    LayernormBackward,
    code=20,
    fields=(
        *uids("dy", "x", "scale"),
        *uids("mean", "inv_variance", "epsilon", optional=True),
        *uids("dx", "dscale", "dbias"),
        number("normalized_dim_count", LONG),
    ),
)
