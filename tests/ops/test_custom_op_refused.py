# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom ops that are refused: texts, options, types, references; hostile text."""

from __future__ import annotations

import pickle
import random
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from custom_ops import ERF, SORT, V, body, graph_of
from here_and_now import engine
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import CompileError, GraphError, NotSupportedError
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import expect

# -------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "rule", "got"),
    [
        ("func.func @f(", "FUNCTION-01", "line 1"),
        (body(f"%y = torch.aten.nosuch %x : {V} -> {V}"), "FUNCTION-01", "line 2, column 8"),
        (
            body(f"%y = torch.aten.add.Tensor %x, %x, %x : {V}, {V}, {V} -> {V}"),
            "FUNCTION-01",
            "operand #2",
        ),
        (body(f"%y = torch.aten.relu %z : {V} -> {V}"), "FUNCTION-01", "undeclared"),
        ("// nothing", "FUNCTION-02", "nothing"),
        ("func.func private @f()", "FUNCTION-02", "without a body"),
        (body(result="%x") + "\nfunc.func private @g()", "FUNCTION-02", "func.func, func.func"),
        (f"module {{ module {{ {body(result='%x')} }} }}", "FUNCTION-02", "builtin.module"),
        (
            f"func.func @f(%x: {V}) -> {V} {{ cf.br ^a\n ^a: return %x : {V} }}",
            "FUNCTION-02",
            "2 blocks",
        ),
        (
            body(f'%y = torch.operator "torch.aten.x"(%x) : ({V}) -> {V}'),
            "FUNCTION-03",
            "torch.aten.x",
        ),
        (
            body("%c = arith.constant 1 : i32", f"%y = torch.aten.relu %x : {V} -> {V}"),
            "FUNCTION-03",
            "arith.constant",
        ),
        (
            body(f"%y = func.call @f(%x) : ({V}) -> {V}"),
            "FUNCTION-03",
            "func.call",
        ),
        (
            body(
                "%n = torch.constant.none",
                f"%y = torch.aten.rand_like %x, %n, %n, %n, %n, %n : {V}, !torch.none, "
                f"!torch.none, !torch.none, !torch.none, !torch.none -> {V}",
            ),
            "FUNCTION-03",
            "rand_like",
        ),
        (
            body(
                "%m = torch.copy.to_tensor %x : !torch.tensor<[2,3],f32>",
                f"%y = torch.copy.to_vtensor %m : {V}",
            ),
            "FUNCTION-04",
            "!torch.tensor<[2,3],f32>",
        ),
        (
            body(result="%x", to="!torch.tensor", takes="%x: !torch.tensor"),
            "FUNCTION-04",
            "!torch.tensor",
        ),
        (
            f"func.func @f(%x: {V}) -> {V} attributes {{a = {'[' * 200}{']' * 200}}} "
            f"{{ return %x : {V} }}",
            "FUNCTION-05",
            "200 deep",
        ),
        (body(result="%x", takes=f"%x: {V}, %z: {V}"), "CALL-01", "takes 2"),
        (
            f"func.func @f(%x: {V}) -> ({V}, {V}) {{ return %x, %x : {V}, {V} }}",
            "CALL-01",
            "returns 2",
        ),
        (
            body(result="%x", to=V.replace("f32", "f16"), takes=f"%x: {V.replace('f32', 'f16')}"),
            "CALL-02",
            "[2,3],f16",
        ),
        (body(result="%x").replace("[2,3]", "[3,2]"), "CALL-02", "[3,2],f32"),
        (body(result="%x").replace("[2,3]", "[?]"), "CALL-02", "[?],f32"),
        (
            body(
                "%1 = torch.constant.int 1",
                "%l = torch.prim.ListConstruct %x, %x : "
                "(!torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],f32>) "
                "-> !torch.list<vtensor<[?,3],f32>>",
                "%y = torch.aten.cat %l, %1 : !torch.list<vtensor<[?,3],f32>>, !torch.int "
                "-> !torch.vtensor<[?,?],f32>",
                to="!torch.vtensor<[?,?],f32>",
                takes="%x: !torch.vtensor<[?,3],f32>",
            ),
            "CALL-02",
            "[2,6],f32",
        ),
        (body(result="%x").replace(V, "!torch.vtensor"), "CALL-02", "!torch.vtensor"),
        (body(result="%x").replace(V, "tensor<2x3xf32>"), "CALL-02", "tensor<2x3xf32>"),
    ],
)
def test_a_text_that_is_no_such_function(text: str, rule: str, got: str) -> None:
    with pytest.raises(GraphError) as caught:
        graph_of(text).build()
    problem = next(p for p in caught.value.problems if p.rule == rule)
    assert problem.node == "mine"
    assert problem.port
    assert problem.wanted
    assert got in problem.got
    assert "custom_ops.py:" in problem.at


