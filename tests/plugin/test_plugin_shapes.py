# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Override shapes from a host in C: red zones around every buffer, refusals, nothing compiled."""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import NotSupportedError
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.hipdnn_plugin.abi import status_of
from hipdnn_iree.hipdnn_plugin.plugin import Plugin
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.plugin_abi import DeviceBuffer, Status
from hipdnn_iree.provider.precompile import precompile
from hipdnn_iree.provider.verify import compare, expect, poisoned_outputs, random_inputs
from plugin_host import Const, new

from tools.host.driver import Host, write_job
from tools.host.shapes import Cases, Shapes, shapes_of


def matmul(rows: int, inner: int, columns: int, batch: int) -> Graph:
    g = Graph("matmul", io_data_type="float")
    a = g.tensor(dims=(batch, rows, inner), uid=1)
    b = g.tensor(dims=(batch, inner, columns), uid=2)
    g.relu(g.matmul(a, b)).set_output().set_uid(3)
    return g


def broadcast(rows: int, columns: int) -> Graph:
    g = Graph("broadcast", io_data_type="half", compute_data_type="float")
    x, bias = g.tensor(dims=(rows, columns), uid=1), g.tensor(dims=(1, columns), uid=2)
    added = g.add(x, bias).set_output().set_uid(3)
    g.mul(added, g.tensor(dims=(rows, 1), uid=4)).set_output().set_uid(5)
    return g


def convolution(batch: int) -> Graph:
    g = Graph("convolution", io_data_type="float")
    x, w = g.tensor(dims=(batch, 3, 6, 7), uid=1), g.tensor(dims=(4, 3, 3, 3), uid=2)
    g.conv_fprop(x, w, padding=1).set_output().set_uid(3)
    return g


def reduction(rows: int, columns: int) -> Graph:
    g = Graph("reduction", io_data_type="float")
    x = g.tensor(dims=(rows, columns), strides=(1, rows), uid=1)
    g.reduction(x, mode="avg", axes=[1]).set_output().set_uid(2)
    return g


def norm(rows: int) -> Graph:
    g = Graph("norm", io_data_type="float")
    x, scale = g.tensor(dims=(rows, 24), uid=1), g.tensor(dims=(1, 24), uid=2)
    y = g.layernorm(x, scale, g.tensor(dims=(1, 24), uid=3), epsilon=1e-5)[0]
    y.set_output().set_uid(4)
    return g


def pooling(batch: int, channels: int) -> Graph:
    g = Graph("pooling", io_data_type="float")
    x = g.tensor(dims=(batch, channels, 6, 7), uid=1)
    y = g.resample_fwd(x, resample_mode="maxpool", window=(3, 2), stride=(2, 1))
    g.output(y[0]).set_uid(2)
    return g


# With the sizes that the plan is made for.
MAKERS: dict[Callable[..., Graph], dict[str, int]] = {
    matmul: {"rows": 12, "inner": 9, "columns": 7, "batch": 3},
    broadcast: {"rows": 11, "columns": 6},
    convolution: {"batch": 5},
    reduction: {"rows": 9, "columns": 10},
    norm: {"rows": 8},
    pooling: {"batch": 4, "channels": 5},
}


def frozen(make: Callable[..., Graph], sizes: Mapping[str, int]) -> FrozenGraph:
    g = make(**sizes)
    g.is_override_shape_enabled = True
    return g.freeze()


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_random_shapes_between_red_zones(
    make: Callable[..., Graph], host: Host, tmp_path: Path
) -> None:
    """Nothing beyond a buffer is written, and no NaN from there is read; plans loaded too.

    Each set of shapes is given whole, then without one of those that change.
    """
    own, rng = MAKERS[make], random.Random(7)
    base = frozen(make, own)
    cases = Cases(tmp_path / "cases", base)
    for number in range(8):
        sizes = {name: rng.randint(1, most) for name, most in own.items()}
        if not number:
            sizes = dict.fromkeys(own, 1)
        other = frozen(make, sizes)
        shapes = shapes_of(other)
        cases.add(other, shapes)
        changed = [uid for uid, shape in shapes.items() if shape != shapes_of(base)[uid]]
        for uid in changed:
            left = {u: shape for u, shape in shapes.items() if u != uid}
            broken = left != {u: s for u, s in shapes_of(base).items() if u != uid}
            if broken and uid in base.outputs:
                cases.add(base, left, status=2)
    facts = cases.run(host)
    refusals = facts["error"].splitlines()
    assert refusals
    assert all("SHAPE-06" in line for line in refusals), refusals


def test_new_shapes_compile_nothing(host: Host, tmp_path: Path) -> None:
    """All code is in the cache when the plan is made; 20 sizes in a row add none."""
    base = frozen(matmul, MAKERS[matmul])
    cases = Cases(tmp_path / "cases", base)
    for rows in range(1, 21):
        other = frozen(matmul, {**MAKERS[matmul], "rows": rows})
        cases.add(other, shapes_of(other))
    environment = {"HIPDNN_IREE_CACHE_DIR": str(tmp_path / "cache")}
    facts = cases.run(host, env=environment)
    assert len(facts["call_ms"].split()) == 40
    codes = {path.stat().st_mtime_ns for path in tmp_path.glob("cache/v2/??/*")}
    assert len(codes) == 2, "of the graph's own shapes, and of all sizes"


