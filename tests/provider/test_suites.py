# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Suites: the graphs that they describe, and how mistakes are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.provider.sweep.suite import RULES, Suite, read

from tools.json_schema import suite as suite_schema

ROOT = Path(__file__).resolve().parents[2]

CASE = """
title: two
threads: 2
cases:
  - name: conv
    tags: [conv, fused]
    io: half
    intermediate: half
    tensors:
      x: {dims: [1, 4, 5, 6], layout: channels_last}
      w: {dims: [8, 4, 3, 3], strides: [36, 9, 3, 1]}
      b: {dims: [1, 8, 1, 1], type: float}
      half: {value: 0.5, type: half}
    nodes:
      - {op: conv_fprop, in: [x, w], out: y, padding: 1}
      - {op: add, in: [y, b], out: z, type: float}
      - {op: mul, in: [z, half], out: r}
    outputs: [z]
  - name: norm
    tensors: {x: {dims: [4, 8]}, s: {dims: [8]}, e: {dims: [1]}}
    nodes:
      - {op: layernorm, in: [x, s, s], out: [y, mean, inv], epsilon: e, forward_phase: training}
      - {op: concatenate, in: [[y, x]], out: both, axis: 0}
      - {op: add, in: [both, 1.5], out: sum}
"""


def rules(text: str) -> list[tuple[str, str]]:
    with pytest.raises(FormatError) as caught:
        read(text)
    for problem in caught.value.problems:
        assert problem.wanted or problem.rule not in RULES
    return [(p.rule, p.where) for p in caught.value.problems]


def test_what_a_file_says() -> None:
    suite = read(CASE)
    assert isinstance(suite, Suite)
    assert (suite.title, suite.threads, [c.name for c in suite.cases]) == (
        "two",
        2,
        ["conv", "norm"],
    )
    conv, norm = suite.cases
    assert conv.tags == ("conv", "fused")
    expected = Graph(io_data_type="half", intermediate_data_type="half", compute_data_type="float")
    x = expected.tensor(dims=(1, 4, 5, 6), strides=(120, 1, 24, 4))
    w = expected.tensor(dims=(8, 4, 3, 3))
    b = expected.tensor(dims=(1, 8, 1, 1), data_type="float")
    z = expected.add(expected.conv_fprop(x, w, padding=1), b).set_output()
    z.set_data_type("float")
    expected.mul(z, expected.scalar(0.5, data_type="half")).set_output()
    assert conv.freeze() == expected.freeze()
    frozen = norm.freeze()
    names = {frozen.spec(uid).name for uid in frozen.outputs}
    assert names == {"mean", "inv", "sum"}
    assert len(frozen.inputs) == 3
    assert frozen.spec(frozen.outputs[0]).data_type is DataType.FLOAT


def test_a_graph_file(tmp_path: Path) -> None:
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(4,))).set_output()
    (tmp_path / "g.json").write_text(g.to_json(), encoding="utf-8")
    suite = read("cases: [{name: file, graph: g.json}]", folder=tmp_path)
    assert suite.cases[0].freeze() == g.freeze()


def test_files_that_are_none() -> None:
    assert rules("cases: [") == [("BENCH-01", "line 1, column 9")]
    assert rules("- 1") == [("BENCH-01", "graph")]
    assert rules("title: x") == [("BENCH-01", "cases")]
    with pytest.raises(FormatError, match="did you mean threads"):
        read("thread: 1\ncases: [{name: a, graph: b}]".replace("graph: b", "nodes: [{op: relu}]"))
    assert ("BENCH-01", "threads") in rules("threads: -1\ncases: []")
    assert rules("cases: &all [{cases: *all}]") == [("BENCH-01", "line 1, column 22")]
    found = rules("op: relu\ncases: [{name: a, in_0: [4], 3, 4: 5}]")
    assert {("BENCH-01", "relu.a.3"), ("BENCH-01", "relu.a.4")} <= set(found)
    assert rules("cases: [{? [1] : 2}]") == [("BENCH-01", "line 1, column 12")]


