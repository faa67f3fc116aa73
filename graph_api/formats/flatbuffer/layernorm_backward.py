"""`layernorm_backward` on the wire."""

from __future__ import annotations

from ...ops.layernorm_backward import LayernormBackward
from .schema_types import LONG
from .wire_form import WireForm, number, uids

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
