# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each known defect of the compiler has a rule that holds where it strikes, and not beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import struck_graphs as graphs
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.cpu_machine import cpu_machine
from hipdnn_iree.jit.ops.conv_geometry import Convolution
from hipdnn_iree.jit.workarounds import for_plan, strikes, workaround, workarounds
from joined_results import joined
from stored_sums import sums_of_sums

CPU, CUDA = Target.parse("cpu"), Target.parse("cuda:sm_80")
GFX942, GFX950 = Target.parse("gfx942"), Target.parse("gfx950")
HALF, FLOAT, DOUBLE, INT8 = DataType.HALF, DataType.FLOAT, DataType.DOUBLE, DataType.INT8
BFLOAT16 = DataType.BFLOAT16
IN_DOUBLE = {"compute_data_type": "double"}  # in float32 a convolution is no matmul
ZNVER3, ZNVER4 = Target.parse("cpu:znver3"), Target.parse("cpu:znver4")


def conv(x: tuple[int, ...], w: tuple[int, ...], padding: int = 1, **more: Any) -> Convolution:
    rank = len(x) - 2
    options = {"stride": (1,) * rank, "dilation": (1,) * rank, "pre_padding": (padding,) * rank}
    given = {k: more.pop(k) for k in ("stride", "dilation", "pre_padding") if k in more}
    options |= given
    return Convolution(x, w, ConvFprop(**options, post_padding=options["pre_padding"]), **more)


STRIDED = ConvFprop(pre_padding=(1, 1), post_padding=(1, 1), stride=(2, 2), dilation=(1, 1))
UNEVEN = ConvFprop(pre_padding=(5,), post_padding=(0,), stride=(2,), dilation=(1,))
GAPS = Graph(io_data_type="half").tensor(dims=(8, 4, 3, 3))

# Of those that a lowering asks for: target, data that is struck, data beside it.
ASKED: dict[str, tuple[Target, tuple[Any, ...], tuple[Any, ...]]] = {
    "W-002": (CPU, (True,), (False,)),
    "W-004": (GFX942, (5, 2, DataType.INT32), (4, 2, DataType.INT32)),
    "W-006": (CPU, (True,), (False,)),
    "W-008": (CPU, (DOUBLE,), (FLOAT,)),
    "W-014": (CPU, (2, 3, 2, 1, 1, 1), (2, 3, 1, 1, 1, 1)),
    "W-016": (CPU, (DOUBLE, HALF), (FLOAT, HALF)),
    "W-017": (CPU, (1, 8, 8), (2, 8, 4)),
    "W-018": (CPU, (INT8,), (HALF,)),
    "W-019": (GFX942, (["torch.aten.topk"],), (["torch.aten.mul.Tensor"],)),
    "W-028": (CUDA, (INT8,), (HALF,)),
    "W-143": (GFX942, (5, 3, 1, 2, 0, 0), (6, 3, 1, 2, 0, 0)),
    "W-055": (GFX942, (conv((2, 4, 1, 1), (3, 4, 3, 3)),), (conv((2, 4, 2, 2), (3, 4, 3, 3)),)),
    "W-056": (
        GFX942,
        (conv((2, 1, 8, 8), (3, 1, 3, 3), computed=True),),
        (conv((2, 1, 8, 8), (3, 1, 3, 3)),),
    ),
    "W-057": (
        GFX942,
        (conv((2, 4, 8, 8), (3, 4, 1, 3), stride=(2, 1)),),
        (conv((2, 4, 8, 8), (3, 4, 1, 3)),),
    ),
    "W-058": (
        GFX942,
        (conv((1, 1, 8, 8), (3, 1, 3, 3), dilation=(2, 2)),),
        (conv((1, 2, 8, 8), (3, 2, 3, 3), dilation=(2, 2)),),
    ),
    "W-059": (GFX942, (1, (2, 1)), (2, (2, 1))),
    "W-064": (GFX942, ((1, 3), STRIDED), ((3, 3), STRIDED)),
    "W-065": (CPU, ((1, 3), STRIDED), ((3, 3), STRIDED)),
    "W-066": (GFX942, (HALF, (32, 64, 3, 3), (2, 2)), (HALF, (64, 64, 3, 3), (2, 2))),
    "W-067": (GFX942, ((),), ((0, 2, 3, 1),)),
    "W-070": (GFX942, (2, 6, 12), (3, 6, 12)),
    "W-071": (GFX942, (13, 5, HALF), (16, 5, HALF)),
    "W-076": (GFX942, (65,), (128,)),
    "W-078": (GFX942, (196,), (1024,)),
    "W-079": (GFX942, (1024,), (196,)),
    "W-082": (GFX942, (65,), (64,)),
    "W-083": (GFX942, (300,), (320,)),
    "W-092": (GFX942, (1,), (2,)),
    "W-093": (GFX942, ((1, 5, 32), (0, 1, 0, 1)), ((2, 5, 32), (0, 1, 0, 1))),
    "W-095": (GFX942, (5, 15, 1), (5, 2, 2)),
    "W-106": (CPU, (DOUBLE, BFLOAT16), (FLOAT, BFLOAT16)),
    "W-116": (GFX942, (conv((4, 8, 17), (2, 8, 3)),), (conv((4, 8, 17), (5, 8, 3)),)),
    "W-122": (CPU, ((6,), (4,), (5,), UNEVEN), ((7,), (4,), (6,), UNEVEN)),
    "W-123": (
        GFX942,
        (conv((2, 4, 1, 3), (3, 4, 2, 3), pre_padding=(1, 0)),),
        (conv((2, 4, 1, 3), (3, 4, 2, 2), pre_padding=(1, 0)),),
    ),
    "W-124": (
        GFX942,
        (conv((1, 5, 4, 3), (2, 5, 2, 3), dilation=(1, 2)),),
        (conv((1, 5, 4, 4), (2, 5, 2, 3), dilation=(1, 2)),),
    ),
    "W-137": (
        GFX942,
        (conv((1, 4, 1, 8), (8, 4, 2, 3), pre_padding=(2, 0), stride=(4, 1)),),
        (conv((1, 4, 1, 8), (8, 4, 2, 3), pre_padding=(1, 0), stride=(4, 1)),),
    ),
    "W-147": (CPU, (FLOAT, BFLOAT16), (DOUBLE, BFLOAT16)),
    "W-151": (CPU, (BFLOAT16, cpu_machine(ZNVER3), 1), (BFLOAT16, cpu_machine(ZNVER4), 99)),
    "W-152": (CPU, (BFLOAT16, (1, 2, 3), 2), (BFLOAT16, (1, 2, 3), 1)),
    "W-149": (Target.parse("gfx90a"), (8, 256, HALF), (9, 256, HALF)),
    "W-128": (GFX942, (2, 1, 2, 1, 0, 0), (2, 1, 1, 1, 0, 0)),
    "W-130": (GFX942, (65, 35, 2, HALF), (65, 35, 5, HALF)),
    "W-138": (GFX942, (conv((3, 2, 1, 5), (4, 2, 2, 5)),), (conv((3, 2, 2, 5), (4, 2, 2, 5)),)),
}

