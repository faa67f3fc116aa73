# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The gradient of pooling: rules, finite differences, JSON, dispatches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from here_and_now import engine
from hipdnn_iree import Graph
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.reference import execute, expect
from under_settings import compile_source, dump

Run = Callable[..., Any]
AVERAGE = "avgpool_exclude_padding"


def gradient(
    dy: tuple[int, ...] = (2, 3, 4, 5),
    dx: tuple[int, ...] | None = (2, 3, 7, 9),
    *,
    index: tuple[int, ...] | None = None,
    index_type: str = "int32",
    kind: str = "float",
    **given: Any,
) -> Graph:
    """A graph with the gradient of the pooling of 3 x 3 windows two apart, or as told."""
    options = {"resample_mode": AVERAGE, "padding_mode": "zero_pad", "window": 3, "stride": 2}
    g = Graph(io_data_type=kind, compute_data_type=given.pop("compute", "float"))
    options |= {"pre_padding": 1, "post_padding": 1} | given
    t = g.tensor(dims=dy, name="dy")
    places = None if index is None else g.tensor(dims=index, data_type=index_type, name="index")
    g.resample_bwd(t, index=places, dx_dims=dx, name="n", **options).set_output()
    return g


MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("RESAMPLE-01", "dx", {"dx": (4, 6)}),
    ("RESAMPLE-02", "window", {"window": (3, 3, 3)}),
    ("RESAMPLE-02", "window", {"window": (3, 3, 3), "dx": None}),
    ("RESAMPLE-03", "pre_padding", {"pre_padding": -1}),
    ("RESAMPLE-04", "post_padding", {"post_padding": 3}),
    ("RESAMPLE-05", "window", {"window": 10}),
    ("RESAMPLE-06", "resample_mode", {"resample_mode": "not_set"}),
    (
        "RESAMPLE-07",
        "padding_mode",
        {"resample_mode": "avgpool_include_padding", "padding_mode": "neg_inf_pad"},
    ),
    ("RESAMPLE-08", "compute_data_type", {"compute": "int32"}),
    ("RESAMPLE-09", "index", {"index": (2, 3, 4, 5)}),
    (
        "RESAMPLE-09",
        "index",
        {"index": (2, 3, 4, 5), "index_type": "half", "resample_mode": "maxpool"},
    ),
    ("POOLBWD-01", "index", {"resample_mode": "maxpool"}),
    ("POOLBWD-01", "index", {"resample_mode": "maxpool", "index": (2, 3, 4, 4)}),
    ("POOLBWD-02", "dy", {"dx": (2, 3, 9, 9)}),
    ("POOLBWD-02", "dy", {"dx": (2, 4, 7, 9)}),
    ("RESAMPLE-03", "post_padding", {"dx": (2, 3, 7, 9), "post_padding": (1, 1, 1)}),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "given"), MISTAKES)
def test_mistakes(rule: str, port: str, given: dict[str, Any]) -> None:
    assert (rule, port) in [(p.rule, p.port) for p in gradient(**given).problems()]


def test_dims_of_the_image_follow_from_the_windows() -> None:
    g = gradient(dx=None)
    assert g.freeze().tensors[g.nodes[0].outputs["dx"].uid].dims == (2, 3, 7, 9)
    assert g.digest == gradient().digest


@pytest.mark.parametrize("dims", [(1, 2, 9), (2, 2, 5, 8), (1, 1, 4, 5, 3)])
@pytest.mark.parametrize("mode", ["maxpool", AVERAGE, "avgpool_include_padding"])
def test_the_reference_is_the_derivative_of_pooling(
    dims: tuple[int, ...], mode: str, slopes: Callable[..., Any]
) -> None:
    padding = "neg_inf_pad" if mode == "maxpool" else "zero_pad"
    options: dict[str, Any] = {"resample_mode": mode, "padding_mode": padding}
    options |= {"window": 3, "stride": 2, "pre_padding": 2, "post_padding": 1}
    g = Graph(io_data_type="double")
    x = g.tensor(dims=dims, name="x")
    forward = g.resample_fwd(x, generate_index=mode == "maxpool", **options)
    forward.y.set_output()
    dy = g.tensor(dims=g_dims(dims, options), name="dy")
    dx = g.resample_bwd(dy, index=forward.index, dx_dims=dims, **options).set_output()
    frozen = g.freeze()
    rng = np.random.default_rng(0)
    at = rng.permutation(int(np.prod(dims))).reshape(dims) / 10  # no ties within the step
    weights = rng.standard_normal(dy.dims)
    found = execute(frozen, {x.uid: at, dy.uid: weights})[dx.uid]

    def result(at: Any) -> Any:
        return execute(frozen, {x.uid: at, dy.uid: weights})[forward.y.uid]

    assert found == pytest.approx(slopes(result, at, weights, 1e-3), abs=1e-9)


