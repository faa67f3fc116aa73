# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-109 and W-133 in the dispatches that the compiler forms: it compiles once more, otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph, Target
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
) -> bytes:
    text = LOOP.format(name="4", kind="reduction", of="0", op=first)
    text += f"        %5 = {move} %4 : tensor<99xf32>\n" if move else ""
    text += LOOP.format(name="6", kind=kind, of=of, op="addf")
    return (text + "".join(map(STORE.format, stored))).encode()


@pytest.mark.parametrize(
    ("kernel", "again"),
    [
        (loops(), True),
        (loops(first="mulf"), True),
        (loops(move="iree_encoding.unset_encoding", of="5", stored=("5", "6")), True),
        (loops(move="tensor.expand_shape", stored=("5", "6")), True),
        (loops(first="maximumf"), False),
        (loops(kind="parallel"), False),
        (loops(of="0"), False),
        (loops(stored=("6",)), False),
        (loops(stored=("6", "0")), False),
        (loops(move="arith.mulf", stored=("5", "6")), False),
    ],
)
def test_a_kernel_that_stores_a_sum_and_adds_up_what_is_made_of_it(
    kernel: bytes, again: bool
) -> None:
    assert struck([SUM, kernel], "cpu") == ("W-109" if again else "")


def test_each_check_is_for_the_flags_with_which_its_kernels_are_formed() -> None:
    ids = {name: [one.id for one in checks_for(flags)] for name, flags in FLAGS.items()}
    assert ids == {"cpu": ["W-109"], "gfx942": ["W-133"], "cuda:sm_80": []}
    for one in CHECKS:  # the second time there are none
        assert not any(one in checks_for(merge_flags(f, one.instead)) for f in FLAGS.values())


@pytest.mark.parametrize(("id", "target"), [("W-109", "cpu"), ("W-133", "gfx942")])
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
