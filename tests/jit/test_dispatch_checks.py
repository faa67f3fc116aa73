# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Defects in the dispatches that the compiler forms: it compiles once more, or in another way."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit import code_plan
from hipdnn_iree.jit.compiler import tool
from hipdnn_iree.jit.compiler.dispatch_checks import CHECKS, Defective, check, checks_for
from hipdnn_iree.jit.compiler.flags import merge_flags
from hipdnn_iree.jit.compiler.phases import DISPATCHES
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.settings import scope
from kernel_texts import COPY, FLAGS, LOOP, SUM, struck

UPSTREAM = Path(__file__).parents[2] / "docs" / "upstream"
PAD = b"        %padded = tensor.pad %0 low[0, 1] high[0, 1] {\n"

UNTILED = "iree_encoding.unset_encoding"
STORE = "        iree_tensor_ext.dispatch.tensor.store %{}, %arg3, offsets = [0]\n"


@pytest.mark.parametrize(
    ("kernels", "alone"),
    [
        ([PAD + SUM], False),
        ([COPY, SUM], False),
        ([PAD], True),
        ([PAD + COPY], True),
        ([PAD + SUM, PAD, SUM], True),
    ],
)
def test_a_kernel_that_pads_and_adds_nothing_up(kernels: list[bytes], alone: bool) -> None:
    assert struck(kernels, "gfx942") == ("W-133" if alone else "")


def loops(
    *,
    first: str = "addf",
    move: str = "",
    kind: str = "reduction",
    of: str = "4",
    stored: tuple[str, ...] = ("4", "6"),
    between: bool = False,
) -> bytes:
    text = LOOP.format(name="4", kind="reduction", of="0", op=first)
    text += f"        %5 = {move} %4 : tensor<99xf32>\n" if move else ""
    text += LOOP.format(name="3", kind="parallel", of="5", op="mulf") if between else ""
    text += LOOP.format(name="6", kind=kind, of=of, op="addf")
    return (text + "".join(map(STORE.format, stored))).encode()


@pytest.mark.parametrize(
    ("kernel", "again"),
    [
        (loops(), True),
        (loops(first="mulf"), True),
        (loops(move=UNTILED, of="5", stored=("5", "6")), True),
        (loops(move="tensor.expand_shape", stored=("5", "6")), True),
        (loops(first="maximumf"), False),
        (loops(kind="parallel"), False),
        (loops(of="0"), False),
        (loops(stored=("6",)), False),
        (loops(stored=("6", "0")), False),
        (loops(move="arith.mulf", stored=("5", "6")), False),
        (loops(move=UNTILED, between=True, of="3", stored=("3", "6")), True),
        (loops(move=UNTILED, between=True, of="3", stored=("2", "6")), False),
        (loops(move=UNTILED, between=True, of="0", stored=("3", "6")), False),
        (loops(move="tensor.expand_shape", between=True, of="3", stored=("3", "6")), False),
    ],
)
def test_a_kernel_that_stores_a_sum_and_adds_up_what_is_made_of_it(
    kernel: bytes, again: bool
) -> None:
    assert struck([SUM, kernel], "cpu") == ("W-109" if again else "")


def norm_of_what_has_its_mean_added(*, stored: bool = True) -> Graph:
    graph = Graph("norm", io_data_type="float")
    x, scale = graph.tensor(dims=(2, 2, 5)), graph.tensor(dims=(1, 2, 5))
    moved = graph.add(x, graph.reduction(x, mode="avg", axes=(2,)))
    norm = graph.layernorm(moved, scale, scale, epsilon=1e-5, forward_phase="training")
    assert norm.mean
    assert norm.inv_variance
    if stored:
        norm.y.set_output()
    graph.add(norm.mean, norm.inv_variance).set_output()
    return graph


@pytest.mark.parametrize("stored", [True, False])
def test_sums_that_are_added_up_beside_what_is_stored(stored: bool) -> None:
    """W-144 (graph 235362): one of four compilations, as the compiler's sets are ordered."""
    graph = norm_of_what_has_its_mean_added(stored=stored)
    source = lower_graph(graph.freeze(), Target.parse("cpu")).encode()
    text = tool._text(tool.tool_path(), source, FLAGS["cpu"], print, DISPATCHES)
    if stored:
        with pytest.raises(Defective, match="W-144"):
            check(checks_for(FLAGS["cpu"]), text)
    else:
        check(checks_for(FLAGS["cpu"]), text)
    plan = graph.build("cpu", engine="iree")
    assert not plan.attempt
    assert plan.verify(seed=1).ok


