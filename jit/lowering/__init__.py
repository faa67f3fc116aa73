"""The table of lowerings: op name -> module with ``lower``; imported on first use.

Importing this package costs nothing; importing a lowering loads torch-mlir.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenNode
    from ..emit.builder import Builder, Value

__all__ = ["LOWERINGS", "Lowering", "lowering"]

LOWERINGS: dict[str, str] = {
    "batchnorm": "norm.batchnorm",
    "batchnorm_backward": "norm.batchnorm_backward",
    "batchnorm_inference": "norm.batchnorm_inference",
    "batchnorm_inference_variance_ext": "norm.batchnorm_inference_variance_ext",
    "block_scale_dequantize": "block_scale.block_scale_dequantize",
    "block_scale_quantize": "block_scale.block_scale_quantize",
    "concatenate": "movement.concatenate",
    "conv_dgrad": "conv.conv_dgrad",
    "conv_fprop": "conv.conv_fprop",
    "conv_wgrad": "conv.conv_wgrad",
    "custom_op": "custom_op",
    "layernorm": "norm.layernorm",
    "layernorm_backward": "norm.layernorm_backward",
    "matmul": "matmul",
    "moe_grouped_matmul": "moe.moe_grouped_matmul",
    "moe_grouped_matmul_bwd": "moe.moe_grouped_matmul_bwd",
    "pad": "movement.pad",
    "pointwise": "pointwise",
    "reduction": "reduction",
    "resample_bwd": "resample.resample_bwd",
    "resample_fwd": "resample.resample_fwd",
    "reshape": "movement.reshape",
    "rmsnorm": "norm.rmsnorm",
    "rmsnorm_backward": "norm.rmsnorm_backward",
    "sdpa": "attention.sdpa",
    "sdpa_backward": "attention.sdpa_backward",
    "slice": "movement.slice",
    "transpose": "movement.transpose",
}


class Lowering(Protocol):
    """``lower(b, node, inputs)`` -> outputs, all with logical dims.

    Inputs come in their tensors' types; those of 8 bits or less are no numbers until they are
    converted, and may only be moved before.  An output may have any type: the caller converts it to
    the type of its tensor.  Except for pointwise ops no output may be an input unchanged
    (``Builder.copy``).
    """

    def __call__(
        self, b: Builder, node: FrozenNode, inputs: Mapping[str, Value]
    ) -> Mapping[str, Value]:
        """Emit one node."""


def lowering(name: str) -> Lowering:
    """Return the lowering of an op."""
    function: Lowering = import_module(f".{LOWERINGS[name]}", __name__).lower
    return function
