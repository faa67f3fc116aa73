# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tables of aliases fit our methods; what is not there says what to use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import DataType, Graph, GraphError, NotSupportedError
from hipdnn_iree.compat import aliases, cudnn, hipdnn_frontend
from hipdnn_iree.compat.tensors import TensorAttributes

# What an adapter takes away before our method is called.
ADAPTED = {"is_inference", "attn_scale", "sliding_window_length", "dropout", "slices"}
# Setters of several values at once.
SEVERAL = {"dropout", "previous_running_stats", "saved_mean_and_inv_variance"}


def taken(method: str) -> set[str]:
    parameters = inspect.signature(getattr(Graph, method)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):  # the options of every node
        return {*parameters, "compute_data_type", "name"}
    return set(parameters)


@pytest.mark.parametrize("name", cudnn.METHODS)
def test_a_method_of_cudnn_has_a_counterpart(name: str) -> None:
    row = cudnn.METHODS[name]
    named = set(row.params.values()) - {aliases.UNUSED, aliases.IGNORED}
    assert named - taken(row.ours) <= (ADAPTED | {"reshape_mode"} if row.adapt else set())
    assert getattr(cudnn.pygraph, name).__name__ == name
    assert list(inspect.signature(getattr(cudnn.pygraph, name)).parameters)[1:] == [*row.params]


@pytest.mark.parametrize("name", hipdnn_frontend.OPS)
def test_a_method_of_hipdnn_has_a_counterpart(name: str) -> None:
    op = hipdnn_frontend.OPS[name]
    named = {*op.operands, *op.fields.values()} - SEVERAL
    assert named <= taken(op.ours or name)
    for attributes in op.attributes:
        assert op.fields == getattr(hipdnn_frontend, attributes).FIELDS


def float_graph() -> Any:
    return cudnn.pygraph(io_data_type=cudnn.data_type.FLOAT)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda g: g.sdpa_fp8, "use sdpa on FP8 tensors"),
        (lambda g: g.conv_fprob, "did you mean 'conv_fprop'?"),
        (lambda g: cudnn.jit, "use Graph.build"),
        (lambda g: cudnn.pygrph, "did you mean 'pygraph'?"),
        (lambda g: cudnn.data_type.INT8x4, "use INT8 with NHWC strides"),
        (lambda g: cudnn.data_type.HALV, "did you mean 'HALF'?"),
        (lambda g: hipdnn_frontend.HipEvent, "use hip-python"),
        (lambda g: hipdnn_frontend.MatmulAttribute, "did you mean 'MatmulAttributes'?"),
        (lambda g: hipdnn_frontend.Graph().autotune, "use hipdnn-iree tune"),
        (lambda g: hipdnn_frontend.ConvFpropAttributes().set_pading, "'set_padding'?"),
        (lambda g: hipdnn_frontend.SdpaAttributes().set_o, "use the tensor that the call returns"),
    ],
)
def test_a_missing_name_says_what_to_use(use: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        use(float_graph())
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda g, x: g.relu(), TypeError, "relu() needs input"),
        (lambda g, x: g.relu(x, inptu=x), TypeError, "did you mean 'input'?"),
        (lambda g, x: g.relu(x, input=x), TypeError, "got 'input' twice"),
        (lambda g, x: g.add(x, x, None, "", 1), TypeError, "takes 4 positional arguments"),
        (lambda g, x: g.matmul(x, x, padding=1.0), NotSupportedError, "matmul(padding=...)"),
        (lambda g, x: g.matmul(A=x, B=x), GraphError, "MATMUL-02"),
        (lambda g, x: g.relu(np.ones(3)), GraphError, "describe it by tensor(dims=...)"),
        (lambda g, x: x.set_ragged_offset(x), NotSupportedError, "pad the sequences"),
        (lambda g, x: g.tensor_like(3), TypeError, "got a int"),
        (lambda g, x: g.tensor_like(np.zeros(2, complex)), TypeError, "use one of float"),
        (lambda g, x: g.query_tensor_attributes_of_uid(77), KeyError, "no tensor has the uid 77"),
        (
            lambda g, x: g.tensor([2], [1], reordering_type=cudnn.tensor_reordering.INT8x32),
            NotSupportedError,
            "strides say the layout",
        ),
        (
            lambda g, x: g.reshape(g.tensor(dim=[2, 3], stride=[1, 2])),
            NotSupportedError,
            "reshape_mode.LOGICAL",
        ),
        (
            lambda g, x: g.sdpa(x, x, x, sliding_window_length=2, diagonal_band_left_bound=2),
            TypeError,
            "mean the same",
        ),
        (lambda g, x: g.slice(x, [slice(1)] * 3), TypeError, "3 slices for dims (2, 3)"),
        (lambda g, x: g.get_plan_name_at_index(99), NotSupportedError, "there is no plan 99"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    call: Callable[[Any, TensorAttributes], Any], error: type[Exception], text: str
) -> None:
    g = float_graph()
    x = g.tensor(dim=[2, 3], stride=[3, 1])
    g.relu(x).set_output(True)
    with pytest.raises(error) as caught:
        call(g, x)
    assert text in str(caught.value)


