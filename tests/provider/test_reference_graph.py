# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole graphs: intermediates, results, sample problems, and what is imported when."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.graph_api.tensor import TensorSpec
from hipdnn_iree.provider.reference import (
    context,
    execute,
    expect,
    numpy_dtype,
    reference,
    to_dtype,
)
from hipdnn_iree.provider.reference.convert import scalar, widen
from hipdnn_iree.provider.sweep.fuzz.random_graphs import random_graph
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.suite import Case
from hipdnn_iree.provider.verify import compare, random_inputs

D = DataType
SAMPLES = sample_problems()
ROOT = Path(__file__).parents[2]


def test_every_op_has_a_reference_with_samples() -> None:
    for name in OPS:
        assert reference(name) is not None
        assert sample_problems(name)
        assert all(s.name.startswith(f"{name}.") for s in sample_problems(name))
    assert reference("no_such_op") is None


def test_sample_names_are_unique_and_plain() -> None:
    counts = Counter(s.name for s in SAMPLES)
    assert [n for n, count in counts.items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z_]+\.[a-z0-9_]+", n) for n in counts)


def test_the_samples_cover_what_they_are_for() -> None:
    coverage = {
        "conv_fprop": "size1 prime tile nhwc permuted padded broadcast alias chain groups "
        "depthwise 1d 3d flipped asymmetric stride dilation mixed compute saturate",
        "matmul": "size1 prime tile transposed permuted padded broadcast repeat alias chain scalar "
        "mixed compute saturate long",
        "pointwise": "mode attributes size1 prime tile nhwc permuted padded broadcast alias chain "
        "scalar mixed compute shared_output passthrough",
        "reduction": "mode size1 prime tile nhwc permuted padded broadcast chain mixed compute "
        "long full saturate",
    }
    for op, wanted in coverage.items():
        found = set().union(*(s.tags for s in SAMPLES if s.name.startswith(op)))
        assert set(wanted.split()) <= found, op


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_sample(sample: Case) -> None:
    for data_type in sample.dtypes:
        frozen = sample.graph(data_type).freeze()
        inputs = random_inputs(frozen, seed=3)
        expected = expect(frozen, inputs)
        values = execute(frozen, inputs)
        rounded = {u: to_dtype(v, frozen.spec(u).data_type) for u, v in values.items()}
        for uid in frozen.outputs:
            # The logarithm of an empty sum is -inf: an attention row that sees nothing.
            empty = np.isneginf(values[uid]) if "empty" in sample.tags else False
            assert (np.isfinite(values[uid]) | empty).all()
            assert np.array_equal(values[uid], expected.values[uid])
            assert values[uid].shape == frozen.spec(uid).dims
            assert (expected.low[uid] <= expected.high[uid]).all()
        report = compare(frozen, rounded, expected)
        assert report.ok, str(report)
        assert not any(o.unbounded for o in report.outputs)
        if data_type is sample.dtypes[0] and "alias" not in sample.tags:
            # The sample tells results apart: zeros pass only where they are the result.
            zeros = {u: np.zeros(s.dims, numpy_dtype(s.data_type)) for u, s in _outputs(frozen)}
            assert compare(frozen, zeros, expected).ok == ("zeros" in sample.tags)


def _outputs(frozen: FrozenGraph) -> list[tuple[int, TensorSpec]]:
    return [(u, frozen.spec(u)) for u in frozen.outputs]


def step_by_step(frozen: FrozenGraph, arrays: dict[int, Any]) -> dict[int, Any]:
    """Run a graph as an engine would: every operand, result and intermediate value is rounded."""
    memory = {u: widen(a, frozen.spec(u).data_type) for u, a in arrays.items()}
    memory |= {
        u: scalar(s.value, s.data_type) for u, s in frozen.tensors.items() if s.value is not None
    }
    for node in frozen.nodes:
        ref, ctx = reference(node.op.NAME), context(frozen, node)
        assert ref is not None
        exact = ref.exact_ports(node.op, ctx)
        inputs = {
            port: memory[uid] if port in exact else through(memory[uid], ctx.compute)
            for port, uid in node.inputs.items()
        }
        for port, result in ref.evaluate(node.op, inputs, ctx).items():
            uid = node.outputs[port]
            computed = result if exact else through(result, ctx.compute)
            memory[uid] = through(computed, frozen.spec(uid).data_type)
    return {u: to_dtype(memory[u], frozen.spec(u).data_type) for u in frozen.outputs}


def through(array: Any, data_type: DataType) -> Any:
    return widen(to_dtype(array, data_type), data_type)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_an_engine_that_rounds_at_every_step_is_right(sample: Case) -> None:
    for data_type in sample.dtypes:
        frozen = sample.graph(data_type).freeze()
        inputs = random_inputs(frozen, seed=4)
        with np.errstate(all="ignore"):
            report = compare(frozen, step_by_step(frozen, inputs), expect(frozen, inputs))
        assert report.ok, str(report)


