"""Numbers of hipDNN's node types in its FlatBuffers schema (union ``NodeAttributes``)."""

from __future__ import annotations

from ...ops.base import Op

__all__ = ["NODE_CODES", "wire_code"]

NODE_CODES: dict[str, int] = {
    "BatchnormInferenceAttributes": 1,
    "PointwiseAttributes": 2,
    "BatchnormBackwardAttributes": 3,
    "BatchnormAttributes": 4,
    "ConvolutionFwdAttributes": 5,
    "ConvolutionBwdAttributes": 6,
    "ConvolutionWrwAttributes": 7,
    "BatchnormInferenceAttributesVarianceExt": 8,
    "MatmulAttributes": 9,
    "RMSNormAttributes": 10,
    "LayernormAttributes": 11,
    "SdpaAttributes": 12,
    "BlockScaleDequantizeAttributes": 13,
    "BlockScaleQuantizeAttributes": 14,
    "SdpaBackwardAttributes": 15,
    "CustomOpAttributes": 16,
    "RMSNormBackwardAttributes": 17,
    "ReductionAttributes": 18,
    "ResampleFwdAttributes": 19,
    "LayernormBackwardAttributes": 20,
    "ResampleBwdAttributes": 21,
    "MoeGroupedMatmulAttributes": 22,
    "MoeGroupedMatmulBwdAttributes": 23,
}
"""Table of the schema (and ``type`` in graph JSON) -> number; 0 is NONE."""


def wire_code(op: type[Op]) -> int | None:
    """Return the number of an op's node type; None where hipDNN has no such node."""
    return NODE_CODES.get(op.JSON.type)
