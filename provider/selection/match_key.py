"""What a graph is in hipDNN's engine override rules: its main op, criteria and input tensors.

hipDNN describes a whole graph by one of its nodes, the one of the highest priority: so a rule for
a convolution holds for the convolution with and without an epilogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...graph_api.frozen import FrozenGraph, FrozenNode

__all__ = ["MATCHED", "Described", "MatchKey", "MatchTensor", "match_keys"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchTensor:
    """An input: its id in hipDNN's schema, and its dims and strides."""

    id: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchKey:
    """Op, criteria (sorted by name) and input tensors in the order of hipDNN's schema."""

    op: str
    criteria: tuple[tuple[str, int], ...]
    tensors: tuple[MatchTensor, ...]


@dataclass(frozen=True, slots=True)
class Described:
    """How one op is described.

    Attributes
    ----------
    op : str
        hipDNN's name of it in rules.
    priority : int
        The node of the highest one stands for the graph.
    ports : tuple of str
        Our ports, in hipDNN's order; those not connected are left out.
    criteria : mapping of str to str
        Name of the criterion -> our parameter.
    """

    op: str
    priority: int
    ports: tuple[str, ...]
    criteria: tuple[tuple[str, str], ...] = ()


_ATTENTION = (
    *("scale", "attn_mask", "seq_len_q", "seq_len_kv", "seed", "offset"),
    *("dropout_mask", "dropout_scale"),
)
_SDPA = (
    *("q", "k", "v", *_ATTENTION, "page_table_k", "page_table_v", "block_mask", "sink_token"),
    *("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o"),
)
_SDPA_BACKWARD = ("q", "k", "v", "o", "do", "stats", *_ATTENTION, "dropout_scale_inv")
_RUNNING = ("prev_running_mean", "prev_running_variance", "momentum")
_PHASE = (("norm_fwd_phase", "forward_phase"),)

# Source: GraphMatchKey.hpp and AutotuneConfigNames.hpp of hipDNN (2026).
MATCHED: dict[str, Described] = {
    "conv_fprop": Described("conv_fprop", 70, ("x", "w")),
    "conv_dgrad": Described("conv_dgrad", 70, ("dy", "w")),
    "conv_wgrad": Described("conv_wgrad", 70, ("x", "dy")),
    "sdpa": Described("sdpa_fwd", 60, _SDPA),
    "sdpa_backward": Described("sdpa_bwd", 60, _SDPA_BACKWARD),
    "matmul": Described("matmul", 50, ("a", "b")),
    "batchnorm": Described("batchnorm_training", 40, ("x", "scale", "bias", "epsilon", *_RUNNING)),
    "batchnorm_inference": Described(
        "batchnorm_inference", 40, ("x", "mean", "inv_variance", "scale", "bias")
    ),
    "batchnorm_inference_variance_ext": Described(
        "batchnorm_inference_variance_ext",
        40,
        ("x", "mean", "variance", "scale", "bias", "epsilon"),
    ),
    "batchnorm_backward": Described(
        "batchnorm_backward", 40, ("dy", "x", "scale", "mean", "inv_variance")
    ),
    "layernorm": Described("layernorm", 30, ("x", "scale", "bias", "epsilon"), _PHASE),
    "rmsnorm": Described("rmsnorm", 30, ("x", "scale", "epsilon", "bias"), _PHASE),
    "rmsnorm_backward": Described("rmsnorm_backward", 30, ("dy", "x", "scale", "inv_rms")),
    "reduction": Described("reduction", 20, ("x",), (("reduction_mode", "mode"),)),
    "resample_fwd": Described(
        "resample_fwd",
        20,
        ("x",),
        (("resample_mode", "resample_mode"), ("padding_mode", "padding_mode")),
    ),
    "pointwise": Described(
        "pointwise", 10, ("in_0", "in_1", "in_2"), (("pointwise_mode", "mode"),)
    ),
}

# hipDNN's name of an input, where it is not that of our port.
_IDS = {("reduction", "x"): "in"}


def match_keys(graph: FrozenGraph) -> tuple[MatchKey, ...]:
    """Return what describes a graph: of its nodes of the highest priority, in order.

    hipDNN takes the first of them in the order in which the graph was written, which a frozen
    graph does not keep.  Nothing for a graph of ops that rules do not know.
    """
    known = [(MATCHED[n.op.NAME].priority, n) for n in graph.nodes if n.op.NAME in MATCHED]
    highest = max((priority for priority, _ in known), default=0)
    return tuple(dict.fromkeys(_key(graph, n) for priority, n in known if priority == highest))


def _key(graph: FrozenGraph, node: FrozenNode) -> MatchKey:
    how = MATCHED[node.op.NAME]
    return MatchKey(
        op=how.op,
        criteria=tuple(sorted((name, _code(node.op, field)) for name, field in how.criteria)),
        tensors=tuple(_tensors(graph, node, how.ports)),
    )


def _tensors(graph: FrozenGraph, node: FrozenNode, ports: tuple[str, ...]) -> Iterator[MatchTensor]:
    for port in ports:
        if port in node.inputs:
            spec = graph.tensors[node.inputs[port]]
            name = _IDS.get((node.op.NAME, port), port)
            yield MatchTensor(id=f"{name}_tensor_uid", dims=spec.dims, strides=spec.strides)


def _code(op: Any, field: str) -> int:
    """Return a mode's number in hipDNN's schema."""
    return int(getattr(op, field).wire)
