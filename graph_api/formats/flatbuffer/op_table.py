"""The operations on the wire: one line each."""

from __future__ import annotations

from . import (
    batchnorm,
    batchnorm_backward,
    batchnorm_inference,
    batchnorm_inference_variance_ext,
    block_scale_dequantize,
    block_scale_quantize,
    conv_dgrad,
    conv_fprop,
    conv_wgrad,
    custom_op,
    layernorm,
    layernorm_backward,
    matmul,
    moe_grouped_matmul,
    moe_grouped_matmul_bwd,
    pointwise,
    reduction,
    resample_bwd,
    resample_fwd,
    rmsnorm,
    rmsnorm_backward,
    sdpa,
    sdpa_backward,
)
from .wire_form import WireForm

__all__ = ["FORMS", "FORMS_BY_OP"]

FORMS: dict[int, WireForm] = {
    module.FORM.code: module.FORM
    for module in (
        batchnorm,
        batchnorm_backward,
        batchnorm_inference,
        batchnorm_inference_variance_ext,
        block_scale_dequantize,
        block_scale_quantize,
        conv_dgrad,
        conv_fprop,
        conv_wgrad,
        custom_op,
        layernorm,
        layernorm_backward,
        matmul,
        moe_grouped_matmul,
        moe_grouped_matmul_bwd,
        pointwise,
        reduction,
        resample_bwd,
        resample_fwd,
        rmsnorm,
        rmsnorm_backward,
        sdpa,
        sdpa_backward,
    )
}
"""By code in hipDNN's union of node attributes."""

FORMS_BY_OP: dict[str, WireForm] = {form.op.NAME: form for form in FORMS.values()}
"""By name of the op."""
