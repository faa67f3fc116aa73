# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each known defect of the compiler has a rule that holds where it strikes, and not beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.ops.conv_geometry import Convolution
from hipdnn_iree.jit.workarounds import for_plan, strikes, workaround, workarounds
from joined_results import joined
from stored_sums import sums_of_sums

CPU, CUDA = Target.parse("cpu"), Target.parse("cuda:sm_80")
GFX942, GFX950 = Target.parse("gfx942"), Target.parse("gfx950")
HALF, FLOAT, DOUBLE, INT8 = DataType.HALF, DataType.FLOAT, DataType.DOUBLE, DataType.INT8
BFLOAT16 = DataType.BFLOAT16


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
        reshaped(graph, computed=computed)
        assert ("W-127" in plan_code(graph.freeze(), GFX942).workarounds) is computed


def test_a_gradient_that_is_padded_in_the_order_of_memory_is_materialised() -> None:
    """W-088, without a transpose behind the gradient: it is laid out as dy is."""
    for order, struck in (((3, 2, 1, 0), True), ((3, 0, 1, 2), False)):
        graph = Graph(io_data_type="float")
        dy = graph.transpose(graph.tensor(dims=(1, 1, 1, 2)), permutation=order)
        dx = graph.conv_dgrad(dy, graph.tensor(dims=(1, 2, 2, 2)), dx_dims=(2, 2, 2, 2))
        graph.pad(dx, post_padding=(1, 1, 1, 1)).set_output()
        assert ("W-088" in plan_code(graph.freeze(), GFX942).workarounds) is struck


def test_filters_with_gaps() -> None:
    """W-063 asks for a tensor."""
    for strides, struck in (((48, 12, 4, 1), True), ((36, 9, 3, 1), False)):
        graph = Graph(io_data_type="half", compute_data_type="float")
        w = graph.tensor(dims=(8, 4, 3, 3), strides=strides)
        graph.conv_fprop(graph.tensor(dims=(2, 4, 8, 8)), w).set_output()
        frozen = graph.freeze()
        spec = frozen.tensors[frozen.nodes[0].inputs["w"]]
        assert strikes("W-063", GFX942, spec) is struck


# ------------------------------------------------------------------------ in graphs


def moved(graph: Graph) -> None:
    graph.reshape(graph.tensor(dims=(4, 6)), dim=(24,)).set_output()


def computed(graph: Graph) -> None:
    graph.relu(graph.tensor(dims=(4, 6), data_type="half")).set_output()


def attention(heads: int, then_matmul: bool = False) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        q, k, v = (graph.tensor(dims=(8, heads, 8, 16)) for _ in range(3))
        o = graph.sdpa(q, k, v, causal_mask=True).o
        if then_matmul:
            o = graph.matmul(o, graph.tensor(dims=(8, heads, 16, 16)))
        o.set_output()

    return build


def batchnorm_gradient(strides: tuple[int, ...] | None) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        dims = (2, 4, 6, 6)
        dy = graph.tensor(dims=dims, strides=strides)
        scale, mean, inverse = (graph.tensor(dims=(1, 4, 1, 1)) for _ in range(3))
        found = graph.batchnorm_backward(
            dy, graph.tensor(dims=dims), scale, mean=mean, inv_variance=inverse
        )
        found.dx.set_output()

    return build


