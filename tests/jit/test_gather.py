# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of larger tensors are copied before GPUs read single elements of them (W-080)."""

from __future__ import annotations

from typing import Any

import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.target import Target

GPU, CPU = Target.parse("gfx942"), Target.parse("cpu")


def norm(cut: str) -> Graph:
    """Rows of 100, which gfx9 completes to 128 while it gathers them."""
    g = Graph(io_data_type="float")
    if cut == "gaps":
        x = g.tensor(dims=(6, 100), strides=(112, 1), name="x")
    else:
        wide, start = {"columns": ((6, 112), (0, 4)), "rows": ((9, 100), (3, 0))}.get(
            cut, ((8, 100), (0, 0))
        )
        x = g.tensor(dims=wide, name="x")
        limits = (start[0] + 6, start[1] + 100)
        x = x if cut == "whole" else g.slice(x, starts=start, limits=limits)
    g.rmsnorm(x, g.tensor(dims=(1, 100), name="scale")).y.set_output()
    return g


def experts(cut: str) -> Graph:
    g = Graph(io_data_type="float")
    strides = (144, 16, 1) if cut == "gaps" else None
    token = g.tensor(dims=(1, 9, 12), strides=strides, name="token")
    offsets, index = (
        g.tensor(dims=dims, data_type="int32", name=name)
        for dims, name in (((3, 1, 1), "offsets"), ((1, 14, 1), "index"))
    )
    weight = g.tensor(dims=(3, 12, 10), name="weight")
    g.moe_grouped_matmul(token, weight, offsets, token_index=index, mode="gather").set_output()
    return g


def pages(cut: str) -> Graph:
    g = Graph(io_data_type="float")
    strides = (320, 160, 20, 1) if cut == "gaps" else None
    q = g.tensor(dims=(2, 2, 5, 16), name="q")
    k, v = (g.tensor(dims=(6, 2, 8, 16), strides=strides, name=name) for name in "kv")
    dims: Any = {"page_table_k": (2, 1, 3, 1), "page_table_v": (2, 1, 3, 1)}
    dims |= {"seq_len_q": (2, 1, 1, 1), "seq_len_kv": (2, 1, 1, 1)}
    tables = {n: g.tensor(dims=d, data_type="int32", name=n) for n, d in dims.items()}
    g.sdpa(q, k, v, **tables, padding_mask=True, max_seq_len_kv=24).o.set_output()
    return g


def gradient(cut: str, graph: Graph | None = None) -> Graph:
    """The filter is reversed, and exchanged before."""
    g = graph or Graph(io_data_type="float")
    strides = (64, 4, 1, 4) if cut == "gaps" else None
    w = g.tensor(dims=(32, 16, 2, 1), strides=strides, data_type="float")
    dy = g.tensor(dims=(1, 32, 3, 1), data_type="float")
    g.conv_dgrad(dy, w, dx_dims=(1, 16, 4, 1)).set_output()
    return g


def products(cut: str) -> Graph:
    """An operand that is repacked: widened and copied, by reversing it twice if it can be."""
    g = Graph(io_data_type="half", intermediate_data_type="float", compute_data_type="float")
    strides = (864, 1, 216, 18) if cut == "gaps" else (768, 1, 192, 16)
    a, b = g.tensor(dims=(1, 16, 4, 12), strides=strides), g.tensor(dims=(1, 16, 12, 7))
    g.matmul(a, g.relu(b)).set_output()
    return g


def gathered_from_copies(graph: Graph, target: Target) -> list[bool]:
    """Return for each gathering or reversal of numbers whether a joined copy is read."""
    text = lower_graph(graph.freeze(), target)
    made = {}
    for line in text.splitlines():
        name, found, rest = line.strip().partition(" = ")
        if found:
            made[name] = rest

    def is_joined(name: str) -> bool:
        rest = made.get(name, "")
        if rest.startswith(("torch.aten.view", "torch.aten.permute")):
            return is_joined(rest.split()[1].rstrip(","))
        return rest.startswith("torch.aten.cat")

    reads = ("torch.aten.index_select", "torch.aten.flip")
    gatherings = (rest for rest in made.values() if rest.startswith(reads))
    return [is_joined(rest.split()[1].rstrip(",")) for rest in gatherings if "f32>" in rest]


@pytest.mark.parametrize(
    ("graph", "copied"),
    [
        (norm("gaps"), True),
        (norm("columns"), True),
        (norm("rows"), True),
        (norm("first"), False),
        (norm("whole"), False),
        (experts("gaps"), True),
        (experts("whole"), False),
        (pages("gaps"), True),
        (pages("whole"), False),
        (gradient("gaps"), True),
        (gradient("whole"), False),
    ],
)
def test_parts_are_copied_before_gpus_gather_or_reverse(graph: Graph, copied: bool) -> None:
    found = gathered_from_copies(graph, GPU)
    assert found
    assert set(found) == {copied}


def test_the_cpu_reads_parts_where_they_lie() -> None:
    assert not any(gathered_from_copies(experts("gaps"), CPU))


def test_parts_are_not_copied_by_reversing_them() -> None:
    for cut, reversals in (("gaps", False), ("whole", True)):
        assert ("aten.flip" in lower_graph(products(cut).freeze(), GPU)) is reversals


def test_parts_read_in_reverse_on_gfx9() -> None:
    """Emulated (random graphs 90433 and 90761)."""
    check_emulated(gradient("gaps", products("gaps")))
