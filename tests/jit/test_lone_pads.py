# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-133: modules with a kernel that only pads are compiled without such kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit.compiler import tool
from hipdnn_iree.jit.compiler.lone_pads import COPIED, LonePad, any_alone, kept
from hipdnn_iree.jit.compiler.phases import DISPATCHES
from under_settings import target_flags

GFX942 = target_flags(Target.parse("gfx942"))
PAD = b"  %padded = tensor.pad %0 low[0, 1] high[0, 1] {\n"
COPY = b'  %1 = linalg.generic {iterator_types = ["parallel", "parallel"]} ins(%padded : ...)\n'
SUM = COPY.replace(b'"parallel"]', b'"reduction"]')
KERNEL = b"flow.executable private @main$async_dispatch_%d {\n%s}\n"


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
    text = b"".join(KERNEL % (number, body) for number, body in enumerate(kernels))
    assert any_alone(b"util.global private @device\n" + text) is alone


def test_pads_get_into_kernels_where_the_flags_say_so() -> None:
    assert kept(GFX942)
    assert not kept(target_flags(Target.parse("gfx942"), COPIED))
    assert not any(kept(target_flags(Target.parse(name))) for name in ("cpu", "cuda:sm_80"))


def test_the_tool_sees_them_too() -> None:
    docs = Path(__file__).parents[2] / "docs"
    source = (docs / "upstream/W-133/repro.mlir").read_bytes()
    with pytest.raises(LonePad):
        tool.compile_with_tool(source, GFX942, print)
    # With the filter as it is, the pad is fused into the convolution.
    fused = source.replace(b"%x, %c,", b"%x, %a,")
    text = tool._text(tool.tool_path(), fused, GFX942, print, DISPATCHES)
    assert b" tensor.pad " in text
    assert not any_alone(text)


def test_a_padded_convolution_of_products_on_gfx9() -> None:
    """Emulated (random graph 91372): two waves stored to the same bytes of what was padded."""
    g = Graph(io_data_type="half", compute_data_type="float", intermediate_data_type="half")
    dy, w = g.tensor(dims=(1, 1, 4, 1)), g.tensor(dims=(1, 16, 1, 1))
    x = g.conv_dgrad(dy, w, dx_dims=(1, 16, 4, 1))
    g.conv_fprop(x, g.tensor(dims=(32, 16, 1, 2)), padding=(0, 1)).set_output()
    check_emulated(g)
