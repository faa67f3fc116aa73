# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-099, W-109 and W-133 in the dispatches that the compiler forms: it compiles once more."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit import code_plan
from hipdnn_iree.jit.compiler import tool
from hipdnn_iree.jit.compiler.dispatch_checks import CHECKS, Defective, check, checks_for
from hipdnn_iree.jit.compiler.flags import merge_flags
from hipdnn_iree.jit.compiler.phases import DISPATCHES
from under_settings import target_flags

UPSTREAM = Path(__file__).parents[2] / "docs" / "upstream"
FLAGS = {name: target_flags(Target.parse(name)) for name in ("cpu", "gfx942", "cuda:sm_80")}
PAD = b"        %padded = tensor.pad %0 low[0, 1] high[0, 1] {\n"
COPY = b'        %7 = linalg.generic {iterator_types = ["parallel", "parallel"]} ins(%padded) {\n'
SUM = COPY.replace(b'"parallel"]', b'"reduction"]')
KERNEL = b"flow.executable private @main$async_dispatch_%d {\n%s}\n"

# A kernel with two loops, the second of which reads the first one.
LOOP = """\
        %{name} = linalg.generic {{iterator_types = ["parallel", "{kind}"]}} ins(%{of}) outs(%1) {{
        ^bb0(%in: f32, %out: f32):
          %9 = arith.{op} %in, %out : f32
          linalg.yield %9 : f32
        }} -> tensor<99xf32>
"""
UNTILED = "iree_encoding.unset_encoding"
STORE = "        iree_tensor_ext.dispatch.tensor.store %{}, %arg3, offsets = [0]\n"


def struck(kernels: list[bytes], target: str) -> str:
    text = b"".join(KERNEL % (number, body) for number, body in enumerate(kernels))
    try:
        check(checks_for(FLAGS[target]), b"util.global private @device\n" + text)
    except Defective as error:
        return error.found.id
    return ""


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


TWO = """\
        %4 = linalg.generic {{iterator_types = ["parallel", "reduction"]}} ins(%0) outs(%1) {{
        ^bb0(%in: f32, %out: f32):
          linalg.yield %in : f32
        }} -> tensor<9xf32>
        %5 = {move} %4 {{indexing_maps = [affine_map<(d0, d1) -> (d1)>]}} : tensor<9xf32>
        %6 = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}} ins({ins} : tensor<9xf32>) outs(%1) {{
        }} -> tensor<9x9xf32>
"""  # noqa: E501


def reads(ins: str, *along: str, move: str = "tensor.expand_shape") -> bytes:
    maps = ", ".join(f"affine_map<(d0, d1) -> ({one})>" for one in (*along, "d0, d1"))
    return TWO.format(move=move, maps=maps, ins=ins).encode()


@pytest.mark.parametrize(
    ("kernel", "two_ways"),
    [
        (reads("%4, %4", "d0", "d1"), True),
        (reads("%4, %0, %4", "d0, d1", "d1", "d1, d0"), True),
        (reads("%4, %5", "d0, d1", "d0, d1"), True),
        (reads("%5, %5", "d0", "d1", move=UNTILED), True),
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


@pytest.mark.parametrize("dims", [(2, 4, 7), (3, 5, 2)])
def test_what_is_made_of_a_product_of_tiled_data(dims: tuple[int, int, int]) -> None:
    """W-109: the product was added up twice."""
    m, k, n = dims
    graph = Graph(io_data_type="float")
    product = graph.matmul(graph.tensor(dims=(1, m, k)), graph.tensor(dims=(1, k, 1)))
    scaled = graph.mul(product, graph.tensor(dims=(1, m, n))).set_output()
    graph.reduction(scaled, mode="add", axes=(1, 2)).set_output()
    assert graph.build("cpu", engine="iree").verify(seed=1).ok


def test_each_check_is_for_the_flags_with_which_its_kernels_are_formed() -> None:
    ids = {name: [one.id for one in checks_for(flags)] for name, flags in FLAGS.items()}
    assert ids == {"cpu": ["W-109", "W-099"], "gfx942": ["W-133", "W-099"], "cuda:sm_80": ["W-099"]}
    for one in CHECKS:  # the second time there are none
        again = [checks_for(merge_flags(flags, one.instead)) for flags in FLAGS.values()]
        assert not one.instead or all(one not in checks for checks in again)


@pytest.mark.parametrize(
    ("id", "target"),
    [("W-109", "cpu"), ("W-133", "gfx942")],  # W-099 has no flags
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


def test_a_padded_convolution_of_products_on_gfx9() -> None:
    """Emulated (random graph 91372): two waves stored to the same bytes of what was padded."""
    g = Graph(io_data_type="half", compute_data_type="float", intermediate_data_type="half")
    dy, w = g.tensor(dims=(1, 1, 4, 1)), g.tensor(dims=(1, 16, 1, 1))
    x = g.conv_dgrad(dy, w, dx_dims=(1, 16, 4, 1))
    g.conv_fprop(x, g.tensor(dims=(32, 16, 1, 2)), padding=(0, 1)).set_output()
    check_emulated(g)
