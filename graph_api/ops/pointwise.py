# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise operations: one op for all modes, as in hipDNN; a mode is a row of PointwiseMode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..enums import PointwiseMode
from ..errors import Problem
from ..layout import broadcast_dims, is_broadcast, strides_like
from ..tensor import Scalar, Tensor
from ..values import stored
from .base import Axis, Follows, Inferred, Match, Op, OpSink, Port, Ports
from .fields import Absent, Field, Kind, fields, inputs, outputs

_INPUTS = ("in_0", "in_1", "in_2")
_FLOATS = (
    "relu_lower_clip",
    "relu_upper_clip",
    "relu_lower_clip_slope",
    "swish_beta",
    "elu_alpha",
    "softplus_beta",
)

# Modes that copy or look at truth values: the compute type plays no part.
_COPYING = (
    PointwiseMode.LOGICAL_AND,
    PointwiseMode.LOGICAL_OR,
    PointwiseMode.LOGICAL_NOT,
    PointwiseMode.IDENTITY,
    PointwiseMode.BINARY_SELECT,
    PointwiseMode.GEN_INDEX,
)


@dataclass(frozen=True, kw_only=True)
class Pointwise(Op):
    """out_0 = mode(in_0[, in_1[, in_2]]) with NumPy's right-aligned broadcasting.

    Attributes
    ----------
    mode : PointwiseMode
        What is computed.
    relu_lower_clip : float or None
        ReLU: below it, L, the result is ``L + slope * (x - L)``; default 0.
    relu_upper_clip : float or None
        ReLU: from it on the result is it; default none.
    relu_lower_clip_slope : float or None
        ReLU: the slope below the lower clip; default 0.
    swish_beta, elu_alpha, softplus_beta : float or None
        Parameter of the mode of that name; default 1.
    axis : int or None
        Dim that GEN_INDEX counts along.
    """

    mode: PointwiseMode
    relu_lower_clip: float | None = None
    relu_upper_clip: float | None = None
    relu_lower_clip_slope: float | None = None
    swish_beta: float | None = None
    elu_alpha: float | None = None
    softplus_beta: float | None = None
    axis: int | None = None

    NAME: ClassVar[str] = "pointwise"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("in_0"),
        Port("in_1", optional=True),
        Port("in_2", optional=True),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("out_0"),)
    RULES: ClassVar[Mapping[str, str]] = {
        "PW-01": "the mode is set",
        "PW-02": "as many inputs as the mode takes",
        "PW-03": "the inputs' dims broadcast to one another (NumPy's rule)",
        "PW-04": "an attribute is only given to a mode that reads it",
        "PW-05": "GEN_INDEX has an axis within in_0's rank",
        "PW-06": "the lower ReLU clip is below the upper one; softplus_beta is not 0",
        "PW-07": "a function of real numbers (EXP, SQRT...) has a floating compute type",
        "PW-08": "an attribute is a finite float32 number, as in hipDNN",
    }
    TYPE_NAME: ClassVar[str] = "PointwiseAttributes"
    WIRE_CODE: ClassVar[int | None] = 2
    MATCH: ClassVar[Match | None] = Match(priority=10, criteria=(("pointwise_mode", "mode"),))
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(
            name="mode",
            kind=Kind.ENUM,
            spelled="operation",
            section="inputs",
            enum=PointwiseMode,
        ),
        *fields(Kind.FLOAT, *_FLOATS[:3], section="inputs", absent=Absent.NULL),
        # hipDNN calls it a tensor uid; it is a plain axis number.
        Field(
            name="axis",
            kind=Kind.INT,
            spelled="axis_tensor_uid",
            section="inputs",
            absent=Absent.NULL,
        ),
        *inputs("in_0"),
        *inputs("in_1", "in_2", absent=Absent.NULL),
        *outputs("out_0"),
        *fields(Kind.FLOAT, *_FLOATS[3:], section="inputs", absent=Absent.NULL),
    )

    def computes(self) -> bool:
        return self.mode not in _COPYING

    @property
    def backward(self) -> bool:
        """Whether it is the gradient of a mode; in_0 is dy and in_1 the forward mode's x."""
        return self.mode.result == "backward"

    def given_attributes(self) -> dict[str, float | int]:
        """Return the attributes that have a value."""
        values = {name: getattr(self, name) for name in (*_FLOATS, "axis")}
        return {name: value for name, value in values.items() if value is not None}

    def inputs_in(self, t: Ports) -> list[str]:
        """Return the connected inputs in order."""
        return [p for p in _INPUTS if p in t]

    def resolve(self, t: Ports) -> Self:
        # The wire format and JSON hold float32: what is computed must not depend on the way
        # that the graph took.
        given = {n: v for n in _FLOATS if (v := getattr(self, n)) is not None}
        rounded: dict[str, Any] = {n: stored(v, DataType.FLOAT) for n, v in given.items()}
        if not rounded:
            return self
        return replace(self, **{n: v for n, v in rounded.items() if v is not None})

    def check(self, t: Ports) -> Iterator[Problem]:
        if self.mode is PointwiseMode.UNSET:
            yield t.problem("PW-01", "mode", "UNSET", "one of the pointwise modes")
            return
        connected = self.inputs_in(t)
        wanted = _INPUTS[: self.mode.arity]
        if connected != list(wanted):
            yield t.problem(
                "PW-02",
                next(p for p in _INPUTS if (p in connected) != (p in wanted)),
                f"inputs {', '.join(connected)}",
                f"{self.mode.arity} input(s) for {self.mode.name}",
            )
            return
        for name, value in self.given_attributes().items():
            if name not in self.mode.attrs:
                allowed = ", ".join(self.mode.attrs) or "no attributes"
                yield t.problem("PW-04", name, value, f"{self.mode.name} takes {allowed}")
            if not abs(value) <= DataType.FLOAT.largest:
                yield t.problem(
                    "PW-08", name, value, "a finite float32 number", "leave it out for no limit"
                )
        if broadcast_dims([t.dims(p) for p in connected]) is None:
            shapes = ", ".join(f"{p} {list(t.dims(p))}" for p in connected)
            yield t.problem(
                "PW-03",
                "in_0",
                shapes,
                "equal extents or 1 in each dim, aligned on the right",
                "a per-channel bias of an (N, C, H, W) tensor has dims (1, C, 1, 1)",
            )
        if "axis" in self.mode.attrs and (
            self.axis is None or not 0 <= self.axis < len(t.dims("in_0"))
        ):
            rank = len(t.dims("in_0"))
            yield t.problem("PW-05", "axis", self.axis, f"an axis from 0 to {rank - 1}")
        if self.mode.result in ("float", "backward") and not t.compute.is_float:
            yield t.problem(
                "PW-07",
                "compute_data_type",
                t.compute.json,
                f"a floating type for {self.mode.name}",
                'pass compute_data_type="float"',
            )
        lower, upper = self.relu_lower_clip or 0.0, self.relu_upper_clip
        if upper is not None and not lower < upper:
            yield t.problem("PW-06", "relu_upper_clip", upper, f"more than the lower clip {lower}")
        if self.softplus_beta == 0:
            yield t.problem("PW-06", "softplus_beta", 0, "a number other than 0")

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        connected = self.inputs_in(t)
        dims = broadcast_dims([t.dims(p) for p in connected])
        assert dims is not None
        strides = None
        for port in connected:
            given = t[port].strides
            if given is not None and t.dims(port) == dims and not is_broadcast(dims, given):
                strides = strides_like(dims, dims, given)
                break
        return {"out_0": Inferred(dims=dims, strides=strides)}

    def follows(self, at: Axis) -> Follows:
        return at.aligned()