def convolution(
    *,
    x_strides: tuple[int, ...] | None = None,
    w_last: bool = False,
    y_strides: tuple[int, ...] | None = None,
    io: str = "float",
    size: int = 8,
    k: int = 3,
    **options: Any,
) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x_dims, w_dims = (1, 32, size, size), (32, 32, k, k)
        x = graph.tensor(dims=x_dims, strides=x_strides, data_type=io)
        w_strides = channels_last_strides(w_dims) if w_last else None
        w = graph.tensor(dims=w_dims, strides=w_strides, data_type=io)
        y = graph.conv_fprop(x, w, **{"padding": k // 2, **options}).set_output()
        if y_strides:
            y.strides = y_strides

    return build


def normalised(then_matmul: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x, scale, bias = (graph.tensor(dims=d) for d in ((8, 64), (1, 64), (1, 64)))
        y = graph.layernorm(x, scale, bias).y if then_matmul else graph.relu(x)
        graph.matmul(y, graph.tensor(dims=(64, 8))).set_output()

    return build


def projected(by_matmul: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.tensor(dims=(8, 64))
        x = graph.matmul(x, graph.tensor(dims=(64, 64))) if by_matmul else graph.relu(x)
        scale, bias = (graph.tensor(dims=(1, 64)) for _ in range(2))
        graph.layernorm(x, scale, bias).y.set_output()

    return build


def two_convolutions(last: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        dims, size = (1, 16, 8, 8), (16, 16, 3, 3)
        strides = channels_last_strides(dims) if last else None
        x = graph.tensor(dims=dims, strides=strides)
        w1, w2 = (graph.tensor(dims=size, strides=channels_last_strides(size)) for _ in "ab")
        graph.conv_fprop(graph.relu(graph.conv_fprop(x, w1)), w2).set_output()

    return build


def training_step(same: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x, w = graph.tensor(dims=(2, 8, 9, 9)), graph.tensor(dims=(4, 8, 3, 3))
        y = graph.conv_fprop(x, w).set_output()
        other = x if same else graph.tensor(dims=(2, 8, 9, 9))
        dy = graph.tensor(dims=(2, 4, 7, 7))
        del y
        graph.conv_wgrad(dy, other, dw_dims=(4, 8, 3, 3)).set_output()

    return build


def part_of_planes(g: Graph, *, step: int) -> None:
    part = g.slice(
        g.tensor(dims=(8, 7, 13, 2)),
        starts=(0, 0, 9, 1),
        limits=(8, 7, 10, 2),
        strides=(1, step, 1, 1),
    )
    g.reduction(part, mode="add", axes=(1,)).set_output()


def strided_step(stride: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.relu(g.tensor(dims=(1, 15, 16)))
        g.conv_fprop(x, g.tensor(dims=(8, 15, 1)), stride=stride).set_output()
        dy = g.tensor(dims=(1, 8, -(-16 // stride)))
        g.conv_wgrad(dy, x, dw_dims=(8, 15, 1), stride=stride).set_output()

    return build


def strided_channel(stride: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.abs(g.tensor(dims=(1, 1, 2, 7)))
        g.conv_fprop(x, g.tensor(dims=(32, 1, 1, 1)), stride=stride).set_output()
        g.sqrt(x).set_output().set_data_type("half")

    return build


def transposed_convolution(permutation: tuple[int, ...]) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        y = graph.conv_fprop(graph.tensor(dims=(1, 4, 1, 8)), graph.tensor(dims=(4, 4, 1, 3)))
        graph.transpose(graph.relu(y), permutation=permutation).set_output()

    return build


def spanned(last: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        dims = (2, 3, 12, 9)
        x = graph.tensor(dims=dims, strides=channels_last_strides(dims) if last else None)
        graph.conv_fprop(x, graph.tensor(dims=(4, 3, 3, 9))).set_output()

    return build


def widened(io: str) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.tensor(dims=(2, 8, 9, 9), data_type=io)
        x = graph.relu(x).set_data_type("float")
        graph.conv_fprop(x, graph.tensor(dims=(4, 8, 3, 3))).set_output()

    return build


def concatenated(then_convolved: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.concatenate([graph.tensor(dims=(2, 4, 9, 9)) for _ in "ab"], axis=1)
        if then_convolved:
            x = graph.conv_fprop(x, graph.tensor(dims=(4, 8, 3, 3)))
        x.set_output()

    return build


def heads(split: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        y = graph.matmul(graph.tensor(dims=(16, 32)), graph.tensor(dims=(32, 48)))
        (graph.reshape(y, dim=(16, 3, 16)) if split else graph.relu(y)).set_output()

    return build


def norm_gradient(length: int) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        dy, x = (graph.tensor(dims=(4, length)) for _ in "ab")
        graph.layernorm_backward(
            dy, x, graph.tensor(dims=(1, length)), epsilon=1e-5
        ).dx.set_output()

    return build


def product(row: int, *, then: str = "") -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.tensor(dims=(64, 1000), strides=(row, 1))
        x = getattr(graph, then)(x) if then else x
        graph.matmul(x, graph.tensor(dims=(1000, 64))).set_output()

    return build


def batch_of_matmuls(rows: int, computed: bool = True) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.tensor(dims=(2, rows, 16))
        if computed:
            x = graph.sub(x, graph.tensor(dims=(1, 1, 16)))
        graph.matmul(x, graph.tensor(dims=(2, 16, 32))).set_output()

    return build


def rows_and_columns(other: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        made = [graph.reduction(graph.tensor(dims=(5, 4, 1)), mode="add", axes=(0,)) for _ in "ab"]
        graph.add(made[0], graph.transpose(made[other], permutation=(0, 2, 1))).set_output()

    return build


def open_sum(*axes: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.tensor(dims=(31, g.dynamic("n", example=5), 2))
        g.mul(x, g.reduction(x, mode="add", axes=axes).set_output()).set_output()

    return build


def repeated(g: Graph, *, stored: bool) -> None:
    x = g.transpose(g.tensor(dims=(1, 9, 9), strides=(9, 1, 0)), permutation=(1, 2, 0))
    g.concatenate([x, g.tensor(dims=(9, 1, 1))], axis=1).set_output()
    if stored:
        x.set_output()


def parts(g: Graph, *, axis: int) -> None:
    x = g.tensor(dims=(4, 6))
    g.concatenate([g.relu(x), g.exp(x)], axis=axis).set_output()


def narrow_matmul(depth: int, columns: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        a, b = (g.tensor(dims=d, data_type="half") for d in ((32, depth), (depth, columns)))
        g.matmul(a, b).set_output()

    return build


def convolved_indices(*, added: bool) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.tensor(dims=(2, 2, 5))
        indices = g.gen_index(x, axis=1)
        given = g.add(indices, x) if added else g.mul(indices, g.scalar(0.125))
        g.conv_fprop(given, g.tensor(dims=(6, 1, 2)), padding=1).set_output()

    return build


def angles(*, added: bool) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.tensor(dims=(4, 5))
        indices = g.gen_index(x, axis=0)
        g.sin(g.add(indices, x) if added else g.mul(indices, g.scalar(99.0))).set_output()

    return build


def convolved_products(k: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.matmul(g.tensor(dims=(2, 2, 4, k)), g.tensor(dims=(2, 2, k, 5)))
        g.conv_fprop(x, g.tensor(dims=(3, 2, 2, 2)), padding=1).set_output()

    return build


def reshaped(g: Graph, *, computed: bool) -> None:
    x = g.tensor(dims=(2, 4, 6, 5))
    scaled = g.relu(x)
    g.reshape(scaled if computed else x, dim=(2, 2, 2, 6, 5)).set_output()
    g.conv_fprop(scaled, g.tensor(dims=(3, 4, 2, 2)), padding=1).set_output()


def detector_heads(*paddings: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.tensor(dims=(1, 4, 8, 8))
        for padding in paddings:
            w = g.tensor(dims=(4, 4, 2 * padding + 1, 2 * padding + 1))
            g.conv_fprop(x, w, padding=padding).set_output()

    return build


def normalised_rows(last: int, *, by_columns: bool = True) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x, scale = g.tensor(dims=(2, 32, last)), g.tensor(dims=(1, 32, last))
        y = g.rmsnorm(x, scale).y.set_output()
        if by_columns:
            y.strides = (32 * last, 1, 32)

    return build


Build = Callable[[Graph], None]
# Of those that are planned: target, a graph that is struck, one beside it.
PLANNED: dict[str, tuple[Target, Build, Build]] = {
    "W-001": (CPU, moved, computed),
    "W-005": (CPU, attention(8), attention(1, then_matmul=True)),
    "W-006": (CPU, batchnorm_gradient((0, 36, 6, 1)), batchnorm_gradient(None)),
    "W-010": (CPU, convolution(io="double", w_last=True), convolution(io="double")),
    "W-011": (CPU, normalised(True), normalised(False)),
    "W-012": (CPU, projected(True), projected(False)),
    "W-013": (CPU, convolution(io="half"), convolution()),
    "W-030": (
        CPU,
        convolution(size=64),
        convolution(size=64, x_strides=channels_last_strides((1, 32, 64, 64))),
    ),
    "W-050": (GFX942, convolution(w_last=True, stride=2), convolution(stride=2)),
    "W-051": (GFX942, two_convolutions(True), two_convolutions(False)),
    "W-052": (
        GFX942,
        convolution(y_strides=(2048, 64, 1, 8)),
        convolution(y_strides=(2048, 64, 8, 1)),
    ),
    "W-053": (GFX942, convolution(x_strides=(256, 8, 1, 256)), convolution()),
    "W-061": (GFX942, training_step(True), training_step(False)),
    "W-062": (GFX942, widened("half"), widened("float")),
    "W-068": (GFX942, concatenated(True), concatenated(False)),
    "W-073": (GFX950, heads(True), heads(False)),
    "W-077": (GFX942, norm_gradient(100), norm_gradient(128)),
    "W-088": (GFX942, transposed_convolution((0, 1, 3, 2)), transposed_convolution((0, 2, 3, 1))),
    "W-096": (GFX942, spanned(last=True), spanned(last=False)),
    "W-098": (CPU, batch_of_matmuls(3), batch_of_matmuls(3, computed=False)),
    "W-099": (CPU, rows_and_columns(False), rows_and_columns(True)),
    "W-110": (CPU, partial(repeated, stored=True), partial(repeated, stored=False)),
    "W-109": (CPU, sums_of_sums, partial(sums_of_sums, axis=0)),
    "W-112": (CPU, open_sum(1, 2), open_sum(1)),
    "W-097": (CPU, product(1024, then="relu"), product(1000)),
    "W-126": (GFX942, convolved_indices(added=False), convolved_indices(added=True)),
    "W-134": (CUDA, angles(added=False), angles(added=True)),
    "W-135": (
        GFX942,
        partial(joined, axis=3, by="concatenate"),
        partial(joined, axis=2, by="concatenate"),
    ),
    "W-127": (GFX942, convolved_products(1), convolved_products(2)),
    "W-129": (GFX942, detector_heads(1, 1), detector_heads(1, 2)),
    "W-128": (GFX942, normalised_rows(6), normalised_rows(8)),
    "W-115": (GFX950, narrow_matmul(96, 32), narrow_matmul(96, 48)),
    "W-120": (GFX942, partial(parts, axis=0), partial(parts, axis=1)),
    "W-132": (GFX942, partial(part_of_planes, step=3), partial(part_of_planes, step=1)),
    "W-131": (CPU, strided_step(3), strided_step(1)),
    "W-136": (CPU, strided_channel(2), strided_channel(1)),
    "W-141": (CPU, norm_gradient(100), norm_gradient(128)),
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
    batch_of_matmuls(rows)(graph)
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
    assert set(known) == {*ASKED, *WHOLE, *PLANNED, "W-063"}
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
