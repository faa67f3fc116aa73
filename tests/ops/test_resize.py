# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Resizing by BILINEAR and NEAREST: rules, formulas written out, adjoints, switches, dispatches."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from here_and_now import engine
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.enums import ResampleMode, ResizeCoordinates
from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.graph_api.ops.resample_fwd import ResampleFwd
from hipdnn_iree.graph_api.specialise import specialise
from hipdnn_iree.jit.lowering.resample.resize_lines import Line, lines
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.target import Target
from hipdnn_iree.jit.work import graph_work
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.graph_files import loads
from hipdnn_iree.provider.reference import execute, expect
from under_settings import dump

Run = Callable[..., Any]
Array = np.ndarray[Any, Any]
MODES = ("bilinear", "nearest")
COORDINATES = tuple(c.json for c in ResizeCoordinates)
EVERY = tuple(itertools.product(MODES, COORDINATES))


def resize(
    dims: tuple[int, ...] = (2, 3, 4, 6), size: Any = (7, 5), *, kind: str = "float", **given: Any
) -> Graph:
    """A graph that resizes an image bilinearly, or as told."""
    options = {"resample_mode": "bilinear"} | given
    g = Graph(io_data_type=kind, compute_data_type=options.pop("compute", "float"))
    y_dims = options.pop("y_dims", None)
    found = g.resample_fwd(g.tensor(dims=dims, name="x"), size=size, name="n", **options)
    found.y.set_output()
    if y_dims is not None:
        found.y.set_dim(y_dims)
    if found.index is not None:
        found.index.set_output()
    return g


def gradient(
    dy: tuple[int, ...] = (2, 3, 7, 5),
    dx: tuple[int, ...] | None = (2, 3, 4, 6),
    *,
    kind: str = "float",
    **given: Any,
) -> Graph:
    """A graph with the gradient of resizing dx's dims to dy's."""
    options = {"resample_mode": "bilinear"} | given
    g = Graph(io_data_type=kind, compute_data_type=options.pop("compute", "float"))
    g.resample_bwd(g.tensor(dims=dy, name="dy"), dx_dims=dx, name="n", **options).set_output()
    return g


FORWARD: list[tuple[str, str, dict[str, Any]]] = [
    ("RESAMPLE-01", "x", {"dims": (4, 6), "size": ()}),
    ("RESAMPLE-01", "x", {"dims": (4,), "size": (3,)}),
    ("RESAMPLE-02", "stride", {"stride": (1, 1, 1)}),
    ("RESAMPLE-08", "compute_data_type", {"compute": "int32"}),
    ("RESAMPLE-09", "index", {"generate_index": True}),
    ("RESAMPLE-10", "window", {"window": 2}),
    ("RESAMPLE-10", "stride", {"stride": (1, 2), "resample_mode": "nearest"}),
    ("RESAMPLE-10", "pre_padding", {"pre_padding": 1}),
    ("RESAMPLE-10", "post_padding", {"post_padding": (0, 1)}),
    ("RESAMPLE-11", "y", {"size": ()}),
    ("RESAMPLE-11", "size", {"size": (7, 5, 3)}),
    ("RESAMPLE-11", "size", {"size": (7, 0)}),
    ("RESAMPLE-11", "size", {"size": (), "y_dims": (2, 3, 7)}),
    ("RESAMPLE-12", "size", {"resample_mode": "maxpool", "window": 2}),
    (
        "RESAMPLE-12",
        "coordinates",
        {"resample_mode": "maxpool", "window": 2, "size": (), "coordinates": "half_pixel"},
    ),
    ("RESAMPLE-02", "window", {"resample_mode": "maxpool", "size": ()}),
    ("NODE-02", "y", {"y_dims": (2, 3, 7, 6)}),
    ("NODE-02", "y", {"size": (), "y_dims": (2, 4, 7, 6)}),
]

BACKWARD: list[tuple[str, str, dict[str, Any]]] = [
    ("RESAMPLE-01", "dy", {"dy": (4, 6), "dx": (4, 6)}),
    ("RESAMPLE-08", "compute_data_type", {"compute": "int64"}),
    ("RESAMPLE-10", "window", {"window": 3}),
    ("RESAMPLE-11", "dx", {"dx": None}),
    ("RESAMPLE-11", "dx", {"dx": (2, 3, 4)}),
    ("RESAMPLE-11", "dx", {"dx": (2, 4, 4, 6)}),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "given"), FORWARD)
