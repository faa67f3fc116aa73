# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolution: IR, integers, and what each target needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.node_context import GraphContext
from hipdnn_iree.jit.target import Target
from hipdnn_iree.jit.workarounds.planned.w050_gpu_mixed_conv_layouts import DIRECT, Remedy, remedy
from hipdnn_iree.jit.workarounds.planned.w051_gfx9_computed_conv_input import CHANNELS_LAST
from under_settings import dump, flags

Run = Callable[..., Any]

FLAGS = {Remedy.COPIED: set(), Remedy.CHANNELS_LAST: {CHANNELS_LAST}, Remedy.DIRECT: {DIRECT}}


def conv(x_last: bool = False, w_last: bool = False, **options: Any) -> Graph:
    """Return a graph of one 3x3 convolution."""
    graph = Graph(io_data_type="half", compute_data_type="float")
    dims = {"x": (2, 8, 9, 7), "w": (6, 8, 3, 3)}
    last = {"x": x_last, "w": w_last}
    x, w = (
        graph.tensor(dims=d, strides=channels_last_strides(d) if last[n] else None, name=n)
        for n, d in dims.items()
    )
    padded = {} if "pre_padding" in options else {"padding": 1}
    graph.conv_fprop(x, w, **{**padded, **options}).set_output()
    return graph


def test_contiguous_conv_has_no_permutes_and_accumulates_in_the_compute_type(
    torch_ir: Callable[..., str],
) -> None:
    ir = torch_ir(conv(), "gfx942")
    assert "permute" not in ir
    (line,) = [line for line in ir.splitlines() if "aten.convolution" in line]
    assert line.count(",f16>") == 2  # both operands stay narrow
    assert line.endswith(",f32>")


def test_channels_last_conv_permutes_each_operand_once(torch_ir: Callable[..., str]) -> None:
    ir = torch_ir(conv(x_last=True, w_last=True), "gfx942")
    assert ir.count("aten.permute") == 3  # x, w and y
    assert "aten.cat" not in ir


@pytest.mark.parametrize("cpu", ["x86-64", "znver3", "sapphirerapids"])
def test_cpu_copies_a_channels_last_filter(cpu: str, torch_ir: Callable[..., str]) -> None:
    how = f"cpu:{cpu}", "conv_fprop=direct"
    assert "aten.cat" in torch_ir(conv(x_last=True, w_last=True), *how)
    # A filter that lies as it is read needs no copy, whatever the image does.
    graph = Graph(io_data_type="double", compute_data_type="double")
    dims = (2, 8, 9, 7)
    x = graph.tensor(dims=dims, strides=channels_last_strides(dims))
    graph.conv_fprop(x, graph.tensor(dims=(6, 8, 3, 3)), padding=1).set_output()
    assert "aten.cat" not in torch_ir(graph, *how)


@pytest.mark.parametrize("strategy", ["blocked", "kn2row", "direct_nhwc"])
def test_a_filter_that_is_packed_is_not_copied_before(
    strategy: str, torch_ir: Callable[..., str]
) -> None:
    """The copy is cut in two, and joined along the filters."""
    graph = Graph(io_data_type="float", compute_data_type="float")
    dims, size = (2, 16, 9, 7), (64, 16, 3, 3)
    x = graph.tensor(dims=dims, strides=channels_last_strides(dims))
    w = graph.tensor(dims=size, strides=channels_last_strides(size))
    graph.conv_fprop(x, w, padding=1).set_output()
    halves = "!torch.vtensor<[32,16,3,3],f32>"
    assert halves in torch_ir(graph, "cpu:sapphirerapids", "conv_fprop=direct")
    assert halves not in torch_ir(graph, "cpu:sapphirerapids", f"conv_fprop={strategy}")


