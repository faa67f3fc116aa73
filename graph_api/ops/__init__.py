"""The table of operations: one line each."""

from __future__ import annotations

from .base import Op
from .batchnorm import Batchnorm
from .batchnorm_backward import BatchnormBackward
from .batchnorm_inference import BatchnormInference
from .batchnorm_inference_variance_ext import BatchnormInferenceVarianceExt
from .conv_dgrad import ConvDgrad
from .conv_fprop import ConvFprop
from .conv_wgrad import ConvWgrad
from .custom_op import CustomOp
from .layernorm import Layernorm
from .layernorm_backward import LayernormBackward
from .matmul import Matmul
from .pointwise import Pointwise
from .reduction import Reduction
from .rmsnorm import Rmsnorm
from .rmsnorm_backward import RmsnormBackward
from .sdpa import Sdpa

__all__ = ["OPS", "OPS_BY_JSON_TYPE"]

OPS: dict[str, type[Op]] = {
    op.NAME: op
    for op in (
        Batchnorm,
        BatchnormBackward,
        BatchnormInference,
        BatchnormInferenceVarianceExt,
        ConvDgrad,
        ConvFprop,
        ConvWgrad,
        CustomOp,
        Layernorm,
        LayernormBackward,
        Matmul,
        Pointwise,
        Reduction,
        Rmsnorm,
        RmsnormBackward,
        Sdpa,
    )
}
OPS_BY_JSON_TYPE: dict[str, type[Op]] = {op.JSON.type: op for op in OPS.values()}
