# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 (a mistake is a row)
"""Graph JSON as people write it: what may be left out, and what a message proposes."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from graph_json import Json, conv, pointwise, problems, read, reduction, relu, scalar, tensor
from hipdnn_iree import load
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.formats.json import json_form, json_keys

PAGE = (Path(__file__).parents[2] / "docs" / "graph-json.md").read_text(encoding="utf-8")
(SAMPLE,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))


def rows(heading: str) -> dict[str, str]:
    """Return the table under a heading of the page: its first column and what is told of it."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    section = section.partition("|---")[2]
    found = re.findall(r"^\| (`.*?`) \| (.*) \|$", section, re.MULTILINE)
    return {key.strip("`"): text for keys, text in found for key in keys.split(", ")}


def without(data: Json, path: tuple[Any, ...]) -> Json:
    data = copy.deepcopy(data)
    holder: Any = data
    for part in path[:-1]:
        holder = holder[part]
    del holder[path[-1]]
    return data


def test_the_sample_of_the_page_is_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "hand.json"
    path.write_text(json.dumps(SAMPLE), encoding="utf-8")
    graph = load(path)
    frozen = graph.freeze()
    assert (frozen.inputs, frozen.outputs) == ((1, 2, 3, 4), (13,))
    assert read(graph.to_json()).freeze() == frozen


@pytest.mark.parametrize(
    ("heading", "known", "place"),
    [
        ("The graph", json_keys.GRAPH, ""),
        ("Tensors", json_keys.TENSOR, "tensors"),
        ("Nodes", json_keys.NODE, "nodes"),
    ],
)
def test_the_tables_of_the_page_are_the_keys_of_the_reader(
    heading: str, known: frozenset[str], place: str
) -> None:
    """A key that the page calls optional may be missing wherever the sample has it; others not."""
    told = rows(heading)
    assert set(told) == known
    seen = set()
    for at in [(place, i) for i in range(len(SAMPLE[place]))] if place else [()]:
        holder: Any = SAMPLE
        for part in at:
            holder = holder[part]
        for key in set(holder) & known - {"value", "value_type"}:
            seen.add(key)
            broken = without(SAMPLE, (*at, key))
            if told[key].startswith("yes"):
                assert problems(broken), key
            else:
                read(broken)
    assert seen >= {key for key, text in told.items() if text.startswith("yes")}


def test_the_types_of_values_on_the_page() -> None:
    told = rows("Scalars")
    assert set(told) == set(json_form.VALUE_TYPES)
    for kind, text in told.items():
        assert f"`{json_form.VALUE_TYPES[kind].json}`" in text


def test_dims_strides_and_types_of_results_are_inferred() -> None:
    data = relu(
        io_data_type="half",
        nodes=[pointwise("exp", 1, 2), pointwise("abs", 2, 3)],
        tensors=[
            {"uid": 1, "dims": [1, 2, 3, 4], "strides": [24, 1, 8, 2]},
            {"uid": 2, "virtual": True},
            {"uid": 3},
        ],
    )
    graph = read(data).freeze()
    assert graph.tensors[2].data_type is DataType.FLOAT
    assert graph.tensors[3].data_type is DataType.HALF
    assert [graph.tensors[uid].strides for uid in (2, 3)] == [(24, 1, 8, 2)] * 2
    empty = copy.deepcopy(data)
    for item in empty["tensors"][1:]:
        item.update(dims=[], strides=[], data_type=None)
    assert read(empty).freeze() == graph


def test_an_input_without_strides_is_dense_and_one_without_dims_is_told() -> None:
    data = relu(tensors=[{"uid": 1, "dims": [2, 3]}, {"uid": 2}])
    assert read(data).freeze().tensors[1].strides == (3, 1)
    (problem,) = read(relu(tensors=[{"uid": 1}, {"uid": 2}])).problems()
    assert (problem.rule, problem.port) == ("TENSOR-02", "tensor 1")


def test_a_scalar_has_one_element_unless_it_says_otherwise() -> None:
    data = scalar(2.5, "Float32Value")
    expected = read(data).freeze()
    for key in ("dims", "strides"):
        del data["tensors"][2][key]
    assert read(data).freeze() == expected


