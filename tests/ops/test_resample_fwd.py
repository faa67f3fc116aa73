# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pooling: rules, hipDNN's loops written out, ties, JSON, dispatches, declines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from here_and_now import engine
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import execute, expect
from under_settings import compile_source, dump

Run = Callable[..., Any]
Array = np.ndarray[Any, Any]


def pool(
    dims: tuple[int, ...] = (2, 3, 7, 9), *, index: bool = False, kind: str = "float", **given: Any
) -> Graph:
    """A graph that pools 3 x 3 windows two apart, with one row of padding, or as told."""
    options = {"resample_mode": "maxpool", "padding_mode": "neg_inf_pad", "window": 3, "stride": 2}
    g = Graph(io_data_type=kind, compute_data_type=given.pop("compute", "float"))
    options |= {"pre_padding": 1, "post_padding": 1} | given
    found = g.resample_fwd(g.tensor(dims=dims, name="x"), generate_index=index, name="n", **options)
    found.y.set_output()
    if found.index is not None:
        found.index.set_output()
    return g


MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("RESAMPLE-01", "x", {"dims": (4, 6)}),
    ("RESAMPLE-01", "x", {"dims": (1,) * 6}),
    ("RESAMPLE-02", "window", {"window": (3, 3, 3)}),
    ("RESAMPLE-02", "window", {"window": 0}),
    ("RESAMPLE-02", "stride", {"stride": (1, 0)}),
    ("RESAMPLE-03", "pre_padding", {"pre_padding": -1}),
    ("RESAMPLE-03", "post_padding", {"post_padding": (1, 1, 1)}),
    ("RESAMPLE-04", "pre_padding", {"pre_padding": (1, 3)}),
    ("RESAMPLE-04", "post_padding", {"post_padding": 4}),
    ("RESAMPLE-05", "window", {"window": (3, 12)}),
    ("RESAMPLE-06", "resample_mode", {"resample_mode": "not_set"}),
    ("RESAMPLE-07", "padding_mode", {"padding_mode": "edge_val_pad"}),
    ("RESAMPLE-07", "padding_mode", {"padding_mode": "padding_not_set"}),
    ("RESAMPLE-07", "padding_mode", {"resample_mode": "avgpool_include_padding"}),
    (
        "RESAMPLE-08",
        "compute_data_type",
        {"resample_mode": "avgpool_exclude_padding", "compute": "int32"},
    ),
    ("RESAMPLE-09", "index", {"resample_mode": "avgpool_exclude_padding", "index": True}),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "given"), MISTAKES)
def test_mistakes(rule: str, port: str, given: dict[str, Any]) -> None:
    (problem,) = pool(**given).problems()
    assert (problem.rule, problem.port, problem.node) == (rule, port, "n")


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("kind", "dims"), [("int8", (1, 1, 12, 11)), ("half", (1, 1, 3, 3)), ("uint8", (1, 1, 3, 3))]
)
def test_types_that_hold_no_index(kind: str, dims: tuple[int, ...]) -> None:
    g = pool(dims, index=True)
    g.nodes[0].outputs["index"].set_data_type(kind)
    assert [p.rule for p in g.problems()] == ["RESAMPLE-09"]


def looped(x: Array, op: Any) -> tuple[Array, Array]:
    """hipDNN's CPU reference as its loops, for one channel at a time."""
    n, c, *image = x.shape
    result = op.extents(tuple(image))
    y, index = np.zeros((n, c, *result)), np.full((n, c, *result), -1)
    mode, padding = op.resample_mode.name, op.padding_mode.name
    for at in itertools.product(range(n), range(c), *map(range, result)):
        best, place, total, valid = -np.inf, -1, 0.0, 0
        for tap in itertools.product(*map(range, op.window)):
            position = [
                o * s + t - p
                for o, s, t, p in zip(at[2:], op.stride, tap, op.pre_padding, strict=True)
            ]
            inside = all(0 <= p < m for p, m in zip(position, image, strict=True))
            if not inside and mode == "MAXPOOL" and padding == "NEG_INF_PAD":
                continue
            value = float(x[(*at[:2], *position)]) if inside else 0.0
            valid += inside
            total += value
            if value > best:
                best = value
                place = int(np.ravel_multi_index(position, image)) if inside else -1
        divisor = valid if mode == "AVGPOOL_EXCLUDE_PADDING" else int(np.prod(op.window))
        y[at], index[at] = (best, place) if mode == "MAXPOOL" else (total / divisor, -1)
    return y, index