@pytest.mark.parametrize("target", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_gfx9_never_pairs_a_channels_first_image_with_a_channels_last_filter(
    target: str, torch_ir: Callable[..., str]
) -> None:
    # W-050: wrong where a matmul over patches is made of the pair, which is done for strided ones
    # whatever the flags say.
    def made(graph: Graph) -> tuple[bool, Remedy]:
        return "aten.cat" in torch_ir(graph, target), remedy(
            GraphContext(graph.freeze(), Target.parse(target))
        )

    assert made(conv(w_last=True)) == (False, Remedy.DIRECT)
    assert made(conv(w_last=True, stride=2)) == (True, Remedy.COPIED)
    # The direct kernel leaves out padding before and behind the rows where none is in front of
    # each: wrong by emulation, in half and float.
    sides = {
        ((1, 0), (1, 0)): Remedy.COPIED,
        ((0, 0), (1, 0)): Remedy.COPIED,
        ((1, 0), (0, 1)): Remedy.COPIED,
        ((1, 1), (0, 0)): Remedy.DIRECT,
        ((0, 1), (1, 0)): Remedy.DIRECT,
        ((0, 0), (0, 0)): Remedy.DIRECT,
    }
    for (before, behind), expected in sides.items():
        graph = conv(w_last=True, pre_padding=before, post_padding=behind)
        assert made(graph) == (expected is Remedy.COPIED, expected)


def test_gfx9_copies_what_emulation_found_wrong(torch_ir: Callable[..., str]) -> None:
    def built(x: Any, w: Any, *, last: str = "", turned: Any = None, strides: Any = None) -> str:
        graph = Graph(io_data_type="half", compute_data_type="float")
        given = {"x": strides, "w": None}
        given |= {n: channels_last_strides(d) for n, d in (("x", x), ("w", w)) if n in last}
        y = graph.conv_fprop(
            *(graph.tensor(dims=d, strides=given[n]) for n, d in zip("xw", (x, w), strict=True))
        )
        (graph.transpose(y, permutation=turned) if turned else y).set_output()
        return torch_ir(graph, "gfx942")

    def copied(ir: str) -> list[str]:
        """The shapes of what is copied."""
        return [line.rpartition("vtensor<")[2] for line in ir.splitlines() if "aten.cat" in line]

    # W-094: a repeated input is copied, and then channels-first; so is the filter.
    assert copied(built((2, 3, 13), (3, 3, 5), last="w", strides=(0, 1, 3))) == [
        "[2,3,13],f16>",
        "[3,3,5],f16>",
    ]
    assert copied(built((2, 3, 13), (3, 3, 5), last="xw")) == []
    # W-096: a filter as wide as the image, in another layout.
    assert copied(built((2, 3, 12, 9), (4, 3, 3, 9), last="x")) == ["[2,3,12,9],f16>"]
    assert copied(built((2, 3, 12, 9), (4, 3, 3, 9), last="xw")) == []
    assert copied(built((2, 3, 12, 9), (4, 3, 3, 8), last="x")) == []
    # W-088: a result with its spatial dims exchanged.
    assert copied(built((2, 4, 6, 8), (4, 4, 3, 3), turned=(0, 1, 3, 2))) == ["[2,4,4,6],f32>"]
    assert copied(built((2, 4, 6, 8), (4, 4, 3, 3), turned=(0, 2, 3, 1))) == []


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_a_depthwise_volume_is_a_convolution_for_each_channel(
    target: str, torch_ir: Callable[..., str]
) -> None:
    # W-095: torch-mlir has no lowering for it; on the CPU there is none to begin with.
    graph = Graph(io_data_type="bfloat16", compute_data_type="float")
    x, w = graph.tensor(dims=(1, 5, 1, 13, 7)), graph.tensor(dims=(5, 1, 1, 5, 5))
    graph.conv_fprop(x, w).set_output()
    found = torch_ir(graph, target).count("aten.convolution ")
    assert found == (0 if target == "cpu" else 5)


def chain(io: str = "half", *, last: bool = True, stride: int = 1, skip: str = "") -> Graph:
    """Return two convolutions; nothing between them has a buffer."""
    graph = Graph(io_data_type=io, compute_data_type="float")
    dims, taps = (1, 16, 8, 8), (16, 16, 3, 3)
    x = graph.tensor(dims=dims, strides=channels_last_strides(dims) if last else None)
    w1, w2 = (graph.tensor(dims=taps, strides=channels_last_strides(taps)) for _ in range(2))
    middle = graph.relu(graph.conv_fprop(x, w1, padding=1, stride=stride)).set_data_type(io)
    if skip == "reshape":
        middle = graph.reshape(graph.reshape(middle, dim=(1024,)), dim=dims)
    y = graph.conv_fprop(middle, w2, padding=1)
    if skip == "nchw":
        y = graph.add(y, graph.tensor(dims=dims))
    y.set_output()
    return graph


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (chain(), Remedy.CHANNELS_LAST),
        (chain(stride=2), Remedy.CHANNELS_LAST),
        (chain("bfloat16"), Remedy.CHANNELS_LAST),
        (chain(last=False), Remedy.DIRECT),  # the input is channels-first
        (chain(skip="nchw"), Remedy.DIRECT),  # and may, because of what is added
        (chain(skip="reshape"), Remedy.COPIED),  # not tried
        (chain(last=False, stride=2), Remedy.COPIED),
        (chain("double"), Remedy.COPIED),  # not tried
    ],
)
def test_gfx9_has_a_remedy_for_filters_whose_input_is_computed(
    graph: Graph, expected: Remedy, torch_ir: Callable[..., str]
) -> None:
    # W-051: values between convolutions are channels-first, whatever their strides say: emulation
    # found wrong numbers in half-precision residual blocks that were channels-last throughout.
    frozen = graph.freeze()
    assert remedy(GraphContext(frozen, Target.parse("gfx942"))) is expected
    found = flags(frozen, Target.parse("gfx942"))
    assert FLAGS[expected] <= set(found)
    assert sum(f.startswith("--iree-preprocessing-pass-pipeline=") for f in found) == 1
    if expected is not Remedy.COPIED:
        assert torch_ir(graph, "gfx942").count("aten.cat") == 0


