# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The PyTorch engine against the float64 reference, and its memory, types and threads."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from here_and_now import choose, engine
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import BindError, SettingError
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.engines.torch.torch_engine import TorchPlan
from hipdnn_iree.provider.plan import Plan
from hipdnn_iree.provider.reference.convert import to_dtype
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.verify import compare, expect, poisoned_outputs, random_inputs

torch = pytest.importorskip("torch")
CPU = Target.parse("cpu")


def build(graph: Graph) -> TorchPlan:
    plan = choose(graph.freeze(), "cpu", engine_name="torch").engine.build(graph.freeze(), CPU)
    assert isinstance(plan, TorchPlan)
    return plan


def check(plan: Plan, seed: int = 5) -> None:
    graph = plan.graph
    inputs, outputs = random_inputs(graph, seed=seed), poisoned_outputs(graph)
    plan.execute({**inputs, **outputs})
    report = compare(graph, outputs, expect(graph, inputs))
    assert report.ok, str(report)


# ---------------------------------------------------------------------------- results


SAMPLES = [
    (sample, data_type)
    for i, sample in enumerate(s for s in sample_problems() if "long" not in s.tags)
    for data_type in (sample.dtypes[0], sample.dtypes[i % len(sample.dtypes)])[: 1 + (i % 2)]
]


@pytest.mark.parametrize(("sample", "data_type"), SAMPLES, ids=lambda s: getattr(s, "name", str(s)))
def test_sample_problems(sample: Any, data_type: DataType) -> None:
    graph = sample.graph(data_type)
    if engine("torch").declines(graph.freeze(), CPU):
        pytest.skip("declined")
    check(build(graph))


def test_conversions_are_the_projects() -> None:
    from hipdnn_iree.provider.engines.torch.torch_program import convert

    odd = np.array([0.0, 0.4, -0.6, 1.5, 127.9, -129, 300, 3e9, -3e9, 1e30, -1e30, np.nan, np.inf])
    whole = np.array([0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, -(2**31) - 1, 2**62])
    kinds = (DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64, DataType.BOOLEAN)
    for values in (odd, whole):
        for kind in kinds:
            got = convert(torch.from_numpy(values), kind).numpy()
            np.testing.assert_array_equal(got, to_dtype(values, kind), str(kind))


# ---------------------------------------------------------------------------- chains


def test_chains_are_what_a_user_writes() -> None:
    """Bias and product, and softmax, are one call each; other readers keep their values."""
    g = Graph(io_data_type="float")
    x, w = g.tensor(dims=(2, 3, 6, 6)), g.tensor(dims=(4, 3, 3, 3))
    bias = g.tensor(dims=(1, 4, 1, 1))
    g.relu(g.add(g.conv_fprop(x, w, padding=1), bias)).set_output()
    plan = build(g)
    assert plan.statistics == {"calls": 2}
    check(plan)

    g = Graph(io_data_type="float")
    a, b, row = g.tensor(dims=(1, 5, 7)), g.tensor(dims=(1, 7, 3)), g.tensor(dims=(3,))
    g.gelu(g.add(row, g.matmul(a, b))).set_output()
    plan = build(g)
    assert plan.statistics == {"calls": 2}
    check(plan)

    g = Graph(io_data_type="float")
    x = g.tensor(dims=(4, 9, 5))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=1)))
    g.div(e, g.reduction(e, mode="add", axes=1)).set_output()
    plan = build(g)
    assert plan.statistics == {"calls": 1}
    check(plan)

    g = Graph(io_data_type="float")
    x = g.tensor(dims=(4, 9))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=1)))
    total = g.reduction(e, mode="add", axes=1).set_output()
    g.div(e, total).set_output()
    product = g.matmul(g.tensor(dims=(4, 6)), g.tensor(dims=(6, 3)))
    g.add(product, g.tensor(dims=(3,))).set_output()
    g.mul(product, 2.0).set_output()
    plan = build(g)
    assert plan.statistics == {"calls": 8}
    check(plan)


def test_nodes_may_have_one_name() -> None:
    """As the nodes of one op of a model have: only the product is taken up by the addition."""
    g = Graph(io_data_type="float")
    x, w = g.tensor(dims=(2, 3, 6, 6)), g.tensor(dims=(4, 3, 1, 1))
    bias = g.reshape(g.tensor(dims=(4,)), (1, 4, 1, 1), name="conv")
    y = g.add(g.conv_fprop(x, w, name="conv"), bias, name="conv")
    g.mul(g.add(y, 3.0, name="gate"), y, name="gate").set_output()
    plan = build(g)
    assert plan.statistics == {"calls": 4}
    check(plan)


def test_the_folded_batchnorm_is_off_by_what_cancels_only() -> None:
    g = Graph(io_data_type="float")
    x, p = g.tensor(dims=(2, 5, 8, 8)), [g.tensor(dims=(1, 5, 1, 1)) for _ in range(4)]
    g.output(g.batchnorm_inference(x, *p))
    g.output(g.batchnorm_inference_variance_ext(x, *p, 1e-3))
    frozen, torch_engine = g.freeze(), engine("torch")
    (knob,) = torch_engine.knobs(frozen, CPU)
    assert (knob.name, knob.default) == ("batchnorm.form", "centred")
    inputs = random_inputs(frozen, seed=1)
    found = {
        form: torch_engine.build(frozen, CPU, {knob.name: form}).run({**inputs})
        for form in knob.choices
    }
    assert compare(frozen, found["centred"], expect(frozen, inputs)).ok
    for uid, y in found["folded"].items():
        np.testing.assert_allclose(y, found["centred"][uid], rtol=1e-4, atol=4e-6)
    assert any((y != found["centred"][uid]).any() for uid, y in found["folded"].items())
    with pytest.raises(SettingError, match="allowed: centred"):
        torch_engine.build(frozen, CPU, {knob.name: "other"})


