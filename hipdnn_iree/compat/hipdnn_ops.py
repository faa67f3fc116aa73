# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The methods of ``hipdnn_frontend.Graph`` that take attributes, as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from ..graph_api.graph import Graph
from .aliases import missing
from .tensors import TensorAttributes

__all__ = ["ATTRIBUTES_INSTEAD", "OPS", "Attributes", "Op", "attributes_class"]


class Attributes:
    """Parameters of an op: ``set_<name>(value)`` returns the object, ``get_<name>()`` the value.

    A class for each op is made from `OPS`.
    """

    FIELDS: ClassVar[Mapping[str, str]]
    INSTEAD: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        verb, _, field = name.partition("_")
        if verb not in ("set", "get") or field not in self.FIELDS:
            own = (f"{verb}_{known}" for verb in ("set", "get") for known in self.FIELDS)
            missing(type(self).__name__, name, own, self.INSTEAD)
        if verb == "get":
            return lambda: self.values.get(field)

        def set_value(*values: Any) -> Attributes:
            parts = _PARTS.get(field, (field,))
            if field == "padding":
                values, parts = values * 2, ("pre_padding", "post_padding")
            if len(values) != len(parts):
                raise TypeError(f"{name}() takes {', '.join(parts)}; got {len(values)} values")
            self.values.update(zip(parts, values, strict=True))
            return self

        return set_value

    def arguments(self, graph: Graph) -> dict[str, Any]:
        """Return the arguments for our method."""
        found = {}
        for field, value in self.values.items():
            ours = self.FIELDS[field]
            bound = value.bind(graph) if isinstance(value, TensorAttributes) else value
            if isinstance(value, list | tuple):
                bound = [v.bind(graph) if isinstance(v, TensorAttributes) else v for v in value]
            if field == "attn_scale" and isinstance(value, int | float):
                ours = "attn_scale_value"
            if value is not None:
                found[ours] = bound
        return found


# Setters of several values at once.
_PARTS = {
    "previous_running_stats": ("prev_running_mean", "prev_running_variance", "momentum"),
    "saved_mean_and_inv_variance": ("mean", "inv_variance"),
    "dropout": ("dropout_probability", "dropout_mask", "dropout_scale"),
}


class Op:
    """A method of hipDNN's graph: operands, attributes, results.

    Parameters
    ----------
    operands : str
        Ports of ours in their order.
    fields : str
        ``theirs=ours``, or ``name`` where both are the same, of the attributes.
    results : str
        Fields of what our method returns, where that is a tuple.
    attributes : str
        Names of the attributes' class.
    ours : str
        The method of `Graph`, where it is called otherwise.
    takes_output : bool
        Whether the result may be given as one more operand.
    """

    def __init__(
        self,
        operands: str,
        fields: str,
        attributes: str,
        results: str = "",
        *,
        ours: str = "",
        takes_output: bool = False,
    ) -> None:
        self.operands = operands.split()
        pairs = [word.partition("=") for word in f"name compute_data_type {fields}".split()]
        self.fields = {theirs: own or theirs for theirs, _, own in pairs}
        self.attributes = attributes.split()
        self.results = results.split()
        self.ours = ours
        self.takes_output = takes_output


_CONV = "padding pre_padding post_padding stride dilation convolution_mode=conv_mode"
_WINDOW = "resample_mode padding_mode pre_padding post_padding stride window"
_SDPA = (
    "attn_scale=scale attn_scale_value bias=attn_mask seq_len_q seq_len_kv seed offset dropout="
    " dropout_probability dropout_mask dropout_scale alibi_mask padding_mask causal_mask"
    " causal_mask_bottom_right diagonal_band_left_bound=left_bound"
    " diagonal_band_right_bound=right_bound diagonal_alignment"
)