TWO = """\
        %4 = linalg.generic {{iterator_types = ["parallel", "reduction"]}} {of} outs(%1) {{
        ^bb0(%in: f32, %out: f32):
          linalg.yield %in : f32
        }} -> tensor<9xf32>
        %5 = {move} %4 {{indexing_maps = [affine_map<(d0, d1) -> (d1)>]}} : tensor<9xf32>
        %6 = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}} ins({ins} : tensor<9xf32>) outs(%1) {{
        }} -> tensor<9x9xf32>
"""  # noqa: E501


def reads(ins: str, *along: str, move: str = "tensor.expand_shape", of: str = "ins(%0)") -> bytes:
    maps = ", ".join(f"affine_map<(d0, d1) -> ({one})>" for one in (*along, "d0, d1"))
    return TWO.format(of=of, move=move, maps=maps, ins=ins).encode()


@pytest.mark.parametrize(
    ("kernel", "two_ways"),
    [
        (reads("%4, %4", "d0", "d1"), True),
        (reads("%4, %0, %4", "d0, d1", "d1", "d1, d0"), True),
        (reads("%4, %5", "d0, d1", "d0, d1"), True),
        (reads("%5, %5", "d0", "d1", move=UNTILED), True),
        (reads("%4, %4", "d0", "d1", of=""), False),
        (reads("%4, %4", "d0", "d0"), False),
        (reads("%0, %0", "d0", "d1"), False),
        (reads("%4, %0", "d0", "d1"), False),
        (reads("%4, %5", "d0", "d1", move="arith.mulf"), False),
    ],
)
@pytest.mark.parametrize("target", list(FLAGS))
def test_a_kernel_that_reads_a_result_along_two_dims(
    kernel: bytes, target: str, two_ways: bool
) -> None:
    assert struck([SUM, kernel], target) == ("W-099" if two_ways else "")


ATTENTION = """\
        %4 = iree_linalg_ext.attention <indexing_maps = []> ins(%0, %0, %0, %cst : tensor<9xf32>) outs(%1) {
        ^bb0(%arg4: f32):
          iree_linalg_ext.yield %arg4 : f32
        } -> tensor<9xf32>
"""  # noqa: E501


def behind_attention(ins: str, *along: str, move: str = "tensor.expand_shape") -> bytes:
    moved, behind = reads(ins, *along, move=move).split(b"        %5 =")[1:][0], ATTENTION.encode()
    return behind + b"        %5 =" + moved


@pytest.mark.parametrize(
    ("kernel", "repeated"),
    [
        (behind_attention("%4, %0", "d0", "d0, d1"), True),
        (behind_attention("%0, %4", "d0, d1", "d1"), True),
        (behind_attention("%5, %0", "d1", "d0, d1"), True),
        (behind_attention("%5, %0", "d1", "d0, d1", move="linalg.generic"), True),
        (behind_attention("%4, %0", "d0, d1", "d0"), False),
        (behind_attention("%4, %0", "d1, d0", "d0"), False),
        (behind_attention("%0, %0", "d0", "d0, d1"), False),
        (reads("%4, %0", "d0", "d1"), False),
    ],
)
def test_a_kernel_that_repeats_rows_of_attention(kernel: bytes, repeated: bool) -> None:
    assert struck([SUM, kernel], "gfx942") == ("W-139" if repeated else "")
    assert not struck([SUM, kernel], "cpu")


REDUCE = """\
        %4 = linalg.reduce ins(%0 : tensor<{x}>) outs(%2 : tensor<7xf32>) dimensions = [{dims}]
          (%in: f32, %init: f32) {{
            %5 = arith.addf %in, %init : f32
"""


@pytest.mark.parametrize(
    ("x", "dims", "lost"),
    [
        ("2x2x3x32x2x5xf32", "3, 4, 5", True),  # a convolution's: 5 subgroups
        ("7x512x3xf32", "1, 2", True),
        ("7x64x6xf16", "1, 2", True),
        ("7x32x2x4xf32", "1, 2, 3", False),
        ("7x16x2x5xf32", "1, 2, 3", False),  # no whole subgroups
        ("7x320xf32", "1", False),  # one dim
    ],
)
def test_a_split_sum_of_more_subgroups_than_lanes(x: str, dims: str, lost: bool) -> None:
    kernel = REDUCE.format(x=x, dims=dims).encode()
    assert struck([SUM, kernel], "gfx942") == ("W-128" if lost else "")
    assert not struck([SUM, kernel], "cpu")