@pytest.mark.parametrize("dims", [(1, 2, 9), (2, 2, 5, 7), (1, 1, 4, 5, 3)])
@pytest.mark.parametrize(
    ("mode", "padding"),
    [
        ("maxpool", "neg_inf_pad"),
        ("maxpool", "zero_pad"),
        ("avgpool_exclude_padding", "zero_pad"),
        ("avgpool_include_padding", "zero_pad"),
    ],
)
def test_the_reference_is_hipdnns_loops(dims: tuple[int, ...], mode: str, padding: str) -> None:
    index = mode == "maxpool"
    frozen = pool(
        dims, index=index, resample_mode=mode, padding_mode=padding, pre_padding=2, post_padding=1
    ).freeze()
    # Few different values, most of them negative: ties, and zeros of the padding that win.
    x = np.random.default_rng(3).integers(-4, 1, dims).astype(np.float32)
    found = execute(frozen, {frozen.inputs[0]: x})
    y, places = looped(x, frozen.nodes[0].op)
    outputs = frozen.nodes[0].outputs
    np.testing.assert_allclose(found[outputs["y"]], y, rtol=1e-14)
    if index:
        np.testing.assert_array_equal(found[outputs["index"]], places)


def test_the_first_of_equal_elements_is_chosen(run: Run) -> None:
    g = pool((1, 1, 4, 4), index=True, window=4, stride=1, pre_padding=0, post_padding=0)
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 1, 2] = x[0, 0, 2, 0] = 7
    y, index = run(g, {g.tensors[0]: x})
    assert (y.item(), index.item()) == (7, 6)


def test_padding_wins_over_negative_numbers_as_zero_only(run: Run) -> None:
    for padding, expected in (("zero_pad", (0, -1)), ("neg_inf_pad", (-1, 0))):
        g = pool((1, 1, 2, 2), index=True, padding_mode=padding)
        y, index = run(g, {g.tensors[0]: np.full((1, 1, 2, 2), -1, np.float32)})
        assert (y.ravel()[0], index.ravel()[0]) == expected


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize(
    ("parameters", "most"), [({}, 2), ({"window": 2, "pre_padding": 0, "post_padding": 0}, 1)]
)
@pytest.mark.parametrize("nhwc", [False, True])
def test_few_dispatches(
    parameters: dict[str, int], most: int, nhwc: bool, target: str, tmp_path: Path
) -> None:
    dims = (2, 8, 16, 16)
    g = pool(dims, kind="half", **parameters)
    if nhwc:
        g.tensors[0].set_stride(channels_last_strides(dims))
    statistics = dump(g.freeze(), Target.parse(target), tmp_path).statistics
    # On gfx9 the frame is joined on piece by piece.
    assert 0 < statistics["dispatches"] <= (most if target == "cpu" or most == 1 else 5)


@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize(
    ("mode", "padding"), [("maxpool", "neg_inf_pad"), ("avgpool_exclude_padding", "zero_pad")]
)
def test_a_strided_last_dim_is_pooled_apart(
    mode: str, padding: str, nhwc: bool, check: Callable[..., Any], tmp_path: Path
) -> None:
    """Where there is much to load; channels-last it is the channels that are side by side."""
    dims = (1, 9, 61, 67)
    g = pool(dims, resample_mode=mode, padding_mode=padding)
    if nhwc:
        g.tensors[0].set_stride(channels_last_strides(dims))
    graph = g.freeze()
    check(graph)
    small = pool((1, 1, 61, 67), resample_mode=mode, padding_mode=padding).freeze()
    cpu = Target.parse("cpu")
    apart, joint = (
        dump(one, cpu, tmp_path / name).statistics["dispatches"]
        for name, one in (("large", graph), ("small", small))
    )
    assert (apart > joint) is not nhwc


