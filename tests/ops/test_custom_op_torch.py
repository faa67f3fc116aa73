# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ATen ops, FX nodes and Python functions as custom ops, against PyTorch itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.errors import GraphError, NotSupportedError
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect

ROOT = Path(__file__).resolve().parents[2]

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
Calls = Callable[..., Any]


def run(call: Calls, *arrays: Any, data_type: str = "float") -> tuple[list[Any], Graph]:
    """Build a graph of what ``call(graph, *tensors)`` adds, run it, and return torch tensors."""
    graph = Graph(io_data_type=data_type, compute_data_type="float")
    inputs = [graph.tensor(dims=a.shape, name=f"x{i}") for i, a in enumerate(arrays)]
    found = call(graph, *inputs)
    results = found if isinstance(found, tuple) else (found,)
    for result in results:
        result.set_output()
    given = [np.ascontiguousarray(a.numpy()) for a in arrays]
    kept = [a.copy() for a in given]
    outputs = graph.build().run(dict(zip(inputs, given, strict=True)))
    for array, copy in zip(given, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
    return [torch.from_numpy(outputs[r.uid]) for r in results], graph


def random(*dims: int) -> Any:
    return torch.randn(*dims, generator=torch.Generator().manual_seed(sum(dims)))


def same(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    assert got.dtype == expected.dtype
    torch.testing.assert_close(
        got, expected.reshape(got.shape), rtol=tolerance, atol=tolerance, equal_nan=True
    )


CASES: dict[str, tuple[Calls, Calls, tuple[tuple[int, ...], ...]]] = {
    "gelu": (
        lambda g, x: g.aten("aten.gelu.default", x, approximate="tanh"),
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        ((4, 6),),
    ),
    "softmax": (
        lambda g, x: g.aten("aten._softmax", x, -1, False),
        lambda x: x.softmax(-1),
        ((4, 6),),
    ),
    "topk": (lambda g, x: g.aten("aten.topk", x, 2), lambda x: tuple(x.topk(2)), ((4, 6),)),
    "sort": (
        lambda g, x: g.aten("aten.sort", x, 0, True),
        lambda x: tuple(x.sort(0, True)),
        ((5, 3),),
    ),
    "layer_norm": (
        lambda g, x: g.aten("aten.native_layer_norm", x, [6], None, None, 1e-5),
        lambda x: torch.native_layer_norm(x, [6], None, None, 1e-5),
        ((4, 6),),
    ),
    "cat": (
        lambda g, x, y: g.aten("aten.cat", [x, y, x], 1),
        lambda x, y: torch.cat([x, y, x], 1),
        ((2, 3), (2, 5)),
    ),
    "sum": (lambda g, x: g.aten("aten.sum", x), lambda x: x.sum(), ((4, 6),)),
    # The compiler has no lowering for it: written by other ops.
    "logsumexp": (
        lambda g, x: g.aten("aten.logsumexp", x, [1]),
        lambda x: x.logsumexp(1),
        ((4, 6),),
    ),
    "convolution": (
        lambda g, x, w: g.aten(
            "aten.convolution", x, w, None, [2, 1], [1, 1], [1, 1], False, [0, 0], 2
        ),
        lambda x, w: torch.conv2d(x, w, stride=(2, 1), padding=1, groups=2),
        ((2, 4, 7, 5), (6, 2, 3, 3)),
    ),
    "cast": (
        lambda g, x: g.aten("prims.convert_element_type", x, DataType.HALF),
        lambda x: x.half(),
        ((4, 6),),
    ),
    "pixel_shuffle": (
        lambda g, x: g.aten("aten.pixel_shuffle", x, 2),
        lambda x: torch.pixel_shuffle(x, 2),
        ((1, 8, 3, 2),),
    ),
    "after_another_op": (
        lambda g, x: g.aten("aten.cumsum", g.relu(x), 1),
        lambda x: x.relu().cumsum(1),
        ((3, 9),),
    ),
}


# IREE's tanh is a rational approximation.
TOLERANCE = {"gelu": 1e-4}


@needs_torch
@pytest.mark.parametrize("name", CASES)
def test_an_aten_op(name: str) -> None:
    call, meant, dims = CASES[name]
    operands = [random(*d) for d in dims]
    results, _ = run(call, *operands)
    expected = meant(*operands)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(results) == len(expected)
    for got, wanted in zip(results, expected, strict=True):
        same(got, wanted, TOLERANCE.get(name, 1e-5))


@needs_torch
def test_rotary_embedding_and_what_it_closes_over() -> None:
    """A function of several ops, two results and a constant."""
    angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1, 0.01]))

    def rotate(q: Any, k: Any) -> tuple[Any, Any]:
        def turn(x: Any) -> Any:
            a, b = x.chunk(2, -1)
            cos, sin = angles.cos(), angles.sin()
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

        return turn(q), turn(k)

    q, k = random(2, 4, 5, 6), random(2, 2, 5, 6)
    results, graph = run(lambda g, q, k: g.torch_function(rotate, q, k), q, k)
    for got, wanted in zip(results, rotate(q, k), strict=True):
        same(got, wanted)
    assert graph.nodes[0].op.custom_op_id == "hipdnn_iree.torch.rotate"  # type: ignore[attr-defined]


