"""The list of operations; every layer finds its module of an op by the op's name."""

from __future__ import annotations

from importlib import import_module

from .base import Op

__all__ = ["FAMILIES", "OPS", "OPS_BY_TYPE_NAME"]

FAMILIES: dict[str, str] = {
    "batchnorm": "norm",
    "batchnorm_backward": "norm",
    "batchnorm_inference": "norm",
    "batchnorm_inference_variance_ext": "norm",
    "block_scale_dequantize": "block_scale",
    "block_scale_quantize": "block_scale",
    "concatenate": "movement",
    "conv_dgrad": "conv",
    "conv_fprop": "conv",
    "conv_wgrad": "conv",
    "cumsum": "",
    "custom_op": "",
    "layernorm": "norm",
    "layernorm_backward": "norm",
    "matmul": "",
    "moe_grouped_matmul": "moe",
    "moe_grouped_matmul_bwd": "moe",
    "pad": "movement",
    "pointwise": "",
    "reduction": "",
    "resample_bwd": "resample",
    "resample_fwd": "resample",
    "reshape": "movement",
    "rmsnorm": "norm",
    "rmsnorm_backward": "norm",
    "sdpa": "attention",
    "sdpa_backward": "attention",
    "slice": "movement",
    "transpose": "movement",
}
"""Each op, and the family whose folder it is in where a layer has folders (``""`` for none)."""


def _load(name: str) -> type[Op]:
    """Return the class of an op: of its module, named as the op is, in capitals."""
    camel = "".join(map(str.title, name.split("_")))
    found: type[Op] = getattr(import_module(f".{name}", __name__), camel)
    return found


OPS: dict[str, type[Op]] = {name: _load(name) for name in FAMILIES}
OPS_BY_TYPE_NAME: dict[str, type[Op]] = {op.TYPE_NAME: op for op in OPS.values()}
