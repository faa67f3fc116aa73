# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A concatenated output is written part by part, in place (W-120), and where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import under_settings
from graph_rows import check_emulated
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.compiler.consume import consuming
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.pipeline import signature_of
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.sweep.gaps import RedZones
from hipdnn_iree.provider.verify import compare, expect, random_inputs

CPU, GFX942 = Target.parse("cpu"), Target.parse("gfx942")
NHWC = (96 * 35, 1, 7 * 96, 96)
"""Strides of 96 channels of 5 x 7."""

Build = Callable[[Graph], Any]


def graph_of(*builds: Build, kind: str = "float") -> Graph:
    types = {"io_data_type": kind, "intermediate_data_type": kind, "compute_data_type": "float"}
    g = Graph("concatenated", **types)
    for build in builds:
        build(g).set_output()
    return g


def part_by_part(graph: FrozenGraph, target: Target = CPU) -> bool:
    return "W-120" in plan_code(graph, target).workarounds


def results(g: Graph) -> Any:
    """Three results, concatenated in another order than they are made in."""
    x, w = g.tensor(dims=(3, 5)), g.tensor(dims=(5, 5))
    made = [g.relu(x), g.exp(x), g.tanh(g.matmul(x, w))]
    return g.concatenate([made[2], made[0], made[1]], axis=0)


def channels_last(g: Graph) -> Any:
    """Spatial rows of images, whose channels are innermost; the batch of 1 is the outermost dim."""
    x = g.tensor(dims=(1, 96, 2, 7), strides=NHWC)
    y = g.concatenate([g.relu(x), g.exp(g.slice(x, starts=(0,) * 4, limits=(1, 96, 1, 7)))], axis=2)
    return y.set_stride(NHWC)


def with_inputs(g: Graph) -> Any:
    """Inputs, one of them transposed, and the same result twice."""
    x, across = g.tensor(dims=(3, 4)), g.tensor(dims=(4, 2))
    made = g.relu(x)
    return g.concatenate([made, x, g.transpose(across, (1, 0)), made], axis=-2)


def nested(g: Graph) -> Any:
    x = g.tensor(dims=(3, 4))
    inner = g.concatenate([g.relu(x), x], axis=0)
    return g.concatenate([inner, g.exp(x)], axis=0)


def whole_again(g: Graph) -> Any:
    """The two halves of an input, in order: the output is the input (W-001)."""
    x = g.tensor(dims=(6, 4))
    halves = [g.slice(x, starts=(at, 0), limits=(at + 3, 4)) for at in (0, 3)]
    return g.concatenate(halves, axis=0)


def also_an_output(g: Graph) -> Any:
    x = g.tensor(dims=(3, 4))
    made = g.relu(x).set_output()
    return g.concatenate([g.exp(x), made], axis=0)


def side_by_side(g: Graph) -> Any:
    """Channels of several images, one part of which is channels-last."""
    x, last = g.tensor(dims=(2, 3, 5, 7)), g.tensor(dims=(2, 2, 5, 7), strides=(70, 1, 14, 2))
    return g.concatenate([x, g.relu(last), g.exp(x), last], axis=1)


def innermost(g: Graph) -> Any:
    """Channels where they are innermost in memory, and columns of a transposed matrix."""
    x = g.tensor(dims=(2, 3, 5, 7), strides=(105, 1, 21, 3))
    y = g.concatenate([x, g.exp(g.slice(x, starts=(0,) * 4, limits=(2, 1, 5, 7)))], axis=1)
    return y.set_stride((140, 1, 28, 4))


ALONG_INNER = (side_by_side, innermost)
ALL = (results, channels_last, with_inputs, nested, whole_again, also_an_output, *ALONG_INNER)