# These concern everything that is compiled for their targets: one of them, and another one.
WHOLE: dict[str, tuple[Target, Target]] = {
    "W-027": (CUDA, GFX942),
    "W-054": (GFX942, CPU),
    "W-072": (GFX942, CPU),
    "W-080": (CUDA, CPU),
    "W-113": (GFX942, CPU),
    "W-101": (CPU, GFX942),
    "W-102": (CPU, GFX942),
    "W-111": (CPU, GFX942),
}


@pytest.mark.parametrize("number", ASKED)
def test_a_rule_that_is_asked(number: str) -> None:
    target, struck, beside = ASKED[number]
    assert strikes(number, target, *struck)
    assert not strikes(number, target, *beside)


@pytest.mark.parametrize("number", WHOLE)
def test_a_rule_for_a_target(number: str) -> None:
    assert [strikes(number, target) for target in WHOLE[number]] == [True, False]


def test_the_operand_of_a_reshape_beside_a_convolution_is_materialised() -> None:
    """W-127, of its two halves the one that is not in the table of planned ones."""
    for computed in (True, False):
        graph = Graph(io_data_type="half", compute_data_type="float")
        graphs.reshaped(graph, computed=computed)
        assert ("W-127" in plan_code(graph.freeze(), GFX942).workarounds) is computed


def test_a_gradient_that_is_padded_in_the_order_of_memory_is_materialised() -> None:
    """W-088, without a transpose behind the gradient: it is laid out as dy is."""
    for order, struck in (((3, 2, 1, 0), True), ((3, 0, 1, 2), False)):
        graph = Graph(io_data_type="float")
        dy = graph.transpose(graph.tensor(dims=(1, 1, 1, 2)), permutation=order)
        dx = graph.conv_dgrad(dy, graph.tensor(dims=(1, 2, 2, 2)), dx_dims=(2, 2, 2, 2))
        graph.pad(dx, post_padding=(1, 1, 1, 1)).set_output()
        assert ("W-088" in plan_code(graph.freeze(), GFX942).workarounds) is struck


# ------------------------------------------------------------------------ in graphs