@needs_torch
@pytest.mark.parametrize("data_type", ["half", "double"])
def test_other_types(data_type: str) -> None:
    x = random(3, 8).to({"half": torch.half, "double": torch.double}[data_type])
    (got,), _ = run(
        lambda g, x: g.torch_function(lambda v: (v * 2).relu() - v, x), x, data_type=data_type
    )
    same(got, (x * 2).relu() - x)


@needs_torch
@pytest.mark.parametrize("kind", ["real", "fake", "none", "record"])
def test_a_node_of_an_fx_graph(kind: str) -> None:
    """Its metadata may be a tensor, a fake one, the interpreter's record, or missing."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.shape_prop import ShapeProp

    fx = torch.fx.Graph()
    x, w = fx.placeholder("x"), fx.placeholder("w")
    node = fx.call_function(torch.ops.aten.mm.default, (x, w))
    again = fx.call_function(torch.ops.aten.add.Tensor, (node, node), {"alpha": 3})
    fx.output(again)
    values = random(4, 6), random(6, 5)
    if kind == "real":
        x.meta["val"], w.meta["val"] = values
    elif kind == "fake":
        with FakeTensorMode():
            x.meta["val"], w.meta["val"] = (torch.empty(v.shape) for v in values)
    elif kind == "record":
        ShapeProp(torch.fx.GraphModule(torch.nn.Module(), fx)).propagate(*values)

    def call(g: Graph, x: Any, w: Any) -> Any:
        return g.fx_node(again, g.fx_node(node, x, w))

    (got,), graph = run(call, *values)
    same(got, 4 * (values[0] @ values[1]))
    assert [n.name for n in graph.nodes] == ["mm_default", "add_tensor"]
    if kind != "none":
        other = Graph(io_data_type="float")
        with pytest.raises(GraphError, match=r"TORCH-02.*\[4, 7\].*\[4, 6\]"):
            other.fx_node(node, other.tensor(dims=(4, 7)), other.tensor(dims=(6, 5)))


@needs_torch
def test_a_saved_graph_needs_no_torch(tmp_path: Path) -> None:
    graph = Graph("saved", io_data_type="float")
    x = graph.tensor(dims=(2, 3), name="x")
    graph.aten("aten.gelu", x).set_output().set_name("y")  # type: ignore[union-attr]
    path = tmp_path / "graph.json"
    graph.save(path)
    code = f"""
import sys
sys.modules["torch"] = None  # importing it fails
import numpy as np
from hipdnn_iree import load
graph = load({str(path)!r})
(y,) = graph.build().run({{"x": np.full((2, 3), 1, np.float32)}}).values()
assert abs(y - 0.8413447).max() < 1e-5, y
print(graph)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "HIPDNN_IREE_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    assert "custom_op hipdnn_iree.aten.gelu.default" in done.stdout


