# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom ops given as MLIR text: what they compute, and how they are described."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from custom_ops import ERF, SORT, V, body, graph_of
from here_and_now import engine
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.errors import CompileError, FormatError, GraphError
from hipdnn_iree.graph_api.mlir_text import results_of
from hipdnn_iree.graph_api.ops.custom_op import CustomOp
from hipdnn_iree.jit.target import Target

MM_AND_RELU = """
func.func private @{FUNC_NAME}(%x: {IN0_TYPE}, %w: {IN1_TYPE}) -> ({OUT0_TYPE}, {OUT1_TYPE}) {
  %0 = torch.aten.mm %x, %w : {IN0_TYPE}, {IN1_TYPE} -> {OUT0_TYPE}
  %1 = torch.aten.relu %0 : {OUT0_TYPE} -> {OUT1_TYPE}
  return %0, %1 : {OUT0_TYPE}, {OUT1_TYPE}
}"""
Run = Callable[..., list[np.ndarray[Any, Any]]]


def data(*dims: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


# -------------------------------------------------------------------------- results


def test_a_function_between_other_ops(run: Run) -> None:
    """Two results, one of which goes on; the operand is a computed value."""
    graph = Graph(io_data_type="float")
    x, w = graph.tensor(dims=(4, 7), name="x"), graph.tensor(dims=(7, 5), name="w")
    product, positive = graph.custom_op(
        mlir=MM_AND_RELU, inputs=[graph.abs(x), w], outputs=[((4, 5), "float")] * 2
    )
    product.set_output()
    graph.sub(positive, 0.5).set_output()
    a, b = data(4, 7), data(7, 5, seed=2)
    first, second = run(graph, {x: a, w: b})
    expected = np.abs(a).astype(np.float64) @ b
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second, np.maximum(expected, 0) - 0.5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("data_type", ["float", "half", "bfloat16"])
def test_one_text_serves_all_types(data_type: str, run: Run) -> None:
    from math import erf

    graph = Graph(io_data_type=data_type)
    x = graph.tensor(dims=(3, 5), name="x")
    graph.custom_op(mlir=ERF, inputs=[x], outputs=[((3, 5), data_type)])[0].set_output()
    from hipdnn_iree.provider.reference import numpy_dtype

    a = data(3, 5).astype(numpy_dtype(DataType.parse(data_type)))
    (y,) = run(graph, {x: a})
    tolerance = {"float": 1e-6, "half": 2e-3, "bfloat16": 2e-2}[data_type]
    expected = np.vectorize(erf)(a.astype(np.float64))
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def test_dims_are_logical_whatever_the_layout(run: Run) -> None:
    """A function that sums over dim 1 sums channels, also of a channels-last image."""
    text = """
    func.func @{FUNC_NAME}(%x: {IN0_TYPE}) -> {OUT0_TYPE} {
      %c = torch.constant.int {IN0_DIM1}
      %axis = torch.constant.int 1
      %keep = torch.constant.bool true
      %none = torch.constant.none
      %axes = torch.prim.ListConstruct %axis : (!torch.int) -> !torch.list<int>
      %s = torch.aten.sum.dim_IntList %x, %axes, %keep, %none : {IN0_TYPE}, !torch.list<int>, \
!torch.bool, !torch.none -> {OUT0_TYPE}
      %m = torch.aten.div.Scalar %s, %c : {OUT0_TYPE}, !torch.int -> {OUT0_TYPE}
      return %m : {OUT0_TYPE}
    }"""
    graph = Graph(io_data_type="float")
    dims, strides = (2, 3, 4, 5), (60, 1, 15, 3)
    x = graph.tensor(dims=dims, strides=strides, name="x")
    (y,) = graph.custom_op(mlir=text, inputs=[x], outputs=[((2, 1, 4, 5), "float")])
    y.set_output().set_stride((20, 1, 5, 1))
    a = np.ascontiguousarray(data(*dims).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    (result,) = run(graph, {x: a})
    np.testing.assert_allclose(result, a.mean(1, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        body(result="%x"),
        body("%n = torch.constant.none", f"%y = torch.aten.clone %x, %n : {V}, !torch.none -> {V}"),
        f"module {{ {body(result='%x')} }}",
    ],
    ids=["argument", "clone", "in_a_module"],
)
def test_an_argument_returned_unchanged(text: str, run: Run) -> None:
    """IREE crashes when an output is an input, so that it is copied."""
    graph = graph_of(text)
    (y,) = run(graph, {"x0": data(2, 3)})
    np.testing.assert_array_equal(y, data(2, 3))


def test_results_that_are_the_same_value_or_constants(run: Run) -> None:
    one = f"%c = torch.vtensor.literal(dense<1.5> : tensor<2x3xf32>) : {V}"
    relu = f"%y = torch.aten.relu %x : {V} -> {V}"
    text = body(one, relu, result="%y, %y, %c", to=f"({V}, {V}, {V})").replace(
        f": ({V}, {V}, {V})\n}}", f": {V}, {V}, {V}\n}}"
    )
    first, second, third = run(graph_of(text, outputs=[((2, 3), "float")] * 3), {"x0": data(2, 3)})
    np.testing.assert_array_equal(first, np.maximum(data(2, 3), 0))
    np.testing.assert_array_equal(second, first)
    assert (third == 1.5).all()


def test_one_tensor_twice_and_a_number(run: Run) -> None:
    text = """
    func.func @f(%a: {IN0_TYPE}, %b: {IN1_TYPE}, %c: {IN2_TYPE}) -> {OUT0_TYPE} {
      %0 = torch.aten.mul.Tensor %a, %b : {IN0_TYPE}, {IN1_TYPE} -> {OUT0_TYPE}
      %1 = torch.aten.mul.Tensor %0, %c : {OUT0_TYPE}, {IN2_TYPE} -> {OUT0_TYPE}
      return %1 : {OUT0_TYPE}
    }"""
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(2, 3), name="x")
    graph.custom_op(mlir=text, inputs=[x, x, 3.0], outputs=[((2, 3), "float")])[0].set_output()
    (y,) = run(graph, {x: data(2, 3)})
    np.testing.assert_allclose(y, 3 * data(2, 3) ** 2, rtol=1e-6)


def test_extents_that_the_text_leaves_open(run: Run) -> None:
    dynamic = "!torch.vtensor<[?,3],f32>"
    line = f"%y = torch.aten.relu %x : {dynamic} -> {dynamic}"
    (y,) = run(graph_of(body(line, to=dynamic, takes=f"%x: {dynamic}")), {"x0": data(2, 3)})
    np.testing.assert_array_equal(y, np.maximum(data(2, 3), 0))


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_attention_of_any_extent(target: str) -> None:
    """The form of Fusilli's templates: IREE compiles it only once the extents are known."""
    q, o = (f"!torch.vtensor<[?,?,?,?],{{{name}_DTYPE}}>" for name in ("IN0", "OUT0"))
    text = f"""
    func.func private @{{FUNC_NAME}}(%q: {q}, %k: {q}, %v: {q}) -> {o} {{
      %none = torch.constant.none
      %p = torch.constant.float 0.0
      %f = torch.constant.bool false
      %o = torch.aten.scaled_dot_product_attention %q, %k, %v, %none, %p, %f, %none, %f :
        {q}, {q}, {q}, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> {o}
      return %o : {o}
    }}"""
    graph = Graph(io_data_type="half")
    dims = (1, 2, 16, 32)
    tensors = [graph.tensor(dims=dims, name=name) for name in "qkv"]
    (y,) = graph.custom_op(
        mlir=text, inputs=tensors, outputs=[(dims, "half")], custom_op_id="fusilli.sdpa"
    )
    y.set_output()
    plan = graph.build(target)
    assert plan.statistics["dispatches"] == 1
    if target == "cpu":
        arrays = [data(*dims, seed=i).astype(np.float16) for i in range(3)]
        (result,) = plan.run(dict(zip(tensors, arrays, strict=True))).values()
        a, b, c = (array.astype(np.float64) for array in arrays)
        e = np.exp(a @ b.swapaxes(-1, -2) / np.sqrt(32))
        expected = e / e.sum(-1, keepdims=True) @ c
        np.testing.assert_allclose(result, expected, rtol=3e-3, atol=3e-3)


def test_a_plan_for_each_size_of_a_dynamic_dim() -> None:
    """Extents of results follow the inputs' that they equal; the text is filled in anew."""
    graph = Graph(io_data_type="float")
    n = graph.dynamic("n", range=(1, 16), example=4)
    x, w = graph.tensor(dims=(n, 7), name="x"), graph.tensor(dims=(7, 5), name="w")
    product, positive = graph.custom_op(
        mlir=MM_AND_RELU, inputs=[x, w], outputs=[((4, 5), "float")] * 2
    )
    product.set_output()
    positive.set_output()
    assert "IREE-DYN-02" in str(engine("iree").declines(graph.freeze(), Target.parse("cpu")))
    plan = graph.build(exact=True)
    b = data(7, 5, seed=2)
    for size in (1, 7):
        a = data(size, 7)
        results = plan.run({x: a, w: b})
        np.testing.assert_allclose(results[product.uid], a @ b, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(results[positive.uid], np.maximum(results[product.uid], 0))


def test_extents_that_inputs_disagree_about() -> None:
    op = CustomOp(custom_op_id="hipdnn_iree.x")
    before = {"inputs[0]": (4, 8), "inputs[1]": (4, 1), "outputs[0]": (4, 8), "outputs[1]": (8, 3)}
    follows = {"outputs[0]": (5, 8), "outputs[1]": (8, 3)}
    # A broadcast operand does not count.
    broadcast = {**before, "inputs[1]": (1, 1), "outputs[0]": (1, 8)}
    assert op.at(before, {"inputs[0]": (5, 8), "inputs[1]": (5, 1)})[1] == follows
    assert op.at(before, {"inputs[0]": (5, 8), "inputs[1]": (6, 1)})[1] == {"outputs[1]": (8, 3)}
    given = {**broadcast, "inputs[0]": (1, 8)}
    found = op.at(given, {"inputs[0]": (5, 8), "inputs[1]": (1, 1)})[1]
    assert found["outputs[0]"] == (5, 8)


def test_control_flow_and_many_constants(run: Run) -> None:
    lines = [
        "%c = torch.constant.bool true",
        f"%y = torch.prim.If %c -> ({V}) {{",
        f"  %p = torch.aten.relu %x : {V} -> {V}",
        f"  torch.prim.If.yield %p : {V}",
        "} else {",
        f"  %q = torch.aten.tanh %x : {V} -> {V}",
        f"  torch.prim.If.yield %q : {V}",
        "}",
    ]
    (y,) = run(graph_of(body(*lines)), {"x0": data(2, 3)})
    np.testing.assert_array_equal(y, np.maximum(data(2, 3), 0))


def test_sorting_leaves_the_input_alone(run: Run) -> None:
    """IREE sorts in the buffer of the operand, be it an input of the program."""
    x = np.ascontiguousarray(-np.arange(6, dtype=np.float32).reshape(2, 3))
    given = x.copy()
    (y,) = run(graph_of(SORT), {"x0": x})
    np.testing.assert_array_equal(y, np.sort(given, axis=1))
    np.testing.assert_array_equal(x, given)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_it_compiles_for_gfx9(target: str) -> None:
    graph = Graph(io_data_type="half")
    x, w = graph.tensor(dims=(32, 64)), graph.tensor(dims=(64, 48))
    for y in graph.custom_op(mlir=MM_AND_RELU, inputs=[x, w], outputs=[((32, 48), "half")] * 2):
        y.set_output()
    assert graph.build(target).statistics["dispatches"] == 1


def test_the_ops_are_in_our_function(torch_ir: Callable[..., str]) -> None:
    """No call, no second function, and the names of the text are gone."""
    text = torch_ir(graph_of(ERF.replace("%y", "%arg0x")))
    assert text.count("func.func") == 1
    assert "func.call" not in text
    assert "%arg0x" not in text
    assert "torch.aten.erf" in text


def test_two_texts_with_equal_names(run: Run) -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(2, 3), name="x")
    options: dict[str, Any] = {"outputs": [((2, 3), "float")]}
    (a,) = graph.custom_op(mlir=ERF, inputs=[x], **options)
    (b,) = graph.custom_op(mlir=ERF.replace("erf", "neg"), inputs=[a], **options)
    b.set_output()
    (y,) = run(graph, {x: np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(y, 0)


def test_a_compile_error_names_the_node() -> None:
    line = (
        "%d = torch.constant.int 1\n"
        "%l = torch.prim.ListConstruct %d : (!torch.int) -> !torch.list<int>\n"
        "%f = torch.constant.bool false\n"
        f"%s = torch.aten.logsumexp %x, %l, %f : {V}, !torch.list<int>, !torch.bool -> "
        "!torch.vtensor<[2],f32>"
    )
    graph = graph_of(
        body(line, result="%s", to="!torch.vtensor<[2],f32>"), outputs=[((2,), "float")]
    )
    with pytest.raises(CompileError) as caught:
        graph.build()
    assert (caught.value.stage, caught.value.node) == ("compile", "mine")


# -------------------------------------------------------------------------- description


def test_outputs_follow_from_a_text_that_says_them() -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(2, 3), name="x")
    half = "!torch.vtensor<[4, 1],f16>"
    text = f"func.func @f(%x: {V}) -> ({V}, {half}, {{IN0_TYPE}}) {{ return }}"
    first, second, third = graph.custom_op(mlir=text, inputs=[x])
    assert (first.dims, first.data_type) == ((2, 3), DataType.FLOAT)
    assert (second.dims, second.data_type) == ((4, 1), DataType.HALF)
    assert third.dims is None
    assert graph.custom_op(mlir=text, inputs=[x], outputs=1)[0].dims is None
    assert results_of("func.func @f() -> ()") == []
    assert results_of(f"func.func @f() -> !torch.vtensor<[{'9' * 5000}],f32>") == [None]


def test_text_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "erf.mlir"
    path.write_text(ERF)
    assert graph_of(ERF).digest == graph_of(path).digest  # type: ignore[arg-type]
    assert graph_of(ERF).digest == graph_of(ERF.encode()).digest  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        graph_of(tmp_path / "nothing.mlir")  # type: ignore[arg-type]


def test_the_text_is_part_of_the_digest() -> None:
    assert graph_of(ERF).digest != graph_of(ERF.replace("erf", "neg")).digest
    assert graph_of(ERF).digest != graph_of(ERF, custom_op_id="fusilli.erf").digest


def test_json_keeps_the_text(run: Run) -> None:
    import json

    graph = graph_of(ERF, custom_op_id="hipdnn_iree.erf")
    (node,) = json.loads(graph.to_json())["nodes"]
    assert node["type"] == "CustomOpAttributes"
    assert node["custom_op_id"] == "hipdnn_iree.erf"
    assert bytes(node["data"]).decode() == ERF
    assert (len(node["input_tensor_uids"]), len(node["output_tensor_uids"])) == (1, 1)
    again = Graph.from_json(graph.to_json())
    assert again.digest == graph.digest
    (y,) = run(again, {"x0": np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(y, 0)


def test_the_wire_keeps_the_text() -> None:
    from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode
    from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode

    frozen = graph_of(ERF).freeze()
    again = decode(encode(frozen), Graph).graph.freeze()
    assert again == frozen
    assert again.nodes[0].op == frozen.nodes[0].op


@pytest.mark.parametrize("wrong", ["text", [256], [-1], [1.5], [True], None])
def test_json_data_are_bytes(wrong: object) -> None:
    import json

    stored = json.loads(graph_of(ERF).to_json())
    stored["nodes"][0]["data"] = wrong
    with pytest.raises(FormatError) as caught:
        Graph.from_json(json.dumps(stored))
    assert caught.value.problems[0].rule == ("JSON-03" if wrong is None else "JSON-04")
    assert caught.value.problems[0].port == "data"


@pytest.mark.usefixtures("collected")
def test_rules_of_the_description() -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(2, 3), name="x")
    graph.custom_op(mlir=ERF, inputs=[x], outputs=1, name="open")[0].set_output()
    graph.custom_op(mlir=ERF, inputs=[], outputs=[((1,), "float")], name="none")[0].set_output()
    op = CustomOp(custom_op_id="", data=b"")
    (y,) = graph.add_node(op, {"inputs[0]": x}, outputs=["outputs[0]"], name="anonymous").values()
    y.set_output().set_dim((1,))
    found = {(p.node, p.rule, p.port) for p in graph.problems()}
    assert found == {
        ("open", "CUSTOM-03", "outputs[0]"),
        ("none", "CUSTOM-02", "inputs"),
        ("anonymous", "CUSTOM-01", "custom_op_id"),
    }


@pytest.mark.parametrize("wrong", [(2, 3), "float", ((2, 3),)])
def test_outputs_are_pairs(wrong: object) -> None:
    with pytest.raises(GraphError, match="PARAM-0"):
        graph_of(ERF, outputs=[wrong])