# Nine levels of ten aliases: 10,000,000,000 nodes written out.
BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
)
LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"{BOMB}\ncases: *a9", "BENCH-01"),
        (f"{BOMB}\ncases: [{{name: x, op: *a9}}]", "BENCH-01"),
        ("cases: " + "[" * 200_000, "BENCH-01"),  # libyaml ended the process
        ("cases: [" + "1, " * 400_000 + "]", "BENCH-01"),
        ("cases: [{name: x, op: [relu]}]", "BENCH-03"),
        ("cases: [{name: x, op: {a: relu}}]", "BENCH-03"),
        ("cases: [{name: x, nodes: [{op: [relu], in: 3, out: y}]}]", "BENCH-03"),
        ("cases: [{name: x, op: custom_op, in: [[2]], reference: [add]}]", "BENCH-03"),
        *((f"cases: [{{name: x, op: {value}}}]", "BENCH-01")
          for value in ("!!int x", "!!float x", "!!bool x", "2001-99-99", "!!timestamp x",
                        "!!binary '3'", "!!python/name:os.system x")),
        (f"cases: [{{name: {LONG}, op: {LONG}}}]", "BENCH-03"),
        (f"{LONG}: 1\ncases: 3", "BENCH-01"),
    ],
)  # fmt: skip
def test_hostile_files_are_refused(text: str, rule: str) -> None:
    """At once, with a text that can be read."""
    with pytest.raises(FormatError) as caught:
        read(text)
    assert rule in {p.rule for p in caught.value.problems}
    assert len(str(caught.value)) < 50_000


NODES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "op": ("{op: rellu, in: x, out: y}", [("BENCH-03", "a.nodes[0]")]),
    "no mapping": ("relu", [("BENCH-03", "a.nodes[0]")]),
    "operand": ("{op: relu, in: z, out: y}", [("BENCH-04", "a.nodes[0].in")]),
    "truth": ("{op: relu, in: true, out: y}", [("BENCH-04", "a.nodes[0].in")]),
    "keyword": ("{op: relu, in: x, out: y, size: 3}", [("BENCH-03", "a.nodes[0]")]),
    "several": ("{op: relu, in: x, out: [y, z]}", [("BENCH-03", "a.nodes[0].out")]),
    "nameless": ("{op: relu, in: x}", [("BENCH-03", "a.nodes[0].out")]),
    "taken": ("{op: relu, in: x, out: x}", [("BENCH-03", "a.nodes[0].out")]),
    "type": ("{op: relu, in: x, out: y, type: f7}", [("BENCH-05", "a.nodes[0].type")]),
    "own rule": ("{op: matmul, in: [x, x], out: y}", [("MATMUL-02", "a.matmul_0.b")]),
}


@pytest.mark.parametrize("what", NODES)
def test_nodes_that_are_wrong(what: str) -> None:
    node, expected = NODES[what]
    text = f"cases: [{{name: a, tensors: {{x: {{dims: [2, 3]}}}}, nodes: [{node}]}}]"
    assert rules(text) == expected


TENSORS: dict[str, tuple[str, str]] = {
    "3": ("BENCH-05", "a.x"),
    "{}": ("BENCH-05", "a.x.dims"),
    "{dims: [0]}": ("BENCH-05", "a.x.dims"),
    "{dims: [2], strides: [1, 1]}": ("BENCH-05", "a.x.strides"),
    "{dims: [2], layout: nhwc}": ("BENCH-05", "a.x.layout"),
    "{dims: [2], type: float7}": ("BENCH-05", "a.x"),
    "{dims: [2], dim: 3}": ("BENCH-01", "a.x.dim"),
    "{dims: [2, 3], order: [0, 0]}": ("BENCH-05", "a.x.order"),
    "{dims: [2, 3], gaps: [1]}": ("BENCH-05", "a.x.gaps"),
    "{dims: [2, 3], order: [1, 0], strides: [1, 2]}": ("BENCH-05", "a.x.strides"),
}


@pytest.mark.parametrize("spec", TENSORS)
def test_tensors_that_are_wrong(spec: str) -> None:
    nodes = "[{op: relu, in: x, out: y}]"
    found = rules(f"cases: [{{name: a, tensors: {{x: {spec}}}, nodes: {nodes}}}]")
    assert found == [TENSORS[spec]]


def test_cases_that_are_wrong_are_told_at_once() -> None:
    text = """
cases:
  - 5
  - {tags: [x]}
  - {name: a, tags: x, nodes: [{op: relu}]}
  - {name: b}
  - {name: c, nodes: [{op: relu}], graph: c.json}
  - {name: d, tensors: 3, nodes: [{op: relu, in: x, out: y}]}
  - {name: e, tensors: {x: {dims: [2]}}, nodes: [{op: relu, in: x, out: y}], outputs: z}
  - {name: e, nodes: [{op: relu}]}
"""
    assert rules(text) == [
        ("BENCH-02", "case 0"),
        ("BENCH-02", "case 1.name"),
        ("BENCH-02", "a.tags"),
        ("BENCH-02", "b.nodes"),
        ("BENCH-02", "c.nodes"),
        ("BENCH-05", "d.tensors"),
        ("BENCH-04", "d.nodes[0].in"),
        ("BENCH-04", "e.outputs"),
        ("BENCH-02", "case 7.name"),
    ]


