"""How PyTorch computes each op: a module for each family, one line here for each op."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from .torch_op import TorchOp

__all__ = ["SERVED", "torch_op"]

# op -> module, name in it
SERVED: dict[str, tuple[str, str]] = {
    "batchnorm": ("channel_norms", "TRAINING"),
    "batchnorm_backward": ("channel_norms", "BACKWARD"),
    "batchnorm_inference": ("channel_norms", "INFERENCE"),
    "batchnorm_inference_variance_ext": ("channel_norms", "INFERENCE_VARIANCE"),
    "concatenate": ("movement", "CONCATENATE"),
    "conv_dgrad": ("convolution", "DGRAD"),
    "conv_fprop": ("convolution", "FPROP"),
    "conv_wgrad": ("convolution", "WGRAD"),
    "layernorm": ("row_norms", "LAYERNORM"),
    "layernorm_backward": ("row_norms", "LAYERNORM_BACKWARD"),
    "matmul": ("matmul", "MATMUL"),
    "pad": ("movement", "PAD"),
    "pointwise": ("pointwise", "POINTWISE"),
    "reduction": ("reduction", "REDUCTION"),
    "resample_fwd": ("pooling", "FORWARD"),
    "reshape": ("movement", "RESHAPE"),
    "rmsnorm": ("row_norms", "RMSNORM"),
    "rmsnorm_backward": ("row_norms", "RMSNORM_BACKWARD"),
    "sdpa": ("attention", "SDPA"),
    "slice": ("movement", "SLICE"),
    "transpose": ("movement", "TRANSPOSE"),
}


@cache
def torch_op(name: str) -> TorchOp | None:
    """Return how an op (``Op.NAME``) is served, or None when it is not."""
    if name not in SERVED:
        return None
    module, attribute = SERVED[name]
    found = getattr(import_module(f".{module}", __name__), attribute)
    assert isinstance(found, TorchOp)
    return found
