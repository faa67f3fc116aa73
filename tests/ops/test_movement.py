# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the ops that only move elements share: bits, types, JSON, dispatches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.graph_api.tensor import Tensor
from hipdnn_iree.jit.target import Target
from under_settings import dump

Run = Callable[..., Any]
Move = Callable[[Graph, Tensor], Tensor]

MOVES: dict[str, tuple[Move, Callable[[Any], Any]]] = {
    "reshape": (lambda g, x: g.reshape(x, dim=(3, 8)), lambda x: x.reshape(3, 8)),
    "transpose": (lambda g, x: g.transpose(x, permutation=(1, 0)), lambda x: x.T),
    "slice": (
        lambda g, x: g.slice(x, starts=(1, 0), limits=(4, 6), strides=(2, 3)),
        lambda x: x[1:4:2, 0:6:3],
    ),
    "concatenate": (
        lambda g, x: g.concatenate([x, x], axis=1),
        lambda x: np.concatenate([x, x], 1),
    ),
    "pad": (
        lambda g, x: g.pad(x, pre_padding=(1, -1), post_padding=(0, 2)),
        lambda x: np.pad(x[:, 1:], ((1, 0), (0, 2))),
    ),
}
NOTHING: dict[str, Move] = {
    "reshape": lambda g, x: g.reshape(x, dim=(4, -1)),
    "transpose": lambda g, x: g.transpose(x, permutation=(0, 1)),
    "slice": lambda g, x: g.slice(x, starts=(0, 0), limits=(4, 6)),
    "concatenate": lambda g, x: g.concatenate([x], axis=0),
    "pad": lambda g, x: g.pad(x),
}
SPECIAL = [-0.0, 0.0, np.inf, -np.inf, np.nan, 6e-8, -6e-8, 65504.0]


@pytest.mark.parametrize("kind", ["half", "float", "double", "bfloat16"])
def test_bits_do_not_change(kind: str, run: Run) -> None:
    # Zeros keep their sign, numbers below the normal ones stay, and so do infinities and NaN.
    from hipdnn_iree.provider.reference import numpy_dtype

    x = np.resize(np.array(SPECIAL), (4, 6)).astype(numpy_dtype(DataType.parse(kind)))
    graph = Graph(io_data_type=kind)
    given = {graph.tensor(dims=(4, 6)): op for op in MOVES}
    for t, op in given.items():
        MOVES[op][0](graph, t).set_output()
    bits = f"u{x.dtype.itemsize}"
    found = run(graph, dict.fromkeys(given, x))
    for y, op in zip(found, MOVES, strict=True):
        wanted = np.ascontiguousarray(MOVES[op][1](x))
        np.testing.assert_array_equal(np.ascontiguousarray(y).view(bits), wanted.view(bits), op)


@pytest.mark.parametrize("op", NOTHING)
def test_an_output_that_is_the_input(op: str, run: Run) -> None:
    # IREE's compiler ends by SIGSEGV for a function that returns an argument.
    graph = Graph(io_data_type="float")
    t = graph.tensor(dims=(4, 6))
    NOTHING[op](graph, NOTHING[op](graph, t)).set_output()
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    (y,) = run(graph, {t: x})
    np.testing.assert_array_equal(y, x)


def test_two_outputs_that_are_the_input(run: Run) -> None:
    graph = Graph(io_data_type="int8")
    t = graph.tensor(dims=(4, 6))
    for move in NOTHING.values():
        move(graph, t).set_output()
    x = np.arange(24, dtype=np.int8).reshape(4, 6)
    for y in run(graph, {t: x}):
        np.testing.assert_array_equal(y, x)


def test_integers_keep_all_digits_in_a_float_graph(run: Run) -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    moves = {**MOVES, "slice": (NOTHING["slice"], lambda x: x)}
    given = {graph.tensor(dims=(4, 6), data_type="int64"): op for op in moves}
    made = [graph.reshape(moves[op][0](graph, t), dim=-1).set_output() for t, op in given.items()]
    x = np.arange(24).reshape(4, 6) + 2**60
    found = run(graph, dict.fromkeys(given, x))
    for y, array, op in zip(made, found, moves, strict=True):
        assert y.data_type is DataType.INT64
        np.testing.assert_array_equal(array, moves[op][1](x).reshape(-1), op)