def test_mistakes(rule: str, port: str, given: dict[str, Any]) -> None:
    assert [(p.rule, p.port) for p in resize(**given).problems()] == [(rule, port)]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "given"), BACKWARD)
def test_mistakes_of_the_gradient(rule: str, port: str, given: dict[str, Any]) -> None:
    assert [(p.rule, p.port) for p in gradient(**given).problems()] == [(rule, port)]


@pytest.mark.usefixtures("collected")
def test_an_index_has_no_use_for_a_gradient() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    dy, index = g.tensor(dims=(1, 1, 4)), g.tensor(dims=(1, 1, 4), data_type="int32")
    g.resample_bwd(dy, index=index, resample_mode="nearest", dx_dims=(1, 1, 2)).set_output()
    assert [p.rule for p in g.problems()] == ["RESAMPLE-09"]


def test_a_wrong_word_is_refused_at_once() -> None:
    with pytest.raises(GraphError, match="half_pixel, align_corners, asymmetric"):
        resize(coordinates="pytorch_half_pixel")


def test_dims_of_the_result_are_a_size() -> None:
    whole = resize().digest
    assert resize(size=(), y_dims=(2, 3, 7, 5)).digest == whole
    assert resize(coordinates="half_pixel").digest == whole
    assert resize(window=1, stride=1, padding_mode="zero_pad").digest == whole
    assert resize(coordinates="align_corners").digest != whole
    assert resize(size=5).freeze().tensors[2].dims == (2, 3, 5, 5)


# ------------------------------------------------------------------------------------ numbers


def position(coordinates: str, o: int, n: int, out: int) -> Fraction:
    """The formulas, as they are documented."""
    if coordinates == "half_pixel":
        return (o + Fraction(1, 2)) * n / out - Fraction(1, 2)
    if coordinates == "align_corners":
        return Fraction(o * (n - 1), out - 1) if out > 1 else Fraction(0)
    return Fraction(o * n, out)


def shares(mode: str, coordinates: str, o: int, n: int, out: int) -> dict[int, Fraction]:
    """Which elements an element of the result is made of."""
    p = position(coordinates, o, n, out)
    if mode == "nearest":
        half = 0 if coordinates == "asymmetric" else Fraction(1, 2)
        return {math.floor(p + half): Fraction(1)}
    p = min(max(p, Fraction(0)), Fraction(n - 1))
    low = math.floor(p)
    found = {low: 1 - (p - low), low + 1: p - low}
    return {i: share for i, share in found.items() if share}