@pytest.mark.parametrize(
    ("kind", "compute", "copied"),
    [("half", "float", ("w",)), ("int8", "int32", ("w",)), ("float", "float", ())],
)
def test_gfx9_copies_filters_with_gaps(kind: str, compute: str, copied: tuple[str, ...]) -> None:
    """W-063, emulated: a convolution of 16 bits or int8 with them does not compile."""
    graph = Graph(io_data_type=kind, compute_data_type=compute)
    x, w = graph.tensor(dims=(2, 8, 7, 9)), graph.tensor(dims=(12, 8, 3, 3))
    w.strides = (128, 16, 4, 1)
    graph.conv_fprop(x, w).set_output().set_data_type("int32" if kind == "int8" else kind)
    (plan,) = plan_code(graph.freeze(), Target.parse("gfx942")).nodes
    assert plan.materialised == copied
    check_emulated(graph)


@pytest.mark.parametrize("op", ["conv_fprop", "conv_dgrad"])
def test_gfx9_sums_dilated_taps_over_two_channels(op: str, torch_ir: Callable[..., str]) -> None:
    # IREE 3.13 leaves the dilation out of a sum over one (emulation).
    def lowered(channels: int, dilation: int) -> str:
        graph = Graph(io_data_type="float")
        x = graph.tensor(dims=(2, channels, 9, 8))
        w_dims = (4, channels, 3, 3) if op == "conv_fprop" else (channels, 4, 3, 3)
        getattr(graph, op)(x, graph.tensor(dims=w_dims), dilation=dilation).set_output()
        return torch_ir(graph, "gfx942")

    assert "[2,2,9,8]" in lowered(1, 2)
    assert "[2,2,9,8]" not in lowered(1, 1)
    assert "[2,4,9,8]" not in lowered(2, 2)


@pytest.mark.parametrize("op", ["conv_fprop", "conv_dgrad"])
def test_gfx9_copies_an_image_that_is_computed_from_narrower_ones(op: str, tmp_path: Path) -> None:
    # Fused, the convolution would ask for 438,272 bytes of LDS.
    graph = Graph(io_data_type="half", compute_data_type="float", intermediate_data_type="float")
    x, w = graph.tensor(dims=(2, 64, 28, 28)), graph.tensor(dims=(64, 64, 3, 3))
    image = graph.relu(graph.add(x, graph.tensor(dims=(1, 64, 1, 1))))
    getattr(graph, op)(image, w, padding=1).set_output()
    assert dump(graph.freeze(), Target.parse("gfx942"), tmp_path).vmfb


def test_symmetric_padding_is_the_convolutions_own_and_asymmetric_is_not(
    torch_ir: Callable[..., str],
) -> None:
    assert "constant_pad_nd" not in torch_ir(conv(), "gfx942")
    graph = conv(padding=(), pre_padding=1, post_padding=(0, 2))
    assert torch_ir(graph, "gfx942").count("constant_pad_nd") == 1


def test_gfx9_pads_a_single_tap_by_joining_zeros(torch_ir: Callable[..., str]) -> None:
    # A padding that stands alone is compiled wrongly there: part of the border stays unwritten.
    graph = Graph(io_data_type="half", compute_data_type="float")
    x, w = graph.tensor(dims=(2, 8, 5, 5)), graph.tensor(dims=(4, 8, 1, 1))
    graph.conv_fprop(x, w, padding=1).set_output()
    ir = torch_ir(graph, "gfx942")
    assert "constant_pad_nd" not in ir
    assert "aten.cat" in ir


