"""`batchnorm_inference_variance_ext` on the wire."""

from __future__ import annotations

from ...ops.batchnorm_inference_variance_ext import BatchnormInferenceVarianceExt
from .wire_form import WireForm, uids

FORM = WireForm(
    BatchnormInferenceVarianceExt,
    code=8,
    fields=uids("x", "mean", "variance", "scale", "bias", "y", "epsilon"),
)
