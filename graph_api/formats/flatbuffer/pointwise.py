"""`pointwise` on the wire."""

from __future__ import annotations

from ...enums import PointwiseMode
from ...ops.pointwise import Pointwise
from .schema_types import LONG
from .wire_form import WireForm, floats, mode, number, uid, uids

FORM = WireForm(
    Pointwise,
    code=2,
    fields=(
        mode("mode", PointwiseMode, PointwiseMode.UNSET, key="operation"),
        *floats("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope"),
        # hipDNN calls it a tensor uid; it is a plain axis number.
        number("axis", LONG, None, key="axis_tensor_uid"),
        uid("in_0"),
        *uids("in_1", "in_2", optional=True),
        uid("out_0"),
        *floats("swish_beta", "elu_alpha", "softplus_beta"),
    ),
)