def test_numbers_and_what_lies_around_them() -> None:
    """Parts of half elements begin at odd places; outputs hold noise, and are misaligned once."""
    g = graph_of(*ALL, kind="half")
    graph, plan = g.freeze(), g.build("cpu")
    assert sum("W-120" in node.workarounds for node in plan_code(graph, CPU).nodes) == len(ALL)
    inputs = random_inputs(graph, seed=1)
    for misaligned in (0, 2):
        specs = zip(graph.outputs, signature_of(graph).args, strict=False)
        zones = {uid: RedZones(spec, uid, misaligned) for uid, spec in specs}
        buffers: dict[Any, Any] = {**inputs, **{uid: zone.array for uid, zone in zones.items()}}
        plan.execute_async(buffers).wait()
        assert not [uid for uid, zone in zones.items() if list(zone.touched())]
        found = {uid: zone.result for uid, zone in zones.items()}
        report = compare(graph, found, expect(graph, inputs))
        assert report.ok, report


def test_numbers_on_an_emulated_gpu() -> None:
    check_emulated(graph_of(results, with_inputs, kind="half"))


def test_results_are_not_copied() -> None:
    compiled = under_settings.compile_source(graph_of(results, channels_last).freeze(), GFX942)
    assert (compiled.statistics["copies"], compiled.workspace_bytes) == (0, 0)


def test_inputs_and_what_has_two_places_are_copied() -> None:
    """Two inputs and the second place of a result; an inner concatenation; the other output."""
    graph = graph_of(with_inputs, nested, also_an_output).freeze()
    assert under_settings.compile_source(graph, GFX942).statistics["copies"] == 7


def test_the_command_line_tool_gives_the_same_code() -> None:
    graph = graph_of(results).freeze()
    made = []
    for mode in ("worker", "cli"):
        with scope(compiler_mode=mode, cache_mode="off"):
            made.append(under_settings.compile_source(graph, CPU).sha256)
    assert made[0] == made[1]


def test_only_arguments_that_are_stored_to_are_given_away() -> None:
    text = b"""
      %0 = hal.tensor.import wait(%arg2) => %arg0 : !hal.buffer_view -> tensor<2xf32>
      %1 = hal.tensor.import wait(%arg2) => %arg1 : !hal.buffer_view -> tensor<2xf32>
      %2 = hal.tensor.alias wait(%arg2) => %x : tensor<2xf32> to %arg1 : !hal.buffer_view
    """
    assert consuming(text) == text.replace(
        b"%arg1 : !hal.buffer_view ->", b"consume %arg1 : !hal.buffer_view ->"
    )


@pytest.mark.parametrize("build", ALONG_INNER)
def test_along_an_inner_dim_it_is_for_cpus(build: Build) -> None:
    graph = graph_of(build).freeze()
    assert part_by_part(graph)
    assert not part_by_part(graph, GFX942)
    statistics = under_settings.compile_source(graph, CPU).statistics
    assert statistics["copies"] == 0


def _relu_and_input(g: Graph, axis: int = 0, **about: Any) -> Any:
    x = g.tensor(dims=(2, 6), **about)
    return g.concatenate([g.relu(x), x], axis=axis)


DECLINED: dict[str, Build] = {
    "gaps": lambda g: _relu_and_input(g).set_stride((8, 1)),
    "one part": lambda g: g.concatenate([g.relu(g.tensor(dims=(2, 6)))], axis=0),
    "integers": lambda g: g.concatenate([g.tensor(dims=(2, 6), data_type="int32")] * 2, axis=0),
    "8 bits": lambda g: g.identity(_relu_and_input(g)).set_data_type("fp8_e4m3"),
    "not an output": lambda g: g.exp(_relu_and_input(g)),
    "read by a node": lambda g: g.exp(_relu_and_input(g).set_output()),
}


@pytest.mark.parametrize("what", DECLINED)
def test_other_concatenations_are_one_value(what: str) -> None:
    assert not part_by_part(graph_of(DECLINED[what]).freeze())
    assert part_by_part(graph_of(_relu_and_input).freeze())


def test_copies_of_everything_are_another_way_to_compile_it() -> None:
    """Where it does not compile (`jit.attempts`), the node is written as any other."""
    graph = graph_of(results).freeze()
    usual, copied = (lower_graph(graph, CPU, plan_code(graph, CPU, (), c)) for c in ("", "all"))
    assert "iree.abi.consume" in usual
    assert "slice_scatter" not in copied
