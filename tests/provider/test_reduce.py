# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs that are made small while they fail."""

from __future__ import annotations

from hipdnn_iree import Graph
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.provider.sweep.reduce import reduced, smaller_graphs


def network() -> FrozenGraph:
    g = Graph(io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(4, 30, 17, 17), strides=(30 * 17 * 17, 1, 30 * 17, 30))
    w = g.tensor(dims=(64, 30, 3, 3))
    y = g.relu(g.conv_fprop(g.abs(x), w, padding=1, stride=2))
    y = g.add(y, g.tensor(dims=(1, 64, 1, 1)))
    g.reduction(y, mode="add", axes=[2, 3]).set_output()
    return g.freeze()


def ops(graph: FrozenGraph) -> list[str]:
    return [node.op.NAME for node in graph.nodes]


def test_one_node_with_the_least_that_fails() -> None:
    asked: list[str] = []

    def fails(graph: FrozenGraph) -> bool:
        asked.append(graph.digest)
        return any(
            isinstance(node.op, ConvFprop) and graph.tensors[node.inputs["x"]].dims[1] >= 7
            for node in graph.nodes
        )

    told: list[FrozenGraph] = []
    small = reduced(network(), fails, told=told.append)
    assert ops(small) == ["conv_fprop"]
    node = small.nodes[0]
    assert isinstance(node.op, ConvFprop)
    assert small.tensors[node.inputs["x"]].dims == (1, 7, 1, 1)
    assert small.tensors[node.inputs["w"]].dims == (1, 7, 1, 1)
    assert (node.op.pre_padding, node.op.stride) == ((0, 0), (1, 1))
    assert {spec.data_type.json for spec in small.tensors.values()} == {"float"}
    assert len(set(asked)) == len(asked)
    assert told[-1].digest == small.digest
    # Nothing smaller fails.
    assert not any(fails(graph) for graph in smaller_graphs(small) if graph.digest != small.digest)


def test_a_layout_that_matters_stays() -> None:
    def fails(graph: FrozenGraph) -> bool:
        specs = [graph.tensors[uid] for uid in graph.inputs]
        return any(len(s.dims) == 4 and s.dims[1] > 1 and s.strides[1] == 1 for s in specs)

    small = reduced(network(), fails)
    assert fails(small)
    assert len(small.nodes) == 1
    assert max(small.tensors[small.inputs[0]].dims) == 2


def test_a_chain_that_matters_stays_whole() -> None:
    def fails(graph: FrozenGraph) -> bool:
        return {"conv_fprop", "reduction"} <= set(ops(graph))

    small = reduced(network(), fails)
    # What was between the two has made room for inputs.
    assert set(ops(small)) == {"conv_fprop", "reduction"}
    assert max(d for spec in small.tensors.values() for d in spec.dims) <= 3


def test_nothing_to_leave_out() -> None:
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(1,))).set_output()
    graph = g.freeze()
    assert reduced(graph, lambda _: True).digest == graph.digest


def test_smaller_graphs_are_sound_and_others() -> None:
    found = list(smaller_graphs(network()))
    assert len({graph.digest for graph in found}) > 20
    assert all(graph.inputs and graph.outputs for graph in found)