ROW = """\
        %5 = linalg.generic {{indexing_maps = [affine_map<({loop}) -> ({x})>, affine_map<({loop}) -> ({y})>], iterator_types = ["parallel", "reduction"]}} ins(%3 : tensor<{dims}>) outs(%4 : tensor<{sums}>) {{
        ^bb0(%in: f32, %out: f32):
          %6 = arith.{op} %in, %out : f32
          linalg.yield %6 : f32
        }} -> tensor<{sums}>
"""  # noqa: E501


@pytest.mark.parametrize(
    ("loop", "x", "y", "dims", "sums", "lost"),
    [
        ("d0, d1, d2", "d0, d1, d2", "", "8x8x7xf32", "f32", True),  # random graph 370169
        ("d0, d1, d2", "d0, d1, d2", "d0", "5x32x6xf32", "5xf32", True),
        ("d0, d1, d2", "d0, d1, d2", "d0", "5x64x6xf16", "5xf32", True),
        ("d0, d1, d2", "d0, d1, d2", "d1", "32x5x6xf32", "5xf32", True),
        ("d0, d1, d2", "d0, d1, d2", "d0", "5x32x8xf32", "5xf32", False),  # lanes for all
        ("d0, d1, d2", "d0, d1, d2", "d0", "5x31x6xf32", "5xf32", False),  # no whole subgroups
        ("d0, d1, d2", "d0, d1, d2", "d0, d1", "5x2x192xf32", "5x2xf32", False),  # one dim
        ("d0, d1, d2", "d0, d1 + d2", "d0", "5x37xf32", "5xf32", False),  # windows
    ],
)
def test_a_row_of_more_subgroups_than_lanes(
    loop: str, x: str, y: str, dims: str, sums: str, lost: bool
) -> None:
    for op in ("addf", "maximumf"):
        kernel = ROW.format(loop=loop, x=x, y=y, dims=dims, sums=sums, op=op).encode()
        assert struck([SUM, kernel], "gfx942") == ("W-128" if lost else "")
        assert not struck([SUM, kernel], "cpu")


def test_code_that_would_be_wrong_is_compiled_in_another_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """W-099, without its rule: part of the products was unwritten."""
    planned = code_plan.for_plan
    monkeypatch.setattr(
        code_plan, "for_plan", lambda target: [r for r in planned(target) if r.id != "W-099"]
    )
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(5, 4))
    sums = graph.reduction(x, mode="add", axes=(0,))
    graph.mul(sums, graph.transpose(sums, permutation=(1, 0))).set_output()
    plan = graph.build("cpu", engine="iree")
    assert plan.attempt
    assert "W-099" in caplog.text
    assert plan.verify(seed=1).ok


CHAIN = """\
        %4 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}} ins(%0 : tensor<9x9xf32>) outs(%1) {{
        }} -> tensor<9xf32>
        %5 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>{of}, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}} ins(%0{reads} : tensor<9x9xf32>) outs(%1) {{
        }} -> tensor<9xf32>
        %6 = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}} ins({ins} : tensor<9xf32>) outs(%1) {{
        }} -> tensor<9x9xf32>
"""  # noqa: E501


def chained(ins: str, *along: str, of: str = "d0") -> bytes:
    maps = ", ".join(f"affine_map<(d0, d1) -> ({one})>" for one in (*along, "d0, d1"))
    more = {"of": f", affine_map<(d0, d1) -> ({of})>" if of else "", "reads": of and ", %4"}
    return CHAIN.format(maps=maps, ins=ins, **more).encode()


@pytest.mark.parametrize(
    ("kernel", "two_ways"),
    [
        (chained("%4, %5", "d0", "d1"), True),
        (chained("%5, %0, %4", "d0", "d0, d1", "d1"), True),
        (chained("%4, %5", "d0", "d0"), False),
        (chained("%4, %5", "d1", "d1"), False),
        (chained("%4, %5", "d0", "d1", of=""), False),  # two sums of the same matrix are right
        (chained("%0, %5", "d0", "d1"), False),
    ],
)
def test_a_kernel_that_reads_what_is_made_of_a_result_along_another_dim(
    kernel: bytes, two_ways: bool
) -> None:
    assert struck([SUM, kernel], "cpu") == ("W-099" if two_ways else "")