@pytest.mark.parametrize("strategies", [(), ("conv_fprop=row_im2col",)])
def test_precompiled_graphs_serve_other_shapes(
    strategies: tuple[str, ...], host: Host, tmp_path: Path
) -> None:
    """`precompile` makes the code for all sizes as well, where a chosen strategy has none too."""
    base = frozen(convolution, MAKERS[convolution])
    cases = Cases(tmp_path / "cases", base)
    for batch in (1, 3, 5):
        other = frozen(convolution, {"batch": batch})
        cases.add(other, shapes_of(other))
    with scope(cache_dir=tmp_path / "cache", compiler_strategies=strategies):
        (made,) = precompile([base])
    assert made.error is None
    environment = {
        "HIPDNN_IREE_CACHE_DIR": str(tmp_path / "cache"),
        "HIPDNN_IREE_REQUIRE_PRECOMPILED": "on",
        "HIPDNN_IREE_STRATEGIES": ",".join(strategies),
    }
    cases.run(host, env=environment)
    assert len(list(tmp_path.glob("cache/v2/??/*"))) == 2


def test_a_graph_that_no_other_shape_fits_is_declined_when_the_plan_is_made(tmp_path: Path) -> None:
    plugin, base = Plugin(), frozen(pooling, {"batch": 1, "channels": 1})
    plan = write_job(tmp_path / "plan", encode(base))
    graph, config = (Const(path.read_bytes()) for path in plan.arguments[:2])
    handle, out = new(plugin.create), ctypes.c_void_p(1)
    with pytest.raises(NotSupportedError, match="OVERRIDE-01") as caught:
        plugin.create_execution_context(
            handle, config.address, graph.address, ctypes.addressof(out)
        )
    assert status_of(caught.value) is Status.NOT_APPLICABLE
    assert out.value is None


def test_threads_share_a_plan_at_many_shapes(tmp_path: Path) -> None:
    """Each of four threads executes its own shapes with one context, the first time as well."""
    plugin, base = Plugin(), frozen(matmul, MAKERS[matmul])
    plan = write_job(tmp_path / "plan", encode(base))
    graph, config = (Const(path.read_bytes()) for path in plan.arguments[:2])
    handle = new(plugin.create)
    context = new(plugin.create_execution_context, handle, config.address, graph.address)
    ready, wrong = threading.Barrier(4), []

    def work(rows: int) -> None:
        other = frozen(matmul, {**MAKERS[matmul], "rows": rows})
        inputs, outputs = random_inputs(other, rows), poisoned_outputs(other)
        shapes, buffers = shapes_of(other), {**inputs, **outputs}
        ready.wait()
        for turn in range(50):
            outputs[3][...] = -1
            execute_overridden(plugin, handle, context, buffers, shapes)
            if not turn % 10 and not compare(other, outputs, expect(other, inputs)).ok:
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(1 + 3 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def execute_overridden(
    plugin: Plugin, handle: int, context: int, buffers: Mapping[int, Any], shapes: Shapes
) -> None:
    """Call the plugin as C does."""
    pairs = (DeviceBuffer * len(buffers))()
    for pair, (uid, array) in zip(pairs, buffers.items(), strict=True):
        pair.uid, pair.ptr = uid, array.ctypes.data
    count = len(shapes)
    rows = [
        [(ctypes.c_int64 * len(r))(*r) for r in rows] for rows in zip(*shapes.values(), strict=True)
    ]
    arrays = [
        (ctypes.c_int64 * count)(*shapes),
        (ctypes.c_uint32 * count)(*map(len, rows[0])),
        *((ctypes.c_void_p * count)(*map(ctypes.addressof, some)) for some in rows),
    ]
    plugin.execute_op_graph_with_overrides(
        handle,
        context,
        None,
        ctypes.addressof(pairs),
        len(pairs),
        count,
        *map(ctypes.addressof, arrays),
    )


def test_what_is_not_named_may_not_grow(host: Host, tmp_path: Path) -> None:
    """`a` of 9 rows used to write 100 bytes behind `y`, which has 4."""
    own = {"rows": 4, "inner": 3, "columns": 5, "batch": 1}
    base, larger = frozen(matmul, own), frozen(matmul, {**own, "rows": 9})
    cases = Cases(tmp_path / "cases", base)
    shapes = shapes_of(larger)
    cases.add(base, {1: shapes[1]}, status=2)
    cases.add(base, {1: shapes[1], 2: shapes[2]}, status=2)
    cases.add(base, {1: shapes[1], 3: shapes_of(base)[3]}, status=2)  # named, as it was
    cases.add(larger, shapes)
    facts = cases.run(host)
    left, also, named = facts["error"].splitlines()[:3]
    for word in ("SHAPE-06", "uid 3", "[1, 9, 5]", "uid 1", "[1, 9, 3]", "[1, 4, 5]"):
        assert word in left
        assert word in also
    assert "NODE-02" in named
