"""`reduction` on the wire."""

from __future__ import annotations

from ...enums import ReductionMode
from ...ops.reduction import Reduction
from .wire_form import WireForm, flags, mode, uid

FORM = WireForm(
    Reduction,
    code=18,
    fields=(
        mode("mode", ReductionMode, ReductionMode.NOT_SET),
        uid("x", key="in_tensor_uid"),
        uid("y", key="out_tensor_uid"),
        *flags("is_deterministic"),
    ),
)
