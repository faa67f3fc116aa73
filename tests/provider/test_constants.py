# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs that code takes once: packed when it is loaded, right for each set, no argument later."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from fresh_python import printed
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.constants import hold
from hipdnn_iree.graph_api.errors import BindError, CompileError, NotSupportedError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.runtime.arrays import aligned_bytes
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.artifacts.save import packed
from hipdnn_iree.provider.offload import offload
from hipdnn_iree.provider.offload.finished import Program
from hipdnn_iree.provider.offload.pipeline import Options
from hipdnn_iree.provider.reference import expect
from hipdnn_iree.provider.reference.inputs import random_inputs
from hipdnn_iree.provider.selection.select import build
from hipdnn_iree.provider.verify import compare
from many_threads import in_threads
from torch_text import Module

CPU = Target.parse("cpu")


def product(m: int, n: int, k: int, kind: str = "float") -> tuple[Graph, list[Any]]:
    g = Graph("product", io_data_type=kind, compute_data_type="float")
    x, w, b = g.tensor(dims=(m, k)), g.tensor(dims=(k, n)), g.tensor(dims=(1, n))
    y = g.pointwise(g.matmul(x, w), b, mode="add")
    g.pointwise(y, mode="gelu_approx_tanh_fwd").set_output()
    return g, [w, b]


def transposed(m: int, n: int, k: int) -> tuple[Graph, list[Any]]:
    g = Graph("transposed", io_data_type="float")
    x, w = g.tensor(dims=(m, k)), g.tensor(dims=(k, n), strides=(1, k))
    g.matmul(x, w).set_output()
    return g, [w]