@pytest.mark.parametrize(
    ("text", "options", "rule", "got"),
    [
        (ERF, {"custom_op_id": "miopen.fancy"}, "IREE-CUSTOM-01", "miopen.fancy"),
        (b"\xff", {}, "IREE-CUSTOM-02", "0xff"),
        ("  ", {}, "IREE-CUSTOM-02", "nothing"),
        ("a\0b", {}, "IREE-CUSTOM-02", "NUL"),
        ("{IN1_TYPE}", {}, "IREE-CUSTOM-03", "{IN1_TYPE}"),
        ("{OUT2_DTYPE}", {}, "IREE-CUSTOM-03", "{OUT2_DTYPE}"),
        ("{IN0_DIM2}", {}, "IREE-CUSTOM-03", "{IN0_DIM2}"),
    ],
)
def test_what_the_engine_declines(text: str, options: Any, rule: str, got: str) -> None:
    frozen = graph_of(text, **options).freeze()
    (decline,) = engine("iree").declines(frozen, Target.parse("cpu"))
    assert decline.problem.rule == rule
    assert got in decline.problem.got


@pytest.mark.parametrize("data_type", ["fp8_e4m3", "int4", "fp4_e2m1"])
def test_narrow_types_are_declined(data_type: str) -> None:
    graph = Graph(io_data_type=data_type)
    x = graph.tensor(dims=(2, 4), name="x")
    graph.custom_op(mlir=ERF, inputs=[x], outputs=[((2, 4), "float")])[0].set_output()
    (decline,) = engine("iree").declines(graph.freeze(), Target.parse("cpu"))
    assert (decline.problem.rule, decline.problem.port) == ("IREE-CUSTOM-04", "inputs[0]")
    assert decline.problem.got == data_type
    for options in ({}, {"engine": "iree"}):
        with pytest.raises(NotSupportedError) as caught:
            graph.build("cpu", **options)
        assert [d.problem.at.startswith(__file__) for d in caught.value.declines] == [True]


def test_nothing_verifies_it() -> None:
    """The reference says which node has no meaning there."""
    frozen = graph_of(ERF).freeze()
    with pytest.raises(NotSupportedError, match=r"mine.*REF-01.*cannot be verified"):
        expect(frozen, verify.random_inputs(frozen))
    (decline,) = engine("reference").declines(frozen, Target.parse("cpu"))
    assert "cannot be verified" in decline.problem.got


def test_a_reference_verifies_it() -> None:
    """What was computed is checked through the whole graph, and faults are found."""
    from math import erf

    def meaning(x: np.ndarray[Any, Any]) -> Any:
        assert x.dtype == np.float64
        return np.vectorize(erf)(x)

    for data_type in ("float", "half"):
        graph = Graph(io_data_type=data_type, compute_data_type="float")
        x = graph.tensor(dims=(4, 33), name="x")
        options: Any = {"inputs": [graph.neg(x)], "outputs": [((4, 33), data_type)]}
        (y,) = graph.custom_op(mlir=ERF, reference=meaning, **options)
        graph.output(graph.mul(y, 3.0), name="y")
        plain = Graph.from_json(graph.to_json())
        assert plain.digest == graph.digest  # the function is no part of the graph
        frozen = graph.freeze()
        assert pickle.loads(pickle.dumps(frozen)).digest == frozen.digest
        inputs = verify.random_inputs(frozen)
        outputs = verify.poisoned_outputs(frozen)
        graph.build("cpu").execute({**inputs, **outputs})
        wanted = expect(frozen, inputs)
        assert verify.compare(frozen, outputs, wanted).ok
        (got,) = outputs.values()
        kept = got.copy()
        for wrong in (kept * kept.dtype.type(1.02), -kept, np.where(kept == kept[1, 5], 0, kept)):
            got[...] = wrong
            assert not verify.compare(frozen, outputs, wanted).ok