REFUSED: dict[str, tuple[str, str, Calls]] = {
    "no such op": ("TORCH-01", "'aten.nosuch'", lambda g, x: g.aten("aten.nosuch", x)),
    "an op of overloads": ("TORCH-01", "aten.div_", lambda g, x: g.aten("aten.div_", x, x)),
    "in place": ("TORCH-01", "changes an operand", lambda g, x: g.aten("aten.div_.Tensor", x, x)),
    "no op": ("TORCH-01", "3", lambda g, x: g.aten(3, x)),
    "no node": ("TORCH-01", "'node'", lambda g, x: g.fx_node("node", x)),
    "no dims": ("TORCH-02", "[?]", lambda g, x: g.aten("aten.relu", g.tensor())),
    "no such type": (
        "TORCH-02",
        "fp4_e2m1",
        lambda g, x: g.aten("aten.relu", g.tensor(dims=(2,), data_type="fp4_e2m1")),
    ),
    "shapes": ("TORCH-03", "reduction dim", lambda g, x: g.aten("aten.mm", x, x)),
    "arguments": ("TORCH-03", "other", lambda g, x: g.aten("aten.mul.Tensor", x)),
    "results without a shape": (
        "TORCH-03",
        "DynamicOutputShape",
        lambda g, x: g.aten("aten.nonzero", x),
    ),
    "a complex result": ("TORCH-04", "complex", lambda g, x: g.aten("aten.fft_fft", x)),
    "a number": ("TORCH-04", "int returned", lambda g, x: g.torch_function(lambda v: 3, x)),
    "an argument changed": (
        "TORCH-04",
        "changes its arguments",
        lambda g, x: g.torch_function(lambda v: v.add_(1), x),
    ),
    "the function's own error": (
        "TORCH-04",
        "ZeroDivisionError",
        lambda g, x: g.torch_function(lambda v: v / (1 // 0), x),
    ),
    "a choice by values": (
        "TORCH-04",
        "data-dependent",
        lambda g, x: g.torch_function(lambda v: v if v.sum() > 0 else -v, x),
    ),
}


@needs_torch
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(case: tuple[str, str, Calls]) -> None:
    rule, got, call = case
    graph = Graph(io_data_type="float")
    with pytest.raises(GraphError) as caught:
        call(graph, graph.tensor(dims=(2, 3)))
    (problem,) = caught.value.problems
    assert problem.rule == rule
    assert got in problem.got
    assert problem.wanted
    assert not graph.nodes


@pytest.mark.parametrize(
    "call",
    [
        lambda g, x: g.aten("aten.relu", x),
        lambda g, x: g.fx_node(None, x),
        lambda g, x: g.torch_function(abs, x),
    ],
    ids=["aten", "fx_node", "torch_function"],
)
def test_without_torch_an_error_says_what_to_install(
    call: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    import builtins

    real = builtins.__import__

    def no_torch(name: str, *rest: Any) -> Any:
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_torch)
    graph = Graph(io_data_type="float")
    with pytest.raises(NotSupportedError, match=r"pip install 'hipdnn-iree\[torch\]'"):
        call(graph, graph.tensor(dims=(2, 3)))


def _imports_torch(node: ast.AST) -> bool:
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
    return any(name.partition(".")[0] == "torch" for name in names)


def test_torch_is_imported_in_functions_of_the_provider_only() -> None:
    folders = ("graph_api", "jit", "provider", "hipdnn_plugin")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    trees = {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in files}
    importers = {path for path, tree in trees.items() if any(map(_imports_torch, ast.walk(tree)))}
    assert Path("provider/torch_import.py") in importers
    assert {path.parts[0] for path in importers} == {"provider"}
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for path in importers:
        everywhere = sum(map(_imports_torch, ast.walk(trees[path])))
        inside = {
            id(found)
            for function in ast.walk(trees[path])
            if isinstance(function, functions)
            for found in ast.walk(function)
            if _imports_torch(found)
        }
        assert len(inside) == everywhere, f"{path} imports torch when it is imported"


@needs_torch
def test_torch_says_what_it_means() -> None:
    """Imported code is its own reference, in float64; graphs from files have none."""
    graph = Graph(io_data_type="half", compute_data_type="float")
    x, i = graph.tensor(dims=(4, 6), name="x"), graph.tensor(dims=(2,), data_type="int64", name="i")
    y = graph.torch_function(lambda a, b: torch.softmax(a[b], -1), x, i)
    graph.output(graph.aten("aten.gelu.default", y))
    frozen = graph.freeze()
    inputs = {
        x.uid: np.linspace(-2, 2, 24).astype(np.float16).reshape(4, 6),
        i.uid: np.array([3, 1]),
    }
    outputs = verify.poisoned_outputs(frozen)
    graph.build("cpu").execute({**inputs, **outputs})
    wanted = expect(frozen, inputs)
    rows = torch.from_numpy(inputs[x.uid].astype(np.float64))[[3, 1]]
    exact = torch.nn.functional.gelu(torch.softmax(rows, -1))
    np.testing.assert_allclose(*wanted.values.values(), exact.numpy(), rtol=1e-12)
    assert verify.compare(frozen, outputs, wanted).ok
    with pytest.raises(NotSupportedError, match="REF-01"):
        expect(Graph.from_json(graph.to_json()).freeze(), inputs)


@needs_torch
@pytest.mark.parametrize("name", ["mm", "addmm", "bmm", "linear", "conv", "module", "sum"])
def test_sums_are_within_the_error_bound(name: str) -> None:
    """The bound covers sums in any order, and code that brings weights of its own."""
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(300, 40), torch.nn.ReLU(), torch.nn.Linear(40, 7))
    graph = Graph(io_data_type="float", compute_data_type="float")
    a, b, c = (graph.tensor(dims=dims) for dims in ((5, 300), (300, 7), (7,)))
    if name == "mm":
        y = graph.aten("aten.mm", a, b)
    elif name == "addmm":
        y = graph.aten("aten.addmm", c, a, b)
    elif name == "bmm":
        y = graph.torch_function(lambda x, w: torch.bmm(x[None], w[None]), a, b)
    elif name == "linear":
        y = graph.torch_function(lambda x, w: torch.nn.functional.linear(x, w.t()), a, b)
    elif name == "conv":
        y = graph.torch_function(
            lambda x, w: torch.conv1d(x[None], w.t().reshape(7, 5, 60), padding=3), a, b
        )
    elif name == "module":
        y = graph.torch_function(layer, a)
    else:
        y = graph.aten("aten.sum.dim_IntList", graph.mul(a, 1e3), [1])
    graph.output(y)
    frozen = graph.freeze()
    plan = graph.build("cpu")
    for seed in range(10):
        inputs = verify.random_inputs(frozen, seed=seed)
        outputs = verify.poisoned_outputs(frozen)
        plan.execute({**inputs, **outputs})
        report = verify.compare(frozen, outputs, expect(frozen, inputs))
        assert report.ok, f"seed {seed}: {report}"
        # A bound that is far too wide would show nothing.
        wrong = {uid: value * np.float32(1.001) for uid, value in outputs.items()}
        assert not verify.compare(frozen, wrong, expect(frozen, inputs)).ok
