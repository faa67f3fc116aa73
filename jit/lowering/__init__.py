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
    "batchnorm": "batchnorm",
    "batchnorm_backward": "batchnorm_backward",
    "batchnorm_inference": "batchnorm_inference",
    "batchnorm_inference_variance_ext": "batchnorm_inference_variance_ext",
    "block_scale_dequantize": "block_scale_dequantize",
    "block_scale_quantize": "block_scale_quantize",
    "concatenate": "concatenate",
    "conv_dgrad": "conv_dgrad",
    "conv_fprop": "conv_fprop",
    "conv_wgrad": "conv_wgrad",
    "custom_op": "custom_op",
    "layernorm": "layernorm",
    "layernorm_backward": "layernorm_backward",
    "matmul": "matmul",
    "moe_grouped_matmul": "moe_grouped_matmul",
    "moe_grouped_matmul_bwd": "moe_grouped_matmul_bwd",
    "pad": "pad",
    "pointwise": "pointwise",
    "reduction": "reduction",
    "resample_bwd": "resample_bwd",
    "resample_fwd": "resample_fwd",
    "reshape": "reshape",
    "rmsnorm": "rmsnorm",
    "rmsnorm_backward": "rmsnorm_backward",
    "sdpa": "sdpa",
    "sdpa_backward": "sdpa_backward",
    "slice": "slice",
    "transpose": "transpose",
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
