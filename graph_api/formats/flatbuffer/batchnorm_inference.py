"""`batchnorm_inference` on the wire; `inv_variance` says what the third field means."""

from __future__ import annotations

from ...ops.batchnorm_inference import BatchnormInference
from .wire_form import WireForm, uids

FORM = WireForm(
    BatchnormInference,
    code=1,
    fields=uids("x", "mean", "inv_variance", "scale", "bias", "y"),
)
