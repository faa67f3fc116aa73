# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graph JSON made by hand, and reading it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import FormatError, Problem
from hipdnn_iree.graph_api.graph import Graph

DATA = Path(__file__).parents[1] / "data" / "graph_json"


FILES = sorted(DATA.glob("*.json"))


Json = dict[str, Any]


def tensor(uid: Any, dims: Any = (2, 3), **more: Any) -> Json:
    strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    return {"uid": uid, "name": "", "data_type": "float", "dims": list(dims), "strides": strides,
            "virtual": False, **more}  # fmt: skip


def relu(**more: Any) -> Json:
    """A small complete graph; keyword arguments replace top-level keys."""
    return {
        "name": "g",
        "io_data_type": "float",
        "compute_data_type": "float",
        "intermediate_data_type": "float",
        "nodes": [pointwise("relu_fwd", 1, 2)],
        "tensors": [tensor(1), tensor(2)],
        **more,
    }


def pointwise(mode: Any, *uids: Any, **inputs: Any) -> Json:
    *sources, out = uids
    return {
        "type": "PointwiseAttributes",
        "name": "n",
        "compute_data_type": "unset",
        "inputs": {
            "operation": mode,
            **{f"in_{i}_tensor_uid": uid for i, uid in enumerate(sources)},
            **inputs,
        },
        "outputs": {"out_0_tensor_uid": out},
    }


def conv(**parameters: Any) -> Json:
    return relu(
        nodes=[
            {
                "type": "ConvolutionFwdAttributes",
                "name": "c",
                "inputs": {"x_tensor_uid": 1, "w_tensor_uid": 2},
                "outputs": {"y_tensor_uid": 3},
                "parameters": parameters,
            }
        ],
        tensors=[tensor(1, (1, 2, 9, 9)), tensor(2, (4, 2, 3, 3)), tensor(3, ())],
    )


def reduction(mode: Any, **more: Any) -> Json:
    return relu(
        nodes=[{"type": "ReductionAttributes", "name": "r", "mode": mode, "in_tensor_uid": 1,
                "out_tensor_uid": 2, **more}],
        tensors=[tensor(1), tensor(2, (1, 3))],
    )  # fmt: skip


def scalar(value: Any, value_type: Any, data_type: str = "float") -> Json:
    more = {"value": value, "value_type": value_type}
    if value_type is ...:
        del more["value_type"]
    return relu(
        nodes=[pointwise("mul", 1, 3, 2)],
        tensors=[tensor(1), tensor(2), tensor(3, (1,), data_type=data_type, **more)],
    )


def read(data: Any) -> Graph:
    return Graph.from_json(data if isinstance(data, str | bytes) else json.dumps(data))


def problems(data: Any) -> list[Problem]:
    with pytest.raises(FormatError) as caught:
        read(data)
    assert caught.value.problems
    assert caught.value.code == "E200"
    return list(caught.value.problems)