SHORT = """
op: matmul
dtypes: [half, int8]
cases:
  - {name: plain, a: [2, 3], b: [3, 4]}
  - tags: [x]
    c: {type: sum}
    cases:
      - {name: sums, a: [2, 3], b: {dims: [3, 4], order: [1, 0]}}
      - {name: squares, a: {dims: [3, 3], gaps: [0, 2]}, b: a, c: {type: wide}, dtypes: floats}
      - name: chain
        nodes:
          - {op: matmul, in: [[2, 3], [3, 4]], out: h}
          - {op: relu, in: h, out: r, type: dtype}
        results: {r: {dims: [2, 4], order: [1, 0]}}
        c: {type: sum}
"""


def test_the_short_form() -> None:
    with pytest.raises(FormatError, match=r"matmul\.chain\.c: \[BENCH-01\].*line 11"):
        read(SHORT)
    suite = read(SHORT.replace("        c: {type: sum}\n", "").replace("    c: {", "    #"))
    assert suite.cases[3].name == "matmul.chain"
    plain, sums, squares, chain = suite.cases
    assert (plain.tags, sums.tags) == ((), ("x",))
    assert plain.dtypes == (DataType.HALF, DataType.INT8)
    assert len(squares.dtypes) == 4
    for kind, wide in (("half", "float"), ("int8", "int32")):
        g = Graph(io_data_type=kind, compute_data_type=wide)
        g.matmul(g.tensor(dims=(2, 3)), g.tensor(dims=(3, 4), strides=(1, 3))).set_output()
        assert sums.freeze(DataType.parse(kind)) == g.freeze()
    (spec,) = [squares.freeze().spec(uid) for uid in squares.freeze().inputs]
    assert spec.strides == (5, 1)
    output = chain.freeze().spec(chain.freeze().outputs[0])
    assert (output.strides, output.data_type) == ((1, 2), DataType.HALF)
    names = [case.name for case in suite.by_type()]
    assert names[:2] == ["matmul.plain half", "matmul.plain int8"]


SHORT_MISTAKES = {
    "{name: a, a: [2, 3], bb: [3, 4]}": ("BENCH-01", "matmul.a.bb"),
    "{name: a, a: [2, 3], b: c}": ("BENCH-04", "matmul.a.b"),
    "{name: a, a: [2, 3]}": ("BENCH-03", "matmul.a"),
    "{name: a, a: [2, 3], b: [3, 4], c: {dim: [2, 4]}}": ("BENCH-01", "matmul.a.c.dim"),
    "{name: a, a: [2, 3], b: [3, 4], dtypes: [floats, full]}": ("BENCH-05", "matmul.a.dtypes"),
    "{name: a, a: [2, 3], b: [3, 4], op: matmull}": ("BENCH-03", "matmul.a.op"),
    "{name: a, a: [2, 3], a: [3, 4]}": ("BENCH-01", "line 4, column 26"),
    "{name: a, a: [2, 3], b: [3, 4], results: {d: {type: half}}}": ("BENCH-04", "matmul.a.d"),
}


@pytest.mark.parametrize("case", SHORT_MISTAKES)
def test_short_cases_that_are_wrong(case: str) -> None:
    assert rules(f"op: matmul\n\ncases:\n  - {case}")[0] == SHORT_MISTAKES[case]


COMPOSED = """
cases:
  - name: attention
    compute: float
    tensors: {x: {dims: [2, 4, 8]}, w: {dims: [8, 8]}, b: {dims: [8]}}
    nodes:
      - {op: linear, in: [x, w, b], out: y}
      - {op: softmax, in: y, axis: 1, out: p, type: half}
"""


def test_compositions_of_a_script_are_nodes_of_a_case() -> None:
    (case,) = read(COMPOSED).cases
    g = Graph("script", io_data_type="half", compute_data_type="float")
    g.intermediate_data_type = "float"
    y = g.linear(*(g.tensor(dims=dims) for dims in ((2, 4, 8), (8, 8), (8,))))
    g.softmax(y, axis=1).set_output().set_data_type("half")
    frozen = case.graph(DataType.HALF).freeze()
    assert [node.op.NAME for node in frozen.nodes] == [node.op.NAME for node in g.freeze().nodes]
    assert frozen.digest == g.freeze().digest
    assert len(frozen.outputs) == 1


