# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""NVIDIA's ``cudnn`` (nvidia-cudnn-frontend) over our graphs.

Write ``import hipdnn_iree.compat.cudnn as cudnn``.  Source of the names: the bindings of
cudnn-frontend 1.23 (``python/pygraph``, ``python/properties.cpp``), and its samples.

Differences: plans run on the CPU, or on the first AMD GPU where there is one
(`create_handle`); ``heur_mode`` has no effect, as `HIPDNN_IREE_POLICY` says who chooses the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from ..graph_api.dtypes import DataType
from ..graph_api.enums import (
    AttentionImplementation,
    ConvMode,
    DiagonalAlignment,
    MoeGroupedMatmulMode,
    NormFwdPhase,
    ReductionMode,
)
from ..graph_api.errors import NotSupportedError
from ..graph_api.graph import Graph as ModelGraph
from ..graph_api.layout import contiguous_strides, same_strides
from ..provider.graph import Graph as OurGraph
from .aliases import Alias, Names, alias, missing
from .steps import Handle, Steps
from .tensors import TensorAttributes, like

__all__ = [
    "INSTEAD",
    "METHODS",
    "attention_implementation",
    "backend_version",
    "backend_version_string",
    "build_plan_policy",
    "convolution_mode",
    "create_handle",
    "data_type",
    "destroy_handle",
    "diagonal_alignment",
    "get_stream",
    "graph",
    "heur_mode",
    "moe_grouped_matmul_mode",
    "norm_forward_phase",
    "pygraph",
    "reduction_mode",
    "reshape_mode",
    "scalar_type",
    "set_stream",
    "tensor",
    "tensor_reordering",
]

_BLOCKED = "INT8 with NHWC strides; memory in blocks of channels is not served"
data_type = Names(
    "data_type",
    DataType,
    {"NOT_SET": "UNSET"},
    {
        "INT8x4": _BLOCKED,
        "INT8x32": _BLOCKED,
        "UINT8x4": _BLOCKED,
        "FAST_FLOAT_FOR_FP8": "FLOAT",
    },
)
convolution_mode = Names("convolution_mode", ConvMode)
reduction_mode = Names("reduction_mode", ReductionMode)
norm_forward_phase = Names("norm_forward_phase", NormFwdPhase)
diagonal_alignment = Names("diagonal_alignment", DiagonalAlignment)
attention_implementation = Names("attention_implementation", AttentionImplementation)
moe_grouped_matmul_mode = Names("moe_grouped_matmul_mode", MoeGroupedMatmulMode)
heur_mode = Enum("heur_mode", ["A", "B", "FALLBACK", "OPENSOURCE"])
build_plan_policy = Enum("build_plan_policy", ["HEURISTICS_CHOICE", "ALL"])
tensor_reordering = Enum("tensor_reordering", ["NONE", "INT8x32", "F16x16", "F8_128x4"])
scalar_type = Enum("scalar_type", ["RUNTIME_PARAM", "COMPILE_TIME_CONST"])
reshape_mode = Enum("reshape_mode", ["VIEW_ONLY", "LOGICAL"])

cudnnGraphNotSupportedError = NotSupportedError  # noqa: N816  # its name there
tensor = TensorAttributes