@pytest.mark.parametrize(
    ("dims", "given"),
    [
        ((1, 8, 61, 67), {}),  # rows of 69, and one more
        ((1, 8, 61, 67), {"order": (0, 1, 3, 2), "window": (2, 3), "stride": (2, 4)}),
        ((1, 7, 64, 64), {"window": 2, "pre_padding": 0, "post_padding": 0}),  # nothing is padded
        ((2, 3, 65, 33), {"window": (4, 3), "pre_padding": (1, 2), "post_padding": (3, 0)}),
        ((2, 3, 9, 31), {"kind": "half", "resample_mode": "avgpool_include_padding"}),
        ((1, 2, 9, 30), {"kind": "bfloat16", "stride": (1, 4)}),
        ((1, 2, 9, 31), {"kind": "int32", "compute": "int32"}),
    ],
)
def test_neighbours_along_a_strided_last_dim_are_read_together(
    dims: tuple[int, ...],
    given: dict[str, Any],
    check: Callable[..., Any],
    torch_ir: Callable[..., str],
) -> None:
    """A row's remainder, another memory order, other types, and parts of windows at both ends."""
    order, given = given.get("order"), {k: v for k, v in given.items() if k != "order"}
    g = pool(dims, **({"padding_mode": "zero_pad"} if "resample_mode" in given else {}) | given)
    if order:
        g.tensors[0].set_stride((dims[1] * dims[2] * dims[3], dims[2] * dims[3], 1, dims[2]))
    assert "iree_tensor_ext.bitcast" in torch_ir(g, "cpu")
    assert "iree_tensor_ext.bitcast" not in torch_ir(g, "gfx942")
    check(g.freeze())


@pytest.mark.parametrize(
    "given", [{"kind": "double", "compute": "double"}, {"stride": 3}, {"index": True}]
)
def test_other_neighbours_are_not(given: dict[str, Any], torch_ir: Callable[..., str]) -> None:
    """Two doubles or three floats are no integer; and of an index the element's place counts."""
    assert "iree_tensor_ext" not in torch_ir(pool(**given), "cpu")


def test_nan_and_the_sign_of_zero_pass_through_integers(run: Run) -> None:
    g = pool((1, 1, 1, 8), window=(1, 2), stride=(1, 2), pre_padding=0, post_padding=0)
    x = np.array([np.nan, 1, 1, np.nan, -0.0, -0.0, np.inf, -np.inf], np.float32)
    (y,) = run(g, {g.tensors[0]: x.reshape(1, 1, 1, 8)})
    np.testing.assert_array_equal(y.ravel(), [np.nan, np.nan, -0.0, np.inf])
    assert np.signbit(y.ravel()[2])


def test_a_large_input_is_not_copied_for_its_padding(torch_ir: Callable[..., str]) -> None:
    """The first dim's windows that lap over it are computed apart; a small input is padded."""
    large, small = ((1, channels, 61, 67) for channels in (8, 1))
    assert "constant_pad_nd" not in torch_ir(pool(large), "cpu")
    assert "constant_pad_nd" in torch_ir(pool(small), "cpu")
    zeros = {"padding_mode": "zero_pad"}  # which are the largest elements of some windows
    assert "constant_pad_nd" in torch_ir(pool(large, **zeros), "cpu")
    assert "tensor.insert_slice" not in torch_ir(pool(large), "gfx90a")


def test_no_padding_stands_alone_on_gfx9(torch_ir: Callable[..., str]) -> None:
    assert "constant_pad_nd" in torch_ir(pool())
    assert "constant_pad_nd" not in torch_ir(pool(), "gfx90a")


def test_sums_are_kept_in_the_compute_type(run: Run) -> None:
    # 4096 half-precision ones: summed in half precision, 2048 is where adding 1 ends.
    g = pool(
        (1, 1, 64, 64),
        kind="half",
        resample_mode="avgpool_include_padding",
        padding_mode="zero_pad",
        window=64,
        stride=1,
        pre_padding=0,
        post_padding=0,
    )
    (y,) = run(g, {g.tensors[0]: np.ones((1, 1, 64, 64), np.float16)})
    assert y.item() == 1


@pytest.mark.parametrize("fault", ["divisor", "shift", "half"])
def test_faults_show(fault: str) -> None:
    frozen = pool(
        (1, 3, 40, 40), resample_mode="avgpool_exclude_padding", window=16, stride=8
    ).freeze()
    inputs = verify.random_inputs(frozen, seed=2)
    (uid,) = frozen.outputs
    y = execute(frozen, inputs)[uid]
    if fault == "divisor":
        y = y * np.where(np.arange(y.shape[-1]) == 0, 15 / 16, 1)  # as if padding counted
    elif fault == "shift":
        y = np.roll(y, 1, -1)
    else:
        x = inputs[frozen.inputs[0]].astype(np.float16)
        y = execute(frozen, {frozen.inputs[0]: x.astype(np.float32)})[uid].astype(np.float16)
    report = verify.compare(frozen, {uid: y.astype(np.float32)}, expect(frozen, inputs))
    assert not report.ok