@pytest.mark.parametrize("result", ["int32", "int8"])
def test_int8_conv_is_exact_and_saturates(result: str, run: Run) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (1, 3, 6, 5), dtype=np.int8)
    w = rng.integers(-128, 128, (4, 3, 3, 3), dtype=np.int8)
    graph = Graph(io_data_type="int8", compute_data_type="int32")
    tx, tw = graph.tensor(dims=x.shape), graph.tensor(dims=w.shape)
    graph.conv_fprop(tx, tw).set_output().set_data_type(result)
    (y,) = run(graph, {tx: x, tw: w})
    patches = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3), axis=(2, 3))
    exact = np.einsum("nchwrs,kcrs->nkhw", patches, w.astype(np.int64))
    bounds = np.iinfo(np.dtype(result))
    np.testing.assert_array_equal(y, np.clip(exact, bounds.min, bounds.max))


def test_the_same_tensor_as_image_and_filter(check: Run) -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(3, 3, 3, 3))
    graph.conv_fprop(x, x, padding=1).set_output()
    check(graph.freeze())


@pytest.mark.parametrize(
    ("x", "w", "geometry", "relu", "joined"),
    [
        ((2, 1, 4, 5), (3, 1, 3, 3), {}, True, True),  # one channel, computed, in a batch
        ((2, 1, 5), (3, 1, 3), {}, True, True),
        ((2, 2, 1, 5), (3, 2, 1, 3), {"padding": (0, 1)}, True, True),
        ((2, 2, 4, 5), (3, 2, 3, 3), {}, True, False),
        ((2, 1, 4, 5), (3, 1, 3, 3), {}, False, False),
        ((1, 1, 4, 5), (3, 1, 3, 3), {}, True, False),
        ((2, 4, 1, 1), (4, 4, 3, 3), {}, False, True),  # the filter covers the padded image
        ((2, 4, 2, 2), (4, 4, 4, 4), {}, False, True),
        ((2, 4, 2, 5), (4, 4, 4, 3), {}, False, False),
        ((2, 4, 1, 8), (8, 4, 3, 1), {"padding": (1, 0)}, False, True),  # or has one tap
        ((2, 4, 2, 8), (8, 4, 3, 1), {"padding": (1, 0)}, False, False),
        # one computed filter along one dim; few filters along it
        ((1, 4, 9), (1, 4, 3), {}, True, True),
        ((1, 4, 9), (5, 4, 3), {}, True, False),
        ((4, 8, 17), (2, 8, 3), {}, False, True),
        ((4, 8, 17, 1), (4, 8, 3, 1), {"padding": (1, 0)}, False, True),
        ((4, 8, 17), (5, 8, 3), {}, False, False),
        ((4, 8, 17, 2), (4, 8, 3, 1), {"padding": (1, 0)}, False, False),
        # one tap along a dim with steps
        ((2, 2, 4, 5), (3, 2, 1, 3), {"padding": (0, 1), "stride": (2, 1)}, False, True),
        ((2, 2, 4, 5), (3, 2, 1, 3), {"padding": (0, 1), "stride": (1, 2)}, False, False),
        # one dilated channel of one image
        ((1, 1, 3, 7), (4, 1, 3, 2), {"padding": (2, 1), "dilation": 2}, False, True),
        ((2, 1, 8, 7), (4, 1, 3, 3), {"padding": 2, "dilation": 2}, False, False),
    ],
)
def test_gfx9_joins_zeros_where_a_fused_padding_is_lost(
    x: tuple[int, ...],
    w: tuple[int, ...],
    geometry: dict[str, Any],
    relu: bool,
    joined: bool,
    torch_ir: Callable[..., str],
) -> None:
    # What is joined was wrong by emulation on gfx942: a border of memory that is never written.
    g = Graph(io_data_type="half", intermediate_data_type="half", compute_data_type="float")
    image, filter_ = g.tensor(dims=x), g.tensor(dims=w)
    image = g.relu(image) if relu else image
    g.conv_fprop(image, filter_, **({"padding": 1} | geometry)).set_output()
    ir = torch_ir(g, "gfx942")
    (line,) = (line for line in ir.splitlines() if "= torch.aten.convolution" in line)
    taken = line.partition(" : ")[2].partition(">")[0]
    spatial = ",".join(map(str, x[2:]))
    assert taken.startswith(f"!torch.vtensor<[{x[0]},")
    assert taken.endswith(f",{spatial}],f16") != joined


