# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pad: rules and forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.jit.target import Target
from under_settings import flags

MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("PAD-01", "pre_padding", {"pre_padding": (1, 1, 1)}),
    ("PAD-01", "post_padding", {"post_padding": (1, 1, 1)}),
    ("PAD-02", "pre_padding", {"pre_padding": (-2, 0), "post_padding": (-2, 0)}),
    ("PAD-02", "pre_padding", {"pre_padding": (-9, 0), "post_padding": (9, 0)}),
    ("PAD-03", "value", {"value": math.inf}),
    ("PAD-03", "value", {"value": math.nan}),
    ("PAD-03", "value", {"value": 1e39}),
    ("PAD-03", "value", {"value": 1e5, "data_type": "half"}),
    ("PAD-03", "value", {"value": 0.5, "data_type": "int8"}),
    ("PAD-03", "value", {"value": -1, "data_type": "uint8"}),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "given"), MISTAKES)
def test_mistakes(rule: str, port: str, given: dict[str, Any]) -> None:
    g = Graph(io_data_type=given.get("data_type", "float"))
    x = g.tensor(dims=(4, 6))
    g.pad(x, **{k: v for k, v in given.items() if k != "data_type"}, name="n").set_output()
    (problem,) = g.problems()
    assert (problem.rule, problem.port, problem.node) == (rule, port, "n")


def test_an_argument_of_the_wrong_type() -> None:
    g = Graph(io_data_type="float")
    with pytest.raises(GraphError, match="PARAM-05"):
        g.pad(g.tensor(dims=(4,)), value="1")  # type: ignore[arg-type]


def test_the_value_is_float32_as_in_the_file() -> None:
    g = Graph(io_data_type="double")
    g.pad(g.tensor(dims=(4,)), pre_padding=1, value=0.1).set_output()
    assert Graph.from_json(g.to_json()).digest == g.digest


def test_frames_are_joined_on_for_gfx9(torch_ir: Callable[..., str]) -> None:
    # A padding that stands alone is compiled wrongly there.
    g = Graph(io_data_type="float")
    g.pad(g.tensor(dims=(4, 6)), pre_padding=1, post_padding=2).set_output()
    assert "constant_pad_nd" in torch_ir(g, "cpu")
    assert "constant_pad_nd" not in torch_ir(g, "gfx90a")


def test_the_frame_is_not_a_table_on_gfx9() -> None:
    # Hoisted, it would be filled by a kernel when the module is loaded.
    def hoists(g: Graph, target: str) -> bool:
        found = flags(g.freeze(), Target.parse(target))
        return "--iree-opt-const-expr-hoisting=false" not in found

    g = Graph(io_data_type="float")
    g.pad(g.tensor(dims=(4, 6)), pre_padding=1).set_output()
    assert [hoists(g, t) for t in ("cpu", "gfx90a", "gfx942")] == [True, False, False]
    for padding, dilation, expected in ((2, 1, True), (3, 1, False), (4, 2, True), (5, 2, False)):
        g = Graph(io_data_type="float")
        x, w = g.tensor(dims=(1, 2, 5, 5)), g.tensor(dims=(2, 2, 3, 3))
        g.conv_fprop(x, w, padding=padding, dilation=dilation).set_output()
        assert hoists(g, "gfx942") is expected