# 70984: 1/σ of two numbers that differ by less than their rounding to bfloat16.  Left out is 17,
# where this engine rounds block scales to half, which cannot hold them.
@pytest.mark.parametrize("seed", [*range(17), 70984])
def test_it_is_right_in_graphs_drawn_at_random(seed: int) -> None:
    frozen = random_graph(seed).freeze()
    inputs = random_inputs(frozen, seed=1)
    with np.errstate(all="ignore"):
        report = compare(frozen, step_by_step(frozen, inputs), expect(frozen, inputs))
    assert report.ok, str(report)


def test_integer_intermediates_are_rounded_and_float_ones_are_not() -> None:
    for kind, wanted in (("int8", [4.0, 254.0]), ("half", [5.4, 400.0])):
        g = Graph(io_data_type="float", compute_data_type="float")
        x = g.tensor(dims=(2,))
        middle = g.identity(x)
        middle.set_data_type(kind)
        y = g.output(g.mul(middle, 2.0))
        arrays = {x.uid: np.array([2.7, 200.0], dtype=np.float32)}
        found = execute(g.freeze(), arrays)[y.uid]
        assert found.tolist() == pytest.approx([4.0, 254.0] if kind == "int8" else wanted, rel=1e-6)


def test_a_half_intermediate_may_or_may_not_be_rounded() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(1,))
    middle = g.mul(x, 1.0)
    middle.set_data_type("half")
    y = g.output(g.mul(middle, 3.0))
    e = expect(g.freeze(), {x.uid: np.array([0.1], dtype=np.float32)})
    kept, rounded = np.float32(0.1) * np.float32(3), np.float32(np.float16(0.1)) * np.float32(3)
    for result in (kept, rounded):
        assert e.low[y.uid].item() <= result <= e.high[y.uid].item()
    assert e.high[y.uid].item() - e.low[y.uid].item() < 4 * abs(float(kept - rounded)) + 6e-4


def test_an_output_that_is_an_intermediate_and_one_that_is_an_input() -> None:
    g = Graph(io_data_type="int32", compute_data_type="int32")
    x = g.tensor(dims=(3,))
    doubled = g.output(g.add(x, x))
    squared = g.output(g.mul(doubled, doubled))
    same = g.output(g.identity(x))
    found = execute(g.freeze(), {x.uid: np.array([1, -2, 3], dtype=np.int32)})
    assert found[doubled.uid].tolist() == [2, -4, 6]
    assert found[squared.uid].tolist() == [4, 16, 36]
    assert found[same.uid].tolist() == [1, -2, 3]


def test_a_graph_of_scalars_only() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    y = g.output(g.add(g.scalar(2.0), g.scalar(0.5)))
    assert execute(g.freeze(), {})[y.uid].tolist() == [2.5]


def test_compute_types_narrower_than_the_inputs_widen_the_bound() -> None:
    def width(compute: str) -> float:
        g = Graph(io_data_type="float", compute_data_type=compute)
        x, y = g.tensor(dims=(1,)), g.tensor(dims=(1,))
        z = g.output(g.mul(x, y))
        one = np.array([1.2345678], dtype=np.float32)
        e = expect(g.freeze(), {x.uid: one, y.uid: one})
        return float(e.high[z.uid].item() - e.low[z.uid].item())

    assert width("double") == 0  # the exact product rounds to one float
    assert 0 < width("float") < 4e-7
    assert 1e-4 < width("half") < 1e-2


def test_an_input_with_other_dims_is_refused() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(2, 3), name="image")
    g.output(g.relu(x))
    frozen = g.freeze()
    with pytest.raises(ValueError, match="image"):
        execute(frozen, {x.uid: np.zeros((3, 2), dtype=np.float32)})
    with pytest.raises(KeyError):
        execute(frozen, {})


def test_numpy_is_loaded_by_the_reference_only() -> None:
    code = (
        "import sys, hipdnn_iree.provider, hipdnn_iree.provider.graph\n"
        "assert 'numpy' not in sys.modules and 'ml_dtypes' not in sys.modules\n"
        "import hipdnn_iree.provider.reference as r\n"
        "assert 'hipdnn_iree.provider.reference.matmul' not in sys.modules\n"
        "assert r.reference('matmul') is r.reference('matmul')\n"
        "assert 'hipdnn_iree.provider.reference.conv_fprop' not in sys.modules\n"
        "assert not any(m.split('.')[0] in ('iree', 'torch_mlir', 'torch') for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=300)


@pytest.mark.parametrize(
    "name", ["conv_fprop.3x3_same", "conv_fprop.groups2", "matmul.4d", "reduction.norm2"]
)
def test_torch_agrees(name: str) -> None:
    torch = pytest.importorskip("torch")
    sample = next(s for s in SAMPLES if s.name == name)
    frozen = sample.graph(D.DOUBLE).freeze()
    arrays = random_inputs(frozen, seed=3)
    operands = [torch.from_numpy(np.ascontiguousarray(arrays[u])) for u in frozen.inputs]
    by_torch = {
        "conv_fprop.3x3_same": lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
        "conv_fprop.groups2": lambda x, w: torch.nn.functional.conv2d(x, w, padding=1, groups=2),
        "matmul.4d": torch.matmul,
        "reduction.norm2": lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True),
    }[name](*operands)
    got = execute(frozen, arrays)[frozen.outputs[0]]
    np.testing.assert_allclose(got, by_torch.numpy(), rtol=1e-12, atol=1e-12)
