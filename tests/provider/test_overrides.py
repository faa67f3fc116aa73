# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans at shapes that a call gives: from code that is there, within the memory that was named."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dynamic import at_sizes
from hipdnn_iree.graph_api.errors import BindError, GraphError, NotSupportedError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.open_dims import MOST_WORK, open_dims, with_open_dims
from hipdnn_iree.jit import pipeline
from hipdnn_iree.jit.runtime.caller_memory import Pointer
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider import verify
from hipdnn_iree.provider.engines.host_memory import arguments_of
from hipdnn_iree.provider.engines.iree.iree_engine import IreeEngine
from hipdnn_iree.provider.engines.iree.iree_plan import IreePlan
from hipdnn_iree.provider.overrides import OverridePlans
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.sweep.fuzz.random_graphs import random_graph
from hipdnn_iree.provider.sweep.gaps import RedZones, gapped_strides


def frozen(g: Graph) -> FrozenGraph:
    g.is_override_shape_enabled = True
    return g.freeze()


def served(g: Graph, target: str = "cpu") -> OverridePlans:
    g.is_override_shape_enabled = True
    plan = g.build(target, engine="iree")
    assert isinstance(plan, IreePlan)
    return OverridePlans.of(plan)


def check(plan: Plan, seed: int = 3) -> None:
    """Execute on addresses of memory with noise around and between the elements.

    Results are compared with the reference, and the noise with what it was.
    """
    graph = plan.graph
    inputs = verify.random_inputs(graph, seed)
    expected = verify.expect(graph, inputs)
    zones = {uid: RedZones(arg, seed) for uid, arg in arguments_of(graph).items()}
    for uid, given in inputs.items():
        zones[uid].array[...] = given
    plan.execute({uid: zone.array.ctypes.data for uid, zone in zones.items()})
    assert not {uid: found for uid, zone in zones.items() if (found := [*zone.touched()])}
    report = verify.compare(graph, {uid: zones[uid].array for uid in graph.outputs}, expected)
    assert report.ok, report


def product(rows: int = 12, inner: int = 8, columns: int = 5) -> Graph:
    g = Graph("product", io_data_type="float")
    a = g.tensor(dims=(rows, inner), uid=1, name="a")
    b = g.tensor(dims=(inner, columns), uid=2, name="b")
    g.relu(g.matmul(a, b)).set_output().set_uid(3).set_name("y")
    return g


def joined(rows: int = 7) -> Graph:
    g = Graph("joined", io_data_type="float")
    parts = [g.tensor(dims=(rows, width), uid=uid) for uid, width in ((1, 5), (2, 2), (3, 9))]
    g.concatenate(parts, axis=1).set_output().set_uid(4)
    return g


def image(batch: int = 5, height: int = 6) -> Graph:
    g = Graph("image", io_data_type="float")
    x, w = g.tensor(dims=(batch, 3, height, 7), uid=1), g.tensor(dims=(4, 3, 3, 3), uid=2)
    g.conv_fprop(x, w, padding=1).set_output().set_uid(3)
    return g


def pooled(batch: int = 4, channels: int = 5) -> Graph:
    g = Graph("pooled", io_data_type="float")
    x = g.tensor(dims=(batch, channels, 6, 7), uid=1)
    g.output(g.resample_fwd(x, resample_mode="maxpool", window=(3, 2))[0]).set_uid(2)
    return g


def attention(batch: int = 3, queries: int = 7, keys: int = 9) -> Graph:
    g = Graph("attention", io_data_type="float")
    q = g.tensor(dims=(batch, 2, queries, 8), uid=1)
    k, v = (g.tensor(dims=(batch, 2, keys, 8), uid=uid) for uid in (2, 3))
    g.output(g.sdpa(q, k, v)[0]).set_uid(4)
    return g


def shapes_of(graph: FrozenGraph) -> dict[int, Any]:
    bound = (*graph.inputs, *graph.outputs)
    return {uid: (graph.tensors[uid].dims, graph.tensors[uid].strides) for uid in bound}


