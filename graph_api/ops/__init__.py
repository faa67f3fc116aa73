"""The table of operations: one line each."""

from __future__ import annotations

from .base import Op
from .batchnorm import Batchnorm
from .batchnorm_backward import BatchnormBackward
from .batchnorm_inference import BatchnormInference
from .batchnorm_inference_variance_ext import BatchnormInferenceVarianceExt
from .block_scale_dequantize import BlockScaleDequantize
from .block_scale_quantize import BlockScaleQuantize
from .concatenate import Concatenate
from .conv_dgrad import ConvDgrad
from .conv_fprop import ConvFprop
from .conv_wgrad import ConvWgrad
from .custom_op import CustomOp
from .layernorm import Layernorm
from .layernorm_backward import LayernormBackward
from .matmul import Matmul
from .moe_grouped_matmul import MoeGroupedMatmul
from .moe_grouped_matmul_bwd import MoeGroupedMatmulBwd
from .pad import Pad
from .pointwise import Pointwise
from .reduction import Reduction
from .resample_bwd import ResampleBwd
from .resample_fwd import ResampleFwd
from .reshape import Reshape
from .rmsnorm import Rmsnorm
from .rmsnorm_backward import RmsnormBackward
from .sdpa import Sdpa
from .sdpa_backward import SdpaBackward
from .slice import Slice
from .transpose import Transpose

__all__ = ["OPS", "OPS_BY_TYPE_NAME"]

OPS: dict[str, type[Op]] = {
    op.NAME: op
    for op in (
        Batchnorm,
        BatchnormBackward,
        BatchnormInference,
        BatchnormInferenceVarianceExt,
        BlockScaleDequantize,
        BlockScaleQuantize,
        Concatenate,
        ConvDgrad,
        ConvFprop,
        ConvWgrad,
        CustomOp,
        Layernorm,
        LayernormBackward,
        Matmul,
        MoeGroupedMatmul,
        MoeGroupedMatmulBwd,
        Pad,
        Pointwise,
        Reduction,
        ResampleBwd,
        ResampleFwd,
        Reshape,
        Rmsnorm,
        RmsnormBackward,
        Sdpa,
        SdpaBackward,
        Slice,
        Transpose,
    )
}
OPS_BY_TYPE_NAME: dict[str, type[Op]] = {op.TYPE_NAME: op for op in OPS.values()}