def convolution(
    channels: int, out: int, size: int, *, groups: int = 1, kind: str = "float"
) -> tuple[Graph, list[Any]]:
    g = Graph("convolution", io_data_type=kind, compute_data_type="float")
    x = g.tensor(dims=(2, channels, 9, 7))
    w = g.tensor(dims=(out, channels // groups, size, size))
    b = g.tensor(dims=(1, out, 1, 1))
    pad = [size // 2] * 2
    y = g.conv_fprop(x, w, stride=[1, 1], dilation=[1, 1], pre_padding=pad, post_padding=pad)
    y = g.pointwise(y, b, mode="add")
    g.pointwise(y, mode="relu_fwd").set_output()
    return g, [w, b]


def built(graph: FrozenGraph) -> Any:
    return build(graph, CPU, settings(), engine="iree")


@pytest.mark.parametrize(
    ("graph", "held"),
    [
        product(1, 129, 67),
        product(17, 64, 48, "bfloat16"),
        transposed(33, 130, 31),
        convolution(5, 19, 3),
        convolution(8, 16, 1, kind="half"),
        convolution(96, 96, 5, groups=96),
    ],
    ids=["row", "bfloat16", "transposed", "conv", "half", "depthwise"],
)
def test_results_are_right_for_each_set(graph: Graph, held: list[Any]) -> None:
    frozen = hold(graph.freeze(), [t.uid for t in held])
    assert set(frozen.constants) == {t.uid for t in held}
    plan = built(frozen)
    assert len(plan.compiled.signature.args) == len(frozen.outputs) + len(frozen.arguments)
    for seed in (0, 1):
        values = random_inputs(frozen, seed)
        constants = {uid: values.pop(uid) for uid in frozen.constants}
        fixed = plan.with_constants(constants)
        for _ in range(2):
            report = compare(frozen, fixed.run(values), expect(frozen, {**values, **constants}))
            assert report.ok, str(report)


def test_plain_calls_read_constants_at_each_call() -> None:
    graph, held = product(4, 8, 16)
    plan = built(hold(graph.freeze(), [t.uid for t in held]))
    for seed in (0, 1):
        values = random_inputs(plan.graph, seed)
        outputs = {uid: np.empty((4, 8), np.float32) for uid in plan.graph.outputs}
        wanted = expect(plan.graph, values)
        plan.execute({**values, **outputs})
        assert compare(plan.graph, outputs, wanted).ok
        assert compare(plan.graph, plan.run(values), wanted).ok
        again = {uid: np.empty_like(array) for uid, array in outputs.items()}
        plan.bind({**values, **again})()
        assert all(np.array_equal(outputs[uid], again[uid]) for uid in outputs)
        plan.execute_many([{**values, **again}])
        plan.execute_async({**values, **again}).wait()
        assert all(np.array_equal(outputs[uid], again[uid]) for uid in outputs)


def test_memory_of_constants() -> None:
    """Misaligned memory is taken, what does not fit is refused, and arrays live with the plan."""
    graph, (w, b) = product(4, 8, 16)
    plan = built(hold(graph.freeze(), [w.uid, b.uid]))
    values = random_inputs(plan.graph, 3)
    (x,) = plan.graph.arguments
    apart = aligned_bytes(w_bytes := values[w.uid].nbytes + 4)[4:w_bytes].view(np.float32)
    apart = apart.reshape(values[w.uid].shape)
    apart[...] = values[w.uid]
    fixed = plan.with_constants({w.uid: apart, b.uid: values[b.uid]})
    assert compare(plan.graph, fixed.run({x: values[x]}), expect(plan.graph, values)).ok
    wrong = plan.with_constants({w.uid: apart.T, b.uid: values[b.uid]})
    with pytest.raises(BindError):
        wrong.run({x: values[x]})
    with pytest.raises(BindError):
        fixed.run(values)  # constants are no arguments any more
    weight = values[w.uid].copy()
    gone = weakref.ref(weight)
    fixed = plan.with_constants({w.uid: weight, b.uid: values[b.uid]})
    del weight
    fixed.run({x: values[x]})
    gc.collect()
    assert gone() is not None
    del fixed
    gc.collect()
    assert gone() is None


def test_what_is_held() -> None:
    graph, (w, b) = product(4, 8, 16)
    plain = graph.freeze()
    held = hold(plain, [w.uid, 99])
    assert (held.constants, plain.constants) == ((w.uid,), ())
    assert len({held.digest, plain.digest, hold(plain, [w.uid, b.uid]).digest}) == 3
    assert hold(plain, plain.inputs) is plain  # else nothing would be an argument
    counts = Graph("counts", io_data_type="int32", compute_data_type="int32")
    one, two = counts.tensor(dims=(4,)), counts.tensor(dims=(4,))
    counts.pointwise(one, two, mode="add").set_output()
    frozen = counts.freeze()
    assert hold(frozen, [two.uid]) is frozen
    with pytest.raises(NotSupportedError, match="has constants"):
        packed([built(held)])


WEIGHTED = """
import sys
import numpy as np
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.constants import hold
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.selection.select import build

g = Graph("again", io_data_type="float")
x, w = g.tensor(dims=(3, 5)), g.tensor(dims=(5, 7))
g.matmul(x, w).set_output()
plan = build(hold(g.freeze(), [w.uid]), Target.parse("cpu"), settings(), engine="iree")
a, b = np.ones((3, 5), np.float32), np.full((5, 7), 2, np.float32)
(y,) = plan.with_constants({w.uid: b}).run({x.uid: a}).values()
print(plan.cache, float(y.min()), float(y.max()), "torch_mlir" in sys.modules)
"""


def test_a_second_process_compiles_nothing(tmp_path: Any) -> None:
    found = [printed(WEIGHTED, home=tmp_path).strip() for _ in range(2)]
    assert found == ["miss 10.0 10.0 True", "hit 10.0 10.0 False"]


def layers() -> tuple[str, list[np.ndarray[Any, Any]]]:
    """Two linear layers, the weight of the first in both."""
    m, rng = Module(), np.random.default_rng(7)
    w, x, b = m.argument(24, 24), m.argument(5, 24), m.argument(24)
    y = m.op("aten.relu", [m.op("aten.linear", [x, w, b], 5, 24)], 5, 24)
    z = m.op("aten.mm", [y, w], 5, 24)
    values = [rng.standard_normal(one.dims).astype(np.float32) for one in (w, x, b)]
    return m.text(z), values


def test_modules_hold_their_weights_in_threads() -> None:
    text, (w, x, b) = layers()
    module = offload(text, weights=[0, 2])
    assert sum(len(one.region.graph.constants) for one in module.graphs.values()) == 3
    program = module.program()
    assert (program.inputs, program.weights) == (("arg1",), ("arg0", "arg2"))
    again = Program.from_json(program.as_json())
    assert {n: g.digest for n, g in again.graphs.items()} == {
        n: g.digest for n, g in program.graphs.items()
    }
    sets = [(w, b), (w * 2, b + 1)]
    executors = [
        module.executor(weights=[one.ctypes.data for one in pair], kept=pair) for pair in sets
    ]
    (plain,) = offload(text).executor().run(w, x, b)

    def work(index: int) -> None:
        (w, b), executor = sets[index % 2], executors[index % 2]
        for _ in range(20):
            (got,) = executor.run(x)
            wanted = np.maximum(x.astype(np.float64) @ w.T + b, 0) @ w
            assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()
            assert index % 2 or np.allclose(got, plain, rtol=1e-5, atol=1e-4)

    in_threads(8, work)


def test_without_holding_weights_are_arguments() -> None:
    text, (w, x, b) = layers()
    module = offload(text, weights=[0, 2], holds_weights=False)
    assert not any(one.region.graph.constants for one in module.graphs.values())
    executor = module.executor(weights=[w.ctypes.data, b.ctypes.data], kept=(w, b))
    (got,) = executor.run(x)
    wanted = np.maximum(x.astype(np.float64) @ w.T + b, 0) @ w
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_what_does_not_compile_with_constants_takes_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = Options.build

    def refused(self: Options, graph: FrozenGraph, *more: Any, **named: Any) -> Any:
        if graph.constants:
            raise CompileError("not today", stage="compile")
        return plain(self, graph, *more, **named)

    monkeypatch.setattr(Options, "build", refused)
    text, (w, x, b) = layers()
    module = offload(text, weights=[0, 2])
    assert not any(one.region.graph.constants for one in module.graphs.values())
    (got,) = module.executor(weights=[w.ctypes.data, b.ctypes.data], kept=(w, b)).run(x)
    wanted = np.maximum(x.astype(np.float64) @ w.T + b, 0) @ w
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()