@pytest.fixture
def nothing_compiles(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what is called when every code has to be there."""

    def forbid() -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise AssertionError("something is compiled")

        monkeypatch.setattr(pipeline, "_run", fail)

    return forbid


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (product, [(n, 1 + n % 8, 1 + n % 5) for n in range(1, 13)]),
        (joined, [(n,) for n in range(1, 8)]),
        (image, [(n,) for n in range(1, 6)]),
        (pooled, [(1 + n % 4, 1 + n % 5) for n in range(6)]),
        (attention, [(1 + n % 3, 1 + n % 7, 1 + n) for n in range(9)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_many_shapes_of_one_plan_compile_nothing(
    make: Callable[..., Graph],
    sizes: list[tuple[int, ...]],
    nothing_compiles: Callable[[], None],
) -> None:
    plans = served(make())
    nothing_compiles()
    for some in sizes:
        other = frozen(make(*some))
        plan = plans.at(shapes_of(other))
        assert shapes_of(plan.graph) == shapes_of(other)
        check(plan)


def test_larger_shapes_than_the_graphs_are_served_where_the_code_has_all_sizes(
    nothing_compiles: Callable[[], None],
) -> None:
    plans = served(product())
    nothing_compiles()
    check(plans.at(shapes_of(frozen(product(40, 17, 31)))))
    assert plans.at(shapes_of(plans.plan.graph)) is plans.plan


def test_other_layouts_are_copied_on_the_cpu(nothing_compiles: Callable[[], None]) -> None:
    """Transposed, or the rows of a larger tensor, whose other elements stay as they are."""
    plans = served(product())
    nothing_compiles()
    rows = {1: ((5, 8), (1, 5)), 2: ((8, 3), (5, 1)), 3: ((5, 3), (1, 5))}
    for shapes in (rows, {1: ((12, 8), (16, 1))}, {3: ((12, 5), (1, 12))}):
        plan = plans.at(shapes)
        assert {uid: shapes_of(plan.graph)[uid] for uid in shapes} == shapes
        check(plan)


def test_what_the_code_repeats_may_not_differ(nothing_compiles: Callable[[], None]) -> None:
    """Code for a broadcast operand reads one row of it; a caller with all rows was served so."""
    g = Graph("repeated", io_data_type="float")
    a, b = g.tensor(dims=(6, 8), uid=1), g.tensor(dims=(8, 5), strides=(0, 1), uid=2)
    g.matmul(a, b).set_output().set_uid(3)
    plans, dense = served(g), served(product())
    nothing_compiles()
    check(plans.at({1: ((6, 8), (1, 6)), 2: ((8, 5), (0, 1))}))
    check(dense.at({2: ((8, 5), (0, 1))}))
    for strides in ((5, 1), (1, 8), (9, 1)):
        with pytest.raises(NotSupportedError, match="OVERRIDE-02"):
            plans.at({2: ((8, 5), strides)})


def test_part_of_the_buffers_of_a_larger_call(nothing_compiles: Callable[[], None]) -> None:
    """Smaller dims with the strides of the graph's own: nothing else of the buffers is written."""
    for make, sizes in ((product, (5, 8, 3)), (pooled, (2, 3))):
        plans = served(make())
        own = shapes_of(plans.plan.graph)
        shapes = {u: (dims, own[u][1]) for u, (dims, _) in shapes_of(frozen(make(*sizes))).items()}
        plan = plans.at(shapes)
        assert shapes_of(plan.graph) == shapes
        check(plan)
    nothing_compiles()
    check(plans.at(shapes))


@pytest.mark.parametrize("seed", [3, 5, 12, 25, 33, 36])
def test_random_graphs_at_random_sizes_and_layouts(seed: int) -> None:
    """`scripts/soak` does not know of override shapes; these are the graphs that it makes."""
    rng = Random(seed)
    g = random_graph(seed, nodes=rng.choice((1, 1, 2, 3)))
    plan = IreeEngine(settings()).build(frozen(g), Target.parse("cpu"))
    assert isinstance(plan, IreePlan)
    plans = OverridePlans.of(plan)
    assert plans._served
    for each in plans._served:
        for turn in range(3):
            sizes = {d.name: rng.randint(1, d.example) if turn else 1 for d in each.graph.symbols}
            shapes = shapes_of(at_sizes(each.graph, sizes))
            if turn == 2:
                uid = rng.choice(sorted(shapes))
                strides = gapped_strides(
                    shapes[uid][0], plan.graph.tensors[uid].data_type.bits, rng
                )
                shapes[uid] = shapes[uid][0], strides or shapes[uid][1]
            check(plans.at(shapes), seed)


@pytest.mark.parametrize(
    ("shapes", "rule", "words"),
    [
        ({1: (9, 8)}, "SHAPE-06", ["'y'", "[9, 5]", "'a' (uid 1) dims [9, 8]", "[12, 5]"]),
        ({2: (8, 4)}, "SHAPE-06", ["'y'", "[12, 4]", "'b' (uid 2) dims [8, 4]", "[12, 5]"]),
        ({1: (40, 8)}, "SHAPE-06", ["'y'", "[40, 5]"]),
        ({1: (12, 7)}, "MATMUL-02", []),
        ({1: (9, 8), 3: (12, 5)}, "NODE-02", []),
        ({3: (9, 5)}, "NODE-02", []),
        ({1: (9, 8, 1), 3: (9, 5)}, "SHAPE-02", []),
        ({1: (2**31, 2**33), 2: (2**33, 5), 3: (2**31, 5)}, "TENSOR-05", []),
    ],
)
def test_shapes_that_do_not_agree(shapes: Mapping[int, Any], rule: str, words: list[str]) -> None:
    with pytest.raises(GraphError, match=rule) as caught:
        served(product()).at(shapes)
    assert all(word in str(caught.value) for word in words), caught.value


def test_what_has_no_code_is_refused_at_once(nothing_compiles: Callable[[], None]) -> None:
    plans = served(image())
    other = shapes_of(frozen(image(5, 4)))
    nothing_compiles()
    with pytest.raises(NotSupportedError, match="OVERRIDE-02") as caught:
        plans.at(other)
    for word in ("uid 1", "dims [5, 3, 4, 7]", "dims [d0, 3, 6, 7]"):
        assert word in str(caught.value), caught.value


def test_code_in_the_cache_is_used(nothing_compiles: Callable[[], None]) -> None:
    """Somebody has compiled the graph at these shapes, as the refusal advises."""
    plans = served(image())
    other = shapes_of(frozen(image(5, 3)))
    plans.plan.with_shapes(other)
    nothing_compiles()
    check(plans.at(other))


def test_a_graph_whose_dims_are_all_closed_is_declined() -> None:
    g = Graph("closed", io_data_type="float")
    x = g.tensor(dims=(1, 2, 8), uid=1)
    g.reshape(x, dim=(4, 4)).set_output().set_uid(2)
    with pytest.raises(NotSupportedError, match="OVERRIDE-01"):
        served(g).must_serve()


def test_gpus_have_code_for_some_dims() -> None:
    """A product of any number of rows on gfx942; its other dims are refused."""
    g = Graph("rows", io_data_type="half", compute_data_type="float")
    a, b = g.tensor(dims=(64, 32), uid=1), g.tensor(dims=(32, 48), uid=2)
    g.matmul(a, b).set_output().set_uid(3)
    plans = served(g, "gfx942")
    assert plans.sized is not None
    plan = plans.at({1: (17, 32), 3: (17, 48)})
    assert plan.graph.tensors[3].dims == (17, 48)
    assert plans.on_device(1, 5).at({1: (17, 32), 3: (17, 48)}).graph == plan.graph
    closed = {2: (32, 16), 3: (64, 16)}
    with pytest.raises(NotSupportedError, match="OVERRIDE-02"):
        plans.at(closed)
    plans.plan.with_shapes(closed)
    placed = plans.on_device(1, 5).at(closed)
    assert isinstance(placed, IreePlan)
    assert (placed.cache, placed.device_id, placed.stream) == ("hit", 1, 5)


def test_addresses_are_taken_for_what_the_caller_named() -> None:
    """The rule of the C interface holds for bare addresses in Python, too; arrays are checked."""
    g = product()
    a, b, y = np.ones((20, 8), np.float32), np.ones((8, 5), np.float32), np.zeros((20, 5), "f4")
    for plan in (g.build("cpu"), g.build("cpu", engine="reference")):
        left = plan.with_shapes({"a": (20, 8)})
        with pytest.raises(BindError, match=r"SHAPE-06.*\[20, 5\].*\[12, 5\]"):
            left.execute({"a": a, "b": b, "y": y.ctypes.data})
        with pytest.raises(BindError, match="SHAPE-06"):
            left.bind({"a": a, "b": b, "y": Pointer(y.ctypes.data)})
        assert not y.any()
        for given in (y, Pointer(y.ctypes.data, y.nbytes)):
            left.execute({"a": a, "b": b, "y": given})
            assert (y == 8).all()
            y[...] = 0
        whole = plan.with_shapes({"a": (20, 8), "y": (20, 5)})
        whole.execute({"a": a, "b": b, "y": y.ctypes.data})
        assert (y == 8).all()
        y[...] = 0


def test_addresses_for_sizes_of_dynamic_dims() -> None:
    g = Graph(io_data_type="float")
    n = g.dynamic("n", range=(1, 64))
    x, z = g.tensor(dims=(n, 4), name="x"), g.tensor(dims=(n, 4), name="z")
    g.add(x, z).set_output().set_name("y")
    plan = g.build("cpu")
    one, y = np.ones((20, 4), np.float32), np.zeros((20, 4), np.float32)
    buffers = {"x": one, "z": one, "y": y.ctypes.data}
    left = plan.with_shapes({"x": (20, 4)})
    assert left is plan.with_shapes({"x": (20, 4)})
    with pytest.raises(BindError, match="SHAPE-06"):
        left.execute(buffers)
    plan.with_sizes({"n": 20}).execute(buffers)
    assert (y == 2).all()


@pytest.mark.parametrize(
    ("make", "groups"),
    [
        (product, [((1, 0),), ((1, 1), (2, 0)), ((2, 1),)]),
        (lambda: product(8, 8, 8), [((1, 0),), ((2, 1),), ((1, 1), (2, 0))]),
        (joined, [((1, 1),), ((2, 1),), ((1, 0), (2, 0), (3, 0)), ((3, 1),)]),
        (attention, [((1, 0), (2, 0), (3, 0)), ((1, 1), (2, 1), (3, 1)), ((1, 2),)]),
    ],
)
def test_dims_that_vary_together(
    make: Callable[[], Graph], groups: list[tuple[tuple[int, int], ...]]
) -> None:
    found = {tuple(sorted(group)) for group in open_dims(frozen(make()))}
    assert found >= set(groups)


def test_the_search_for_open_dims_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from hipdnn_iree.graph_api import open_dims as searched

    g = Graph(io_data_type="float")
    x = g.tensor(dims=(4, 4, 4, 4, 4))
    for _ in range(MOST_WORK // 20):
        x = g.relu(x)
    x.set_output()
    real, count = searched.specialise, 0

    def counted(*arguments: Any) -> FrozenGraph:
        nonlocal count
        count += 1
        return real(*arguments)

    monkeypatch.setattr(searched, "specialise", counted)
    open_dims(frozen(g))
    assert 0 < count * math.ceil(MOST_WORK / 20) <= MOST_WORK


def test_an_engine_that_serves_no_dynamic_dim_gives_none() -> None:
    graph = frozen(product())
    assert with_open_dims(graph, open_dims(graph), lambda _: False) is None
    only = with_open_dims(graph, open_dims(graph), lambda g: len(g.symbols) < 2)
    assert only is not None
    assert len(only.symbols) == 1