@pytest.mark.parametrize("channels", [2, 32])
def test_a_mean_times_a_deviation_of_the_same_channels(channels: int) -> None:
    """W-099 (random graph 218364): 896 of 1,024 products were unwritten."""
    graph = Graph(io_data_type="half", compute_data_type="half")
    x, scale = graph.tensor(dims=(2, channels, 3)), graph.tensor(dims=(1, channels, 1))
    bias = graph.tensor(dims=(1, channels, 1), data_type="float")
    y, mean, deviation, *_ = graph.batchnorm(x, scale, bias, epsilon=1e-5)
    y.set_output()
    turned = graph.transpose(deviation, permutation=(0, 2, 1))
    graph.matmul(mean, turned).set_output()
    assert graph.build("cpu", engine="iree").verify(seed=1).ok


@pytest.mark.parametrize("dims", [(2, 4, 7), (3, 5, 2)])
def test_what_is_made_of_a_product_of_tiled_data(dims: tuple[int, int, int]) -> None:
    """W-109: the product was added up twice."""
    m, k, n = dims
    graph = Graph(io_data_type="float")
    product = graph.matmul(graph.tensor(dims=(1, m, k)), graph.tensor(dims=(1, k, 1)))
    scaled = graph.mul(product, graph.tensor(dims=(1, m, n))).set_output()
    graph.reduction(scaled, mode="add", axes=(1, 2)).set_output()
    assert graph.build("cpu", engine="iree").verify(seed=1).ok


def test_indices_that_are_read_along_two_dims_are_compiled_as_planned() -> None:
    """W-099 is none of them: experts were not served by blocks of rows."""
    graph = Graph(io_data_type="float")
    first = graph.tensor(dims=(8, 1, 1), data_type="int32")
    x, w = graph.tensor(dims=(1, 33, 4)), graph.tensor(dims=(8, 4, 5))
    graph.moe_grouped_matmul(x, w, first, mode="none").set_output()
    with scope(compiler_strategies="moe_grouped_matmul=blocks"):
        plan = graph.build("cpu", engine="iree")
    assert not plan.attempt
    assert plan.verify(seed=1).ok


FACTORS = """\
        %4 = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> ({other})>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}} ins(%0, %1 : tensor<{x}>, tensor<{given}>) outs(%2 : tensor<{x}>) {{
        ^bb0(%in: f32, %in_0: f32, %out: f32):
          %7 = arith.{op} %in, %in_0 : f32
          linalg.yield %7 : f32
        }} -> tensor<{x}>
        %5 = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d0, d2)>, affine_map<(d0, d1, d2) -> ({kept})>], iterator_types = ["parallel", "reduction", "reduction"]}} ins(%4 : tensor<{x}>) outs(%3 : tensor<{sums}>) {{
        ^bb0(%in: f32, %out: f32):
          %8 = arith.addf %in, %out : f32
          linalg.yield %8 : f32
        }} -> tensor<{sums}>
"""  # noqa: E501


AGAIN = """\
        %6 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "{kind}"]}} ins({of} : tensor<9xf32>) outs(%1 : tensor<5xf32>) {{
        ^bb0(%in: f32, %out: f32):
          %8 = arith.addf %in, %out : f32
          linalg.yield %8 : f32
        }} -> tensor<5xf32>
"""  # noqa: E501


def again(of: str, kind: str = "reduction") -> bytes:
    """Return a loop behind those of `factors`, which adds up or not."""
    return AGAIN.format(of=of, kind=kind).encode()


def factors(
    other: str, *, op: str = "mulf", kept: str = "d1", x: tuple[int, int, int] = (512, 3, 2)
) -> bytes:
    """Return a kernel that multiplies x by what lies along some dims, and adds up all but some.

    The second loop has the first two dims of x in the other order.
    """

    def shape(dims: str) -> str:
        return "x".join([*(str(x[int(dim[1:])]) for dim in dims.split(", ") if dim), "f32"])

    sums = shape(kept.translate(str.maketrans("01", "10")))
    shapes = {"x": shape("d0, d1, d2"), "given": shape(other), "sums": sums}
    return FACTORS.format(other=other, op=op, kept=kept, **shapes).encode()


