# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Planning grows with the graph; steps are calls of functions, for graphs of n and of 4n nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.jit import support
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target
from hipdnn_iree.jit.work import cpu_us

Steps = Callable[[Callable[[], object]], int]
TARGETS = ("cpu", "gfx942", "gfx950")


def empty() -> Graph:
    return Graph(io_data_type="half", compute_data_type="float")


def diamonds(n: int) -> Graph:
    """A matmul of a value that 2^n paths lead to."""
    g = empty()
    x = g.tensor(dims=(1, 8, 8))
    for _ in range(n):
        x = g.add(x, x)
    g.matmul(x, x).set_output()
    return g


def convolutions(n: int) -> Graph:
    """Channels-last filters on computed inputs, and an input that is wider than what feeds it."""
    g = empty()
    x = g.tensor(dims=(1, 8, 8, 8), strides=(512, 1, 64, 8))
    for _ in range(n):
        w = g.tensor(dims=(8, 8, 3, 3), strides=(72, 1, 24, 8))
        x = g.conv_fprop(g.add(x, x), w, padding=1).set_data_type("float")
    x.set_output()
    return g


def gradients(n: int) -> Graph:
    g = empty()
    x = g.tensor(dims=(1, 8, 8, 8))
    for _ in range(n):
        y = g.conv_fprop(x, g.tensor(dims=(8, 8, 3, 3)), padding=1).set_output()
        g.conv_wgrad(y, x, dw_dims=(8, 8, 3, 3), padding=1).set_output()
    return g


def norms(n: int) -> Graph:
    """Norms of one tensor after the other, not all of them in the order of their dims."""
    g = empty()
    x = g.tensor(dims=(4, 8, 16))
    for _ in range(n):
        scale, bias = g.tensor(dims=(1, 8, 16)), g.tensor(dims=(1, 8, 16))
        x = g.layernorm(x, scale, bias).y
    g.transpose(x, permutation=(0, 2, 1)).set_output()
    return g


def attentions(n: int) -> Graph:
    g = empty()
    x = g.tensor(dims=(1, 2, 4, 8))
    for _ in range(n):
        x = g.sdpa(x, x, x).o
    x.set_output()
    return g


def matmuls(n: int) -> Graph:
    g = empty()
    x = g.tensor(dims=(1, 8, 8))
    for _ in range(n):
        x = g.matmul(g.relu(x), g.tensor(dims=(1, 8, 8)))
    x.set_output()
    return g


def plans(g: Graph) -> None:
    graph = g.freeze()
    for target in map(Target.parse, TARGETS):
        assert list(support.problems(graph, target)) is not None
        plan = plan_code(graph, target)
        assert plan.text is not None
        list(plan.lines(graph))
        plan.as_dict(graph)
        choices(graph, target)
    cpu_us(graph)


@pytest.mark.parametrize("make", [diamonds, convolutions, gradients, norms, attentions, matmuls])
def test_planning_grows_with_the_graph(
    make: Callable[[int], Graph], steps: Steps, ends: Callable[[], AbstractContextManager[None]]
) -> None:
    with ends():
        plans(make(3))
        small, large = (steps(lambda n=n: plans(make(n))) for n in (40, 160))  # type: ignore[misc]
    assert large < 5 * small
