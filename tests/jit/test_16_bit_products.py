# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""In which type a CPU multiplies floats of 16 bits: in float32 where that is quicker (W-151)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.settings import scope

Build = Callable[[Graph], None]


def _matmul(graph: Graph) -> None:
    graph.matmul(graph.tensor(dims=(33, 24)), graph.tensor(dims=(24, 20))).set_output()


def _batch(graph: Graph) -> None:
    graph.matmul(graph.tensor(dims=(3, 33, 24)), graph.tensor(dims=(3, 24, 20))).set_output()


def _mixed(graph: Graph) -> None:
    wide = graph.tensor(dims=(24, 20), data_type="float")
    graph.matmul(graph.tensor(dims=(33, 24)), wide).set_output()


def _attention(graph: Graph) -> None:
    q, k, v = (graph.tensor(dims=(1, 2, n, 32)) for n in (17, 19, 19))
    graph.sdpa(q, k, v).o.set_output()


def _convolution(graph: Graph) -> None:
    x = graph.tensor(dims=(1, 32, 14, 14))
    graph.conv_fprop(x, graph.tensor(dims=(64, 32, 1, 1))).set_output()


def _weight_gradient(graph: Graph) -> None:
    x, dy = graph.tensor(dims=(2, 32, 14, 14)), graph.tensor(dims=(2, 64, 14, 14))
    graph.conv_wgrad(dy, x, dw_dims=(64, 32, 1, 1)).set_output()


GRAPHS: dict[str, Build] = {
    "matmul": _matmul,
    "batch": _batch,
    "mixed": _mixed,
    "attention": _attention,
    "convolution": _convolution,
    "weight gradient": _weight_gradient,
}
# Of each product, its two operands' types.
_PRODUCT = re.compile(
    r"torch\.aten\.(?:b?mm|matmul|convolution) .*? : "
    r"!torch\.vtensor<\[[\d,]*\],(\w+)>, !torch\.vtensor<\[[\d,]*\],(\w+)>"
)


def _graph(name: str, kind: str = "bfloat16") -> Graph:
    graph = Graph(io_data_type=kind, compute_data_type="float")
    GRAPHS[name](graph)
    return graph


def _types(graph: Graph, cpu: str) -> set[str]:
    return _types_in(lower_graph(graph.freeze(), Target.parse(f"cpu:{cpu}")))


def _types_in(text: str) -> set[str]:
    return {kind for kinds in _PRODUCT.findall(text) for kind in kinds}


@pytest.mark.parametrize("cpu", ["x86-64", "znver3", "x86-64-v4"])
@pytest.mark.parametrize("name", GRAPHS)
def test_in_float_where_it_has_none(name: str, cpu: str) -> None:
    assert _types(_graph(name), cpu) <= {"f32"}  # nothing: blocks of our own, which are of float32


@pytest.mark.parametrize("cpu", ["znver4", "sapphirerapids"])
@pytest.mark.parametrize("name", ["matmul", "batch"])
def test_in_bfloat16_where_it_has_them(name: str, cpu: str) -> None:
    """But in tiles of our own, which are chosen where they cost less."""
    graph, where = _graph(name).freeze(), Target.parse(f"cpu:{cpu}")
    kinds = {
        strategy: _types_in(
            lower_graph(graph, where, plan_code(graph, where, [f"matmul={strategy}"]))
        )
        for strategy in ("gemm", "blocked")
    }
    assert kinds == {"gemm": {"bf16"}, "blocked": set()}


@pytest.mark.parametrize(
    ("rows", "columns", "kind"), [(16, 16, "f32"), (15, 40, "f16"), (40, 15, "f16"), (1, 64, "f16")]
)
def test_halves_that_are_multiplied_often(rows: int, columns: int, kind: str) -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    a, w = graph.tensor(dims=(rows, 24)), graph.tensor(dims=(24, columns))
    graph.matmul(a, w).set_output()
    for cpu in ("x86-64", "znver3", "znver4"):
        assert _types(graph, cpu) == {kind}


@pytest.mark.parametrize("kind", ["bfloat16", "half"])
@pytest.mark.parametrize("name", GRAPHS)
def test_numbers_of_code_for_any_cpu(name: str, kind: str) -> None:
    graph = _graph(name, kind)
    plan = graph.build("cpu:x86-64")
    assert plan.verify(seed=7).ok


@pytest.mark.parametrize(("m", "n"), [(1, 67), (67, 1)])
@pytest.mark.parametrize("strategy", ["rows", "dots", "blocked"])
@pytest.mark.parametrize("cpu", ["cpu:znver3", "cpu:znver5"])
def test_the_larger_operand_is_converted_where_it_is_read(
    m: int, n: int, strategy: str, cpu: str
) -> None:
    """Not before, into memory, as it is for `blocked`, which packs it."""
    graph = Graph("product", io_data_type="bfloat16", compute_data_type="float")
    graph.matmul(graph.tensor(dims=(m, 64)), graph.tensor(dims=(64, n))).set_output()
    frozen, target = graph.freeze(), Target.parse(cpu)
    text = lower_graph(frozen, target, plan_code(frozen, target, [f"matmul={strategy}"]))
    (types,) = set(re.findall(r"linalg\.generic .* ins\(.*? : (tensor<\S+), (tensor<\S+)\)", text))
    narrow = [kind.endswith("bf16>") for kind in types]
    large = [strategy == "dots" and m > n, strategy == "rows" or (strategy == "dots" and m < n)]
    assert narrow == large, types


@pytest.mark.parametrize("strategy", ["rows", "dots", "blocked"])
def test_a_matrix_times_itself_is_added_up_in_float(strategy: str) -> None:
    """One tensor as both operands: in bfloat16 sums are wrong in the third digit."""
    graph = Graph("square", io_data_type="bfloat16", compute_data_type="float")
    x = graph.tensor(dims=(64, 64), name="x")
    graph.matmul(x, x).set_output().set_data_type("float")
    with scope(compiler_strategies=f"matmul={strategy}"):
        plan = graph.build("cpu")
    assert plan.verify(seed=1).ok