@pytest.mark.parametrize(
    ("kernel", "crossed"),
    [
        (factors("d2, d1"), True),
        (factors("d1, d2"), False),
        (factors("d2"), False),
        (factors("d0, d2, d1"), True),
        (factors("d2, d1", op="addf"), False),
        (factors("d2, d1", kept="d1, d0"), False),  # along one dim
        (factors("d2, d1", kept=""), False),  # one result
        (factors("d2, d1", x=(512, 16, 8)), False),  # by waves
        (factors("d2, d1", x=(512, 16, 7)), True),
        (factors("d2, d1", x=(513, 16, 7)), False),  # one to a thread
        (factors("d2, d1", x=(513, 16, 7)) + again("%5"), True),
        (factors("d2, d1", x=(513, 16, 7)) + again("%5", "parallel"), False),
        (factors("d2, d1", x=(513, 16, 7)) + again("%0"), False),
        (factors("d1, d2", x=(513, 16, 7)) + again("%5"), False),
    ],
)
def test_a_kernel_that_adds_up_factors_in_two_orders(kernel: bytes, crossed: bool) -> None:
    for target in ("gfx942", "cuda:sm_80"):
        assert struck([SUM, kernel], target) == ("W-145" if crossed else "")
    assert not struck([SUM, kernel], "cpu")


OF_TWO_RANKS = b"""\
        %4:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%0 : tensor<5x9xf64>) outs(%1, %2 : tensor<5x9xf64>, tensor<9xf64>) {
        } -> (tensor<5x9xf64>, tensor<9xf64>)
        %6 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%4#1 : tensor<9xf64>) outs(%3 : tensor<9xf64>) {
        } -> tensor<9xf64>
"""  # noqa: E501


def test_each_result_of_a_loop_has_dims_of_its_own() -> None:
    """Seed 461069 met the dims of the first result where the second one has fewer."""
    assert not struck([SUM, OF_TWO_RANKS], "gfx942")


def counted(body: str, kind: str = "reduction") -> bytes:
    return f"""\
        %4 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "{kind}"]}} ins(%0 : tensor<9xf32>) outs(%1 : tensor<5xf32>) {{
        ^bb0(%in: f32, %out: f32):
          {body} : f32
          linalg.yield %8 : f32
        }} -> tensor<5xf32>
""".encode()  # noqa: E501


@pytest.mark.parametrize(
    ("kernel", "equal"),
    [
        (counted("%8 = arith.addf %out, %cst"), True),
        (counted("%8 = arith.mulf %c1_i64, %out"), True),
        (counted("%8 = arith.addf %out, %cst", kind="parallel"), False),
        (counted("%8 = arith.addf %in, %out"), False),
        (counted("%8 = arith.addf %out, %in"), False),
        (counted("%8 = arith.maximumf %out, %cst"), False),
        (counted("%7 = arith.mulf %in, %cst : f32\n          %8 = arith.addf %7, %out"), False),
    ],
)
def test_a_kernel_that_adds_up_equal_numbers(kernel: bytes, equal: bool) -> None:
    for target in FLAGS:
        assert struck([SUM, kernel], target) == ("W-146" if equal else "")


def test_each_check_is_for_the_flags_with_which_its_kernels_are_formed() -> None:
    ids = {name: [one.id for one in checks_for(flags)] for name, flags in FLAGS.items()}
    assert ids == {
        "cpu": ["W-109", "W-144", "W-146", "W-099"],
        "gfx942": [
            *("W-133", "W-144", "W-145", "W-146", "W-099", "W-139", "W-148", "W-050", "W-150"),
            *("W-128", "W-128", "W-140", "W-071", "W-071"),
        ],
        "cuda:sm_80": ["W-144", "W-145", "W-146", "W-099", "W-050"],
    }
    for one in CHECKS:  # the second time there are none
        again = [checks_for(merge_flags(flags, one.instead)) for flags in FLAGS.values()]
        assert not one.instead or all(one not in checks for checks in again)


@pytest.mark.parametrize(
    ("id", "target"),
    [
        ("W-109", "cpu"),
        ("W-144", "cpu"),
        ("W-133", "gfx942"),
    ],  # with flags, and with a module for them
)
def test_the_tool_sees_them_too(id: str, target: str) -> None:
    source = (UPSTREAM / id / "repro.mlir").read_bytes()
    with pytest.raises(Defective, match=id) as caught:
        tool.compile_with_tool(source, FLAGS[target], print)
    flags = merge_flags(FLAGS[target], caught.value.found.instead)
    assert tool.compile_with_tool(source, flags, print)


def test_a_padded_filter_that_is_fused_is_none() -> None:
    """With the filter as it is, the pad is part of the convolution's kernel."""
    source = (UPSTREAM / "W-133" / "repro.mlir").read_bytes().replace(b"%x, %c,", b"%x, %a,")
    text = tool._text(tool.tool_path(), source, FLAGS["gfx942"], print, DISPATCHES)
    assert b" tensor.pad " in text
    check(checks_for(FLAGS["gfx942"]), text)