def _attention(graph: ModelGraph, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of attention; cuDNN's left bound counts the keys that are visible."""
    if "is_inference" in given:
        given["generate_stats"] = not given.pop("is_inference")
    scale = given.pop("attn_scale", None)
    if scale is not None:
        number = isinstance(scale, int | float)
        given["attn_scale_value" if number else "scale"] = float(scale) if number else scale
    window, bound = given.pop("sliding_window_length", None), given.get("left_bound")
    if window is not None and bound is not None:
        raise TypeError("sliding_window_length and diagonal_band_left_bound mean the same")
    if (bound := window if bound is None else bound) is not None:
        given["left_bound"] = bound - 1
    dropout = given.pop("dropout", None)
    if dropout is not None:
        ports: tuple[str, ...] = ("dropout_probability", "seed", "offset")
        if len(dropout) == 2:
            ports = ("dropout_mask", "dropout_scale")
        given.update(zip(ports, dropout, strict=True))
    return given


def _view(graph: ModelGraph, given: dict[str, Any]) -> dict[str, Any]:
    """Refuse to reshape memory that is not in the order of the dims, where it is to be a view."""
    mode, x = given.pop("reshape_mode", reshape_mode.VIEW_ONLY), given["x"]
    if mode is not reshape_mode.VIEW_ONLY or not x.dims or not x.strides:
        return given
    if not same_strides(x.dims, x.strides, contiguous_strides(x.dims)):
        raise NotSupportedError(
            f"reshape of strides {x.strides} with reshape_mode.VIEW_ONLY would permute elements; "
            "use reshape_mode.LOGICAL, or transpose first"
        )
    return given


def _ranges(graph: ModelGraph, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parts that Python's slices mean."""
    slices: Sequence[slice] = given.pop("slices", ())
    dims = given["x"].shape
    if len(slices) > len(dims):
        raise TypeError(f"{len(slices)} slices for dims {dims}")
    full = [*slices, *(slice(None) for _ in dims[len(slices) :])]
    found = [part.indices(extent) for part, extent in zip(full, dims, strict=True)]
    given["starts"], given["limits"], given["strides"] = zip(*found, strict=True)
    return given


_END = "compute_data_type name"
_CONV = f"padding stride dilation convolution_mode=conv_mode {_END} ; pre_padding post_padding"
_LEAKY = "negative_slope=lower_clip_slope"
_RELU = f"{_LEAKY} lower_clip upper_clip {_END}"
_SDPA = "use_alibi_mask=alibi_mask use_padding_mask=padding_mask seq_len_q seq_len_kv"
_MASKS = (
    "use_causal_mask=causal_mask use_causal_mask_bottom_right=causal_mask_bottom_right"
    " sliding_window_length diagonal_alignment diagonal_band_left_bound=left_bound"
    " diagonal_band_right_bound=right_bound dropout rng_dump="
)

METHODS: dict[str, Alias] = {
    "conv_fprop": alias("conv_fprop", f"image=x weight=w ; {_CONV}"),
    "conv_dgrad": alias("conv_dgrad", f"loss=dy filter=w ; {_CONV}"),
    "conv_wgrad": alias("conv_wgrad", f"image=x loss=dy ; {_CONV}"),
    "matmul": alias("matmul", "A=a B=b ; compute_data_type padding= name"),
    "reduction": alias("reduction", f"input=x mode ; {_END}"),
    "reshape": alias("reshape", "input=x ; name reshape_mode", adapt=_view),
    "transpose": alias("transpose", "input=x permutation ; compute_data_type=~ name"),
    "slice": alias("slice", "input=x ; slices compute_data_type=~ name", adapt=_ranges),
    "concatenate": alias("concatenate", "inputs=x axis ; in_place_index= name"),
    "batchnorm": alias(
        "batchnorm",
        "input=x scale bias in_running_mean=prev_running_mean in_running_var=prev_running_variance"
        f" epsilon momentum ; peer_stats {_END}",
        results="y mean inv_variance next_running_mean next_running_variance",
    ),
    "batchnorm_inference": alias(
        "batchnorm_inference", f"input=x mean inv_variance scale bias ; {_END}"
    ),
    "batchnorm_backward": alias(
        "batchnorm_backward",
        f"grad=dy input=x scale mean inv_variance ; peer_stats {_END}",
        results="dx dscale dbias",
    ),
    "layernorm": alias(
        "layernorm",
        f"norm_forward_phase=forward_phase input=x scale bias epsilon ; {_END}",
        results="y mean inv_variance",
    ),
    "layernorm_backward": alias(
        "layernorm_backward",
        f"grad=dy input=x scale mean inv_variance ; {_END}",
        results="dx dscale dbias",
    ),
    "rmsnorm": alias(
        "rmsnorm",
        f"norm_forward_phase=forward_phase input=x scale ; bias epsilon {_END}",
        results="y inv_rms",
    ),
    "rmsnorm_backward": alias(
        "rmsnorm_backward",
        f"grad=dy input=x scale inv_variance=inv_rms ; has_dbias {_END}",
        results="dx dscale dbias",
    ),
    "sdpa": alias(
        "sdpa",
        f"q k v ; is_inference attn_scale bias=attn_mask block_mask {_SDPA} {_MASKS}"
        " paged_attention_k_table=page_table_k paged_attention_v_table=page_table_v"
        f" paged_attention_max_seq_len_kv=max_seq_len_kv {_END} score_mod= generate_stats"
        " implementation score_max= score_sum_exp= sink_token unfuse_fma=~",
        results="o stats",
        adapt=_attention,
    ),
    "sdpa_backward": alias(
        "sdpa_backward",
        f"q k v o dO=do stats ; attn_scale bias=attn_mask dBias= {_SDPA} max_total_seq_len_q="
        f" max_total_seq_len_kv= {_MASKS} use_deterministic_algorithm=~ {_END} score_mod="
        " score_mod_bprop= sink_token= dSink_token=",
        results="dq dk dv",
        adapt=_attention,
    ),
    "block_scale_quantize": alias(
        "block_scale_quantize",
        f"input=x block_size ; axis transpose {_END}",
        results="y scale",
    ),
    "block_scale_dequantize": alias(
        "block_scale_dequantize", f"input=x descale=scale block_size ; is_negative_scale {_END}"
    ),
    "moe_grouped_matmul": alias(
        "moe_grouped_matmul",
        "token weight first_token_offset ; token_index token_ks mode compute_data_type top_k name",
    ),
    "moe_grouped_matmul_bwd": alias(
        "moe_grouped_matmul_bwd", f"doutput token first_token_offset ; {_END}"
    ),
    "bias": alias("add", f"input=a bias=b ; {_END}"),
    "scale": alias("mul", f"input=a scale=b ; {_END}"),
    "relu": alias("relu", f"input=x ; {_RELU}"),
    "leaky_relu": alias("relu", f"input=x {_LEAKY} ; {_END}"),
    "relu_backward": alias("relu_backward", f"loss=dy input=x ; {_RELU}"),
    "leaky_relu_backward": alias("relu_backward", f"loss=dy input=x {_LEAKY} ; {_END}"),
    "swish": alias("swish", f"input=x ; swish_beta=beta {_END}"),
    "swish_backward": alias(
        "swish_backward", "loss=dy input=x ; compute_data_type swish_beta=beta name"
    ),
    "gen_index": alias("gen_index", f"input=x axis ; {_END}"),
    "binary_select": alias("binary_select", f"input0=a input1=b mask ; {_END}"),
    **{
        name: alias(name, f"input=x ; {_END}")
        for name in (
            *("abs", "ceil", "cos", "elu", "erf", "exp", "floor", "gelu", "gelu_approx_tanh"),
            *("identity", "log", "logical_not", "neg", "reciprocal", "rsqrt", "sigmoid", "sin"),
            *("softplus", "sqrt", "tan", "tanh"),
        )
    },
    **{
        name: alias(name, f"a b ; {_END}")
        for name in ("add", "add_square", "div", "logical_and", "logical_or", "mul", "sub")
    },
    **{name: alias(name, f"input0=a input1=b ; {_END}") for name in ("max", "min", "mod", "pow")},
    **{
        name: alias(name, f"input=a comparison=b ; {_END}")
        for name in ("cmp_eq", "cmp_ge", "cmp_gt", "cmp_le", "cmp_lt", "cmp_neq")
    },
    **{
        name: alias(name, f"loss=dy input=x ; {_END}")
        for name in (
            *("elu_backward", "gelu_approx_tanh_backward", "gelu_backward", "sigmoid_backward"),
            *("softplus_backward", "tanh_backward"),
        )
    },
}
"""What each method is here."""

_TUNING = "hipdnn-iree tune, or policy='autotune' with Graph.build"
_CHOICE = "HIPDNN_IREE_DESELECT, or engine= of Graph.build"
_CUDA_GRAPHS = "Plan.bind: a call of about a microsecond"
INSTEAD: dict[str, str] = {
    "Graph": "pygraph, or hipdnn_iree.Graph, whose plan takes and returns tensors",
    "adalayernorm": "layernorm with scale and bias of ones and zeros, then mul and add",
    "adalayernorm_backward": "layernorm_backward, and reductions for scale and bias",
    "behavior_note": _CHOICE,
    "create_device_properties": "create_handle(target='gfx942'), which needs no device",
    "create_kernel_cache": "dims of Graph.dynamic: one plan serves all sizes",
    "deselect_behavior_notes": _CHOICE,
    "deselect_engines": _CHOICE,
    "deselect_numeric_notes": _CHOICE,
    "deselect_workspace_greater_than": _CHOICE,
    "genstats": "reduction with mode ADD of x, and of mul(x, x)",
    "get_behavior_notes": _CHOICE,
    "get_knobs_for_engine": "inner.plans(), whose candidates list their knobs",
    "get_last_error_string": "the exception, which says all",
    "graph_cache": "Graph.build: compiled code is cached by what the graph computes",
    "instancenorm": "layernorm with scale and bias of dims (1, C, 1, 1) over the spatial dims",
    "instancenorm_backward": "layernorm_backward over the spatial dims",
    "jit": "Graph.build: compiled code is cached by what the graph computes",
    "key": "inner.digest",
    "knob": "inner.plans(), whose candidates list their knobs",
    "knob_type": "inner.plans(), whose candidates list their knobs",
    "numerical_note": _CHOICE,
    "populate_cuda_graph": _CUDA_GRAPHS,
    "sdpa_fp8": "sdpa on FP8 tensors between block_scale_dequantize, or mul with the descales",
    "sdpa_fp8_backward": "sdpa_backward on tensors that mul has descaled",
    "sdpa_mxfp8": "block_scale_dequantize of q, k and v, then sdpa",
    "select_behavior_notes": _CHOICE,
    "select_numeric_notes": _CHOICE,
    "tune": _TUNING,
    "update_cuda_graph": _CUDA_GRAPHS,
}
"""Names that there are not here, and what to use."""


class pygraph(Steps):  # noqa: N801  # its name there
    """A graph with cuDNN's methods.

    Parameters
    ----------
    name : str
        A label.
    io_data_type, intermediate_data_type, compute_data_type : DataType or str
        As for `Graph`; ``data_type.FLOAT`` and types of PyTorch count.
    handle : Handle, optional
        Of `create_handle`.
    sm_count, sm_version, kernel_cache, device_property : optional
        Without effect: they describe NVIDIA's GPUs.
    is_dynamic_shape_enabled, is_override_shape_enabled : bool
        Without effect: any plan runs other shapes (``override_shapes`` of `execute`).

    Examples
    --------
    >>> import numpy as np
    >>> g = pygraph(io_data_type=data_type.FLOAT)
    >>> x = g.tensor(dim=[2, 3], stride=[3, 1])
    >>> y = g.relu(input=x).set_output(True)
    >>> g.build([heur_mode.A])
    >>> result = np.empty((2, 3), np.float32)
    >>> g.execute({x: np.float32([[-1, 2, -3], [4, -5, 6]]), y: result}, None)
    >>> result
    array([[0., 2., 0.],
           [4., 0., 6.]], dtype=float32)
    """

    def __init__(
        self,
        name: str = "test_graph",
        io_data_type: DataType | str = DataType.UNSET,
        intermediate_data_type: DataType | str = DataType.UNSET,
        compute_data_type: DataType | str = DataType.UNSET,
        handle: Handle | None = None,
        sm_count: int | None = None,
        sm_version: int | None = None,
        kernel_cache: Any = None,
        device_property: Any = None,
        is_dynamic_shape_enabled: bool = False,
        is_override_shape_enabled: bool = False,
    ) -> None:
        inner = OurGraph(
            name,
            io_data_type=io_data_type,
            intermediate_data_type=intermediate_data_type,
            compute_data_type=compute_data_type,
        )
        super().__init__(inner, handle)

    def __getattr__(self, name: str) -> Any:
        missing("pygraph", name, dir(type(self)), INSTEAD)

    def __repr__(self) -> str:
        return repr(self.inner)

    def tensor(
        self,
        dim: Sequence[int],
        stride: Sequence[int],
        data_type: DataType | str = DataType.UNSET,
        is_virtual: bool = False,
        is_pass_by_value: bool = False,
        ragged_offset: TensorAttributes | None = None,
        reordering_type: Any = None,
        name: str = "",
        uid: int = -1,
    ) -> TensorAttributes:
        """Add a tensor."""
        number = uid if uid >= 0 else None
        if is_pass_by_value:
            by_value = self.inner.runtime_scalar(data_type=data_type, name=name, uid=number)
            return TensorAttributes(by_value)
        if reordering_type not in (None, tensor_reordering.NONE):
            raise NotSupportedError(
                f"tensor(reordering_type={reordering_type}): memory in blocks is not served; "
                "strides say the layout"
            )
        made = TensorAttributes(
            self.inner.tensor(
                dims=dim,
                strides=stride,
                data_type=data_type,
                virtual=is_virtual,
                name=name,
                uid=number,
            )
        )
        return made if ragged_offset is None else made.set_ragged_offset(ragged_offset)

    def tensor_like(self, input: Any, name: str = "") -> TensorAttributes:
        """Add a tensor with the dims, strides and type of a tensor or an array."""
        if isinstance(input, TensorAttributes):
            return TensorAttributes(self.inner.tensor_like(input.bind(self.inner), name=name))
        return like(self.inner, input, name)

    def tensor_scalar(self, value: float, scalar_type: Any) -> TensorAttributes:
        """Add a number that is part of the code, or given at each execution."""
        if scalar_type.name == "COMPILE_TIME_CONST":
            return TensorAttributes(self.inner.scalar(value))
        return TensorAttributes(self.inner.runtime_scalar())

    def validate(self) -> None:
        """Check every rule; see `Graph.validate`."""
        self.inner.validate()

    def build_operation_graph(self) -> None:
        """Infer what is missing; see `Graph.freeze`."""
        self.inner.freeze()

    def create_execution_plans(self, modes: Sequence[Any] = ()) -> None:
        """Ask the engines; nothing is compiled."""
        self.ask()

    def create_execution_plan(self, engine_id: int, knobs: Mapping[Any, Any]) -> None:
        """Pin an engine, with choices of its knobs by name (those of ours: `Graph.plans`)."""
        self.pinned = (engine_id, {str(name): str(value) for name, value in knobs.items()})

    def check_support(self) -> None:
        """Raise ``cudnnGraphNotSupportedError`` with the reasons if no engine serves the graph."""
        self.ask()

    def build_plans(self, policy: Any = None) -> None:
        """Compile; or load from the cache."""
        self.built()

    def build(self, modes: Sequence[Any] = ()) -> None:
        """Take all steps up to the plan."""
        self.validate()
        self.built()

    def get_engine_count(self) -> int:
        """Return the number of engines that serve the graph."""
        return len(self.ask())

    def get_execution_plan_count(self) -> int:
        """Return the number of engines that serve the graph."""
        return len(self.ask())

    def get_plan_name_at_index(self, index: int) -> str:
        """Return the name of an engine."""
        return self.at(index).name

    def build_plan_at_index(self, index: int) -> None:
        """Build the plan of this engine, and use it from now on."""
        self.plan = self.at(index).build()

    def get_workspace_size(self) -> int:
        """Return the bytes of scratch memory that an execution needs."""
        return self.built().workspace_bytes

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        """Return the bytes of scratch memory that the plan of this engine needs."""
        return self.at(index).build().workspace_bytes

    def query_tensor_attributes_of_uid(self, uid: int) -> TensorAttributes:
        """Return the tensor with this uid."""
        for candidate in self.inner.tensors:
            if candidate.given_uid == uid:
                return TensorAttributes(candidate)
        known = [t.given_uid for t in self.inner.tensors if t.given_uid is not None]
        raise KeyError(f"no tensor has the uid {uid}; there are {known}")

    def execute(
        self,
        tensor_to_device_buffer: Mapping[Any, Any],
        workspace: Any = None,
        handle: Handle | None = None,
        override_uids: Sequence[int] | None = None,
        override_shapes: Sequence[Sequence[int]] | None = None,
        override_strides: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Run on the caller's buffers, by tensor or uid; see `Plan.execute`."""
        uids, shapes = override_uids or (), override_shapes or ()
        other = zip(uids, zip(shapes, override_strides or (), strict=True), strict=True)
        self.run(self.built(), tensor_to_device_buffer, workspace, handle, dict(other))

    def execute_plan_at_index(
        self,
        tensor_to_device_buffer: Mapping[Any, Any],
        workspace: Any,
        index: int,
        handle: Handle | None = None,
    ) -> None:
        """Run the plan of this engine on the caller's buffers."""
        self.run(self.at(index).build(), tensor_to_device_buffer, workspace, handle)

    def serialize(self) -> bytes:
        """Return the graph as hipDNN's JSON; its code stays in the cache."""
        return self.inner.to_json().encode()

    def deserialize(self, *handle_and_data: Any) -> None:
        """Become a graph that was serialized; a handle may come first."""
        *handle, data = handle_and_data
        self.restart(OurGraph.from_json(bytes(data)), handle[0] if handle else None)


for _name, _alias in METHODS.items():
    setattr(pygraph, _name, _alias.method(_name))


def create_handle(target: str | None = None) -> Handle:
    """Return a handle; ``target`` (of this package) is what plans are built for."""
    return Handle(target)


def destroy_handle(handle: Handle) -> None:
    """Do nothing: a handle holds no resources."""


def set_stream(handle: Handle, stream: int) -> None:
    """Set the stream that graphs run on (``hipStream_t`` as a number)."""
    handle.stream = stream


def get_stream(handle: Handle) -> int:
    """Return the stream that graphs run on."""
    return handle.stream


def backend_version() -> int:
    """Return the version of cuDNN whose graphs are understood, for scripts that ask for one."""
    return 92100


def backend_version_string() -> str:
    """Return the version of this package."""
    from .. import __version__

    return f"hipdnn-iree {__version__}"


@contextmanager
def graph(
    handle: Handle | None = None,
    name: str = "cudnn_graph",
    io_data_type: DataType | str = DataType.HALF,
    intermediate_data_type: DataType | str = DataType.FLOAT,
    compute_data_type: DataType | str = DataType.FLOAT,
) -> Iterator[tuple[pygraph, list[Any]]]:
    """Give a graph, and a list for whatever the script wants to keep with it."""
    yield pygraph(name, io_data_type, intermediate_data_type, compute_data_type, handle), []


def __getattr__(name: str) -> Any:
    missing("cudnn", name, __all__, INSTEAD)
