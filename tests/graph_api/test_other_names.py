# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names and signs that a script may expect from another library lead to ours."""

from __future__ import annotations

import re

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api import elsewhere
from hipdnn_iree.graph_api.ops import OPS

ELSEWHERE = {
    "conv2d": "here it is conv_fprop",
    "max_pool2d": "here it is resample_fwd",
    "group_norm": "here it is layernorm of x reshaped to (N, groups, -1)",
    "dropout": "here it is sdpa",
    "leaky_relu": "here it is relu with lower_clip_slope",
    "rleu": "did you mean 'relu'?",
    "layer_norm": "did you mean 'layernorm'?",
    "nodez": "did you mean 'nodes'?",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_method_that_there_is_not(name: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(ELSEWHERE[name])):
        getattr(Graph(), name)
    with pytest.raises(AttributeError, match=r"'zzz'$"):
        Graph().zzz  # noqa: B018  # type: ignore[attr-defined]
    assert not hasattr(Graph(), "_zzz")


def test_names_of_other_libraries_lead_to_ours() -> None:
    theirs = [
        *elsewhere.METHODS,
        *elsewhere.RECIPES,
        *(n for op in OPS.values() for n in op.ELSEWHERE),
    ]
    assert len(set(theirs)) == len(theirs) > 40
    assert not set(theirs) & set(dir(Graph))
    assert set(elsewhere.METHODS.values()) <= set(dir(Graph))
    for name, recipe in elsewhere.RECIPES.items():
        assert {*re.findall(r"[a-z_]+", recipe)} & set(dir(Graph)), name


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_elements_are_not_compared_by_signs(sign: str) -> None:
    x = Graph(io_data_type="float").tensor(dims=(2, 3))
    with pytest.raises(TypeError, match=r"g\.cmp_(lt|le|gt|ge)\(a, b\)"):
        eval(f"x {sign} 0", {"x": x})
    with pytest.raises(TypeError, match="compares no elements"):
        eval(f"0 {sign} x", {"x": x})
