"""Sample problems of the pointwise modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.enums import PointwiseMode
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from .base import FLOATS, INTEGERS, NUMBERS, Sample, sampler
from .building import padded_strides, sample_graph, wide_type

__all__ = ["BACKWARD", "FORWARD", "WHOLE", "sample_problems"]

_P = PointwiseMode
Dims = tuple[int, ...]
Build = Callable[[DataType], Graph]

FORWARD = tuple(m for m in _P if m.result != "backward" and m is not _P.UNSET)
BACKWARD = tuple(m for m in _P if m.result == "backward")
# Modes that integers have as well; the others need a floating compute type.
WHOLE = frozenset(m for m in FORWARD if m.result != "float")
_DIMS, _PORTS = (3, 5, 14), ("in_0", "in_1", "in_2")
_IMAGE = (2, 5, 6, 7)


def _apply(
    mode: PointwiseMode,
    *dims: Dims,
    strides: tuple[Dims | None, ...] = (None, None, None),
    result_strides: Dims | None = None,
    result: DataType | None = None,
    compute: DataType | None = None,
    **attributes: Any,
) -> Build:
    """Return a builder of one node; ``dims`` are those of each operand."""

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        operands = [
            g.tensor(dims=d, strides=s, name=p)
            for d, s, p in zip(dims, strides, _PORTS, strict=False)
        ]
        y = g.output(g.pointwise(*operands, mode=mode, **attributes), name="out_0")
        if result:
            y.set_data_type(result)
        if result_strides:
            y.set_stride(result_strides)
        return g

    return build


def _of_mode(mode: PointwiseMode) -> Build:
    attributes: dict[str, Any] = {"axis": 1} if mode is _P.GEN_INDEX else {}
    result = DataType.BOOLEAN if mode.result == "bool" else None
    return _apply(mode, *[_DIMS] * mode.arity, result=result, **attributes)


_ATTRIBUTES: tuple[tuple[str, PointwiseMode, dict[str, Any]], ...] = (
    ("relu6", _P.RELU_FWD, {"relu_upper_clip": 6.0}),
    ("relu_lower", _P.RELU_FWD, {"relu_lower_clip": -1.5}),
    ("leaky_relu", _P.RELU_FWD, {"relu_lower_clip_slope": 0.1}),
    (
        "relu_all",
        _P.RELU_FWD,
        {"relu_lower_clip": -0.5, "relu_upper_clip": 1.25, "relu_lower_clip_slope": 0.25},
    ),
    ("elu_alpha", _P.ELU_FWD, {"elu_alpha": 0.3}),
    ("softplus_beta", _P.SOFTPLUS_FWD, {"softplus_beta": 2.5}),
    ("swish_beta", _P.SWISH_FWD, {"swish_beta": 1.702}),
    (
        "relu_bwd_all",
        _P.RELU_BWD,
        {"relu_lower_clip": -0.5, "relu_upper_clip": 1.25, "relu_lower_clip_slope": 0.25},
    ),
    ("elu_bwd_alpha", _P.ELU_BWD, {"elu_alpha": 0.3}),
    ("softplus_bwd_beta", _P.SOFTPLUS_BWD, {"softplus_beta": 2.5}),
    ("swish_bwd_beta", _P.SWISH_BWD, {"swish_beta": 1.702}),
    ("x_before_dy", _P.GELU_BWD, {"operands": "x_dy"}),
    ("gen_index_first", _P.GEN_INDEX, {"axis": 0}),
    ("gen_index_last", _P.GEN_INDEX, {"axis": 2}),
)
_LAYOUTS: tuple[tuple[str, Build, str], ...] = (
    ("rank1", _apply(_P.ADD, (37,), (37,)), "prime"),
    ("single", _apply(_P.ADD, (1,), (1,)), "size1"),
    ("rank8", _apply(_P.MUL, (2, 1, 2, 3, 1, 2, 2, 2), (2, 2, 2, 2)), "broadcast"),
    ("tile_minus1", _apply(_P.ADD, (15, 63), (15, 63)), "tile"),
    ("tile_plus1", _apply(_P.SUB, (17, 65), (17, 65)), "tile"),
    ("primes", _apply(_P.MUL, (7, 11, 13), (7, 11, 13)), "prime"),
    ("bias", _apply(_P.ADD, _IMAGE, (1, 5, 1, 1)), "broadcast"),
    ("lower_rank", _apply(_P.MUL, _IMAGE, (6, 7)), "broadcast"),
    ("column_by_row", _apply(_P.MUL, (9, 1), (1, 13)), "broadcast"),
    ("first_is_smaller", _apply(_P.SUB, (7,), _IMAGE), "broadcast"),
    ("three_broadcast", _apply(_P.BINARY_SELECT, (5, 1), (1, 7), (3, 1, 1)), "broadcast"),
    (
        "nhwc",
        _apply(_P.ADD, _IMAGE, _IMAGE, strides=(channels_last_strides(_IMAGE),) * 2),
        "nhwc",
    ),
    (
        "nhwc_bias",
        _apply(_P.ADD, _IMAGE, (1, 5, 1, 1), strides=(channels_last_strides(_IMAGE), None)),
        "nhwc broadcast",
    ),
    (
        "nchw_plus_nhwc",
        _apply(_P.ADD, _IMAGE, _IMAGE, strides=(None, channels_last_strides(_IMAGE))),
        "nhwc mixed_layout",
    ),
    (
        "transpose_only",
        _apply(_P.IDENTITY, _IMAGE, result_strides=channels_last_strides(_IMAGE)),
        "mixed_layout",
    ),
    (
        "odd_permutations",
        _apply(
            _P.SUB,
            _IMAGE,
            _IMAGE,
            strides=(
                strides_in_order(_IMAGE, (2, 0, 3, 1)),
                strides_in_order(_IMAGE, (3, 1, 0, 2)),
            ),
            result_strides=strides_in_order(_IMAGE, (1, 3, 2, 0)),
        ),
        "permuted mixed_layout",
    ),
    (
        "padded",
        _apply(
            _P.ADD,
            _IMAGE,
            _IMAGE,
            strides=(
                tuple(padded_strides(_IMAGE, range(4), (0, 1, 0, 3))),
                tuple(padded_strides(_IMAGE, (0, 2, 3, 1), (0, 2, 1, 0))),
            ),
        ),
        "padded mixed_layout",
    ),
    ("step3", _apply(_P.MUL, (4, 9), (4, 9), strides=((27, 3), (9, 1))), "padded"),
    (
        "stride0",
        _apply(_P.SUB, _IMAGE, _IMAGE, strides=((0, 42, 7, 1), (210, 0, 0, 1))),
        "broadcast",
    ),
    ("stride0_all", _apply(_P.ADD, (3, 4), (3, 4), strides=((0, 0), None)), "broadcast"),
)


def _with_scalar(value_of: Callable[[DataType], float], mode: PointwiseMode) -> Build:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        x = g.tensor(dims=(5, 9), name="x")
        constant = g.scalar(value_of(data_type), data_type=data_type, name="constant")
        g.output(g.pointwise(x, constant, mode=mode), name="y")
        return g

    return build


def _only_scalars(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    a, b = g.scalar(3, data_type=data_type), g.scalar(5, data_type=data_type)
    g.output(g.mul(g.add(a, b), 2), name="y")
    return g


def _scalar_operand(data_type: DataType) -> Graph:
    """Return a graph with a one-element tensor that has a buffer."""
    g = sample_graph(data_type)
    g.mul(g.tensor(dims=(4, 6)), g.tensor(dims=(1,))).set_output()
    return g


def _same_tensor(mode: PointwiseMode) -> Build:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        x = g.tensor(dims=(6, 7))
        g.pointwise(x, x, mode=mode).set_output()
        return g

    return build


def _all_results(data_type: DataType) -> Graph:
    """Return a graph whose intermediate is an output as well, next to an input passed through."""
    g = sample_graph(data_type)
    a, b = g.tensor(dims=(4, 9), name="a"), g.tensor(dims=(4, 9), name="b")
    total = g.output(g.add(a, b), name="total")
    g.output(g.relu(total), name="positive")
    g.output(g.identity(a), name="copy")
    return g


def _narrow_intermediate(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(5, 12))
    steps = g.mul(x, 3.0)
    steps.set_data_type(DataType.INT8)
    g.output(g.mul(steps, 0.25), name="y")
    return g


def _mask(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    a, b = g.tensor(dims=(6, 8)), g.tensor(dims=(6, 8))
    above = g.cmp_gt(a, b)
    above.set_data_type(DataType.BOOLEAN)
    g.output(g.binary_select(a, g.neg(b), above), name="y")
    return g


def _gated(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x, gate, bias = (g.tensor(dims=d) for d in ((4, 33), (4, 33), (33,)))
    g.add(g.mul(g.swish(gate), g.tanh(x)), g.exp(g.neg(g.abs(bias)))).set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the pointwise modes."""
    half, float_, double, int8 = DataType.HALF, DataType.FLOAT, DataType.DOUBLE, DataType.INT8
    int32, boolean = DataType.INT32, DataType.BOOLEAN
    sample = sampler("pointwise", NUMBERS)

    def convert(name: str, result: DataType, dtypes: tuple[DataType, ...]) -> Sample:
        wide = max((float_, *dtypes), key=lambda t: t.bits if t.is_float else 0)
        return sample(
            name, _apply(_P.IDENTITY, (4, 50), result=result, compute=wide), "mixed", dtypes
        )

    compared = [m for m in FORWARD if m.result == "bool"]
    low = (half, DataType.BFLOAT16)
    return (
        *(
            sample(m.name.lower(), _of_mode(m), "mode", NUMBERS if m in WHOLE else FLOATS)
            for m in (*FORWARD, *BACKWARD)
        ),
        *(
            sample(f"{m.name.lower()}_own_type", _apply(m, *[_DIMS] * m.arity), "mode")
            for m in compared
        ),
        *(
            sample(name, _apply(mode, *[_DIMS] * mode.arity, **attributes), "attributes", FLOATS)
            for name, mode, attributes in _ATTRIBUTES
        ),
        *(sample(name, build, tags) for name, build, tags in _LAYOUTS),
        sample("scalar_fraction", _with_scalar(lambda t: 0.1, _P.ADD), "scalar", FLOATS),
        sample("scalar_negative", _with_scalar(lambda t: -3, _P.MUL), "scalar", FLOATS),
        sample("scalar_whole", _with_scalar(lambda t: 7, _P.SUB), "scalar"),
        sample("only_scalars", _only_scalars, "scalar"),
        sample("scalar_operand", _scalar_operand, "scalar broadcast"),
        sample("same_tensor_add", _same_tensor(_P.ADD), "alias"),
        sample("same_tensor_mul", _same_tensor(_P.MUL), "alias"),
        sample("same_tensor_div", _same_tensor(_P.DIV), "alias"),
        sample("all_results", _all_results, "chain shared_output passthrough"),
        sample("narrow_intermediate", _narrow_intermediate, "chain mixed", FLOATS),
        sample("mask", _mask, "chain"),
        sample("gated", _gated, "chain broadcast", FLOATS),
        sample("compute_half", _apply(_P.ADD_SQUARE, (8, 9), (8, 9), compute=half), "compute", low),
        sample("exp_compute_half", _apply(_P.EXP, (8, 9), compute=half), "compute", (half,)),
        sample("compute_double", _apply(_P.EXP, (8, 9), compute=double), "compute", FLOATS),
        sample(
            "int_exp_in_float",
            _apply(_P.EXP, (8, 9), compute=float_, result=float_),
            "compute mixed",
            INTEGERS,
        ),
        sample(
            "int_mul_in_float", _apply(_P.MUL, (8, 9), (8, 9), compute=float_), "compute", INTEGERS
        ),
        convert("to_half", half, (float_, DataType.BFLOAT16, double, int8, int32)),
        convert("to_bfloat16", DataType.BFLOAT16, (float_, half, int8)),
        convert("to_float", float_, (half, DataType.BFLOAT16, double, *INTEGERS[:3])),
        convert("to_double", double, (half, DataType.BFLOAT16, float_)),
        convert("to_int8", int8, (*FLOATS, int32)),
        convert("to_uint8", DataType.UINT8, (*FLOATS, int8, int32)),
        convert("to_int32", int32, (*FLOATS, int8)),
        convert("to_boolean", boolean, (*FLOATS, int8, int32)),
        convert("from_boolean", float_, (boolean,)),
        sample(
            "logical_and_boolean",
            _apply(_P.LOGICAL_AND, (4, 9), (4, 9), compute=wide_type(int8)),
            "mode",
            (boolean,),
        ),
    )
