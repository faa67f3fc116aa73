# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 (a mistake is a row)
"""Mistakes in graph JSON: each is told with its rule, its place, what was found and what is allowed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from graph_json import Json, conv, pointwise, problems, read, reduction, relu, scalar, tensor
from hipdnn_iree.graph_api.formats.json import json_form


def changed(path: tuple[Any, ...], value: Any = ..., base: Json | None = None) -> Json:
    """The small graph with one value replaced, or (without a value) removed."""
    data = copy.deepcopy(base or relu())
    holder: Any = data
    for part in path[:-1]:
        holder = holder[part]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return data


N, T = ("nodes", 0), ("tensors", 0)

MISTAKES: list[tuple[str, Any, str, str, str, str]] = [
    ("JSON-01", "", "graph", "", "an empty file", "strict JSON"),
    ("JSON-01", "{", "graph", "", "line 1", "strict JSON"),
    ("JSON-01", '{"nodes": [], "tensors": [],}', "graph", "", "line 1", "strict"),
    ("JSON-01", '{"nodes": [], "tensors": [] // x\n}', "graph", "", "line 1", "strict"),
    ("JSON-01", "{'nodes': []}", "graph", "", "double quotes", "strict"),
    ("JSON-01", '{"nodes": [NaN]}', "graph", "", "NaN is not JSON", "strict"),
    ("JSON-01", '{"nodes": [-Infinity]}', "graph", "", "-Infinity is not JSON", "strict"),
    ("JSON-01", '{"nodes": [1e999]}', "graph", "", "'1e999' is out of range", "strict"),
    ("JSON-01", '{"nodes": [01]}', "graph", "", "line 1", "strict"),
    ("JSON-01", '{"nodes": []} {}', "graph", "", "Extra data", "strict"),
    ("JSON-01", '{"name": "a\nb"}', "graph", "", "control character", "strict"),
    ("JSON-01", '{"name": "\\ud800"}', "graph", "", "surrogates", "UTF-8"),
    ("JSON-01", '{"name": "\ud800"}', "graph", "", "surrogates", "UTF-8"),
    ("JSON-01", b'{"name": "\xff"}', "graph", "", "utf-8", "UTF-8"),
    ("JSON-01", '{"name": "x"}'.encode("utf-16"), "graph", "", "UTF-16", "UTF-8"),
    ("JSON-01", f'{{"nodes": [{"9" * 5000}]}}', "graph", "", "digits", "strict"),
    ("JSON-01", "[" * 100_000, "graph", "", "recursion", "strict"),
    ("JSON-01", '{"a":' * 100_000, "graph", "", "recursion", "strict"),
    ("JSON-02", "[]", "graph", "", "an array of 0", "an object with nodes and tensors"),
    ("JSON-02", "3", "graph", "", "3", "an object"),
    ("JSON-02", "null", "graph", "", "nothing", "an object"),
    ("JSON-02", '"x"', "graph", "", "'x'", "an object"),
    ("JSON-02", changed(("nodes",)), "graph", "nodes", "nothing", "an array"),
    ("JSON-02", changed(("tensors",), {}), "graph", "tensors", "an object of 0", "an array"),
    ("JSON-02", changed(("nodes",), "x"), "graph", "nodes", "'x'", "an array"),
    ("JSON-03", relu(tensors=[tensor(1), tensor(2), {"dims": [1], "strides": [1]}]), "tensors[2]", "uid", "nothing", "the key uid"),
    ("JSON-03", scalar(2.5, ...), "tensors[2]", "value_type", "nothing", "the type of the value"),
    ("JSON-03", changed((*N, "inputs", "in_0_tensor_uid")), "n", "in_0_tensor_uid", "nothing", "in inputs"),
    ("JSON-03", changed((*N, "outputs"), None), "n", "out_0_tensor_uid", "nothing", "in outputs"),
    ("JSON-03", changed((*N, "outputs")), "n", "out_0_tensor_uid", "nothing", "in outputs"),
    ("JSON-03", changed((*N, "inputs", "operation")), "n", "operation", "nothing", "the mode, as the key operation in inputs"),
    ("JSON-03", changed((*N, "mode"), base=reduction("add")), "r", "mode", "nothing", "the mode, as the key mode"),
    ("JSON-03", changed((*N, "in_tensor_uid"), None, reduction("add")), "r", "in_tensor_uid", "nothing", "key"),
    ("JSON-04", relu(name=3), "graph", "name", "3", "a string"),
    ("JSON-04", relu(preferred_engine_id=1.5), "graph", "preferred_engine_id", "1.5", "integer"),
    ("JSON-04", relu(is_override_shape_enabled=1), "graph", "is_override_shape_enabled", "1", "true or false"),
    ("JSON-04", relu(nodes=[3]), "nodes[0]", "", "3", "an object"),
    ("JSON-04", relu(nodes=[], tensors=["x"]), "tensors[0]", "", "'x'", "an object"),
    ("JSON-04", changed((*N, "name"), ["n"]), "nodes[0]", "name", "an array of 1", "a string"),
    ("JSON-04", changed((*N, "inputs"), [1]), "n", "inputs", "an array of 1", "an object"),
    ("JSON-04", changed((*N, "inputs", "in_0_tensor_uid"), "1"), "n", "in_0_tensor_uid", "'1'", "integer"),
    ("JSON-04", changed((*N, "inputs", "in_0_tensor_uid"), True), "n", "in_0_tensor_uid", "true", "integer"),
    ("JSON-04", changed((*N, "inputs", "elu_alpha"), "1"), "n", "elu_alpha", "'1'", "float32"),
    ("JSON-04", changed((*N, "inputs", "elu_alpha"), 1e39), "n", "elu_alpha", "1e+39", "float32"),
    ("JSON-04", changed((*N, "inputs", "axis_tensor_uid"), 0.5), "n", "axis_tensor_uid", "0.5", "integer"),
    ("JSON-04", conv(stride=2), "c", "stride", "2", "an array of integers"),
    ("JSON-04", conv(stride=[1, "2"]), "c", "stride", "'2'", "integer"),
    ("JSON-04", conv(dilation=[2**63]), "c", "dilation", str(2**63), "64-bit"),
    ("JSON-04", reduction("add", is_deterministic="no"), "r", "is_deterministic", "'no'", "true or"),
    ("JSON-04", changed((*T, "name"), 5), "tensors[0]", "name", "5", "a string"),
    ("JSON-04", changed((*T, "dims"), 5), "tensors[0]", "dims", "5", "an array of integers"),
    ("JSON-04", changed((*T, "dims"), [1, None]), "tensors[0]", "dims", "nothing", "integer"),
    ("JSON-04", changed((*T, "strides"), [1.5, 1]), "tensors[0]", "strides", "1.5", "integer"),
    ("JSON-04", changed((*T, "strides"), [2.0**63, 1]), "tensors[0]", "strides", "9.22337", "64-bit"),
    ("JSON-04", changed((*T, "strides"), [1e300, 1]), "tensors[0]", "strides", "1e+300", "64-bit"),
    ("JSON-04", changed((*T, "virtual"), 0), "tensors[0]", "virtual", "0", "true or false"),
    ("JSON-04", changed((*T, "alignment"), "x"), "tensors[0]", "alignment", "'x'", "integer"),
    ("JSON-04", changed((*T, "is_runtime_pass_by_value"), 1), "tensors[0]", "is_runtime_pass_by_value", "1", "true"),
    ("JSON-05", relu(io_data_type="flt"), "graph", "io_data_type", "'flt'", "one of unset, float"),
    ("JSON-05", relu(compute_data_type=99), "graph", "compute_data_type", "99", "one of"),
    ("JSON-05", relu(intermediate_data_type=[]), "graph", "intermediate_data_type", "an array", "one of"),
    ("JSON-05", changed((*T, "data_type"), "float33"), "tensors[0]", "data_type", "'float33'", "one of"),
    ("JSON-05", changed((*N, "compute_data_type"), True), "n", "compute_data_type", "true", "one of"),
    ("JSON-05", changed((*N, "inputs", "operation"), "rleu"), "n", "operation", "'rleu'", "relu_fwd"),
    ("JSON-05", changed((*N, "inputs", "operation"), {}), "n", "operation", "an object", "relu_fwd"),
    ("JSON-05", reduction("sum"), "r", "mode", "'sum'", "norm2"),
    ("JSON-05", reduction(10), "r", "mode", "10", "norm2"),
    ("JSON-05", conv(conv_mode="full"), "c", "conv_mode", "'full'", "CROSS_CORRELATION"),
    ("JSON-06", relu(tensors=[tensor(1), tensor(2), tensor(1)]), "tensors[2]", "uid", "1, a second time", "unique"),
    ("JSON-06", relu(tensors=[tensor(1)]), "n", "out_0_tensor_uid", "uid 2", "listed in tensors"),
    ("JSON-06", changed((*T, "ragged_offset_tensor_uid"), 9), "tensor 1", "ragged_offset_tensor_uid", "uid 9", "listed"),
    ("JSON-07", changed((*N, "type"), "FutureAttributes"), "n", "type", "'FutureAttributes'", "PointwiseAttributes"),
    ("JSON-07", changed((*N, "type")), "n", "type", "nothing", "MatmulAttributes"),
    ("JSON-07", changed((*N, "type"), {}), "n", "type", "an object", "one of"),
    ("JSON-09", conv(padding=[1, 1]), "c", "padding", "an array of 2", "pre_padding in parameters"),
    ("JSON-09", relu(preferred_engine="7"), "graph", "preferred_engine", "'7'", "preferred_engine_id"),
    ("JSON-08", scalar(None, "Float16Value"), "tensors[2]", "value", "null", "a finite number"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "data", "node", "port", "got", "wanted"),
    MISTAKES,
    ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)],
)
def test_mistake(rule: str, data: Any, node: str, port: str, got: str, wanted: str) -> None:
    (problem,) = problems(data)
    assert (problem.rule, problem.node, problem.port) == (rule, node, port)
    assert got in problem.got
    assert wanted in problem.wanted
    assert len(problem.got) < 300


def test_the_table_covers_all_rules() -> None:
    assert {m[0] for m in MISTAKES} == set(json_form.RULES)


def test_all_mistakes_at_once_in_the_order_of_the_file() -> None:
    data = relu(
        io_data_type="x",
        tensors=[tensor(1, alignment="a"), tensor(1), {"uid": 4, "dims": "x", "strides": []}, 5],
        nodes=[
            pointwise("bad", 1, 9),
            pointwise("exp", 4, 7),
            {"type": "Nothing"},
            pointwise("abs", 1, 1, elu_alpha=[]),
        ],
    )
    found = [(p.rule, p.node, p.port) for p in problems(data)]
    assert found == [
        ("JSON-05", "graph", "io_data_type"),
        ("JSON-04", "tensors[0]", "alignment"),
        ("JSON-06", "tensors[1]", "uid"),
        ("JSON-04", "tensors[2]", "dims"),
        ("JSON-04", "tensors[3]", ""),
        ("JSON-06", "n", "out_0_tensor_uid"),
        ("JSON-05", "n", "operation"),
        ("JSON-06", "n", "out_0_tensor_uid"),
        ("JSON-07", "nodes[2]", "type"),
        ("JSON-04", "n", "elu_alpha"),
    ]


def test_rules_of_the_graph_are_left_to_the_graph() -> None:
    """What is JSON but no sound graph loads, and says what is wrong when it is checked."""
    for data, rule in (
        (relu(nodes=[]), "GRAPH-01"),
        (changed((*T, "dims"), []), "TENSOR-02"),
        (changed((*T, "dims")), "TENSOR-02"),
        (changed((*T, "dims"), [2, 0]), "TENSOR-05"),
        (changed((*T, "strides"), [1]), "TENSOR-04"),
        (changed((*T, "virtual"), True), "TENSOR-09"),
        (changed((*T, "alignment"), 0), "TENSOR-10"),
        (relu(nodes=[pointwise("exp", 1, 2), pointwise("abs", 1, 2)]), "GRAPH-05"),
        (relu(nodes=[pointwise("exp", 1, 1)]), "GRAPH-03"),
        (scalar(3.5, "Float32Value", "int32"), "TENSOR-08"),
        (conv(stride=[0, 0]), "CONV-04"),
    ):
        assert rule in {p.rule for p in read(data).problems()}