def g_dims(dims: tuple[int, ...], options: dict[str, Any]) -> tuple[int, ...]:
    """The dims of pooling's result."""
    return (*dims[:2], *((n + 3 - options["window"]) // options["stride"] + 1 for n in dims[2:]))


def test_an_index_outside_of_its_window_gets_nothing(run: Run) -> None:
    g = gradient(
        (1, 1, 1, 2),
        (1, 1, 2, 4),
        index=(1, 1, 1, 2),
        resample_mode="maxpool",
        window=2,
        pre_padding=0,
        post_padding=0,
    )
    dy = np.array([[[[3, 5]]]], np.float32)
    (dx,) = run(g, {g.tensors[0]: dy, g.tensors[1]: np.array([[[[5, 0]]]], np.int32)})
    assert dx.ravel().tolist() == [0, 0, 0, 0, 0, 3, 0, 0]
    (dx,) = run(g, {g.tensors[0]: dy, g.tensors[1]: np.array([[[[-1, 7]]]], np.int32)})
    assert dx.ravel().tolist() == [0, 0, 0, 0, 0, 0, 0, 5]


def test_contributions_add_up_in_the_compute_type(run: Run) -> None:
    # 16 windows of 16 elements over each inner element; 2048 + 1 is 2048 in half precision.
    g = gradient(
        (1, 1, 32),
        (1, 1, 47),
        kind="half",
        resample_mode="maxpool",
        window=16,
        stride=1,
        pre_padding=0,
        post_padding=0,
        index=(1, 1, 32),
    )
    dy = np.ones((1, 1, 32), np.float16)
    dy[0, 0, 16] = 2048
    (dx,) = run(g, {g.tensors[0]: dy, g.tensors[1]: np.full((1, 1, 32), 20, np.int32)})
    assert dx[0, 0, 20] == np.float16(2048 + 15)
    assert np.count_nonzero(dx) == 1


@pytest.mark.parametrize("fault", ["divisor", "half"])
def test_faults_show(fault: str) -> None:
    frozen = gradient((1, 2, 20, 20), (1, 2, 39, 39)).freeze()
    inputs = verify.random_inputs(frozen, seed=2)
    (uid,) = frozen.outputs
    dx = execute(frozen, inputs)[uid]
    if fault == "divisor":
        dx[:, :, 0] *= 6 / 9  # as if padding counted
    else:
        dx = dx.astype(np.float16)
    report = verify.compare(frozen, {uid: dx.astype(np.float32)}, expect(frozen, inputs))
    assert not report.ok


@pytest.mark.parametrize(
    ("dy", "dx", "options"),
    [
        ((2, 1, 7, 2), (2, 1, 7, 4), {"window": (1, 3)}),
        ((2, 1, 2, 3), (2, 1, 6, 9), {"window": (5, 7)}),
        ((2, 1, 2, 2), (2, 1, 6, 6), {"window": (4, 5), "stride": (2, 1)}),
        ((2, 1, 3, 2), (2, 1, 4, 4), {"window": (2, 3), "resample_mode": "maxpool"}),
    ],
)
def test_windows_that_reach_over_more_positions_than_there_are(
    dy: tuple[int, ...], dx: tuple[int, ...], options: dict[str, Any], check: Any
) -> None:
    """Fewer windows than ⌈w / s⌉ in a dim: those that start furthest before were left out."""
    index = dy if "resample_mode" in options else None
    zero = {"stride": 1, "pre_padding": 0, "post_padding": 0}
    check(gradient(dy, dx, index=index, **{**zero, **options}).freeze())


def test_many_windows_over_an_element_are_declined() -> None:
    frozen = gradient(
        (1, 1, 9, 9), (1, 1, 19, 19), window=11, stride=1, pre_padding=0, post_padding=0
    ).freeze()
    rules = [d.problem.rule for d in engine("iree").declines(frozen, Target.parse("cpu"))]
    assert rules == []
    frozen = gradient(
        (1, 1, 17, 17), (1, 1, 28, 28), window=12, stride=1, pre_padding=0, post_padding=0
    ).freeze()
    for target in ("cpu", "gfx942"):
        declines = engine("iree").declines(frozen, Target.parse(target))
        assert "IREE-POOL-02" in [d.problem.rule for d in declines]


@pytest.mark.parametrize(
    ("mode", "most"), [("maxpool", 5), (AVERAGE, 4), ("avgpool_include_padding", 3)]
)
def test_few_dispatches(mode: str, most: int, tmp_path: Path) -> None:
    index = (2, 8, 8, 8) if mode == "maxpool" else None
    padding = "neg_inf_pad" if mode == "maxpool" else "zero_pad"
    options = {"resample_mode": mode, "padding_mode": padding}
    g = gradient((2, 8, 8, 8), (2, 8, 16, 16), index=index, kind="half", **options)
    statistics = dump(g.freeze(), Target.parse("cpu"), tmp_path).statistics
    assert 0 < statistics["dispatches"] <= most


def test_json() -> None:
    g = gradient(resample_mode="maxpool", padding_mode="neg_inf_pad", index=(2, 3, 4, 5))
    (node,) = json.loads(g.to_json())["nodes"]
    assert node["type"] == "ResampleBwdAttributes"
    assert {"dy_tensor_uid", "dx_tensor_uid", "index_tensor_uid"} <= set(node)
    assert "inputs" not in node
    assert Graph.from_json(g.to_json()).digest == g.digest
    assert "index_tensor_uid" not in json.loads(gradient().to_json())["nodes"][0]


@pytest.mark.parametrize("target", ["gfx908", "gfx90a", "gfx950"])
def test_it_compiles_for_every_gfx9(target: str) -> None:
    g = gradient(
        resample_mode="maxpool", padding_mode="neg_inf_pad", index=(2, 3, 4, 5), kind="half"
    )
    assert compile_source(g.freeze(), Target.parse(target)).vmfb