@pytest.mark.parametrize(("mode", "coordinates"), EVERY)
def test_the_reference_and_its_gradient_are_the_formulas(mode: str, coordinates: str) -> None:
    dims, size = (1, 2, 4, 3, 5), (3, 3, 8)
    rng = np.random.default_rng(7)
    options = {"resample_mode": mode, "coordinates": coordinates, "compute": "double"}
    x, dy = rng.standard_normal(dims), rng.standard_normal((1, 2, *size))
    y, dx = np.zeros(dy.shape), np.zeros(dims)
    for at in np.ndindex(*dy.shape):
        parts = [
            shares(mode, coordinates, *both) for both in zip(at[2:], dims[2:], size, strict=True)
        ]
        for taken in itertools.product(*(part.items() for part in parts)):
            place = (*at[:2], *(i for i, _ in taken))
            share = float(math.prod(s for _, s in taken))
            y[at] += share * x[place]
            dx[place] += share * dy[at]
    forward = resize(dims, size, kind="double", **options).freeze()
    np.testing.assert_allclose(execute(forward, {forward.inputs[0]: x})[2], y, atol=1e-14)
    backward = gradient(dy.shape, dims, kind="double", **options).freeze()
    np.testing.assert_allclose(execute(backward, {backward.inputs[0]: dy})[2], dx, atol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_the_gradient_is_the_slope(mode: str, slopes: Callable[..., Any]) -> None:
    dims, size = (2, 1, 3, 4), (5, 3)
    rng = np.random.default_rng(0)
    at, weights = rng.standard_normal(dims), rng.standard_normal((2, 1, *size))
    options = {"resample_mode": mode, "kind": "double", "compute": "double"}
    forward = resize(dims, size, **options).freeze()
    backward = gradient(weights.shape, dims, **options).freeze()
    found = execute(backward, {backward.inputs[0]: weights})[2]

    def result(at: Any) -> Any:
        return execute(forward, {forward.inputs[0]: at})[2]

    assert found == pytest.approx(slopes(result, at, weights, 1e-3), abs=1e-9)


@pytest.mark.parametrize(("mode", "coordinates"), EVERY)
def test_whole_numbers_tell_positions_without_rounding(mode: str, coordinates: str) -> None:
    op = ResampleFwd(
        resample_mode=ResampleMode.parse(mode), coordinates=ResizeCoordinates.parse(coordinates)
    )
    for n, out in itertools.product(range(1, 14), range(1, 30)):
        if n == out:
            continue
        (line,) = lines(op, (1, 1, n), (1, 1, out), (0, 1, 2))
        taken = [shares(mode, coordinates, o, n, out) for o in range(out)]
        users = [[o for o in range(out) if i in taken[o]] for i in range(n)]
        assert line.users == max(map(len, users))
        for o in range(out):
            places = Fraction(line.step * o + line.start, line.unit)
            if mode == "nearest":
                assert list(taken[o]) == [math.floor(places)]
            else:
                assert places == position(coordinates, o, n, out)
        if mode == "bilinear" and n > 1:
            weights = np.array([line.end_weights(tap) for tap in (0, 1)]).T
            found = [[float(share) for share in part.values()] for part in taken]
            assert [[w for w in pair if w] for pair in weights.tolist()] == found
        if mode == "nearest":
            assert line.first == next(iter(taken[0]))
            gaps = {b - a for a, b in itertools.pairwise(next(iter(t)) for t in taken)}
            skips = n % out == 0 and gaps <= {n // out}
            assert line.whole == (skips or len({len(u) for u in users}) == 1)


def test_long_dims_are_counted_in_64_bits(torch_ir: Run) -> None:
    assert "si64" in torch_ir(resize((1, 1, 40001), (39989,)))
    assert Line(2, 40001, 39989, 80002, 12, 79978, False).users == 2


def test_all_conventions_in_one_graph(check: Run) -> None:
    # One compilation: small images, up and down, in both directions.
    g = Graph(io_data_type="float", compute_data_type="float")
    for mode, coordinates in EVERY:
        for n, out in ((5, 8), (7, 3)):
            options = {"resample_mode": mode, "coordinates": coordinates}
            x, dy = g.tensor(dims=(1, 2, n)), g.tensor(dims=(1, 2, out))
            g.resample_fwd(x, size=out, **options).y.set_output()
            g.resample_bwd(dy, dx_dims=x.dims, **options).set_output()
    check(g.freeze())


def test_infinity_reaches_only_what_used_it(run: Run) -> None:
    g = gradient((1, 1, 8), (1, 1, 4))
    dy = np.zeros((1, 1, 8), np.float32)
    dy[0, 0, 0] = np.inf
    (dx,) = run(g, {g.tensors[0]: dy})
    assert dx.ravel().tolist() == [np.inf, 0, 0, 0]


def test_images_of_the_same_size_are_copied(run: Run) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    for g in (resize((1, 1, 3, 4), (3, 4)), gradient((1, 1, 3, 4), (1, 1, 3, 4))):
        np.testing.assert_array_equal(run(g, {g.tensors[0]: x})[0], x)


@pytest.mark.parametrize("fault", ["coordinates", "half"])
def test_faults_show(fault: str) -> None:
    frozen = resize((1, 2, 12, 12), (24, 24)).freeze()
    inputs = verify.random_inputs(frozen, seed=2)
    (uid,) = frozen.outputs
    if fault == "coordinates":
        other = resize((1, 2, 12, 12), (24, 24), coordinates="align_corners").freeze()
        y = execute(other, inputs)[uid]
    else:
        y = execute(frozen, inputs)[uid].astype(np.float16)
    report = verify.compare(frozen, {uid: y.astype(np.float32)}, expect(frozen, inputs))
    assert not report.ok


# ------------------------------------------------------------------------------------ code


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("backward", [False, True])
def test_one_dispatch(backward: bool, target: str, tmp_path: Path) -> None:
    dims, fine = (2, 8, 5, 6), (2, 8, 10, 12)
    g = gradient(fine, dims, kind="half") if backward else resize(dims, fine[2:], kind="half")
    if backward == (target == "cpu"):
        g.tensors[0].set_stride(channels_last_strides(g.tensors[0].dims))
    assert dump(g.freeze(), Target.parse(target), tmp_path).statistics["dispatches"] == 1


def test_nearest_by_whole_factors_gathers_nothing(torch_ir: Run) -> None:
    up, down = ((2, 3, 4, 5), (8, 15)), ((2, 3, 6, 10), (2, 5))
    for image, size in (up, down):
        assert "index.Tensor" not in torch_ir(resize(image, size, resample_mode="nearest"))
    assert "index.Tensor" in torch_ir(resize((2, 3, 4, 5), (8, 14), resample_mode="nearest"))
    back = gradient((2, 3, 8, 15), (2, 3, 4, 5), resample_mode="nearest")
    assert "index.Tensor" not in torch_ir(back)


def test_many_taps_are_summed_over_a_dim(torch_ir: Run) -> None:
    assert "aten.sum" in torch_ir(gradient((1, 1, 60, 60), (1, 1, 6, 6)))
    assert "aten.sum" not in torch_ir(gradient((1, 1, 12, 12), (1, 1, 6, 6)))


def test_it_is_served_for_every_target() -> None:
    for g in (resize((1, 1, 2, 3), (400, 300)), gradient((1, 1, 400, 300), (1, 1, 2, 3))):
        for target in ("cpu", "gfx908", "gfx950"):
            assert not engine("iree").declines(g.freeze(), Target.parse(target))


def test_work_counts_what_is_weighed() -> None:
    assert graph_work(resize().freeze()).flops == 2 * 4 * 2 * 3 * 7 * 5
    assert graph_work(resize(resample_mode="nearest").freeze()).flops == 0


# ------------------------------------------------------------------------------------ forms


def test_json() -> None:
    g = resize(coordinates="align_corners")
    data = json.loads(g.to_json())
    assert data["nodes"][0]["coordinates"] == "align_corners"
    assert Graph.from_json(g.to_json()).digest == g.digest
    del data["nodes"][0]["coordinates"]  # as hipDNN writes it
    assert Graph.from_json(json.dumps(data)).digest == resize().digest
    pooling = resize(resample_mode="maxpool", window=2, size=())
    assert "coordinates" not in json.loads(pooling.to_json())["nodes"][0]


@pytest.mark.parametrize("build", [resize, gradient])
def test_files_that_do_not_say_mean_what_the_setting_says(build: Callable[..., Graph]) -> None:
    data = encode(build().freeze())
    assert loads(data).digest == build().digest
    with scope(graph_resize_coordinates="asymmetric"):
        assert loads(data).digest == build(coordinates="asymmetric").digest
        said = build(coordinates="half_pixel")
        assert loads(said.to_json().encode()).digest == said.digest
    with pytest.raises(FormatError, match="WIRE-13"):
        encode(build(coordinates="asymmetric").freeze())


def test_other_batches_and_images() -> None:
    given, sized = resize(size=(), y_dims=(2, 3, 7, 5)).freeze(), resize().freeze()
    for frozen in (given, sized):
        assert specialise(frozen, {1: ((5, 3, 4, 6), None)}).tensors[2].dims == (5, 3, 7, 5)
    # A size that was set stays; dims of y alone do not tell what they become.
    assert specialise(sized, {1: ((2, 3, 8, 6), None)}).tensors[2].dims == (2, 3, 7, 5)
    with pytest.raises(GraphError, match="SHAPE-05"):
        specialise(given, {1: ((2, 3, 8, 6), None)})
    told = specialise(given, {1: ((2, 3, 8, 6), None), 2: ((2, 3, 14, 5), None)})
    assert told.tensors[2].dims == (2, 3, 14, 5)
    back = gradient().freeze()
    assert specialise(back, {1: ((5, 3, 7, 5), None)}).tensors[2].dims == (5, 3, 4, 6)
    with pytest.raises(GraphError, match="SHAPE-05"):
        specialise(back, {1: ((2, 3, 9, 5), None)})