Build = Callable[[Graph], None]
# Of those that are planned: target, a graph that is struck, one beside it.
PLANNED: dict[str, tuple[Target, Build, Build]] = {
    "W-001": (CPU, graphs.moved, graphs.computed),
    "W-005": (ZNVER3, graphs.attention(8), graphs.attention(1, then_matmul=True)),
    "W-006": (CPU, graphs.batchnorm_gradient((0, 36, 6, 1)), graphs.batchnorm_gradient(None)),
    "W-010": (
        ZNVER3,
        graphs.convolution(io="double", w_last=True),
        graphs.convolution(io="double"),
    ),
    "W-011": (CPU, graphs.normalised(True), graphs.normalised(False)),
    "W-012": (CPU, graphs.projected(True), graphs.projected(False)),
    "W-013": (CPU, graphs.convolution(io="half"), graphs.convolution()),
    "W-030": (
        ZNVER4,
        graphs.convolution(size=64, **IN_DOUBLE),
        graphs.convolution(size=64, x_strides=channels_last_strides((1, 32, 64, 64)), **IN_DOUBLE),
    ),
    "W-050": (GFX942, graphs.convolution(w_last=True, stride=2), graphs.convolution(stride=2)),
    "W-051": (GFX942, graphs.two_convolutions(True), graphs.two_convolutions(False)),
    "W-052": (
        GFX942,
        graphs.convolution(y_strides=(2048, 64, 1, 8)),
        graphs.convolution(y_strides=(2048, 64, 8, 1)),
    ),
    "W-053": (GFX942, graphs.convolution(x_strides=(256, 8, 1, 256)), graphs.convolution()),
    "W-061": (GFX942, graphs.training_step(True), graphs.training_step(False)),
    "W-062": (GFX942, graphs.widened("half"), graphs.widened("float")),
    "W-063": (GFX942, graphs.filter_of_rows_of(4), graphs.filter_of_rows_of(3)),
    "W-068": (GFX942, graphs.concatenated(True), graphs.concatenated(False)),
    "W-073": (GFX950, graphs.heads(True), graphs.heads(False)),
    "W-076": (GFX942, graphs.norm_of_pieces(230), graphs.norm_of_pieces(256)),
    "W-077": (GFX942, graphs.norm_gradient(100), graphs.norm_gradient(128)),
    "W-088": (
        GFX942,
        graphs.transposed_convolution((0, 1, 3, 2)),
        graphs.transposed_convolution((0, 2, 3, 1)),
    ),
    "W-096": (GFX942, graphs.spanned(last=True), graphs.spanned(last=False)),
    "W-098": (CPU, graphs.batch_of_matmuls(3), graphs.batch_of_matmuls(3, computed=False)),
    "W-099": (CPU, graphs.rows_and_columns(False), graphs.rows_and_columns(True)),
    "W-110": (CPU, partial(graphs.repeated, stored=True), partial(graphs.repeated, stored=False)),
    "W-109": (CPU, sums_of_sums, partial(sums_of_sums, axis=0)),
    "W-112": (CPU, graphs.open_sum(1, 2), graphs.open_sum(1)),
    "W-097": (CPU, graphs.product(1024, then="relu"), graphs.product(1000)),
    "W-126": (GFX942, graphs.convolved_indices(added=False), graphs.convolved_indices(added=True)),
    "W-134": (CUDA, graphs.angles(added=False), graphs.angles(added=True)),
    "W-135": (
        GFX942,
        partial(joined, axis=3, by="concatenate"),
        partial(joined, axis=2, by="concatenate"),
    ),
    "W-127": (GFX942, graphs.convolved_products(1), graphs.convolved_products(2)),
    "W-129": (GFX942, graphs.detector_heads(1, 1), graphs.detector_heads(1, 2)),
    "W-128": (GFX942, graphs.normalised_rows(6), graphs.normalised_rows(8)),
    "W-115": (GFX950, graphs.narrow_matmul(96, 32), graphs.narrow_matmul(96, 48)),
    "W-120": (GFX942, partial(graphs.parts, axis=0), partial(graphs.parts, axis=1)),
    "W-132": (
        GFX942,
        partial(graphs.part_of_planes, step=3),
        partial(graphs.part_of_planes, step=1),
    ),
    "W-131": (CPU, graphs.strided_step(3), graphs.strided_step(1)),
    "W-136": (CPU, graphs.strided_channel(2), graphs.strided_channel(1)),
    "W-141": (CPU, graphs.norm_gradient(100), graphs.norm_gradient(128)),
}


