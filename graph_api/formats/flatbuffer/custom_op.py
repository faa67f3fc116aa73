"""`custom_op` on the wire."""

from __future__ import annotations

from ...ops.custom_op import CustomOp
from .wire_form import WireForm, data, text, uid_list

FORM = WireForm(
    CustomOp,
    code=16,
    fields=(
        text("custom_op_id"),
        uid_list("inputs", key="input_tensor_uids"),
        uid_list("outputs", key="output_tensor_uids"),
        data("data"),
    ),
)