def test_numbers_of_padded_lines_on_gfx9() -> None:
    """W-116, NaN without the rule, its neighbour with a fused padding, W-055, W-124; emulated."""
    g = Graph(io_data_type="float")
    for x, w, padding in (
        ((4, 8, 17), (2, 8, 3), 1),
        ((2, 8, 17), (5, 8, 3), 1),
        ((2, 4, 1, 8), (8, 4, 3, 1), (1, 0)),
    ):
        g.conv_fprop(g.tensor(dims=x), g.tensor(dims=w), padding=padding).set_output()
    # one dilated window along the width, which is not the only dim of windows (W-123, W-124)
    x, w = ((1, 5, 4, 3), (2, 5, 2, 5))
    last = [g.tensor(dims=d, strides=channels_last_strides(d), data_type="half") for d in (x, w)]
    g.conv_fprop(*last, dilation=2, padding=(0, 3)).set_output()
    check_emulated(g)


def test_a_window_in_the_padding(check: Callable[..., Any]) -> None:
    """W-137 did not compile (random graph 122056): the only rows that are read are padding."""
    g = Graph(io_data_type="float")
    image, filter_ = g.tensor(dims=(1, 4, 1, 8)), g.tensor(dims=(8, 4, 2, 3))
    across = {"stride": (3, 1), "pre_padding": (2, 1), "post_padding": (0, 0)}
    g.conv_fprop(image, filter_, **across).set_output()
    image, filter_ = g.tensor(dims=(1, 4, 8, 1)), g.tensor(dims=(8, 4, 3, 2))
    along = {"stride": (1, 3), "pre_padding": (1, 3), "post_padding": (0, 0)}
    g.conv_fprop(image, filter_, dilation=(1, 2), **along).set_output()
    check(g.freeze())
    check_emulated(g)


@pytest.mark.parametrize(
    ("batch", "padding", "copies"), [(2, (0, 1, 1), 3), (1, (0, 1, 1), 2), (2, (0, 1, 0), 1)]
)
def test_zeros_along_two_dims_are_joined_apart_on_gfx9(
    batch: int, padding: tuple[int, ...], copies: int, torch_ir: Callable[..., str]
) -> None:
    """W-138 did not compile as planned: planes in strides, padded along height and width."""
    g = Graph(io_data_type="half", compute_data_type="float")
    image, filter_ = g.tensor(dims=(batch, 8, 4, 6, 6)), g.tensor(dims=(8, 8, 1, 3, 3))
    g.conv_fprop(image, filter_, stride=(2, 1, 1), padding=padding).set_output()
    assert torch_ir(g, "gfx942").count("aten.cat") == copies


def test_gfx9_joins_zeros_to_a_computed_gradient(torch_ir: Callable[..., str]) -> None:
    g = Graph(io_data_type="half", compute_data_type="float")
    dy = g.relu(g.tensor(dims=(2, 1, 4, 5)))
    g.conv_dgrad(dy, g.tensor(dims=(1, 3, 3, 3)), dx_dims=(2, 3, 4, 5), padding=1).set_output()
    ir = torch_ir(g, "gfx942")
    assert "vtensor<[2,1,6,7],f" in ir
    g = Graph(io_data_type="half", compute_data_type="float")
    dy, w = g.tensor(dims=(1, 1, 3, 7)), g.tensor(dims=(1, 4, 3, 2))
    g.conv_dgrad(dy, w, dx_dims=(1, 4, 7, 9), dilation=2).set_output()
    ir = torch_ir(g, "gfx942")  # the only channel is doubled, and then has a frame
    assert "constant_pad_nd" not in ir
    assert "vtensor<[1,2,11,11],f16>" in ir


def test_gfx9_copies_an_image_for_a_gradient_that_shares_it(
    torch_ir: Callable[..., str], tmp_path: Path
) -> None:
    # IREE 3.13 refuses its own code for such graphs (steps of training) without the copy.
    g = Graph(io_data_type="float")
    x, w = g.tensor(dims=(1, 3, 1, 5)), g.tensor(dims=(8, 3, 1, 2))
    y = g.conv_fprop(x, w, padding=(0, 1)).set_output()
    dy = g.tensor(dims=(1, 8, 1, 6))
    g.conv_wgrad(dy, x, dw_dims=(8, 3, 1, 2), padding=(0, 1)).set_output()
    frozen = g.freeze()
    assert dump(frozen, Target.parse("gfx942"), tmp_path).vmfb
    assert y.dims == (1, 8, 1, 6)


