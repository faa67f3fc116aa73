"""Sample problems of the gradient of attention: by itself, and behind its forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import starmap
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import strides_in_order
from .base import Sample, sampler
from .building import padded_strides, sample_graph
from .sdpa_samples import attention_inputs

__all__ = ["sample_problems"]

Dims = tuple[int, ...]
Extra = Mapping[str, tuple[Dims, str]]
_BSHD = (0, 2, 1, 3)
_Q = (2, 2, 7, 8)
# Operands that only one of the two ops has.
_FORWARD, _BACKWARD = ("sink_token",), ("dropout_scale_inv",)


def _wide(data_type: DataType) -> DataType:
    return DataType.DOUBLE if data_type is DataType.DOUBLE else DataType.FLOAT


def _gradient(
    q: Dims = _Q,
    kv: Dims = (2, 9),
    dv: int = 8,
    *,
    v_heads: int = 0,
    order: Dims = (0, 1, 2, 3),
    through: bool = False,
    dbias: bool = False,
    tensors: Extra | None = None,
    **options: Any,
) -> Callable[[DataType], Graph]:
    """Return a builder; ``through`` puts the forward pass in front, which gives o and stats."""

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        q_, k_, v_ = attention_inputs(g, q, kv, dv, v_heads, order)
        row = (*q[:3], dv)
        do = g.tensor(dims=row, strides=strides_in_order(row, order), name="do")
        more: dict[str, Any] = {
            port: g.tensor(dims=d, data_type=t, name=port) if t else g.tensor(dims=d, name=port)
            for port, (d, t) in (tensors or {}).items()
        }
        if through:
            forward = {p: t for p, t in more.items() if p not in _BACKWARD}
            o, stats, _, _ = g.sdpa(q_, k_, v_, **forward, **options, generate_stats=True)
            assert stats is not None
        else:
            o = g.tensor(dims=row, strides=strides_in_order(row, order), name="o")
            stats = g.tensor(dims=(*q[:3], 1), data_type=_wide(data_type), name="stats")
        back = {p: t for p, t in more.items() if p not in _FORWARD}
        results = g.sdpa_backward(q_, k_, v_, o, do, stats, **back, **options, generate_dbias=dbias)
        for result in results:
            if result is not None:
                result.set_output()
        return g

    return build


def _same_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x, do = g.tensor(dims=(1, 2, 6, 8)), g.tensor(dims=(1, 2, 6, 8))
    stats = g.tensor(dims=(1, 2, 6, 1), data_type=_wide(data_type))
    for result in g.sdpa_backward(x, x, x, do, do, stats)[:3]:
        result.set_output()
    return g


def _padded(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    q = g.tensor(dims=_Q, strides=padded_strides(_Q, range(4), (0, 0, 0, 3)))
    k = g.tensor(dims=(2, 2, 9, 8), strides=(0, 72, 8, 1))
    v = g.tensor(dims=(2, 2, 9, 8), strides=padded_strides((2, 2, 9, 8), _BSHD, (0, 0, 1, 0)))
    o, do = g.tensor(dims=_Q), g.tensor(dims=_Q, strides=padded_strides(_Q, _BSHD, (0, 1, 0, 0)))
    stats = g.tensor(dims=(2, 2, 7, 1), data_type=_wide(data_type))
    for result in g.sdpa_backward(q, k, v, o, do, stats)[:3]:
        assert result is not None
        result.set_output()
    return g


_LENGTHS: Extra = {
    "seq_len_q": ((2, 1, 1, 1), "int32"),
    "seq_len_kv": ((2, 1, 1, 1), "int32"),
}
_DROPPED: Extra = {
    "dropout_mask": ((2, 2, 7, 9), ""),
    "dropout_scale": ((1,), "float"),
}
_INVERSE: Extra = {"dropout_scale_inv": ((1,), "float")}
_BOTTOM: dict[str, Any] = {"diagonal_alignment": "BOTTOM_RIGHT"}
_BIAS: Extra = {"attn_mask": ((2, 2, 7, 9), "")}
_SHARED_BIAS: Extra = {"attn_mask": ((1, 2, 1, 9), "float")}
_BOOLEAN: Extra = {"attn_mask": ((2, 1, 7, 9), "boolean")}
_SINK: Extra = {"sink_token": ((1, 2, 1, 1), "float")}

_CASES: tuple[tuple[str, Callable[[DataType], Graph], str], ...] = (
    ("plain", _gradient(), ""),
    ("size1", _gradient((1, 1, 1, 1), (1, 1), 1), "size1"),
    ("one_query", _gradient((1, 2, 1, 16), (2, 33), 5), "size1 tile"),
    ("tile_plus1", _gradient((1, 1, 33, 17), (1, 65), 31), "tile"),
    ("bshd", _gradient(order=_BSHD), "permuted"),
    ("sbhd", _gradient(order=(2, 0, 1, 3)), "permuted"),
    ("padded", _padded, "padded broadcast"),
    ("same_tensor", _same_tensor, "alias"),
    ("through", _gradient(through=True), "chain"),
    ("grouped", _gradient((2, 6, 5, 8), (2, 7), through=True), "repeat chain"),
    ("multi_query_causal", _gradient((1, 4, 6, 8), (1, 6), right_bound=0), "repeat"),
    ("heads_differ", _gradient((1, 6, 4, 8), (2, 7), 5, v_heads=3), "repeat"),
    ("scale_value", _gradient(attn_scale_value=0.25), ""),
    ("scale_tensor", _gradient(tensors={"scale": ((1,), "float")}), "scalar"),
    ("bias", _gradient(tensors=_BIAS, dbias=True, through=True), "chain"),
    ("bias_broadcast", _gradient(tensors=_SHARED_BIAS, dbias=True), "broadcast mixed"),
    ("boolean_mask", _gradient(tensors=_BOOLEAN, through=True), "broadcast empty chain"),
    ("causal", _gradient((1, 2, 9, 8), (2, 9), causal_mask=True, through=True), "chain"),
    ("causal_bottom_right", _gradient(causal_mask_bottom_right=True), ""),
    (
        "empty_rows",
        _gradient((1, 2, 9, 8), (2, 5), right_bound=0, through=True, **_BOTTOM),
        "empty",
    ),
    ("window", _gradient((1, 2, 9, 8), (2, 9), left_bound=2, right_bound=1), ""),
    (
        "padding",
        _gradient(tensors=_LENGTHS, padding_mask=True, right_bound=0, through=True, **_BOTTOM),
        "empty chain",
    ),
    ("alibi", _gradient((1, 6, 5, 8), (6, 7), alibi_mask=True, right_bound=0, **_BOTTOM), ""),
    ("sink", _gradient(tensors=_SINK, right_bound=0, through=True), "chain"),
    ("dropout_mask", _gradient(tensors={**_DROPPED, **_INVERSE}), ""),
    ("dropout_through", _gradient(tensors=_DROPPED, through=True), "chain"),
)


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the gradient of attention."""
    return tuple(starmap(sampler("sdpa_backward"), _CASES))