MISTAKES: list[tuple[str, Any, str, str, str]] = [
    # rule, graph, key, what is found, the way out
    ("JSON-05", scalar(2.5, "float"), "value_type", "'float'", "did you mean 'Float32Value'?"),
    ("JSON-05", scalar(2.5, "fp16"), "value_type", "'fp16'", "did you mean 'Float16Value'?"),
    ("JSON-05", scalar(2, "int64"), "value_type", "'int64'", "did you mean 'Int64Value'?"),
    ("JSON-05", scalar(2.5, "Float32"), "value_type", "'Float32'", "did you mean 'Float32Value'?"),
    ("JSON-05", scalar(2.5, "FloatValue"), "value_type", "'FloatValue'", "did you mean 'Float"),
    ("JSON-05", relu(io_data_type="flt"), "io_data_type", "'flt'", "did you mean 'float'?"),
    ("JSON-05", relu(nodes=[pointwise("silu", 1, 2)]), "operation", "'silu'", "did you mean 'swish_fwd'?"),
    ("JSON-05", relu(nodes=[pointwise("relu", 1, 2)]), "operation", "'relu'", "did you mean 'relu_fwd'?"),
    ("JSON-05", relu(nodes=[pointwise("where", 1, 1, 1, 2)]), "operation", "'where'", "did you mean 'binary_select'?"),
    ("JSON-05", relu(nodes=[pointwise("cast", 1, 2)]), "operation", "'cast'", "did you mean 'identity'?"),
    ("JSON-05", reduction("mean"), "mode", "'mean'", "did you mean 'avg'?"),
    ("JSON-03", scalar(2.5, ...), "value_type", "nothing", '"value_type": "Float32Value"'),
    ("JSON-03", scalar(True, ..., "boolean"), "value_type", "nothing", '"value_type": "BoolValue"'),
    ("JSON-03", scalar(1, ..., "int8"), "value_type", "nothing", '"value_type": "Int64Value"'),
    ("JSON-03", relu(tensors=[tensor(1), tensor(2), {"id": 3}]), "uid", "nothing", "'id' is not read"),
    ("JSON-07", relu(nodes=[{"op": "PointwiseAttributes"}]), "type", "nothing", "'op' is not read"),
    ("JSON-03", relu(nodes=[pointwise("exp", 1, 2) | {"outputs": {"out_tensor_uid": 2}}]), "out_0_tensor_uid", "nothing", "'out_tensor_uid' is not read"),
    ("JSON-03", reduction("add", in_tensor_uid=None, inputs={"in_tensor_uid": 1}), "in_tensor_uid", "nothing", "beside type, not in inputs"),
    ("JSON-03", relu(nodes=[pointwise(None, 1, 2, ) | {"operation": "exp"}]), "operation", "nothing", "in inputs, not beside type"),
    ("JSON-09", relu(tensors=[tensor(1) | {"strides": None, "stride": [1, 2]}, tensor(2)]), "stride", "an array of 2", "'strides'"),
    ("JSON-09", relu(tensors=[tensor(1), {"uid": 2, "shape": [2, 3]}]), "shape", "an array of 2", "'dims'"),
    ("JSON-09", relu(tensors=[tensor(1), tensor(2) | {"data_type": None, "dtype": "half"}]), "dtype", "'half'", "'data_type'"),
    ("JSON-09", relu(compute_data_type=None, compute_dtype="half"), "compute_dtype", "'half'", "'compute_data_type'"),
    ("JSON-09", conv(padding=[1, 1]), "padding", "an array of 2", "'pre_padding'"),
    ("JSON-09", conv(strides=[1, 1]), "strides", "an array of 2", "'stride'"),
    ("JSON-09", relu(nodes=[pointwise("elu_fwd", 1, 2, elu_aplha=2.0)]), "elu_aplha", "2.0", "'elu_alpha'"),
    ("JSON-09", relu(nodes=[pointwise("elu_fwd", 1, 2) | {"elu_alpha": 2.0}]), "elu_alpha", "2.0", "in inputs, not beside type"),
    ("JSON-09", conv() | {"nodes": [conv()["nodes"][0] | {"stride": [2, 2]}]}, "stride", "an array of 2", "in parameters, not beside type"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "data", "key", "got", "way_out"),
    MISTAKES,
    ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)],
)
def test_a_message_proposes_the_way_out(
    rule: str, data: Any, key: str, got: str, way_out: str
) -> None:
    (problem,) = problems(data)
    assert (problem.rule, problem.port) == (rule, key)
    assert got in problem.got
    assert way_out in problem.hint + problem.wanted