def pointwise(
    graph: OpSink,
    in_0: Tensor | Scalar,
    in_1: Tensor | Scalar | None = None,
    in_2: Tensor | Scalar | None = None,
    *,
    mode: PointwiseMode | str,
    relu_lower_clip: float | None = None,
    relu_upper_clip: float | None = None,
    relu_lower_clip_slope: float | None = None,
    swish_beta: float | None = None,
    elu_alpha: float | None = None,
    softplus_beta: float | None = None,
    axis: int | None = None,
    operands: str = "dy_x",
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Apply an elementwise mode; ``graph.relu``, ``graph.add``... are readable shorthands for it.

    Parameters
    ----------
    in_0, in_1, in_2 : Tensor or number
        As many as the mode takes, broadcast as in NumPy; a number becomes a compile-time scalar
        of the compute type.
    mode : PointwiseMode or str
        What to compute.
    relu_lower_clip, relu_upper_clip, relu_lower_clip_slope, swish_beta, elu_alpha, \
softplus_beta : float, optional
        Attributes of the modes of that name; float32, as in hipDNN.
    axis : int, optional
        Dim that GEN_INDEX counts along.
    operands : str
        For a backward mode, what is given as in_0 and in_1: ``"dy_x"`` (cuDNN's order, and the
        one that the node keeps) or ``"x_dy"``.
    compute_data_type : DataType or str
        Type to compute in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        out_0, with the broadcast dims, in the layout of the first input that has these dims.
        Comparisons and logical modes write 1 or 0 in its data type.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (PW-…).
    """
    node = arguments.label(name, Pointwise.NAME)
    floats = {
        "relu_lower_clip": relu_lower_clip,
        "relu_upper_clip": relu_upper_clip,
        "relu_lower_clip_slope": relu_lower_clip_slope,
        "swish_beta": swish_beta,
        "elu_alpha": elu_alpha,
        "softplus_beta": softplus_beta,
    }
    op = Pointwise(
        mode=arguments.mode(PointwiseMode, mode, port="mode", node=node),
        **{port: arguments.real(value, port=port, node=node) for port, value in floats.items()},
        axis=arguments.integer(axis, port="axis", node=node),
    )
    order = arguments.choice(operands, ("dy_x", "x_dy"), port="operands", node=node)
    given = [in_0, in_1, in_2]
    if op.backward and order == "x_dy":
        given[:2] = in_1, in_0
    connected = {p: t for p, t in zip(_INPUTS, given, strict=True) if t is not None}
    return graph.add_node(op, connected, compute=compute_data_type, name=name)["out_0"]
