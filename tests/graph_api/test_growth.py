# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Work on a graph grows with its size: no square hides in rules, orders, formats or drawings.

Steps are calls of functions, counted for graphs of n and of 4n nodes or tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise

import pytest
from hipdnn_iree.graph_api.draw import describe_unfrozen
from hipdnn_iree.graph_api.enums import PointwiseMode
from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops.pointwise import Pointwise

Steps = Callable[[Callable[[], object]], int]


def empty(name: str = "") -> Graph:
    return Graph(name, io_data_type="float", compute_data_type="float")


def chain(n: int) -> Graph:
    g = empty()
    x = g.tensor(dims=(4, 4))
    for _ in range(n):
        x = g.relu(x)
    x.set_output()
    return g


def diamonds(n: int) -> Graph:
    g = empty()
    x = g.tensor(dims=(4, 4))
    for _ in range(n):
        x = g.add(x, x)
    x.set_output()
    return g


def fan_out(n: int) -> Graph:
    g = empty()
    x = g.tensor(dims=(4, 4))
    for i in range(n):
        g.relu(x, name=f"node {i}").set_output()
    return g


def apart(n: int) -> Graph:
    g = empty()
    for i in range(n):
        y = g.relu(g.tensor(dims=(4, i + 1), name=f"x{i}")).set_output()
        assert y.uid  # of the handle, before the graph is frozen
    return g


def tree(n: int) -> Graph:
    g = empty()
    level = [g.tensor(dims=(4, 4)) for _ in range(n)]
    while len(level) > 1:
        level = [g.add(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
    level[0].set_output()
    return g


def zigzag(n: int) -> Graph:
    """Each node shares an input with the next one: what tells them apart is at the far ends."""
    g = empty()
    for a, b in pairwise([g.tensor(dims=(4, 4)) for _ in range(n + 1)]):
        g.add(a, b).set_output()
    return g


def ragged(n: int) -> Graph:
    g = empty()
    for _ in range(n):
        x = g.tensor(dims=(4, 4))
        x.ragged_offset_uid = 10_000
        g.relu(x).set_output()
    g.tensor(dims=(5, 1), data_type="int32", uid=10_000)
    return g


def joined(n: int) -> Graph:
    g = empty()
    g.concatenate([g.tensor(dims=(4, 4)) for _ in range(n)], axis=0).set_output()
    return g


def unused(n: int) -> Graph:
    g = empty()
    for _ in range(n):
        g.tensor(dims=(4, 4))
    return chain_on(g)


def chain_on(g: Graph) -> Graph:
    g.relu(g.tensor(dims=(4, 4))).set_output()
    return g


def dynamic(n: int) -> Graph:
    g = empty()
    dim = g.dynamic("n", range=(1, 64), example=8)
    for _ in range(n):
        g.relu(g.tensor(dims=(dim, 4))).set_output()
    return g


FAMILIES = [chain, diamonds, fan_out, apart, tree, zigzag, ragged, joined, unused, dynamic]


def everything(g: Graph) -> None:
    """Do what needs no other layer."""
    describe_unfrozen(g)
    text = g.to_json()
    Graph.from_json(text).freeze()
    assert g.digest
    g.to_dot()
    g.to_mermaid()
    repr(g.freeze())
    try:
        data = encode(g.freeze())
    except FormatError:  # an op, or dims, that hipDNN has not
        return
    decode(data, Graph).graph.freeze()


@pytest.mark.parametrize("make", FAMILIES)
def test_work_grows_with_the_graph(make: Callable[[int], Graph], steps: Steps) -> None:
    everything(make(8))  # what is imported and remembered for the first graph
    small, large = (steps(lambda n=n: everything(make(n))) for n in (100, 400))  # type: ignore[misc]
    assert large < 5 * small


def cycle_with_tail(n: int) -> Graph:
    g = empty()
    x = g.tensor(dims=(4, 4), virtual=True)
    g.add_node(Pointwise(mode=PointwiseMode.RELU_FWD), {"in_0": x}, outputs={"out_0": x})
    for _ in range(n):
        x = g.relu(x)
    x.set_output()
    return g


def one_cycle(n: int) -> Graph:
    g = empty()
    first = x = g.tensor(dims=(4, 4), virtual=True)
    for _ in range(n):
        x = g.relu(x)
    g.add_node(Pointwise(mode=PointwiseMode.RELU_FWD), {"in_0": x}, outputs={"out_0": first})
    return g


def twice_written(n: int) -> Graph:
    g = empty()
    x, y = g.tensor(dims=(4, 4), uid=1), g.tensor(dims=(4, 4), uid=1)
    for _ in range(n):
        g.add_node(Pointwise(mode=PointwiseMode.RELU_FWD), {"in_0": x}, outputs={"out_0": y})
    return g


@pytest.mark.parametrize("make", [cycle_with_tail, one_cycle, twice_written])
def test_refusing_grows_with_the_graph(make: Callable[[int], Graph], steps: Steps) -> None:
    texts = []

    def refused(n: int) -> None:
        with pytest.raises(GraphError) as caught:
            make(n).freeze()
        texts.append(str(caught.value))

    refused(8)
    small, large = (steps(partial(refused, n)) for n in (100, 400))
    assert large < 5 * small
    assert len(texts[-1]) < 5 * len(texts[-2])


def test_a_cycle_is_named_without_what_depends_on_it(
    ends: Callable[[], AbstractContextManager[None]],
) -> None:
    with ends():
        (found,) = [p for p in cycle_with_tail(9_000).problems() if p.rule == "GRAPH-03"]
    assert found.got == "a cycle among pointwise_0"
    (found,) = [p for p in one_cycle(100).problems() if p.rule == "GRAPH-03"]
    assert found.got.endswith("pointwise_7 and 93 more")


def test_a_rank_without_end_is_not_multiplied_out(
    ends: Callable[[], AbstractContextManager[None]],
) -> None:
    """The strides of 50,000 huge dims would be integers of 390 KB each."""
    g = empty()
    x = g.tensor(dims=(2**62,) * 50_000)
    scalar = g.scalar(1.0)
    scalar.dims = (2**62,) * 50_000
    alpha = g.runtime_scalar()
    alpha.dims = (2**62,) * 50_000
    g.mul(g.add(x, scalar), alpha).set_output()
    with ends():
        rules = {p.rule for p in g.problems()}
    assert {"TENSOR-04", "TENSOR-08", "TENSOR-11"} <= rules