def test_a_type_that_is_set_wins(run: Run) -> None:
    graph = Graph(io_data_type="float")
    given = {graph.tensor(dims=(4, 6)): op for op in MOVES}
    for t, op in given.items():
        MOVES[op][0](graph, t).set_output().set_data_type("int32")
    x = np.arange(24, dtype=np.float32).reshape(4, 6) + np.float32(0.75)
    for y, op in zip(run(graph, dict.fromkeys(given, x)), MOVES, strict=True):
        assert y.dtype == np.int32
        np.testing.assert_array_equal(y, MOVES[op][1](x).astype(np.int32), op)


def test_cast_is_an_identity_that_hipdnn_knows(run: Run) -> None:
    graph = Graph(io_data_type="float")
    t = graph.tensor(dims=(4,))
    y = graph.cast(t, "int8", name="narrow").set_output()
    (found,) = run(graph, {t: np.array([-300, -1.5, 1.5, 300], np.float32)})
    np.testing.assert_array_equal(found, np.array([-128, -1, 1, 127], np.int8))
    assert y.data_type is DataType.INT8
    (node,) = json.loads(graph.to_json())["nodes"]
    assert (node["type"], node["inputs"]["operation"]) == ("PointwiseAttributes", "identity")


JSON = {
    "reshape": ("ReshapeAttributes", {"dim": [3, 8]}),
    "transpose": ("TransposeAttributes", {"permutation": [1, 0]}),
    "slice": ("SliceAttributes", {"starts": [1, 0], "limits": [4, 4], "strides": [2, 3]}),
    "concatenate": ("ConcatenateAttributes", {"axis": 1}),
    "pad": ("PadAttributes", {"pre_padding": [1, -1], "post_padding": [0, 2], "value": 0.0}),
}


@pytest.mark.parametrize("op", MOVES)
def test_json(op: str) -> None:
    graph = Graph(io_data_type="half")
    t = graph.tensor(dims=(4, 6), uid=7)
    y = MOVES[op][0](graph, t).set_output()
    (node,) = json.loads(graph.to_json())["nodes"]
    kind, parameters = JSON[op]
    assert node["type"] == kind
    assert {k: node[k] for k in parameters} == parameters
    joined = {"x_tensor_uids": [7, 7]} if op == "concatenate" else {"x_tensor_uid": 7}
    assert (node["inputs"], node["outputs"]) == (joined, {"y_tensor_uid": y.uid})
    again = Graph.from_json(graph.to_json())
    assert again.freeze() == graph.freeze()
    assert again.digest == graph.digest


def test_equal_moves_have_equal_digests() -> None:
    def digest(move: Move) -> str:
        graph = Graph(io_data_type="half")
        move(graph, graph.tensor(dims=(4, 6))).set_output()
        return graph.digest

    assert digest(lambda g, x: g.reshape(x, dim=(8, -1))) == digest(
        lambda g, x: g.reshape(x).set_dim((8, 3))
    )
    assert digest(lambda g, x: g.concatenate([x, x], axis=-1)) == digest(
        lambda g, x: g.concatenate([x, x], axis=1)
    )
    steps = {"starts": (0, 1), "strides": (1, 3)}
    assert (
        digest(lambda g, x: g.slice(x, limits=(1, 5), **steps))
        == digest(lambda g, x: g.slice(x, limits=(1, 6), starts=(0, 1), strides=(2, 3)))
        == digest(lambda g, x: g.slice(x, limits=(1, 5), starts=(0, 1), strides=(7, 3)))
    )
    assert digest(lambda g, x: g.pad(x, pre_padding=1, post_padding=0)) == digest(
        lambda g, x: g.pad(x, pre_padding=(1, 1))
    )