def test_the_op_of_a_case_that_cannot_be_read() -> None:
    """It has none: `graph` is that of a graph file."""
    text = "cases: [{name: a, a: 3}, {name: b, graph: none.json}, {name: c, op: relu, in: x}]"
    found = {case.name: case.op for case in read(text, check="keep").cases}
    assert found == {"a": "(not read)", "b": "graph", "c": "relu"}


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("{name: a, op: softmax, x: [2, 8], axis: 2}", "COMPOSE-03"),
        ("{name: a, op: matmull, a: [4, 8], b: [8, 4]}", "a.op: [BENCH-03] got matmull; wanted"),
        ("{name: a, op: matmull, a: [4, 8], b: [8, 4]}", "did you mean matmul?"),
        ("{name: a, op: conv2d, x: [1, 2, 8, 8], w: [4, 2, 3, 3]}", "here it is conv_fprop"),
        ("{name: a, op: 3, a: [4, 8]}", "a.op: [BENCH-03] got 3; wanted"),
        ("{name: a, nodes: [{op: group_norm, in: [[2, 8]], out: y}]}", "here it is layernorm of"),
        ("{name: a, nodes: [{op: softmaxx, in: [[2, 8]], out: y}]}", "did you mean softmax?"),
        ("{name: a, nodes: [{op: freeze, in: [[2, 8]], out: y}]}", "hipdnn-iree ops"),
        ("{name: a, nodes: [{op: softmax, in: [[2, 8]], axis: 2, out: y}]}", "COMPOSE-03"),
    ],
)
def test_what_is_no_op_of_a_case(case: str, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(f"cases: [{case}]").cases[0].graph(DataType.FLOAT)
    assert words in str(caught.value)


def test_an_op_that_is_none_is_all_that_is_told_of_its_case() -> None:
    """What else the case has are ports and parameters of the op that was meant."""
    with pytest.raises(FormatError) as caught:
        read("cases: [{name: a, op: matmull, a: [4, 8], b: [8, 4]}, {name: b, op: relu, x: [2]}]")
    assert [(p.rule, p.where) for p in caught.value.problems] == [("BENCH-03", "a.op")]


def test_compositions_have_a_short_form_as_well() -> None:
    suite = read("""
cases:
  - {name: probabilities, op: softmax, x: [5, 33], axis: 0, y: {type: float}}
  - for: {n: [2, 3]}
    cases: [{name: layer, op: linear, x: [4, n, 8], w: [8, 6], bias: [6]}]
""")
    one, *layers = suite.cases
    g = Graph("script", io_data_type="half", compute_data_type="float")
    g.intermediate_data_type = "float"
    g.softmax(g.tensor(dims=(5, 33)), axis=0).set_output().set_data_type("float")
    assert one.graph(DataType.HALF).freeze().digest == g.freeze().digest
    assert [case.name for case in layers] == ["layer_n2", "layer_n3"]
    assert [len(case.freeze().inputs) for case in layers] == [3, 3]


def test_a_mistake_tells_its_line_and_the_nearest_key() -> None:
    with pytest.raises(FormatError, match="did you mean compute\\?; line 3"):
        read("op: matmul\ncases:\n  - {name: a, a: [2, 3], b: [3, 4], computes: half}")


def test_the_schema_names_every_key() -> None:
    schema = suite_schema()
    about = {name: entry["properties"] for name, entry in schema["$defs"].items()}
    assert about.keys() == {
        "CaseEntry",
        "IncludeEntry",
        "NodeEntry",
        "TensorEntry",
        "ResultEntry",
        "RangeEntry",
        "DrawEntry",
    }
    assert schema["properties"].keys() == {
        *("title", "name", "threads", "op", "sets", "include", "cases"),
        *("tags", "dtypes", "targets", "io", "intermediate", "compute"),
        *("for", "let", "where", "random", "layouts"),
    }
    assert {"in", "out", "tensors", "nodes", "dtypes"} <= about["CaseEntry"].keys()
    assert all(key["description"] for keys in about.values() for key in keys.values())


def test_the_committed_suite() -> None:
    path = ROOT / "suites" / "cpu.yaml"
    suite = read(path.read_text(encoding="utf-8"), source=str(path))
    found: dict[str, Any] = {case.name: case for case in suite.cases}
    assert suite.threads == 2
    fused = {name for name, case in found.items() if "fused" in case.tags}
    assert {"conv_bias_relu_nhwc", "transformer_block_256x512", "softmax_4096x1024"} <= fused
    assert {"conv3x3_n1_nchw", "matmul1024", "depthwise_nhwc", "dgrad3x3_nchw"} <= found.keys()
    digests = {case.freeze().digest for case in suite.cases}
    assert len(digests) == len(suite.cases)
