# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The methods of ``Graph``, one for each op; made by scripts/gen_docs, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ops import OPS, OpMethod
from .ops.pointwise_methods import PointwiseMethods

if TYPE_CHECKING:
    from .ops.batchnorm import batchnorm
    from .ops.batchnorm_backward import batchnorm_backward
    from .ops.batchnorm_inference import batchnorm_inference
    from .ops.batchnorm_inference_variance_ext import batchnorm_inference_variance_ext
    from .ops.block_scale_dequantize import block_scale_dequantize
    from .ops.block_scale_quantize import block_scale_quantize
    from .ops.concatenate import concatenate
    from .ops.conv_dgrad import conv_dgrad
    from .ops.conv_fprop import conv_fprop
    from .ops.conv_wgrad import conv_wgrad
    from .ops.cumsum import cumsum
    from .ops.custom_op import custom_op
    from .ops.layernorm import layernorm
    from .ops.layernorm_backward import layernorm_backward
    from .ops.matmul import matmul
    from .ops.moe_grouped_matmul import moe_grouped_matmul
    from .ops.moe_grouped_matmul_bwd import moe_grouped_matmul_bwd
    from .ops.pad import pad
    from .ops.pointwise import pointwise
    from .ops.reduction import reduction
    from .ops.resample_bwd import resample_bwd
    from .ops.resample_fwd import resample_fwd
    from .ops.reshape import reshape
    from .ops.rmsnorm import rmsnorm
    from .ops.rmsnorm_backward import rmsnorm_backward
    from .ops.sdpa import sdpa
    from .ops.sdpa_backward import sdpa_backward
    from .ops.slice import slice
    from .ops.transpose import transpose

__all__ = ["OpMethods"]


class OpMethods(PointwiseMethods):
    """Base of ``Graph``; the file of an op holds the signature and the documentation."""

    if TYPE_CHECKING:
        batchnorm = batchnorm
        batchnorm_backward = batchnorm_backward
        batchnorm_inference = batchnorm_inference
        batchnorm_inference_variance_ext = batchnorm_inference_variance_ext
        block_scale_dequantize = block_scale_dequantize
        block_scale_quantize = block_scale_quantize
        concatenate = concatenate
        conv_dgrad = conv_dgrad
        conv_fprop = conv_fprop
        conv_wgrad = conv_wgrad
        cumsum = cumsum
        custom_op = custom_op
        layernorm = layernorm
        layernorm_backward = layernorm_backward
        matmul = matmul
        moe_grouped_matmul = moe_grouped_matmul
        moe_grouped_matmul_bwd = moe_grouped_matmul_bwd
        pad = pad
        pointwise = pointwise
        reduction = reduction
        resample_bwd = resample_bwd
        resample_fwd = resample_fwd
        reshape = reshape
        rmsnorm = rmsnorm
        rmsnorm_backward = rmsnorm_backward
        sdpa = sdpa
        sdpa_backward = sdpa_backward
        slice = slice
        transpose = transpose


if not TYPE_CHECKING:
    for _op in OPS:  # the module of an op is imported when its method is first used
        setattr(OpMethods, _op, OpMethod(OpMethods, _op))
