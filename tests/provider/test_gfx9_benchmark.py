# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``benchmarks/gfx9.py``: its workloads, the plain form, and what it takes for a miss."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hipdnn_iree.jit.compiler.request import CompileRequest
from hipdnn_iree.jit.support import problems
from hipdnn_iree.jit.target import Target
from under_settings import default_compiler

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="not a checkout")


@pytest.fixture(scope="module")
def gfx9() -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        import gfx9 as module
    finally:
        sys.path.remove(str(FOLDER))
    return module


def test_every_workload_is_served(gfx9: ModuleType) -> None:
    for name, workload in gfx9.WORKLOADS.items():
        graph = workload.build().freeze()
        assert list(problems(graph, Target.parse("gfx942"))) == [], name


def test_the_plain_form_permutes_every_operand(gfx9: ModuleType) -> None:
    for name, workload in gfx9.WORKLOADS.items():
        if not workload.plain:
            continue
        graph = workload.build(half=True).freeze()
        text = gfx9.plain_module(graph)
        assert "convert_element_type" not in text, name
        assert "f32" not in text, name
        tensors = sum(len(n.inputs) + len(n.outputs) for n in graph.nodes)
        scalars = sum(graph.tensors[u].value is not None for n in graph.nodes for u in _given(n))
        assert text.count("torch.aten.permute") == tensors - scalars, name
        assert text.count("overwrites") == len(graph.outputs)


def _given(node: Any) -> list[int]:
    return list(node.inputs.values())


def test_the_plain_form_compiles(gfx9: ModuleType) -> None:
    text = gfx9.plain_module(gfx9.WORKLOADS["mlp"].build(half=True).freeze())
    small = re.sub(r"\b(768|3072|512)\b", "64", text)
    request = CompileRequest(
        source=small.encode(), flags=gfx9.plain_flags("gfx942"), want_statistics=True
    )
    found = default_compiler().compile(request)
    assert found.statistics is not None
    assert found.statistics["stream-aggregate"]["execution"]["dispatch-count"] == 2


GOOD = {
    **{"dispatches": 1, "fills": 0, "copies": 0, "transient_bytes": 0, "spills": 0, "mfma": 8},
    "without_mfma": [],
}


@pytest.mark.parametrize(
    ("change", "plain", "found"),
    [
        ({}, GOOD, []),
        ({}, {}, []),
        ({}, {"error": "it crashes"}, []),
        ({"dispatches": 2}, {}, ["2 dispatches instead of 1"]),
        ({"fills": 1}, {}, ["1 fills"]),
        ({"spills": 3}, {}, ["3 spilled registers"]),
        ({"without_mfma": ["conv"]}, {}, ["no matrix instructions in conv"]),
        ({"transient_bytes": 9}, GOOD, ["9 transient bytes, the plain form 0"]),
        ({"transient_bytes": 9}, {**GOOD, "transient_bytes": 9}, []),
    ],
)
def test_misses(
    gfx9: ModuleType, change: dict[str, Any], plain: dict[str, Any], found: list[str]
) -> None:
    row = {"ours": {**GOOD, **change}, **({"plain": plain} if plain else {})}
    assert list(gfx9.misses("conv3x3_bias_relu_nchw_kcrs", row)) == found


def test_what_does_not_compile_is_a_miss(gfx9: ModuleType) -> None:
    assert list(gfx9.misses("matmul", {"ours": {"error": "no"}})) == ["does not compile: no"]
