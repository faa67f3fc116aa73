# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One readable ``Graph`` method per pointwise mode, each a call of ``pointwise``.

Every method takes ``compute_data_type`` (type to compute in) and ``name`` (label of the node) and
returns the result tensor; ``pointwise`` documents broadcasting, scalars and errors.
"""

from __future__ import annotations

from inspect import Parameter, Signature, isfunction, signature
from typing import TypedDict, TypeVar, Unpack

from .. import arguments
from ..dtypes import DataType
from ..enums import PointwiseMode
from ..tensor import Scalar, Tensor
from .base import OpSink
from .pointwise import Pointwise, pointwise

Operand = Tensor | Scalar
M = TypeVar("M", bound=OpSink)

OUTPUTS = Pointwise.OUTPUTS
"""The result of every method."""


class NodeOptions(TypedDict, total=False):
    """Keyword parameters that every op method takes."""

    compute_data_type: DataType | str
    name: str


def _signatures(methods: type[M]) -> type[M]:
    """Write out the options of methods, which help() and editors show, and name them by Graph."""
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, default, kind in (
            ("compute_data_type", DataType.UNSET, "DataType | str"),
            ("name", "", "str"),
        )
    ]
    for name, method in vars(methods).items():
        if isfunction(method):
            method.__qualname__ = f"Graph.{name}"  # as a TypeError calls it
            given = [*signature(method).parameters.values()]
            if given[-1].kind is Parameter.VAR_KEYWORD:
                told = Signature([*given[:-1], *options], return_annotation="Tensor")
                setattr(method, "__signature__", told)  # noqa: B010  # no attribute of functions
    return methods


@_signatures
class PointwiseMethods(OpSink):
    """Mixin of ``Graph``."""

    def abs(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return |x|."""
        return pointwise(self, x, mode=PointwiseMode.ABS, **options)

    def cast(self, x: Tensor, data_type: DataType | str, *, name: str = "") -> Tensor:
        """Convert a tensor to another data type.

        The node is pointwise IDENTITY, which hipDNN knows, with the result's type set.

        Parameters
        ----------
        x : Tensor
            Any dims, data type and layout.
        data_type : DataType or str
            The result's type.
        name : str
            Label of the node.

        Returns
        -------
        Tensor
            x in that type, converted once and without a detour through the compute type: rounded to
            nearest (floats), truncated and saturated (float to integer), saturated (integers), or
            ``≠ 0`` (BOOLEAN); in the layout of ``x`` unless strides are set.

        Raises
        ------
        GraphError
            At once for an argument of the wrong type.
        """
        kind = arguments.data_type(data_type, port="data_type", node=arguments.label(name, "cast"))
        return pointwise(self, x, mode=PointwiseMode.IDENTITY, name=name).set_data_type(kind)

    def ceil(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return the smallest integer not below x."""
        return pointwise(self, x, mode=PointwiseMode.CEIL, **options)

    def cos(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return cos(x), x in radians."""
        return pointwise(self, x, mode=PointwiseMode.COS, **options)

    def erf(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return the error function of x."""
        return pointwise(self, x, mode=PointwiseMode.ERF, **options)

    def exp(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return e to the power x."""
        return pointwise(self, x, mode=PointwiseMode.EXP, **options)

    def floor(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return the largest integer not above x."""
        return pointwise(self, x, mode=PointwiseMode.FLOOR, **options)

    def gelu(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return x · Φ(x) with the exact normal distribution (erf)."""
        return pointwise(self, x, mode=PointwiseMode.GELU_FWD, **options)

    def gelu_approx_tanh(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return GELU by its tanh approximation (Hendrycks and Gimpel, 2016)."""
        return pointwise(self, x, mode=PointwiseMode.GELU_APPROX_TANH_FWD, **options)

    def identity(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return x, converted to the output's data type."""
        return pointwise(self, x, mode=PointwiseMode.IDENTITY, **options)

    def log(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return the natural logarithm of x."""
        return pointwise(self, x, mode=PointwiseMode.LOG, **options)

    def logical_not(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where x is 0, else 0."""
        return pointwise(self, x, mode=PointwiseMode.LOGICAL_NOT, **options)

    def neg(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return -x."""
        return pointwise(self, x, mode=PointwiseMode.NEG, **options)

    def reciprocal(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 / x."""
        return pointwise(self, x, mode=PointwiseMode.RECIPROCAL, **options)

    def rsqrt(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 / √x."""
        return pointwise(self, x, mode=PointwiseMode.RSQRT, **options)

    def sigmoid(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 / (1 + e^-x)."""
        return pointwise(self, x, mode=PointwiseMode.SIGMOID_FWD, **options)

    def sin(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return sin(x), x in radians."""
        return pointwise(self, x, mode=PointwiseMode.SIN, **options)

    def sqrt(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return √x."""
        return pointwise(self, x, mode=PointwiseMode.SQRT, **options)

    def tan(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return tan(x), x in radians."""
        return pointwise(self, x, mode=PointwiseMode.TAN, **options)

    def tanh(self, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return tanh(x)."""
        return pointwise(self, x, mode=PointwiseMode.TANH_FWD, **options)

    def add(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return a + b.

        As in NumPy, dims are aligned on the right: a bias for each channel of (N, C, H, W) has dims
        (1, C, 1, 1).
        """
        return pointwise(self, a, b, mode=PointwiseMode.ADD, **options)

    def add_square(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return a + b²."""
        return pointwise(self, a, b, mode=PointwiseMode.ADD_SQUARE, **options)

    def cmp_eq(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where a = b, else 0."""
        return pointwise(self, a, b, mode=PointwiseMode.CMP_EQ, **options)

    def cmp_ge(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where a ≥ b, else 0."""
        return pointwise(self, a, b, mode=PointwiseMode.CMP_GE, **options)

    def cmp_gt(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where a > b, else 0."""
        return pointwise(self, a, b, mode=PointwiseMode.CMP_GT, **options)

    def cmp_le(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where a ≤ b, else 0."""
        return pointwise(self, a, b, mode=PointwiseMode.CMP_LE, **options)

    def cmp_lt(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where a < b, else 0."""
        return pointwise(self, a, b, mode=PointwiseMode.CMP_LT, **options)

    def cmp_neq(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where a ≠ b, else 0."""
        return pointwise(self, a, b, mode=PointwiseMode.CMP_NEQ, **options)

    def div(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return a / b; between integers, truncated toward zero."""
        return pointwise(self, a, b, mode=PointwiseMode.DIV, **options)

    def logical_and(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where neither a nor b is 0, else 0."""
        return pointwise(self, a, b, mode=PointwiseMode.LOGICAL_AND, **options)

    def logical_or(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return 1 where a or b is not 0, else 0."""
        return pointwise(self, a, b, mode=PointwiseMode.LOGICAL_OR, **options)

    def max(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return the larger of a and b; NaN if either is."""
        return pointwise(self, a, b, mode=PointwiseMode.MAX, **options)

    def min(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return the smaller of a and b; NaN if either is."""
        return pointwise(self, a, b, mode=PointwiseMode.MIN, **options)

    def mod(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return the remainder of a / b with the sign of a (C's fmod, exact)."""
        return pointwise(self, a, b, mode=PointwiseMode.MOD, **options)

    def mul(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return a · b."""
        return pointwise(self, a, b, mode=PointwiseMode.MUL, **options)

    def pow(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return a to the power b (C's pow: negative bases with integer exponents, x^0 = 1)."""
        return pointwise(self, a, b, mode=PointwiseMode.POW, **options)

    def sub(self, a: Operand, b: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return a - b."""
        return pointwise(self, a, b, mode=PointwiseMode.SUB, **options)

    def relu(
        self,
        x: Operand,
        *,
        lower_clip: float | None = None,
        upper_clip: float | None = None,
        lower_clip_slope: float | None = None,
        **options: Unpack[NodeOptions],
    ) -> Tensor:
        """Return x clipped to [lower_clip (0), upper_clip (∞)], leaky below with the slope (0).

        NaN stays NaN.
        """
        return pointwise(
            self,
            x,
            mode=PointwiseMode.RELU_FWD,
            relu_lower_clip=lower_clip,
            relu_upper_clip=upper_clip,
            relu_lower_clip_slope=lower_clip_slope,
            **options,
        )

    def elu(self, x: Operand, alpha: float | None = None, **options: Unpack[NodeOptions]) -> Tensor:
        """Return x above 0 and alpha (1) · (e^x - 1) elsewhere."""
        return pointwise(self, x, mode=PointwiseMode.ELU_FWD, elu_alpha=alpha, **options)

    def softplus(
        self, x: Operand, beta: float | None = None, **options: Unpack[NodeOptions]
    ) -> Tensor:
        """Return log(1 + e^(beta · x)) / beta, beta 1 by default."""
        return pointwise(self, x, mode=PointwiseMode.SOFTPLUS_FWD, softplus_beta=beta, **options)

    def swish(
        self, x: Operand, beta: float | None = None, **options: Unpack[NodeOptions]
    ) -> Tensor:
        """Return x · sigmoid(beta · x), beta 1 by default (SiLU)."""
        return pointwise(self, x, mode=PointwiseMode.SWISH_FWD, swish_beta=beta, **options)

    def gen_index(self, x: Operand, axis: int, **options: Unpack[NodeOptions]) -> Tensor:
        """Return, with the dims of x, each element's index along ``axis``."""
        return pointwise(self, x, mode=PointwiseMode.GEN_INDEX, axis=axis, **options)

    def binary_select(
        self, a: Operand, b: Operand, mask: Operand, **options: Unpack[NodeOptions]
    ) -> Tensor:
        """Return a where mask is not 0, else b (cuDNN's operand order: in_2 is the predicate)."""
        return pointwise(self, a, b, mask, mode=PointwiseMode.BINARY_SELECT, **options)

    def gelu_backward(self, dy: Operand, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return dy times the derivative of x · Φ(x) at x, the forward mode's input."""
        return pointwise(self, dy, x, mode=PointwiseMode.GELU_BWD, **options)

    def gelu_approx_tanh_backward(
        self, dy: Operand, x: Operand, **options: Unpack[NodeOptions]
    ) -> Tensor:
        """Return dy times the derivative of the tanh approximation of GELU at x."""
        return pointwise(self, dy, x, mode=PointwiseMode.GELU_APPROX_TANH_BWD, **options)

    def sigmoid_backward(self, dy: Operand, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return dy times the derivative of the sigmoid at x, the forward mode's input."""
        return pointwise(self, dy, x, mode=PointwiseMode.SIGMOID_BWD, **options)

    def tanh_backward(self, dy: Operand, x: Operand, **options: Unpack[NodeOptions]) -> Tensor:
        """Return dy times the derivative of tanh at x, the forward mode's input."""
        return pointwise(self, dy, x, mode=PointwiseMode.TANH_BWD, **options)

    def relu_backward(
        self,
        dy: Operand,
        x: Operand,
        *,
        lower_clip: float | None = None,
        upper_clip: float | None = None,
        lower_clip_slope: float | None = None,
        **options: Unpack[NodeOptions],
    ) -> Tensor:
        """Return dy where x is between the clips, dy times the slope (0) below, 0 above."""
        return pointwise(
            self,
            dy,
            x,
            mode=PointwiseMode.RELU_BWD,
            relu_lower_clip=lower_clip,
            relu_upper_clip=upper_clip,
            relu_lower_clip_slope=lower_clip_slope,
            **options,
        )

    def elu_backward(
        self,
        dy: Operand,
        x: Operand,
        alpha: float | None = None,
        **options: Unpack[NodeOptions],
    ) -> Tensor:
        """Return dy where x is above 0, and dy · alpha (1) · e^x elsewhere."""
        return pointwise(self, dy, x, mode=PointwiseMode.ELU_BWD, elu_alpha=alpha, **options)

    def softplus_backward(
        self,
        dy: Operand,
        x: Operand,
        beta: float | None = None,
        **options: Unpack[NodeOptions],
    ) -> Tensor:
        """Return dy · sigmoid(beta · x), beta 1 by default."""
        return pointwise(
            self, dy, x, mode=PointwiseMode.SOFTPLUS_BWD, softplus_beta=beta, **options
        )

    def swish_backward(
        self,
        dy: Operand,
        x: Operand,
        beta: float | None = None,
        **options: Unpack[NodeOptions],
    ) -> Tensor:
        """Return dy · s · (1 + beta · x · (1 - s)), s = sigmoid(beta · x), beta 1 by default."""
        return pointwise(self, dy, x, mode=PointwiseMode.SWISH_BWD, swish_beta=beta, **options)