def _heads(g: Graph, moved: bool) -> None:
    """Scores of attention whose heads lie inside the rows, as dims and strides or as moves."""
    rows, heads, depth = 32, 4, 16
    if moved:
        given = [g.tensor(dims=(rows, heads * depth)) for _ in range(2)]
        split = [g.reshape(t, dim=(rows, heads, depth)) for t in given]
        q = g.transpose(split[0], permutation=(1, 0, 2))
        k = g.transpose(split[1], permutation=(1, 2, 0))
    else:
        step = heads * depth
        q = g.tensor(dims=(heads, rows, depth), strides=(depth, step, 1))
        k = g.tensor(dims=(heads, depth, rows), strides=(depth, 1, step))
    g.matmul(q, k).set_output()


def _transposed(g: Graph, moved: bool) -> None:
    a = g.tensor(dims=(64, 48)) if moved else g.tensor(dims=(48, 64), strides=(1, 48))
    if moved:
        a = g.transpose(a, permutation=(1, 0))
    g.matmul(a, g.tensor(dims=(64, 32))).set_output()


def _sliced_rows(g: Graph, moved: bool) -> None:
    x = g.tensor(dims=(40, 64))
    part = g.slice(x, starts=(8, 0), limits=(40, 64)) if moved else g.tensor(dims=(32, 64))
    g.relu(g.add(part, 1.0)).set_output()
    if not moved:
        g.tensors.remove(x)


def _gated(g: Graph, moved: bool) -> None:
    x = g.tensor(dims=(16, 64))
    halves = [
        g.slice(x, starts=(0, a), limits=(16, a + 32)) if moved else g.tensor(dims=(16, 32))
        for a in (0, 32)
    ]
    g.mul(halves[0], g.sigmoid(halves[1])).set_output()
    if not moved:
        g.tensors.remove(x)


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("chain", [_heads, _transposed, _sliced_rows, _gated])
def test_moves_cost_no_dispatch(
    chain: Callable[[Graph, bool], None], target: str, tmp_path: Path
) -> None:
    counts = []
    for moved in (False, True):
        g = Graph(io_data_type="half", compute_data_type="float")
        chain(g, moved)
        folder = tmp_path / str(moved)
        counts.append(dump(g.freeze(), Target.parse(target), folder).statistics)
    assert counts[1]["dispatches"] <= counts[0]["dispatches"]
    assert counts[1]["copies"] <= counts[0]["copies"]
    assert target == "cpu" or counts[1]["dispatches"] == 1


@pytest.mark.parametrize("op", ["slice", "pad"])
def test_channels_last_stays_as_it_lies(op: str, tmp_path: Path) -> None:
    g = Graph(io_data_type="float")
    dims = (2, 6, 5, 7)
    x = g.tensor(dims=dims, strides=channels_last_strides(dims))
    if op == "slice":
        y = g.slice(x, starts=(0, 1, 0, 2), limits=(2, 5, 5, 7))
    else:
        y = g.pad(x, pre_padding=(0, 0, 1, 1), post_padding=(0, 0, 1, 1))
    y.set_output()
    assert dump(g.freeze(), Target.parse("cpu"), tmp_path).statistics["dispatches"] == 1
    assert y.strides == channels_last_strides(g.freeze().tensors[y.uid].dims)


@pytest.mark.parametrize("nhwc", [False, True])
def test_joined_images_are_copied_before_a_convolution_on_gfx9(
    nhwc: bool, torch_ir: Callable[..., str]
) -> None:
    # IREE 3.13 fuses the padding with the parts there and never writes the border, and it
    # transposes the parts, so that a channels-last filter meets a channels-first image.
    def text(target: str) -> str:
        g = Graph(io_data_type="float")
        dims, taps = (1, 4, 7, 9), (6, 8, 3, 3)
        lies = channels_last_strides if nhwc else (lambda d: None)
        parts = [g.tensor(dims=dims, strides=lies(dims)) for _ in range(2)]
        w = g.tensor(dims=taps, strides=lies(taps))
        g.conv_fprop(g.concatenate(parts, axis=1), w, padding=1).set_output()
        return torch_ir(g, target)

    gfx9 = text("gfx942")
    assert gfx9.count("aten.flip") == 2
    assert gfx9.count("aten.cat") == (2 if nhwc else 1)  # a channels-last filter is copied too
    assert "aten.flip" not in text("cpu")