def test_steps_of_hipdnn_return_their_errors() -> None:
    h = hipdnn_frontend
    g = h.Graph().set_io_data_type(h.DataType.FLOAT)
    a, b = (h.Tensor.create(dims, h.DataType.FLOAT) for dims in ([4, 3], [5, 6]))
    g.matmul(a, b, h.MatmulAttributes()).set_output(True)
    error = g.validate()
    assert error.is_bad()
    assert error.get_code() is h.ErrorCode.INVALID_VALUE
    assert "MATMUL-02" in error.get_message()
    assert isinstance(error.cause, GraphError)
    assert f" at {__file__}:" in error.get_message()  # the line of the script that added the node
    assert inspect.signature(g.validate).return_annotation == "Error"
    with pytest.raises(TypeError, match="takes MatmulAttributes last, got a ReductionAttributes"):
        g.matmul(a, b, h.ReductionAttributes())
    with pytest.raises(TypeError, match="takes the tensors a, b; got 3"):
        g.matmul(a, b, b, h.MatmulAttributes())
    bad = h.Graph().from_json("{")
    assert bad.get_code() is h.ErrorCode.UNSUPPORTED_GRAPH_FORMAT


def test_buffers_that_do_not_fit_are_refused() -> None:
    h = hipdnn_frontend
    g = h.Graph().set_io_data_type(h.DataType.FLOAT)
    x = h.Tensor.create([1, 4, 1, 1], h.DataType.FLOAT)
    y = g.pointwise(x, h.PointwiseAttributes().set_mode(h.PointwiseMode.NEG)).set_output(True)
    handle = h.create_handle(target="cpu")
    assert g.build_operation_graph(handle).is_good()
    four, out = np.arange(4, dtype=np.float32), np.zeros((1, 4, 1, 1), np.float32)
    assert g.execute(handle, {x: four, y: out}).is_good()  # four elements, whatever their dims
    assert (out.ravel() == -four).all()
    for wrong in (four[:3], four.astype(np.float64), np.arange(8, dtype=np.float32)[::2]):
        error = g.execute(handle, {x: wrong, y: out})
        assert error.get_code() is h.ErrorCode.INVALID_VARIANT_PACK
    with pytest.raises(ValueError, match="9 bytes for a DeviceBuffer of 8"):
        h.DeviceBuffer(8).copy_from_host(bytes(9))


def test_a_graph_takes_other_shapes_and_engines() -> None:
    g = float_graph()
    x = g.tensor(dim=[2, 3], stride=[3, 1], uid=10)
    y = g.neg(input=x).set_output(True).set_uid(11)
    assert y.get_dim() == [2, 3]
    g.build()
    first, out = np.ones((4, 3), np.float32), np.zeros((4, 3), np.float32)
    g.execute(
        {x: first, y: out},
        None,
        override_uids=[10, 11],
        override_shapes=[[4, 3], [4, 3]],
        override_strides=[[3, 1], [3, 1]],
    )
    assert (out == -1).all()
    assert g.query_tensor_attributes_of_uid(10).get_stride() == [3, 1]
    names = [g.get_plan_name_at_index(i) for i in range(g.get_engine_count())]
    g.build_plan_at_index(names.index("IREE_JIT_ENGINE"))
    assert g.plan.policy == "pinned"
    other = float_graph()
    other.abs(other.tensor(dim=[2], stride=[1])).set_output(True)
    other.create_execution_plan(g.plan.engine_id, {"driver": "local-sync"})
    other.build()
    assert other.plan.knobs == {"driver": "local-sync"}


def test_types_of_other_libraries_count() -> None:
    torch = pytest.importorskip("torch")
    g = cudnn.pygraph(io_data_type=torch.float16, compute_data_type=cudnn.data_type.FLOAT)
    x = g.tensor_like(torch.ones(2, 3, dtype=torch.bfloat16))
    assert x.get_data_type() is DataType.BFLOAT16
    y = g.add(a=x, b=x).set_output(True).set_data_type(torch.float32)
    g.build()
    out = torch.empty(2, 3)
    g.execute({x: torch.ones(2, 3, dtype=torch.bfloat16), y: out}, torch.empty(0))
    assert (out == 2).all()
