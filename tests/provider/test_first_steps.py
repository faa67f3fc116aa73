# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What somebody tries who knows cuDNN's or hipDNN's Python interface, and has read nothing here."""

from __future__ import annotations

import numpy as np
import pytest
from hipdnn_iree import DataType, Graph
from hipdnn_iree.graph_api.errors import BindError, GraphError
from hipdnn_iree.provider.plan import Plan


@pytest.fixture
def made() -> tuple[Graph, Plan]:
    g = Graph("steps", io_data_type="float")
    x = g.tensor(dims=(2, 3), name="x")
    g.output(g.relu(x), name="y")
    g.neg(x).set_output()
    return g, g.build("cpu", engine="reference")


def test_results_answer_to_tensors_and_names(made: tuple[Graph, Plan]) -> None:
    graph, plan = made
    y, negative = graph.nodes[0].outputs["out_0"], graph.nodes[1].outputs["out_0"]
    data = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    found = plan.run({"x": data})
    assert set(found) == {y.uid, negative.uid}
    assert found[y] is found["y"] is found[y.uid]
    np.testing.assert_array_equal(found[negative], -data)
    for key in ("x", "", 99, graph.tensors[0]):
        with pytest.raises(KeyError, match=rf"there are 'y' \(uid {y.uid}\), uid {negative.uid}"):
            found[key]


def test_buffers_without_names(made: tuple[Graph, Plan]) -> None:
    data = np.ones((2, 3), np.float32)
    for call in (made[1].run, made[1].execute, made[1].bind):
        with pytest.raises(BindError, match=r"PLAN-01\] got ndarray; wanted a dict.*'x' \(uid 1\)"):
            call(data)


def test_plans_and_tensors_are_printed_in_one_line(made: tuple[Graph, Plan]) -> None:
    graph, plan = made
    text = "<ReferencePlan of graph 'steps' for cpu by REFERENCE_ENGINE (cache off)>"
    assert repr(plan) == text
    assert repr(graph.tensors[0]) == "<Tensor uid 1 'x': float[2,3]>"
    new = Graph()
    assert repr(new.relu(new.tensor(dims=(2,)))) == "<Tensor '': [2]>"
    assert repr(new.relu(new.tensor())) == "<Tensor '': [?]>"
    assert repr(new.scalar(0.5)) == "<Tensor 0.5>"


def test_dim_and_stride() -> None:
    g = Graph(io_data_type="half")
    x = g.tensor(dim=[2, 3], stride=[1, 2], name="x")
    assert (x.dims, x.strides) == ((2, 3), (1, 2))
    with pytest.raises(GraphError, match=r"dims: \[PARAM-01\] got dims and dim; wanted one"):
        g.tensor(dims=(2,), dim=(2,))


def test_types_of_numpy() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for given, kind in (
        (np.float16, DataType.HALF),
        (np.dtype("int8"), DataType.INT8),
        (np.dtype(bool), DataType.BOOLEAN),
        (ml_dtypes.bfloat16, DataType.BFLOAT16),
    ):
        assert Graph().tensor(dims=(1,), data_type=given).data_type is kind
    for wrong in (7, None, object, np.complex64):
        with pytest.raises(GraphError, match="PARAM-02"):
            Graph().tensor(dims=(1,), data_type=wrong)


def test_types_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert DataType.parse(torch.bfloat16) is DataType.BFLOAT16


def test_a_size_that_is_open() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(-1, 3), name="x")
    with pytest.raises(GraphError, match=r"TENSOR-05\] .* \(graph.dynamic\(\.\.\.\) is a size"):
        g.relu(x)


def test_dims_in_the_order_of_memory() -> None:
    g = Graph(io_data_type="half")
    x, w = g.tensor(dims=(2, 56, 56, 64)), g.tensor(dims=(64, 3, 3, 64))
    with pytest.raises(
        GraphError, match=r"CONV-06\] .*for NHWC data too.*follows from the strides"
    ):
        g.conv_fprop(x, w, padding=1)