def test_memory_of_operands_is_not_taken_while_it_is_read() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(6, 4))
    y = g.neg(x)
    turned = g.transpose(y, permutation=(1, 0))
    z = g.abs(g.exp(y))
    g.output(g.matmul(z, turned))
    g.output(g.add(y, g.add(y, y)))
    check(build(g))


# ---------------------------------------------------------------------------- memory


def test_strides_and_memory_of_every_kind() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(2, 3, 4, 5), strides=(60, 1, 15, 3), name="x")
    b = g.tensor(dims=(2, 3, 4, 5), strides=(0, 1, 0, 0), name="b")
    g.output(g.relu(g.add(x, b)), name="y")
    plan = build(g)
    check(plan)
    rng = np.random.default_rng(3)
    image = rng.normal(size=(2, 4, 5, 3)).astype(np.float32).transpose(0, 3, 1, 2)
    bias = rng.normal(size=(1, 3, 1, 1)).astype(np.float32)
    wanted = np.maximum(image + bias, 0)
    (y,) = plan.run({"x": torch.from_numpy(image), "b": bias}).values()
    np.testing.assert_array_equal(y, wanted)
    assert y.stride() == (60, 1, 15, 3)  # a tensor of PyTorch, as x is
    raw = np.full(120 * 4 + 64, 0xA5, np.uint8)
    out = np.ndarray((2, 4, 5, 3), np.float32, raw.data, 4).transpose(0, 3, 1, 2)
    image.flags.writeable = False
    plan.execute({"x": image, "b": bias.ctypes.data, "y": out.ctypes.data})
    np.testing.assert_array_equal(out, wanted)
    assert (raw[:4] == 0xA5).all()
    assert (raw[484:] == 0xA5).all()
    backwards = np.repeat(image[:, :, ::-1], 2, axis=2)[:, :, ::-2]
    whole = np.full((2, 3, 4, 8), np.nan, np.float32)
    buffers = {"x": backwards, "b": bias, "y": whole[..., 6:1:-1]}
    with pytest.raises(BindError, match="BIND-06"):
        plan.bind(buffers)
    call = plan.bind(buffers, copy=True)
    for _ in range(2):
        call()
        np.testing.assert_array_equal(whole[..., 6:1:-1], wanted)
    assert np.isnan(whole[..., :2]).all()


def test_a_bound_call_reads_anew_and_scalars_too() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(3,))
    factor = g.runtime_scalar(name="factor")
    y = g.mul(x, factor).set_output()
    plan = build(g)
    given, scalar, result = np.ones(3, np.float32), np.array([2.0], np.float32), np.empty(3, "f4")
    call = plan.bind({x: given, factor: scalar, y: result})
    call()
    assert result.tolist() == [2, 2, 2]
    given[1], scalar[0] = 5, 3
    call()
    assert result.tolist() == [3, 15, 3]
    (found,) = plan.run({x: given, factor: 0.5}).values()
    assert found.tolist() == [0.5, 2.5, 0.5]


def test_results_of_its_own_are_those_of_a_program_of_pytorch() -> None:
    g = Graph(io_data_type="bfloat16", compute_data_type="float")
    x, w = g.tensor(dims=(1, 8, 5, 5)), g.tensor(dims=(8, 8, 3, 3))
    y = g.conv_fprop(x, w, padding=1).set_output()
    plan = build(g)
    inputs, outputs = random_inputs(plan.graph, seed=1), poisoned_outputs(plan.graph)
    (found,) = plan.native({**inputs, **outputs})()
    assert (found.dtype, found.is_inference()) == (torch.bfloat16, True)
    made = found.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    (again,) = plan.run(inputs).values()
    np.testing.assert_array_equal(made, again)
    assert not (outputs[y.uid] == made).all()


# ---------------------------------------------------------------------------- threads


@pytest.mark.parametrize(("rows", "count"), [(8, 1), (1 << 15, 3)])
def test_small_work_is_done_by_the_calling_thread(rows: int, count: int) -> None:
    """PyTorch's softmax wakes its threads for 8 rows too; on a busy machine it waits for them.

    Its number of threads is given back in any case.
    """
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(rows, 64))
    g.softmax(x).set_output()
    before, seen = torch.get_num_threads(), []
    with scope(runtime_threads=3):
        plan = build(g)
    plan.program._steps.insert(0, lambda *_: seen.append(torch.get_num_threads()))
    (y,) = plan.run({x: np.ones((rows, 64), np.float32)}).values()
    assert (seen, torch.get_num_threads()) == ([count], before)
    np.testing.assert_allclose(y, 1 / 64)


def test_many_threads_and_the_hosts_gradients() -> None:
    g = Graph(io_data_type="float")
    x, y = g.tensor(dims=(5, 4)), g.tensor(dims=(5, 4))
    g.gelu(g.add(x, y)).set_output()
    plan = build(g)
    wrong: list[int] = []

    def work(seed: int) -> None:
        inputs = random_inputs(plan.graph, seed)
        expected = expect(plan.graph, inputs)
        for _ in range(20):
            if not compare(plan.graph, plan.run({**inputs}), expected).ok:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_dynamic_dims_are_built_for_each_size() -> None:
    g = Graph(io_data_type="float")
    n = g.dynamic("n", example=3, range=(1, 8))
    x = g.tensor(dims=(n, 4), name="x")
    g.output(g.relu(x), name="y")
    plan = g.build("cpu", engine="torch")
    for rows in (2, 5):
        (y,) = plan.run({"x": np.full((rows, 4), -1, np.float32)}).values()
        assert y.shape == (rows, 4)
        assert not y.any()
