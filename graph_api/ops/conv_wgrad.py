# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of a convolution with respect to its filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..enums import ConvMode
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Match, OpSink, Port, Ports
from .conv_fprop import CONV_FIELDS, CONV_RULES, ConvOp, conv_arguments
from .fields import Field, inputs, outputs

Ints = tuple[int, ...]

WGRAD_RULES = {
    "WGRAD-01": "dw's dims are given, as they decide the group count and the filter size",
}


@dataclass(frozen=True, kw_only=True)
class ConvWgrad(ConvOp):
    """dw = the adjoint of conv(x, ·), applied to dy; group count = x.dims[1] / dw.dims[1].

    Attributes
    ----------
    dw_dims : tuple of int
        The result's dims; filled in when the graph is frozen.
    """

    dw_dims: Ints = ()

    NAME: ClassVar[str] = "conv_wgrad"
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"), Port("dy"))
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("dw"),)
    LIKE: ClassVar[Mapping[str, str]] = {"dw": "dy"}
    RULES: ClassVar[Mapping[str, str]] = CONV_RULES | WGRAD_RULES
    TYPE_NAME: ClassVar[str] = "ConvolutionWrwAttributes"
    WIRE_CODE: ClassVar[int | None] = 7
    MATCH: ClassVar[Match | None] = Match(priority=70)
    COSTS: ClassVar[bool] = True
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x", "dy"),
        *outputs("dw"),
        *CONV_FIELDS,
    )

    def resolve(self, t: Ports) -> Self:
        return self.with_spatial_rank(max(len(t.dims("x")) - 2, 0))

    def check(self, t: Ports) -> Iterator[Problem]:
        dw = t.given("dw")
        if dw is None:
            yield t.problem(
                "WGRAD-01",
                "dw",
                "no dims",
                "dims (K, C/groups, spatial...)",
                "give dw_dims, or set_dim on the result",
            )
        else:
            yield from self.check_gradient(t, "x", "dw", t.dims("x"), dw)

    def settle(self, t: Ports) -> Self:
        return replace(self, dw_dims=t.dims("dw"))

    def at(
        self, before: Mapping[str, Ints], after: Mapping[str, Ints]
    ) -> tuple[Self, Mapping[str, Ints]]:
        dw, groups = before["dw"], before["x"][1] // before["dw"][1]
        dims = (after["dy"][1], after["x"][1] // groups, *dw[2:])
        return replace(self, dw_dims=dims if self.dw_dims else ()), {"dw": dims}

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"dw": Inferred(dims=t.dims("dw"))}

    def follows(self, at: Axis) -> Follows:
        return "the filter's gradient is a sum over it"


def conv_wgrad(
    graph: OpSink,
    dy: Tensor,
    x: Tensor,
    *,
    dw_dims: Sequence[int] | None = None,
    padding: Sequence[int] | int = (),
    pre_padding: Sequence[int] | int = (),
    post_padding: Sequence[int] | int = (),
    stride: Sequence[int] | int = (),
    dilation: Sequence[int] | int = (),
    conv_mode: ConvMode | str = ConvMode.CROSS_CORRELATION,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Return the gradient of a convolution's filter: what ``conv_fprop`` was given as ``w``.

    ``dw[k, c, t] = Σ dy[n, k, o] · x[n, c, o · stride + t · dilation - pre_padding]`` over all
    samples n and positions o (x is 0 outside; t counted from the end in CONVOLUTION mode).  The
    formula is the transpose of hipDNN's forward convolution as a linear map of w.

    Parameters
    ----------
    dy : Tensor
        Gradient of the result, dims (N, K, ...) of the forward result, any dense layout.
    x : Tensor
        Input, dims (N, C, spatial...), any dense layout.
    dw_dims : sequence of int
        The filter's dims (K, C/groups, spatial...); ``set_dim`` on the result does the same.
    padding, pre_padding, post_padding, stride, dilation, conv_mode
        Those of the forward convolution; see ``conv_fprop``.
    compute_data_type : DataType or str
        Type to accumulate in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        dw, in the layout of ``dy`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type and for contradicting paddings; at ``validate``
        for broken rules (CONV-…, WGRAD-01).
    """
    node = arguments.label(name, ConvWgrad.NAME)
    op = ConvWgrad(
        **conv_arguments(
            node,
            padding=padding,
            pre_padding=pre_padding,
            post_padding=post_padding,
            stride=stride,
            dilation=dilation,
        ),
        conv_mode=arguments.mode(ConvMode, conv_mode, port="conv_mode", node=node),
    )
    result = graph.add_node(op, {"x": x, "dy": dy}, compute=compute_data_type, name=name)["dw"]
    return result if dw_dims is None else result.set_dim(dw_dims)