@pytest.mark.parametrize(
    ("x", "padding", "stride"),
    [((1, 4, 2, 2), 1, 2), ((2, 4, 3, 9), 1, (3, 1)), ((2, 4, 5), 0, 4), ((2, 3, 9, 4), 2, 7)],
)
def test_a_strided_convolution_with_one_window(
    x: tuple[int, ...], padding: Any, stride: Any, check: Run
) -> None:
    # IREE 3.13 refuses its own code where rows are left over behind the only window.
    g = Graph(io_data_type="float")
    w = g.tensor(dims=(2, x[1], *(3,) * (len(x) - 2)))
    g.conv_fprop(g.tensor(dims=x), w, padding=padding, stride=stride).set_output()
    check(g.freeze())


def test_one_tap_with_one_window(check: Run) -> None:
    # Here the image is left as it is: the compiler ends by SIGSEGV where it is cut.
    g = Graph(io_data_type="bfloat16", compute_data_type="float")
    x, w = g.tensor(dims=(1, 32, 9, 3)), g.tensor(dims=(2, 32, 1, 1))
    g.conv_fprop(x, w, stride=3).set_output()
    check(g.freeze())


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
def test_what_several_pad_by_the_same_is_padded_once(padding: int, gradient: bool) -> None:
    """W-129; without any padding there is none to share."""
    g = Graph(io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(1, 4, 8, 8))
    for _ in range(2):
        if gradient:
            dy = g.tensor(dims=(1, 4, 6 + 2 * padding, 6 + 2 * padding))
            g.conv_wgrad(dy, x, dw_dims=(4, 4, 3, 3), padding=padding).set_output()
        else:
            g.conv_fprop(x, g.tensor(dims=(4, 4, 3, 3)), padding=padding).set_output()
    plan = plan_code(g.freeze(), Target.parse("gfx942"))
    assert ("--iree-flow-enable-pad-handling=false" in plan.flags) is bool(padding)


def test_heads_that_pad_one_input_by_the_same() -> None:
    """W-129, emulated: it did not compile for gfx9."""
    g = Graph(io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(1, 8, 4, 4))
    heads = [g.conv_fprop(x, g.tensor(dims=(16, 8, 3, 3)), padding=1) for _ in range(3)]
    g.concatenate([heads[0], g.relu(heads[1])], axis=1).set_output()
    heads[2].set_output()
    check_emulated(g)


def test_dilated_windows_of_one_row_of_what_is_stored() -> None:
    """W-143, emulated (random graph 300184): waves raced; of sizes that have one window, or two."""
    g = Graph(io_data_type="half", compute_data_type="float")
    w = g.tensor(dims=(16, 32, 3, 2))
    for height in (5, 6):
        dims = (1, 32, height, 7)
        turned = g.tensor(dims=dims, strides=(32 * height * 7, height, 1, 32 * height))
        g.conv_fprop(turned, w, dilation=2).set_output()
        g.conv_fprop(g.relu(g.tensor(dims=dims)), w, dilation=2).set_output()
    check_emulated(g)


@pytest.mark.parametrize(("x", "w"), [((2, 8), (1, 3)), ((8, 2), (3, 1)), ((3, 9), (1, 5))])
@pytest.mark.parametrize("last", [False, True])
def test_one_window_of_a_filter_of_size_1_on_gfx9(
    x: tuple[int, int], w: tuple[int, int], last: bool
) -> None:
    """Emulated (W-128): subgroups raced for the sums over channels and positions."""
    g = Graph(io_data_type="float")
    dims = [(3, 128, *x), (4, 128, *w)]
    strides = [channels_last_strides(d) if last else None for d in dims]
    given, filters = (g.tensor(dims=d, strides=s) for d, s in zip(dims, strides, strict=True))
    g.conv_fprop(given, filters, stride=3 if x[0] == 3 else 2).set_output()
    check_emulated(g)


def test_a_filter_that_covers_rows_of_a_small_image_in_half_on_gfx9() -> None:
    """Emulated (W-142): the tile of few rows wanted 147,456 bytes of LDS, in every attempt."""
    g = Graph(io_data_type="half", compute_data_type="float")
    x, w = g.tensor(dims=(3, 256, 3, 3)), g.tensor(dims=(64, 256, 1, 3))
    g.conv_fprop(x, w, stride=2).set_output()
    assert "halves as float" in g.build("gfx942").attempt
    check_emulated(g)
