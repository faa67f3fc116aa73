"""Sample problems of scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import starmap
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import strides_in_order
from .base import Sample, sampler
from .building import padded_strides, sample_graph

__all__ = ["attention_inputs", "sample_problems"]

Dims = tuple[int, ...]
_BSHD = (0, 2, 1, 3)


def attention_inputs(
    g: Graph, q: Dims, kv: Dims, dv: int, v_heads: int = 0, order: Dims = (0, 1, 2, 3)
) -> tuple[Any, Any, Any]:
    """Return q, k and v; ``kv`` is (heads, length), ``order`` the memory order of all three."""
    k_dims = (q[0], kv[0], kv[1], q[3])
    v_dims = (q[0], v_heads or kv[0], kv[1], dv)
    q_, k_, v_ = (
        g.tensor(dims=d, strides=strides_in_order(d, order), name=n)
        for n, d in (("q", q), ("k", k_dims), ("v", v_dims))
    )
    return q_, k_, v_


_Q = (2, 2, 7, 8)


def _plain(
    q: Dims = _Q,
    kv: Dims = (2, 9),
    dv: int = 8,
    *,
    v_heads: int = 0,
    order: Dims = (0, 1, 2, 3),
    tensors: Mapping[str, tuple[Dims, str]] | None = None,
    **options: Any,
) -> Callable[[DataType], Graph]:
    """Return a builder; ``tensors`` maps further ports to dims and type ("" for the operands')."""

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        q_, k_, v_ = attention_inputs(g, q, kv, dv, v_heads, order)
        more: dict[str, Any] = {
            port: g.tensor(dims=d, data_type=t, name=port) if t else g.tensor(dims=d, name=port)
            for port, (d, t) in (tensors or {}).items()
        }
        result = g.sdpa(q_, k_, v_, **more, **options)
        result.o.set_output()
        for statistic in result[1:]:
            if statistic is not None:
                wide = DataType.DOUBLE if data_type is DataType.DOUBLE else DataType.FLOAT
                statistic.set_output().set_data_type(wide)
        return g

    return build


def _same_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(1, 2, 6, 8))
    g.sdpa(x, x, x).o.set_output()
    return g


def _padded(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    q = g.tensor(dims=_Q, strides=padded_strides(_Q, range(4), (0, 0, 0, 3)))
    k = g.tensor(dims=(2, 2, 9, 8), strides=(0, 72, 8, 1))
    v = g.tensor(dims=(2, 2, 9, 8), strides=padded_strides((2, 2, 9, 8), _BSHD, (0, 0, 1, 0)))
    g.sdpa(q, k, v).o.set_output()
    return g


def _project(data_type: DataType) -> Graph:
    """Return attention of projected queries, followed by a projection and a residual."""
    g = sample_graph(data_type)
    x, w = g.tensor(dims=(1, 2, 5, 8)), g.tensor(dims=(1, 2, 8, 8))
    q, k, v = g.matmul(x, w), g.tensor(dims=(1, 2, 6, 8)), g.tensor(dims=(1, 2, 6, 8))
    g.add(g.sdpa(q, k, v, right_bound=0).o, x).set_output()
    return g


_ROWS: dict[str, Any] = {"generate_stats": True, "generate_max": True, "generate_sum_exp": True}
_LENGTHS: dict[str, tuple[Dims, str]] = {
    "seq_len_q": ((2, 1, 1, 1), "int32"),
    "seq_len_kv": ((2, 1, 1, 1), "int32"),
}
_BOTTOM: dict[str, Any] = {"diagonal_alignment": "BOTTOM_RIGHT"}

_CASES: tuple[tuple[str, Callable[[DataType], Graph], str], ...] = (
    ("plain", _plain(), ""),
    ("size1", _plain((1, 1, 1, 1), (1, 1), 1), "size1"),
    ("one_query", _plain((1, 2, 1, 16), (2, 33), 5), "size1 tile"),
    ("tile_plus1", _plain((1, 1, 33, 17), (1, 65), 31), "tile"),
    ("bshd", _plain(order=_BSHD), "permuted"),
    ("sbhd", _plain(order=(2, 0, 1, 3)), "permuted"),
    ("padded", _padded, "padded broadcast"),
    ("same_tensor", _same_tensor, "alias"),
    ("grouped", _plain((2, 6, 5, 8), (2, 7)), "repeat"),
    ("multi_query_causal", _plain((1, 4, 6, 8), (1, 6), right_bound=0), "repeat"),
    ("heads_differ", _plain((1, 6, 4, 8), (2, 7), 5, v_heads=3, **_ROWS), "repeat"),
    ("statistics", _plain(**_ROWS), "mixed"),
    ("scale_value", _plain(attn_scale_value=0.25), ""),
    ("scale_tensor", _plain(tensors={"scale": ((1,), "float")}), "scalar"),
    ("mask", _plain(tensors={"attn_mask": ((2, 2, 7, 9), "")}), ""),
    ("mask_broadcast", _plain(tensors={"attn_mask": ((1, 1, 7, 9), "float")}), "broadcast mixed"),
    (
        "boolean_mask",
        _plain(tensors={"attn_mask": ((2, 1, 7, 9), "boolean")}, **_ROWS),
        "broadcast",
    ),
    ("causal", _plain((1, 2, 9, 8), (2, 9), causal_mask=True), ""),
    ("causal_bottom_right", _plain(causal_mask_bottom_right=True), ""),
    (
        "empty_rows",
        _plain((1, 2, 9, 8), (2, 5), right_bound=0, **_BOTTOM, **_ROWS),
        "empty",
    ),
    ("window", _plain((1, 2, 9, 8), (2, 9), left_bound=2, right_bound=1, **_ROWS), ""),
    (
        "padding",
        _plain(tensors=_LENGTHS, padding_mask=True, right_bound=0, **_BOTTOM, **_ROWS),
        "empty",
    ),
    ("alibi", _plain((1, 6, 5, 8), (6, 7), alibi_mask=True, right_bound=0, **_BOTTOM), ""),
    ("sink", _plain(tensors={"sink_token": ((1, 2, 1, 1), "float")}, right_bound=0, **_ROWS), ""),
    (
        "dropout_mask",
        _plain(tensors={"dropout_mask": ((2, 2, 7, 9), ""), "dropout_scale": ((1,), "float")}),
        "",
    ),
    ("projected", _project, "chain"),
)


def _paged(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    q = g.tensor(dims=(2, 4, 3, 8), name="q")
    k, v = (g.tensor(dims=(7, 2, 4, 8), name=n) for n in "kv")
    tables: dict[str, Any] = {
        f"page_table_{n}": g.tensor(dims=(2, 1, 3, 1), data_type="int32", name=f"table_{n}")
        for n in "kv"
    }
    lengths: dict[str, Any] = {
        p: g.tensor(dims=d, data_type=t, name=p) for p, (d, t) in _LENGTHS.items()
    }
    result = g.sdpa(q, k, v, **tables, **lengths, padding_mask=True, max_seq_len_kv=10)
    result.o.set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of attention."""
    return tuple(starmap(sampler("sdpa"), (*_CASES, ("paged", _paged, "gather"))))
