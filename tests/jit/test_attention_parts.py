# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in parts: each score is in one of them, and they are put together in their order."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.jit.lowering.attention import parts
from hipdnn_iree.jit.lowering.attention.parts import parts_of
from hipdnn_iree.jit.settings import scope

MIB = 1 << 20


@pytest.mark.parametrize("samples", [1, 3, 8])
@pytest.mark.parametrize("heads", [1, 7, 12])
@pytest.mark.parametrize("queries", [1, 197, 4096])
@pytest.mark.parametrize("keys", [77, 4096, 50000])
@pytest.mark.parametrize("cut", [False, True])
def test_each_score_is_in_one_part(
    samples: int, heads: int, queries: int, keys: int, *, cut: bool
) -> None:
    row = 4 * keys
    found = parts_of(samples, heads, queries, row, cut=cut)
    seen = [
        (part.samples, part.heads, part.queries)
        for part in found
        if all(start < stop for start, stop in part)
    ]
    assert len(seen) == len(found) == len(set(seen))
    sizes = [(b - a) * (d - c) * (f - e) for (a, b), (c, d), (e, f) in seen]
    assert sum(sizes) == samples * heads * queries
    total = samples * heads * queries * row
    if total <= 32 * MIB:
        assert len(found) == 1
    elif cut:
        assert max(sizes) * row <= max(8 * MIB, total / 32, row)
    else:  # a head is in one piece
        assert all(part.queries == (0, queries) for part in found)
    # All of one head, then of one sample: what follows each other is put together.
    assert found == sorted(found)
    bounds = [{part[axis] for part in found} for axis in range(3)]
    assert {tuple(part) for part in found} == set(product(*bounds))


def attention(*, heads: int = 6, key_heads: int = 6, backward: bool = False, **more: Any) -> Graph:
    graph = Graph("attention", io_data_type="float", compute_data_type="float")
    q = graph.tensor(dims=(3, heads, 19, 16), name="q")
    k, v = (graph.tensor(dims=(3, key_heads, 23, d), name=n) for n, d in (("k", 16), ("v", 20)))
    given = {
        port: graph.tensor(dims=dims, name=port, **({"data_type": kind} if kind else {}))
        for port, (dims, kind) in more.pop("given", {}).items()
    }
    if backward:
        o, do = (graph.tensor(dims=(3, heads, 19, 20), name=name) for name in ("o", "do"))
        stats = graph.tensor(dims=(3, heads, 19, 1), name="stats")
        gradients = graph.sdpa_backward(q, k, v, o, do, stats, **given, **more)
        for one in (gradients.dq, gradients.dk, gradients.dv):
            one.set_output()
        return graph
    found = graph.sdpa(q, k, v, **given, **more)
    found.o.set_output()
    if more.get("generate_stats"):
        found.stats.set_output()
    return graph


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal_mask": True},
    "causal of shared heads": {"causal_mask": True, "key_heads": 2},
    "window": {"left_bound": 5, "right_bound": 2},
    "alibi": {"alibi_mask": True, "causal_mask": True},
    "statistics": {"generate_stats": True, "key_heads": 3},
    "bias of all": {"given": {"attn_mask": ((3, 6, 19, 23), None)}},
    "bias of rows": {"given": {"attn_mask": ((19, 23), None)}},
    "bias of heads": {"given": {"attn_mask": ((1, 6, 1, 23), None)}},
    "sink": {"given": {"sink_token": ((1, 6, 1, 1), None)}},
    "padding": {
        "padding_mask": True,
        "given": dict.fromkeys(("seq_len_q", "seq_len_kv"), ((3, 1, 1, 1), "int32")),
    },
}


@pytest.mark.parametrize("held", [9 * 23 * 4, 2 * 19 * 23 * 4, 13 * 19 * 23 * 4])
@pytest.mark.parametrize("case", CASES)
def test_parts_are_right(case: str, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some queries of a head, of two heads, and of two samples."""
    # Of another scale, as what is lowered is kept by the graph.
    graph = attention(**CASES[case], attn_scale_value=0.25 + held / 2**30)
    monkeypatch.setattr(parts, "_WORTH", 1)
    monkeypatch.setattr(parts, "_HELD", held)
    monkeypatch.setattr(parts, "_MOST_PARTS", 40)
    with scope(compiler_strategies="sdpa=blocked", cache_mode="off"):
        plan = graph.build("cpu")
    assert plan.verify(seed=held).ok
    # Slopes are those of all heads.
    together = case == "alibi" and held < 6 * 19 * 23 * 4
    assert (sum("matmul_like" in one.name for one in plan.dispatches()) == 2) == together


@pytest.mark.parametrize("held", [2 * 19 * 23 * 4, 13 * 19 * 23 * 4])
@pytest.mark.parametrize("case", [name for name in CASES if name not in ("sink", "statistics")])
def test_parts_of_gradients_are_right(
    case: str, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two heads of k or one, and of two samples; queries are together."""
    scale = 0.25 + held / 2**30
    graph = attention(**CASES[case], attn_scale_value=scale, backward=True)
    monkeypatch.setattr(parts, "_WORTH", 1)
    monkeypatch.setattr(parts, "_HELD", held)
    with scope(compiler_strategies="sdpa_backward=blocked", cache_mode="off"):
        plan = graph.build("cpu")
    assert plan.verify(seed=held).ok
    together = case == "alibi" and held < 6 * 19 * 23 * 4
    assert (sum("matmul_like" in one.name for one in plan.dispatches()) == 5) == together


def test_large_scores_take_little_memory() -> None:
    graph = Graph("attention", io_data_type="float", compute_data_type="float")
    q, k, v = (graph.tensor(dims=(1, 4, 2048, 40), name=name) for name in "qkv")
    graph.sdpa(q, k, v).o.set_output()
    with scope(compiler_strategies="sdpa=blocked"):
        plan = graph.build("cpu")
    assert plan.workspace_bytes < 40 * MIB  # the scores have 64
    assert plan.verify(seed=1).ok