@pytest.mark.parametrize("number", PLANNED)
def test_a_rule_that_is_planned(number: str) -> None:
    target, *builds = PLANNED[number]
    found = []
    for build in builds:
        graph = Graph(io_data_type="float")
        build(graph)
        found.append(number in plan_code(graph.freeze(), target).workarounds)
    assert found == [True, False]


@pytest.mark.parametrize(
    ("rows", "struck"), [(3, True), (5, True), (31, True), (16, False), (36, False)]
)
def test_packed_across_matrices_where_the_tiles_are_as_many(rows: int, struck: bool) -> None:
    """36 rows are 3 tiles of 16 in each matrix; two matrices are 5 in all."""
    graph = Graph(io_data_type="float")
    graphs.batch_of_matmuls(rows)(graph)
    assert ("W-098" in plan_code(graph.freeze(), CPU).workarounds) == struck


@pytest.mark.parametrize(
    ("strides", "struck"),
    [
        ((15, 1, 30), True),
        ((16, 1, 32), True),  # with gaps
        ((135, 9, 1), False),
        ((135, 1, 15), False),  # each matrix by columns
        ((1, 2, 30), False),  # the batch innermost
        ((9, 18, 1), True),  # the rows of one matrix among those of the other
    ],
)
def test_packed_across_matrices_whose_columns_are_outermost(
    strides: tuple[int, ...], *, struck: bool
) -> None:
    graph = Graph(io_data_type="float")
    a = graph.tensor(dims=(2, 15, 9), strides=strides)
    graph.matmul(a, graph.tensor(dims=(2, 9, 8))).set_output()
    assert ("W-098" in plan_code(graph.freeze(), CPU).workarounds) is struck


@pytest.mark.parametrize(
    ("kind", "read_twice", "struck"),
    [("float", True, True), ("float", False, False), ("half", True, False)],
)
def test_packed_across_matrices_what_is_converted_for_two(
    kind: str, *, read_twice: bool, struck: bool
) -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    a = graph.tensor(dims=(2, 15, 9))
    graph.matmul(a, graph.tensor(dims=(2, 9, 8), data_type=kind)).set_output()
    if read_twice:
        graph.reduction(a, mode="add", axes=(2,)).set_output()
    assert ("W-098" in plan_code(graph.freeze(), CPU).workarounds) is struck


def test_attention_whose_gradient_follows_is_stored_first() -> None:
    """The gradient adds up the rows of o, which is divided by the sums of the softmax."""
    graph = Graph(io_data_type="float")
    q, k, v, do = (graph.tensor(dims=(1, 2, 9, 32)) for _ in range(4))
    found = graph.sdpa(q, k, v, generate_stats=True)
    made = graph.sdpa_backward(q, k, v, found.o, do, found.stats)
    for tensor in (found.o, made.dq, made.dk, made.dv):
        tensor.set_output()
    forward, backward = plan_code(graph.freeze(), CPU).nodes
    assert forward.copied_results
    assert not backward.copied_results


def test_every_rule_is_tested_and_well_formed() -> None:
    known = {one.id: one for one in workarounds()}
    assert set(known) == {*ASKED, *WHOLE, *PLANNED}
    for one in known.values():
        assert one.title
        assert one.instead
        assert set(one.targets) <= {"cpu", "cuda", "gfx908", "gfx90a", "gfx942", "gfx950"}
        assert workaround(one.id) is one


@pytest.mark.parametrize("target", [CPU, CUDA, GFX942, GFX950], ids=str)
def test_names_of_modules_say_the_target(target: Target) -> None:
    here = {one.id for one in for_plan(target)}
    assert here == {number for number in PLANNED if workaround(number).concerns(target)}
    for one in workarounds():
        if one.applies is None and one.id not in PLANNED:
            assert strikes(one.id, target) is one.concerns(target)
    for number, (_, struck, _) in ASKED.items():
        concerned = workaround(number).concerns(target)
        assert strikes(number, target, *struck) is concerned


@pytest.mark.parametrize("columns", [1, 8])
def test_rows_meet_columns_through_a_slice(columns: int) -> None:
    """Half of the product was never written (W-099, random graphs 23695 and 124955)."""
    graph = Graph(io_data_type="float")
    made = graph.matmul(graph.tensor(dims=(1, 32, 4)), graph.tensor(dims=(1, 4, columns)))
    line = graph.slice(made, starts=(0, 0, 0), limits=(1, 32, 1))
    graph.matmul(line, graph.transpose(line, permutation=(0, 2, 1))).set_output()
    for target in (CPU, CUDA, GFX942):
        plan = plan_code(graph.freeze(), target)
        assert [node.workarounds for node in plan.nodes] == [(), (), (), ("W-099",)]
