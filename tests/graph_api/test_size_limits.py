# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GRAPH-08: a graph of too many nodes or tensors is refused before its items are looked at."""

from __future__ import annotations

import json

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api import size_limits
from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.size_limits import MAX_NODES, MAX_TENSORS


def chain(nodes: int) -> Graph:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(4, 4))
    for _ in range(nodes):
        x = g.relu(x)
    x.set_output()
    return g


@pytest.mark.parametrize(
    ("nodes", "tensors", "got"),
    [
        (MAX_NODES + 1, 0, [f"{MAX_NODES + 1} nodes"]),
        (MAX_NODES, MAX_TENSORS + 1, [f"{MAX_TENSORS + 1} tensors"]),
        (20_000, 90_000, ["20000 nodes", "90000 tensors"]),
    ],
)
def test_large_json_is_refused_by_its_counts(nodes: int, tensors: int, got: list[str]) -> None:
    """Each item is damaged, and not one of them is read."""
    text = json.dumps({"nodes": [7] * nodes, "tensors": [7] * tensors})
    with pytest.raises(FormatError) as caught:
        Graph.from_json(text)
    assert [(p.rule, p.got) for p in caught.value.problems] == [("GRAPH-08", g) for g in got]


def test_the_largest_json_is_read() -> None:
    text = json.dumps({"nodes": [7] * MAX_NODES, "tensors": [7] * MAX_TENSORS})
    with pytest.raises(FormatError) as caught:
        Graph.from_json(text)
    assert {p.rule for p in caught.value.problems} == {"JSON-04"}


@pytest.mark.parametrize(
    ("limit", "got"), [("MAX_NODES", "9 nodes"), ("MAX_TENSORS", "10 tensors")]
)
def test_flatbuffers_and_scripts(limit: str, got: str, monkeypatch: pytest.MonkeyPatch) -> None:
    g = chain(9)
    data = encode(g.freeze())
    assert len(decode(data, Graph).graph.nodes) == 9
    monkeypatch.setattr(size_limits, limit, 8)
    with pytest.raises(FormatError) as caught:
        decode(data, Graph)
    (problem,) = caught.value.problems
    assert (problem.rule, problem.got, problem.wanted) == ("GRAPH-08", got, "at most 8")
    with pytest.raises(GraphError) as refused:
        chain(9).freeze()
    assert list(refused.value.problems) == [problem]
