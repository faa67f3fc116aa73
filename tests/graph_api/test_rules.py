# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 (a mistake is a row)
"""One broken graph per rule, at least: rule id, place, what was found, what is allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph as Script
from hipdnn_iree.graph_api import tensor_rules, validate
from hipdnn_iree.graph_api.errors import GraphError, Problem
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.graph_api.ops.matmul import Matmul
from hipdnn_iree.graph_api.ops.pointwise import Pointwise
from hipdnn_iree.graph_api.ops.reduction import Reduction
from rule_graphs import RELU, frozen, matmul, node, pw, reduce, relu, x

BIG = 2**63 - 1


@dataclass(frozen=True)
class Row:
    """A mistake, and how it must be reported."""

    rule: str
    build: Callable[[Graph], object]
    node: str
    port: str
    got: str
    wanted: str
    also: tuple[str, ...] = ()


def conv(g: Graph, image: tuple[int, ...], filter: tuple[int, ...], **options: Any) -> Any:
    a, w = g.tensor(dims=image, name="x"), g.tensor(dims=filter, name="w")
    return g.conv_fprop(a, w, name="conv", **options).set_output()


def conv1(g: Graph, **options: Any) -> Any:
    return conv(g, (1, 2, 8, 8), (4, 2, 3, 3), **options)


def cycle(g: Graph) -> None:
    a, b = g.tensor(virtual=True, name="a"), g.tensor(virtual=True, name="b")
    g.add_node(RELU, {"in_0": a}, outputs={"out_0": b}, name="first")
    g.add_node(RELU, {"in_0": b}, outputs={"out_0": a}, name="second")
    # Only waits for the cycle.
    g.relu(b, name="after").set_output()


def into_itself(g: Graph) -> None:
    a = g.tensor(dims=(2, 3), name="a")
    node(g, RELU, {"in_0": a}, outputs={"out_0": a})


def foreign(g: Graph) -> None:
    g.add(x(g), Graph(io_data_type="float").tensor(dims=(2, 3), name="y"), name="n").set_output()


def foreign_result(g: Graph) -> None:
    other = Graph(io_data_type="float").tensor(name="y")
    node(g, RELU, {"in_0": x(g)}, outputs={"out_0": other})


def written_twice(g: Graph) -> None:
    a = x(g)
    y = g.relu(a, name="first").set_output().set_name("y")
    node(g, RELU, {"in_0": a}, outputs={"out_0": y}, name="second")


def with_value(g: Graph, value: Any, data_type: str, **options: Any) -> Any:
    scalar = g.scalar(value, data_type=data_type, name="s")
    for name, setting in options.items():
        setattr(scalar, name, setting)
    return g.mul(x(g), scalar, name="n", compute_data_type="float").set_output()


def scalar_as_result(g: Graph) -> None:
    node(g, RELU, {"in_0": x(g, 1)}, outputs={"out_0": g.scalar(1.0, name="s")})


def runtime_scalar_as_result(g: Graph) -> None:
    node(g, RELU, {"in_0": x(g, 1)}, outputs={"out_0": g.runtime_scalar(name="s")})


def runtime_scalar_of_four_bits(g: Graph) -> None:
    pw(g, x(g), g.runtime_scalar(name="s", data_type="int4"), mode="mul")


def with_setting(g: Graph, **options: Any) -> None:
    relu(g)
    for name, value in options.items():
        setattr(g.tensors[0], name, value)


def engine(g: Graph) -> None:
    relu(g)
    g.preferred_engine_id = "first"  # type: ignore[assignment]


def given_result(g: Graph, dims: Any = None, strides: Any = None) -> None:
    y = relu(g)
    if dims is not None:
        y.set_dim(dims)
    if strides is not None:
        y.set_stride(strides)


def narrow_result(g: Graph, strides: Any, dims: Any = (2, 4)) -> None:
    y = g.identity(g.tensor(dims=dims, data_type="float", name="x"), name="n").set_output()
    y.set_data_type("fp4_e2m1").set_stride(strides)


TABLE = [
    # graphs
    Row("GRAPH-01", x, "", "", "no nodes", "at least one"),
    Row("GRAPH-02", lambda g: g.relu(x(g)), "", "", "only virtual", "at least one output"),
    Row("GRAPH-03", cycle, "first", "", "a cycle among first, second", "its own result"),
    Row("GRAPH-03", into_itself, "n", "", "a cycle among n", "its own result"),
    Row("GRAPH-04", foreign, "n", "in_1", "'y' of another graph", "a tensor of this graph"),
    Row("GRAPH-04", foreign_result, "n", "out_0", "'y' of another", "of this graph"),
    Row(
        "GRAPH-04",
        lambda g: g.output(Graph().tensor(dims=(1,), name="y")),
        "", "y", "another graph", "this graph",
    ),
    Row("GRAPH-05", written_twice, "second", "out_0", "'y', which first writes", "of its own"),
    Row("GRAPH-07", frozen, "", "", "a change after freeze()", "before"),
    # tensors
    Row(
        "TENSOR-01",
        lambda g: g.add(x(g, uid=7), x(g, uid=7, name="y"), name="n").set_output(),
        "", "y", "uid 7, which 'x' has", "unique",
    ),
    Row("TENSOR-02", lambda g: g.relu(g.tensor(name="x")).set_output(), "", "x", "no dims", "dims"),
    Row("TENSOR-02", lambda g: g.relu(g.tensor()).set_output(), "pointwise_0", "in_0", "no", "dims"),
    Row("TENSOR-04", lambda g: relu(g, *[1] * 9), "", "x", "rank 9", "rank 1 to 8"),
    Row("TENSOR-04", lambda g: g.relu(g.tensor(dims=(), uid=3)).set_output(), "", "tensor 3", "rank 0", "1 to 8"),
    Row("TENSOR-04", lambda g: relu(g, strides=(1,)), "", "x", "1 strides for 2 dims", "one"),
    Row("TENSOR-04", lambda g: relu(g, strides=()), "", "x", "0 strides for 2 dims", "one"),
    Row("TENSOR-04", lambda g: given_result(g, strides=(1,)), "relu", "out_0", "1 strides", "2 strides for dims [2, 3]"),
    Row("TENSOR-04", lambda g: given_result(g, strides=()), "relu", "out_0", "0 strides", "2 strides"),
    Row("TENSOR-05", lambda g: relu(g, 2, 0), "", "x", "[2, 0]", "at least 1"),
    Row("TENSOR-05", lambda g: relu(g, 2, -3), "", "x", "[2, -3]", "at least 1"),
    Row("TENSOR-05", lambda g: relu(g, 2**62, 2**62), "", "x", str(2**62), "below 2^63 bytes"),
    Row("TENSOR-05", lambda g: relu(g, BIG), "", "x", str(BIG), "below 2^63 bytes"),
    Row("TENSOR-05", lambda g: relu(g, 1, 3, strides=(BIG, 1)), "", "x", str(BIG), "2^63"),
    Row("TENSOR-05", lambda g: relu(g, 1, 3, strides=(2**60, 1)), "", "x", str(2**60), "2^63"),
    Row("TENSOR-05", lambda g: relu(g, 8, 3, strides=(2**60 - 1, 1)), "", "x", "a span", "2^63"),
    Row(
        "TENSOR-05",
        lambda g: pw(g, x(g, 2**40, 1), x(g, 1, 2**40), mode="add"),
        "pw", "out_0", f"[{2**40}, {2**40}]", "below 2^63 bytes",
    ),
    Row("TENSOR-05", lambda g: conv1(g, padding=2**61), "conv", "y", "dims [1, 4, ", "below 2^63"),
    Row(
        "TENSOR-05",
        lambda g: matmul(g, (2**31, 1), (1, 2**31)), "mm", "c", f"[{2**31}, {2**31}]", "below",
    ),
    Row("TENSOR-06", lambda g: relu(g, strides=(-3, 1)), "", "x", "(-3, 1) are negative", "dense"),
    Row("TENSOR-06", lambda g: relu(g, strides=(1, 1)), "", "x", "(1, 1) let", "padded"),
    Row("TENSOR-06", lambda g: relu(g, strides=(4, 2)), "", "x", "interleave (dim 0)", "broadcast"),
    Row("TENSOR-06", lambda g: given_result(g, strides=(1, 1)), "relu", "out_0", "(1, 1)", "padded"),
    Row("TENSOR-05", lambda g: given_result(g, strides=(2**60 - 1, 1)), "relu", "out_0", "a span of", "less than 2^63"),
    Row("TENSOR-07", lambda g: given_result(g, (2, 3), (0, 1)), "relu", "out_0", "[0, 1] for dims [2, 3]", "no stride 0"),
    Row("TENSOR-07", lambda g: given_result(g, None, (0, 1)), "relu", "out_0", "[0, 1] for dims [2, 3]", "no stride 0"),
    Row("TENSOR-12", lambda g: narrow_result(g, (5, 1)), "n", "out_0", "[5, 1] for dims [2, 4] of 4 bits", "begin and end with a byte"),
    Row("TENSOR-12", lambda g: narrow_result(g, (6, 1), (2, 3)), "n", "out_0", "[6, 1]", "with a byte"),
    Row("TENSOR-12", lambda g: narrow_result(g, (8, 2)), "n", "out_0", "[8, 2]", "with a byte"),
    Row("TENSOR-08", lambda g: with_value(g, 1.5, "int32"), "", "s", "1.5", "int32 can hold"),
    Row("TENSOR-08", lambda g: with_value(g, 300, "uint8"), "", "s", "300", "uint8 can hold"),
    Row("TENSOR-08", lambda g: with_value(g, -1, "uint8"), "", "s", "-1", "uint8 can hold"),
    Row("TENSOR-08", lambda g: with_value(g, 2, "boolean"), "", "s", "2", "boolean can hold"),
    Row("TENSOR-08", lambda g: with_value(g, 1e39, "float"), "", "s", "1e+39", "float can hold"),
    Row("TENSOR-08", lambda g: with_value(g, 70000, "half"), "", "s", "70000", "half can hold"),
    Row("TENSOR-08", lambda g: with_value(g, 10**9999, "half"), "", "s", "many digits", "half"),
    Row("TENSOR-08", lambda g: with_value(g, math.inf, "int64"), "", "s", "inf", "int64 can hold"),
    Row("TENSOR-08", lambda g: with_value(g, 1.0, "float", dims=(3,)), "", "s", "dims (3,)", "dims (1,)"),
    Row("TENSOR-08", lambda g: with_value(g, 1.0, "float", virtual=True), "", "s", "a writer", "no node writes", ("TENSOR-09",)),
    Row("TENSOR-08", scalar_as_result, "", "s", "a value and a writer", "no node writes"),
    Row("TENSOR-09", lambda g: relu(g, virtual=True), "", "x", "virtual", "a writer, or a buffer"),
    Row("TENSOR-10", lambda g: with_setting(g, alignment=0), "", "x", "alignment 0", "at least 1"),
    Row("TENSOR-10", lambda g: with_setting(g, alignment="16"), "", "x", "'16'", "at least 1"),
    Row("TENSOR-10", lambda g: with_setting(g, ragged_offset_uid=99), "", "x", "uid 99", "of this graph"),
    Row("TENSOR-11", lambda g: with_setting(g, runtime_scalar=True), "", "x", "dims [2, 3]", "one element"),
    Row("TENSOR-11", runtime_scalar_as_result, "", "s", "a writer", "no node writes"),
    Row("TENSOR-11", runtime_scalar_of_four_bits, "", "s", "int4", "at least 8 bits"),
    # nodes
    Row("NODE-01", lambda g: node(g, Matmul(), {"a": x(g)}), "n", "b", "nothing", "a tensor"),
    Row("NODE-01", lambda g: pw(g, None, mode="abs"), "pw", "in_0", "nothing", "a tensor"),
    Row("NODE-01", lambda g: pw(g, x(g), mode="relu_bwd", operands="x_dy"), "pw", "in_0", "nothing", "a tensor"),
    Row("NODE-01", lambda g: node(g, RELU, {}), "n", "in_0", "nothing", "a tensor"),
    Row("NODE-01", lambda g: node(g, RELU, {"in_0": x(g), "x": x(g)}), "n", "x", "a tensor", "only in_0, in_1, in_2"),
    Row("NODE-01", lambda g: node(g, RELU, {"in_0": x(g)}, outputs=["y"]), "n", "out_0", "nothing", "a tensor", ("NODE-01",)),
    Row("NODE-02", lambda g: given_result(g, (3, 2)), "relu", "out_0", "dims [3, 2]", "dims [2, 3]"),
    Row("NODE-02", lambda g: given_result(g, (2, 3, 1)), "relu", "out_0", "[2, 3, 1]", "[2, 3]"),
    Row("NODE-02", lambda g: reduce(g, axes=[0], y=(2, 1)), "sum", "y", "[2, 1]", "[1, 3]"),
    Row("NODE-03", lambda g: pw(g, mode="relu_fwd", compute_data_type="int8"), "pw", "compute_data_type", "int8", "one of float"),
    Row("NODE-03", lambda g: pw(g, mode="neg", compute_data_type="boolean"), "pw", "compute_data_type", "boolean", "double"),
    # arguments, at once
    Row("PARAM-01", lambda g: x(g, 2.0, 3), "", "dims", "(2.0, 3)", "64-bit integers"),
    Row("PARAM-01", lambda g: x(g, 2**63), "", "dims", str(2**63), "64-bit integers"),
    Row("PARAM-01", lambda g: with_setting(g, dims=(2, 3.5)), "", "dims", "(2, 3.5)", "64-bit integers"),
    Row("PARAM-01", lambda g: with_setting(g, strides="31"), "", "strides", "'31'", "64-bit integers"),
    Row("PARAM-02", lambda g: with_setting(g, data_type="floot"), "", "data_type", "'floot'", "float"),
    Row("PARAM-02", lambda g: setattr(g, "io_data_type", "floot"), "", "io_data_type", "'floot'", "float"),
    Row("PARAM-05", lambda g: with_setting(g, name=None), "", "name", "None", "a string"),
    Row("PARAM-05", lambda g: with_setting(g, value="1"), "", "value", "'1'", "a bool, int or float"),
    Row("PARAM-05", lambda g: with_setting(g, virtual=1), "", "virtual", "1", "True or False"),
    Row("PARAM-05", lambda g: setattr(g, "name", 5), "", "name", "5", "a string"),
    Row("PARAM-01", lambda g: x(g, uid="1"), "", "uid", "'1'", "integer"),
    Row("PARAM-01", lambda g: conv1(g, stride=(1, "2")), "conv", "stride", "(1, '2')", "integers"),
    Row("PARAM-01", lambda g: reduce(g, axes=[0.5]), "sum", "axes", "[0.5]", "integers"),
    Row("PARAM-01", lambda g: pw(g, mode="gen_index", axis=(0, 1)), "pw", "axis", "(0, 1)", "one"),
    Row("PARAM-01", engine, "", "preferred_engine_id", "'first'", "64-bit integer"),
    Row("PARAM-02", lambda g: x(g, data_type="flaot"), "", "data_type", "'flaot'", "one of unset, float"),
    Row("PARAM-02", lambda g: relu(g).set_data_type("f31"), "", "data_type", "'f31'", "float"),
    Row("PARAM-02", lambda g: Graph(io_data_type="x"), "", "io_data_type", "'x'", "float"),
    Row("PARAM-02", lambda g: g.relu(x(g), compute_data_type=1, name="r"), "r", "compute_data_type", "1", "one of unset"),
    Row("PARAM-03", lambda g: g.add(x(g), "two", name="sum"), "sum", "in_1", "'two'", "a bool, int or float"),
    Row("PARAM-03", lambda g: g.matmul(None, x(g)), "matmul", "a", "None", "a Tensor"),
    Row("PARAM-03", lambda g: g.scalar("1"), "scalar", "value", "'1'", "a bool, int or float"),
    Row("PARAM-03", lambda g: g.matmul(np.zeros(3), x(g)), "matmul", "a", "array(", "a Tensor"),
    Row("PARAM-03", lambda g: node(g, RELU, {"in_0": x(g)}, outputs={"out_0": 3}), "n", "out_0", "3", "a Tensor"),
    Row("PARAM-04", lambda g: pw(g, mode="rleu"), "pw", "mode", "'rleu'", "relu_fwd"),
    Row("PARAM-04", lambda g: reduce(g, mode="sum"), "sum", "mode", "'sum'", "one of not_set, add"),
    Row("PARAM-04", lambda g: conv1(g, conv_mode=3), "conv", "conv_mode", "3", "CROSS_CORRELATION"),
    Row("PARAM-04", lambda g: pw(g, x(g), x(g), mode="relu_bwd", operands="xdy"), "pw", "operands", "'xdy'", "one of dy_x, x_dy"),
    Row("PARAM-04", lambda g: pw(g, mode="abs", operands=[]), "pw", "operands", "[]", "one of dy_x, x_dy"),
    Row("PARAM-05", lambda g: Graph(None), "", "name", "None", "a string"),
    Row("PARAM-05", lambda g: x(g, name=5), "", "name", "5", "a string of Unicode text"),
    Row("PARAM-05", lambda g: g.relu(x(g), name="\ud800"), "pointwise", "name", "ud800", "Unicode"),
    Row("PARAM-05", lambda g: reduce(g, is_deterministic=1), "sum", "is_deterministic", "1", "True"),
    Row("PARAM-05", lambda g: x(g, virtual=1), "", "virtual", "1", "True or False"),
    Row("PARAM-05", lambda g: pw(g, mode="elu_fwd", elu_alpha="1"), "pw", "elu_alpha", "'1'", "a number"),
    Row("PARAM-05", lambda g: pw(g, mode="elu_fwd", elu_alpha=True), "pw", "elu_alpha", "True", "a number"),
    # convolution
    Row("CONV-01", lambda g: conv(g, (1, 2), (4, 2)), "conv", "x", "rank 2", "rank 3, 4 or 5"),
    Row("CONV-01", lambda g: conv(g, (1,) * 6, (1,) * 6), "conv", "x", "rank 6", "rank 3, 4 or 5"),
    Row("CONV-02", lambda g: conv(g, (1, 2, 8, 8), (4, 2, 3)), "conv", "w", "rank 3", "rank 4"),
    Row("CONV-03", lambda g: conv1(g, padding=(1, 1, 1)), "conv", "pre_padding", "[1, 1, 1]", "2 value(s)", ("CONV-03",)),
    Row("CONV-03", lambda g: conv1(g, pre_padding=0, post_padding=-1), "conv", "post_padding", "[-1, -1]", "at least 0"),
    Row("CONV-03", lambda g: conv1(g, pre_padding=(0, -2), post_padding=0), "conv", "pre_padding", "[0, -2]", "at least 0"),
    Row("CONV-04", lambda g: conv1(g, stride=0), "conv", "stride", "[0, 0]", "at least 1"),
    Row("CONV-04", lambda g: conv1(g, stride=(1, 2, 3)), "conv", "stride", "[1, 2, 3]", "2 value(s)"),
    Row("CONV-05", lambda g: conv1(g, dilation=(1, 0)), "conv", "dilation", "[1, 0]", "at least 1"),
    Row("CONV-06", lambda g: conv(g, (1, 6, 8, 8), (4, 4, 3, 3)), "conv", "w", "dims[1] = 4", "x's 6 channels"),
    Row("CONV-06", lambda g: conv(g, (1, 2, 8, 8), (4, 4, 3, 3)), "conv", "w", "dims[1] = 4", "x's 2 channels"),
    Row("CONV-07", lambda g: conv(g, (1, 6, 8, 8), (4, 2, 3, 3)), "conv", "w", "dims[0] = 4", "a multiple of 3 groups"),
    Row("CONV-08", lambda g: conv1(g, dilation=4), "conv", "w", "[3, 3], result would be [0, 0]", "[8, 8]"),
    Row("CONV-08", lambda g: conv1(g, dilation=BIG), "conv", "w", "[3, 3]", "fits into x's [8, 8]"),
    Row("CONV-09", lambda g: conv1(g, conv_mode="unset"), "conv", "conv_mode", "UNSET", "CROSS_CORRELATION"),
    Row("CONV-10", lambda g: conv1(g, padding=1, post_padding=2), "conv", "post_padding", "[2] beside padding [1]", "either"),
    Row("CONV-10", lambda g: conv1(g, padding=0, pre_padding=(1, 1)), "conv", "pre_padding", "[1, 1] beside padding [0]", "either"),
    # matmul
    Row("MATMUL-01", lambda g: matmul(g, (2, 3), (1, 3, 4)), "mm", "b", "ranks 2 and 3", "equal ranks from 2 to 5"),
    Row("MATMUL-01", lambda g: matmul(g, (3,), (3,)), "mm", "b", "ranks 1 and 1", "2 to 5"),
    Row("MATMUL-01", lambda g: matmul(g, (1,) * 6, (1,) * 6), "mm", "b", "ranks 6 and 6", "2 to 5"),
    Row("MATMUL-02", lambda g: matmul(g, (2, 3), (4, 3)), "mm", "b", "[4, 3]", "dims[-2] = 3"),
    Row("MATMUL-03", lambda g: matmul(g, (4, 1, 2, 3), (6, 1, 3, 2)), "mm", "b", "batch dims[0] 4 and 6", "divides"),
    # pointwise
    Row("PW-01", lambda g: pw(g, mode="unset"), "pw", "mode", "UNSET", "one of"),
    Row("PW-02", lambda g: pw(g, mode="add"), "pw", "in_1", "inputs in_0", "2 input(s) for ADD"),
    Row("PW-02", lambda g: pw(g, x(g), x(g), x(g), mode="add"), "pw", "in_2", "in_0, in_1, in_2", "2 input(s)"),
    Row("PW-02", lambda g: pw(g, x(g), None, x(g), mode="add"), "pw", "in_1", "in_0, in_2", "2 input(s)"),
    Row("PW-03", lambda g: pw(g, x(g), x(g, 2), mode="add"), "pw", "in_0", "in_0 [2, 3], in_1 [2]", "equal extents or 1"),
    Row("PW-04", lambda g: pw(g, mode="abs", elu_alpha=2), "pw", "elu_alpha", "2.0", "ABS takes no attributes"),
    Row("PW-04", lambda g: pw(g, mode="elu_fwd", axis=0), "pw", "axis", "0", "ELU_FWD takes elu_alpha"),
    Row("PW-05", lambda g: pw(g, mode="gen_index"), "pw", "axis", "None", "from 0 to 1"),
    Row("PW-05", lambda g: pw(g, mode="gen_index", axis=2), "pw", "axis", "2", "from 0 to 1"),
    Row("PW-05", lambda g: g.gen_index(x(g), axis=-1, name="i").set_output(), "i", "axis", "-1", "from 0 to 1"),
    Row("PW-06", lambda g: pw(g, mode="relu_fwd", relu_upper_clip=0), "pw", "relu_upper_clip", "0.0", "more than the lower clip 0.0"),
    Row("PW-06", lambda g: pw(g, mode="relu_fwd", relu_lower_clip=3, relu_upper_clip=2), "pw", "relu_upper_clip", "2.0", "3.0"),
    Row("PW-06", lambda g: pw(g, mode="softplus_fwd", softplus_beta=1e-60), "pw", "softplus_beta", "0", "other than 0"),
    Row("PW-07", lambda g: pw(g, mode="exp", compute_data_type="int32"), "pw", "compute_data_type", "int32", "floating type for EXP"),
    Row("PW-07", lambda g: pw(g, x(g), x(g), mode="relu_bwd", compute_data_type="int64"), "pw", "compute_data_type", "int64", "RELU_BWD"),
    Row("PW-08", lambda g: pw(g, mode="swish_fwd", swish_beta=math.nan), "pw", "swish_beta", "nan", "finite float32"),
    Row("PW-08", lambda g: pw(g, mode="relu_fwd", relu_upper_clip=math.inf), "pw", "relu_upper_clip", "inf", "finite"),
    Row("PW-08", lambda g: pw(g, mode="elu_fwd", elu_alpha=1e39), "pw", "elu_alpha", "1e+39", "float32"),
    # reduction
    Row("REDUCE-01", lambda g: reduce(g, mode="not_set", axes=[0]), "sum", "mode", "NOT_SET", "one of"),
    Row("REDUCE-02", reduce, "sum", "y", "no dims", "1 where reduced"),
    Row("REDUCE-03", lambda g: reduce(g, y=(1, 2)), "sum", "y", "[1, 2]", "[2, 3]"),
    Row("REDUCE-03", lambda g: reduce(g, y=(1,)), "sum", "y", "[1]", "[2, 3]"),
    Row("REDUCE-04", lambda g: reduce(g, axes=[2]), "sum", "axes", "[2]", "rank 2"),
    Row("REDUCE-04", lambda g: reduce(g, axes=[-3]), "sum", "axes", "[-3]", "rank 2"),
    Row("REDUCE-04", lambda g: reduce(g, axes=[0, -2]), "sum", "axes", "[0, -2]", "distinct"),
    Row("REDUCE-05", lambda g: reduce(g, axes=[]), "sum", "axes", "none", "at least one dim"),
    Row("REDUCE-05", lambda g: reduce(g, y=(2, 3)), "sum", "y", "[2, 3]", "1 in at least one dim"),
    Row("REDUCE-06", lambda g: reduce(g, mode="avg", axes=0, compute_data_type="int32"), "sum", "compute_data_type", "int32", "AVG"),
    Row("REDUCE-06", lambda g: reduce(g, mode="norm2", axes=0, compute_data_type="int64"), "sum", "compute_data_type", "int64", "NORM2"),
]  # fmt: skip


def found(
    build: Callable[[Graph], object], kind: type[Graph] = Graph
) -> tuple[list[Problem], Graph]:
    """All problems that a mistake leads to, whether at once or on checking."""
    g = kind("g", io_data_type="float")
    try:
        build(g)
    except GraphError as error:
        return list(error.problems), g
    problems = g.problems()
    with pytest.raises(GraphError) as caught:
        g.freeze()
    assert list(caught.value.problems) == problems
    with pytest.raises(GraphError) as caught:
        g.validate()
    assert list(caught.value.problems) == problems
    return problems, g


@pytest.mark.parametrize("row", TABLE, ids=[f"{r.rule}-{i}" for i, r in enumerate(TABLE)])
def test_mistake(row: Row) -> None:
    problems, _ = found(row.build)
    # One mistake is one problem, or those that the table lists beside it.
    assert [p.rule for p in problems] == sorted([row.rule, *row.also], key=lambda r: r != row.rule)
    problem = problems[0]
    assert (problem.node, problem.port) == (row.node, row.port)
    assert row.got in problem.got
    assert row.wanted in problem.wanted
    assert len(str(problem)) < 650
    assert set(problem.as_dict()) - {"at"} == {"rule", "node", "port", "got", "wanted", "hint"}


PLACELESS = ("GRAPH-01",)
"""Rules of a graph in which there is nothing to point at."""


@pytest.mark.parametrize("row", TABLE, ids=[f"{r.rule}-{i}" for i, r in enumerate(TABLE)])
def test_a_script_is_told_the_line(row: Row) -> None:
    problems, _ = found(row.build, Script)
    lines = [problem.at for problem in problems if problem.rule not in PLACELESS]
    assert all(re.search(r"(test_rules|rule_graphs)\.py:\d+$", line) for line in lines), lines


def test_a_number_that_the_compute_type_cannot_hold() -> None:
    """As in a script that scales int32 sums: told by the call, with the way out."""
    g = Script("g", io_data_type="int8", compute_data_type="int32")
    total = g.matmul(g.tensor(dims=(4, 8)), g.tensor(dims=(8, 4))).set_data_type("int32")
    count = len(g.tensors)
    with pytest.raises(GraphError) as caught:
        g.mul(total, 0.01, name="scaled")
    (problem,) = caught.value.problems
    assert (problem.rule, problem.where, problem.got) == ("TENSOR-08", "scaled.in_1", "0.01")
    assert 'compute_data_type="float"' in problem.hint
    assert problem.at.startswith(__file__)
    assert len(g.tensors) == count
    g.mul(total, 0.01, compute_data_type="float").set_output()
    assert g.problems() == []


def test_a_tensor_without_a_name_is_told_by_its_node() -> None:
    g = Script("g", io_data_type="int8")
    g.add(g.tensor(dims=(2,)), g.scalar(0.5, data_type="int8"), name="sum").set_output()
    g.relu(g.tensor(), name="r").set_output()
    problems = g.problems()
    assert [(p.rule, p.where) for p in problems] == [
        ("TENSOR-08", "sum.in_1"),
        ("TENSOR-02", "r.in_0"),
    ]
    assert all(p.at.startswith(__file__) and p.hint for p in problems)
    with pytest.raises(GraphError) as caught:
        g.relu(g.tensor(dims=(2, 8), strides=(4, 1)), name="refused")
    (problem,) = caught.value.problems
    assert (problem.rule, problem.where) == ("TENSOR-06", "refused.in_0")
    assert problem.at.startswith(__file__)


def test_the_table_covers_all_rules() -> None:
    rules = set(validate.RULES) | set(tensor_rules.RULES)
    for op in (ConvFprop, Matmul, Pointwise, Reduction):
        rules |= set(op.RULES)
    table = {row.rule for row in TABLE}
    assert table <= rules
    # TENSOR-03 needs a graph without default types; rules of other ops that share a table with
    # these have their rows beside those ops' tests.
    tests = Path(__file__).parents[1].rglob("test_*.py")
    elsewhere = "".join(path.read_text("utf-8") for path in tests)
    assert {rule for rule in rules - table if f'"{rule}"' not in elsewhere} == set()


@pytest.mark.parametrize("rule", ["TENSOR-03"])
def test_types_are_missing(rule: str) -> None:
    g = Graph()
    y = g.exp(g.tensor(dims=(2,), name="x"), name="e")
    g.relu(y, name="r").set_output()
    problems = g.problems()
    assert [(p.rule, p.node, p.port) for p in problems] == [
        (rule, "e", "in_0"),
        (rule, "e", "out_0"),
        (rule, "r", "out_0"),
    ]
    assert {p.got for p in problems} == {"no data type"}
    # One default type is enough for virtual tensors, and the I/O type for all.
    assert [p.port for p in with_types(compute_data_type="float").problems()] == ["in_0", "out_0"]
    assert with_types(io_data_type="half").problems() == []
    assert with_types(intermediate_data_type="half").problems() != []


def with_types(**types: str) -> Graph:
    g = Graph(**types)
    g.relu(g.exp(g.tensor(dims=(2,)))).set_output()
    return g


def test_attributes_are_converted_as_arguments_are() -> None:
    g = Graph()
    g.io_data_type = "half"  # type: ignore[assignment]
    g.name = "other"
    assert "half" in repr(g)
    n = g.dynamic("n", range=(1, 64), example=4)
    a, c = g.tensor(), g.tensor()
    a.dims, a.strides, a.data_type = [2, np.int64(6)], [np.int32(6), 1], "float"  # type: ignore[assignment]
    assert (a.dims, a.strides, str(a.data_type)) == ((2, 6), (6, 1), "DataType.FLOAT")
    c.dims = (n, 6)  # type: ignore[assignment]
    assert (c.dims, c.dynamic) == ((4, 6), ("n", ""))
    c.dims = [2, 6]  # type: ignore[assignment]
    assert c.dynamic == ()
    y = g.add(a, c).set_output()
    assert g.freeze().tensors[y.uid].dims == (2, 6)