OPS: dict[str, Op] = {
    "conv_fprop": Op("x w", _CONV, "ConvFpropAttributes ConvolutionFpropAttributes"),
    "conv_dgrad": Op("dy w", _CONV, "ConvDgradAttributes ConvolutionDgradAttributes"),
    "conv_wgrad": Op("dy x", _CONV, "ConvWgradAttributes ConvolutionWgradAttributes"),
    "matmul": Op("a b", "", "MatmulAttributes"),
    "pointwise": Op(
        "in_0 in_1 in_2",
        "mode relu_lower_clip relu_upper_clip relu_lower_clip_slope swish_beta elu_alpha"
        " softplus_beta axis",
        "PointwiseAttributes",
    ),
    "reduction": Op("x", "mode is_deterministic", "ReductionAttributes", takes_output=True),
    "batchnorm": Op(
        "x scale bias",
        "epsilon peer_stats prev_running_mean prev_running_variance momentum"
        " previous_running_stats",
        "BatchnormAttributes",
        "y mean inv_variance next_running_mean next_running_variance",
    ),
    "batchnorm_inference": Op("x mean inv_variance scale bias", "", "BatchnormInferenceAttributes"),
    "batchnorm_inference_variance_ext": Op(
        "x mean variance scale bias epsilon", "", "BatchnormInferenceAttributesVarianceExt"
    ),
    "batchnorm_backward": Op(
        "dy x scale",
        "mean inv_variance peer_stats saved_mean_and_inv_variance",
        "BatchnormBackwardAttributes",
        "dx dscale dbias",
    ),
    "layernorm": Op(
        "x scale bias", "epsilon forward_phase", "LayernormAttributes", "y mean inv_variance"
    ),
    "layernorm_backward": Op(
        "dy x scale",
        "mean inv_variance epsilon normalized_dim_count saved_mean_and_inv_variance",
        "LayernormBackwardAttributes",
        "dx dscale dbias",
    ),
    "rmsnorm": Op("x scale", "epsilon bias forward_phase", "RMSNormAttributes", "y inv_rms"),
    "rmsnorm_backward": Op(
        "dy x scale inv_rms",
        "compute_dbias=has_dbias",
        "RMSNormBackwardAttributes",
        "dx dscale dbias",
    ),
    "sdpa": Op(
        "q k v",
        f"{_SDPA} generate_stats paged_attention_k_table=page_table_k"
        " paged_attention_v_table=page_table_v paged_attention_max_seq_len_kv=max_seq_len_kv"
        " block_mask sink_token mma_core_mode implementation",
        "SdpaAttributes",
        "o stats",
    ),
    "sdpa_backward": Op(
        "q k v o do stats", f"{_SDPA} dropout_scale_inv", "SdpaBackwardAttributes", "dq dk dv"
    ),
    "resample": Op(
        "x", f"{_WINDOW} generate_index", "ResampleFwdAttributes", "y index", ours="resample_fwd"
    ),
    "resample_fwd": Op("x", f"{_WINDOW} generate_index", "ResampleFwdAttributes", "y"),
    "resample_bwd": Op("dy", _WINDOW, "ResampleBwdAttributes"),
    "block_scale_quantize": Op(
        "x", "block_size axis transpose", "BlockScaleQuantizeAttributes", "y scale"
    ),
    "block_scale_dequantize": Op(
        "x scale", "block_size is_negative_scale", "BlockScaleDequantizeAttributes"
    ),
    "moe_grouped_matmul": Op(
        "token weight first_token_offset token_index token_ks",
        "mode top_k",
        "MoeGroupedMatmulAttributes",
    ),
}
"""The methods that take attributes."""

_RESULT = "the tensor that the call returns"
ATTRIBUTES_INSTEAD: dict[str, str] = {
    **{
        f"set_{port}": _RESULT
        for port in ("y", "o", "dx", "dw", "dq", "dk", "dv", "dscale", "dbias", "output_0")
    },
    **{f"set_{port}": "the call's arguments" for port in ("x", "w", "dy", "q", "k", "v", "scale")},
    "set_unfuse_fma": "nothing: it is a hint for NVIDIA's GPUs",
    "set_logit_max": "Graph.sdpa with generate_max=True",
    "set_score_sum_exp": "Graph.sdpa with generate_sum_exp=True",
    "has_dbias": "set_compute_dbias",
}


@cache
def attributes_class(name: str) -> type[Attributes]:
    """Return the class of a method's attributes."""
    op = OPS[name]
    about = {"__doc__": f"Parameters of ``Graph.{name}``.", "__module__": _HOME}
    facts = {"FIELDS": op.fields, "INSTEAD": ATTRIBUTES_INSTEAD}
    return type(op.attributes[0], (Attributes,), {**facts, **about})


_HOME = __name__.rpartition(".")[0] + ".hipdnn_frontend"