@pytest.mark.usefixtures("collected")
def test_a_reference_that_does_not_fit() -> None:
    with pytest.raises(GraphError, match="PARAM-03"):
        graph_of(ERF, reference=3)
    frozen = graph_of(ERF, reference=lambda x: x[0]).freeze()
    with pytest.raises(GraphError, match="REFOP-01"):
        expect(frozen, verify.random_inputs(frozen))


def test_the_command_line_says_what_is_not_verified(tmp_path: Path) -> None:
    from click.testing import CliRunner
    from hipdnn_iree.provider.cli.app import app

    graph_of(ERF).save(tmp_path / "graph.json")
    words = ["run", str(tmp_path / "graph.json")]
    assert CliRunner().invoke(app, words).exit_code == 0
    found = CliRunner().invoke(app, [*words, "--verify"])
    assert found.exit_code == 3
    assert "mine: [REF-01] got the custom op 'hipdnn_iree.mlir'" in found.stderr
    assert "cannot be verified" in found.stderr


# -------------------------------------------------------------------------- hostile text

DEEP = 200_000
STACK = resource.getrlimit(resource.RLIMIT_STACK)[0]
usual_stack = pytest.mark.skipif(
    STACK == resource.RLIM_INFINITY or STACK > 64 << 20, reason="the stack holds any such text"
)
CRASHERS = {
    "attributes": f"func.func private @f() attributes {{a = {'[' * DEEP}{']' * DEEP}}}",
    "modules": "module {" * DEEP + "}" * DEEP,
    "locations": f"func.func private @f() loc({'fused[' * DEEP}{']' * DEEP})",
}


@usual_stack
@pytest.mark.parametrize("text", CRASHERS.values(), ids=CRASHERS)
def test_a_text_that_crashes_the_parser_is_an_error(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        graph_of(text).build()
    assert (caught.value.stage, caught.value.node) == ("crash", "mine")
    # The next one finds a new worker.
    graph_of(ERF.replace("erf", "abs")).build()


@usual_stack
def test_these_texts_do_crash_it() -> None:
    """Else the worker would not be needed."""
    code = (
        "import sys\n"
        "from torch_mlir import ir\n"
        "with ir.Context():\n"
        "    ir.Module.parse(sys.stdin.read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=CRASHERS["modules"], text=True, capture_output=True
    )
    assert done.returncode < 0


def test_a_nested_text_in_a_thread_with_a_small_stack() -> None:
    """What passes in the worker must not be too much for the host."""
    nested = "[" * 90 + "]" * 90
    text = body(result="%x").replace("{\n", f"attributes {{a = {nested}}} {{\n", 1)
    outcome: list[BaseException | None] = []

    def build() -> None:
        try:
            graph_of(text).build()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert outcome == [None]


def test_mangled_texts_are_refused_or_run() -> None:
    """Every outcome is an error of ours or a module, and this process lives."""
    from hipdnn_iree.jit.lowering.module import lower_graph

    cpu, rng = Target.parse("cpu"), random.Random(7)
    seeds = [SORT, body("%n = torch.constant.none", f"%y = torch.aten.relu %x : {V} -> {V}")]
    tokens = [*'{}()<>[]"!,', "%x", V, "torch.", "loc(", "#a"]
    outcomes = set()
    for _ in range(150):
        text = rng.choice(seeds)
        for _ in range(rng.randint(0, 3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", *tokens]) + text[at + rng.randint(0, 4) :]
        graph = graph_of(text).freeze()
        if engine("iree").declines(graph, cpu):
            continue
        try:
            lower_graph(graph, cpu)
            outcomes.add("module")
        except (GraphError, CompileError) as error:
            outcomes.add(type(error).__name__)
    assert outcomes >= {"module", "GraphError"}