def test_large_windows_are_declined() -> None:
    iree = engine("iree")
    targets = [Target.parse("cpu"), Target.parse("gfx942")]
    none = {"pre_padding": 0, "post_padding": 0, "stride": 1}
    for target in targets:
        big = pool((1, 1, 20, 20), index=True, window=12, **none).freeze()
        assert "IREE-POOL-01" in [d.problem.rule for d in iree.declines(big, target)]
        long = pool((1, 1, 4, 200), window=(1, 129), **none).freeze()
        assert [d.problem.rule for d in iree.declines(long, target)] == ["IREE-POOL-01"]
        whole = pool((1, 1, 4, 200), window=(4, 200), **none).freeze()
        assert not iree.declines(whole, target)


def test_the_largest_windows_that_are_served_compile(check: Run) -> None:
    none = {"pre_padding": 0, "post_padding": 0, "stride": 8}
    check(pool((1, 1, 17, 17), index=True, window=(11, 11), **none).freeze())
    check(pool((1, 1, 2, 140), window=(1, 128), **none).freeze())


def test_json() -> None:
    g = pool(index=True)
    (node,) = json.loads(g.to_json())["nodes"]
    assert node["type"] == "ResampleFwdAttributes"
    assert {"x_tensor_uid", "y_tensor_uid", "index_tensor_uid"} <= set(node)
    assert (node["resample_mode"], node["padding_mode"]) == ("maxpool", "neg_inf_pad")
    assert (node["window"], node["stride"], node["generate_index"]) == ([3, 3], [2, 2], True)
    assert Graph.from_json(g.to_json()).digest == g.digest
    plain = json.loads(pool().to_json())
    assert "index_tensor_uid" not in plain["nodes"][0]
    # Another era of hipDNN writes the modes as codes.
    plain["nodes"][0] |= {"resample_mode": 1, "padding_mode": 1}
    assert Graph.from_json(json.dumps(plain)).digest == pool().digest


def test_padding_that_is_not_seen_has_one_spelling() -> None:
    average = {"resample_mode": "avgpool_exclude_padding"}
    assert pool(**average, padding_mode="zero_pad").digest == pool(**average).digest
    none = {"pre_padding": 0, "post_padding": 0}
    assert pool(**none).digest == pool(**none, padding_mode="zero_pad").digest
    assert pool().digest != pool(padding_mode="zero_pad").digest


@pytest.mark.parametrize("target", ["gfx908", "gfx90a", "gfx950"])
def test_it_compiles_for_every_gfx9(target: str) -> None:
    assert compile_source(pool(index=True, kind="half").freeze(), Target.parse(target)).vmfb


@pytest.mark.parametrize("options", [{}, {"index": True}])
def test_no_table_of_positions_is_filled_when_the_module_loads(
    options: dict[str, Any], tmp_path: Path
) -> None:
    # The emulator waits for such a kernel for ever, and memory would be held for it.
    dump(pool(**options).freeze(), Target.parse("gfx942"), tmp_path)
    kernels = [path.name for path in (tmp_path / "dispatches").iterdir()]
    assert kernels
    assert not [name for name in kernels if "initializer" in name]


def rows_of_windows(height: int = 1, stride: int = 3, *, part: bool = False) -> Graph:
    """Return sums along the width of what windows of a channels-last image have."""
    g = Graph(io_data_type="float", compute_data_type="float", intermediate_data_type="float")
    dims = (1, 2, height, 9)
    x = g.tensor(dims=dims, strides=channels_last_strides(dims))
    options = {"resample_mode": "avgpool_include_padding", "padding_mode": "zero_pad"}
    y = g.resample_fwd(x, window=(1, 3), stride=(1, stride), **options).y
    if part:
        y = g.slice(g.exp(y), starts=(0, 0, 1, 0), limits=(1, 2, 2, 3))
    g.reduction(y, mode="add", axes=(3,)).set_output()
    return g


@pytest.mark.parametrize("options", [{}, {"height": 4}, {"height": 4, "part": True}], ids=str)
def test_windows_of_one_row_are_added_up_on_gfx9(options: dict[str, Any]) -> None:
    """W-132; emulated (random graphs 302023 and 311016): other elements were read."""
    check_emulated(rows_of_windows(**options))


def test_windows_with_steps_beside_a_dim_of_one() -> None:
    for options, struck in (
        ({}, True),
        ({"height": 4}, False),
        ({"stride": 1}, False),
        ({"height": 4, "part": True}, True),
    ):
        plan = plan_code(rows_of_windows(**options).freeze(), Target.parse("gfx942"))
        assert ("W-132" in plan.workarounds) == struck, options
