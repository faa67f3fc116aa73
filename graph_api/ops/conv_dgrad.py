# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of a convolution with respect to its input."""

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

DGRAD_RULES = {
    "DGRAD-01": "dx's dims are given where a stride above 1 leaves them open",
}


@dataclass(frozen=True, kw_only=True)
class ConvDgrad(ConvOp):
    """dx = the adjoint of conv(·, w), applied to dy; group count = dx.dims[1] / w.dims[1].

    Attributes
    ----------
    dx_dims : tuple of int
        The result's dims; filled in when the graph is frozen.
    """

    dx_dims: Ints = ()

    NAME: ClassVar[str] = "conv_dgrad"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("conv_transpose2d",)
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("dy"), Port("w"))
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("dx"),)
    LIKE: ClassVar[Mapping[str, str]] = {"dx": "dy"}
    RULES: ClassVar[Mapping[str, str]] = CONV_RULES | DGRAD_RULES
    TYPE_NAME: ClassVar[str] = "ConvolutionBwdAttributes"
    WIRE_CODE: ClassVar[int | None] = 6
    MATCH: ClassVar[Match | None] = Match(priority=70)
    COSTS: ClassVar[bool] = True
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("dy", "w"),
        *outputs("dx"),
        *CONV_FIELDS,
    )

    def resolve(self, t: Ports) -> Self:
        return self.with_spatial_rank(max(len(t.dims("dy")) - 2, 0))

    def check(self, t: Ports) -> Iterator[Problem]:
        dy, w = t.dims("dy"), t.dims("w")
        dx = t.given("dx")
        if dx is not None:
            yield from self.check_gradient(t, "dx", "w", dx, w)
            return
        if len(dy) != len(w):
            yield t.problem("CONV-02", "w", f"rank {len(w)}", f"rank {len(dy)}, as dy")
        elif any(s > 1 for s in self.stride):
            yield t.problem(
                "DGRAD-01",
                "dx",
                f"no dims, and stride {list(self.stride)}",
                "dims: inputs of several sizes have this result",
                "give dx_dims, or set_dim on the result",
            )
        elif broken := [*self.check_parameters(t, len(dy) - 2)]:
            yield from broken
        else:
            yield from self.check_gradient(t, "dx", "w", self.input_dims(dy, w), w)

    def least_input(self, extents: Ints, filter_size: Ints) -> Ints:
        """Return the smallest input size that has a result of these extents."""
        return tuple(
            (o - 1) * s + d * (k - 1) + 1 - pre - post
            for o, k, s, d, pre, post in zip(
                extents,
                filter_size,
                self.stride,
                self.dilation,
                self.pre_padding,
                self.post_padding,
                strict=True,
            )
        )

    def input_dims(self, dy: Ints, w: Ints) -> Ints:
        """Return the input's dims for unit strides and one group (dims do not determine either)."""
        spatial = (
            o + d * (k - 1) - pre - post
            for o, k, d, pre, post in zip(
                dy[2:], w[2:], self.dilation, self.pre_padding, self.post_padding, strict=True
            )
        )
        return (dy[0], w[1], *spatial)

    def settle(self, t: Ports) -> Self:
        return replace(self, dx_dims=t.dims("dx"))

    def at(
        self, before: Mapping[str, Ints], after: Mapping[str, Ints]
    ) -> tuple[Self, Mapping[str, Ints]]:
        dx, dy, w = before["dx"], after["dy"], after["w"]
        op = self.with_spatial_rank(len(dx) - 2)
        # Several input sizes have this result: keep the distance from the smallest one.
        least = op.least_input(before["dy"][2:], before["w"][2:])
        spatial = (
            new + have - old
            for new, have, old in zip(op.least_input(dy[2:], w[2:]), dx[2:], least, strict=True)
        )
        channels = w[1] * (dx[1] // before["w"][1])
        dims = (dy[0], channels, *spatial)
        return replace(self, dx_dims=dims if self.dx_dims else ()), {"dx": dims}

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"dx": Inferred(dims=t.given("dx") or self.input_dims(t.dims("dy"), t.dims("w")))}

    def follows(self, at: Axis) -> Follows:
        batch = (at.port, at.axis) == ("dy", 0)
        return at.to() if batch else "a sum over it, or over windows"


def conv_dgrad(
    graph: OpSink,
    dy: Tensor,
    w: Tensor,
    *,
    dx_dims: Sequence[int] | None = None,
    padding: Sequence[int] | int = (),
    pre_padding: Sequence[int] | int = (),
    post_padding: Sequence[int] | int = (),
    stride: Sequence[int] | int = (),
    dilation: Sequence[int] | int = (),
    conv_mode: ConvMode | str = ConvMode.CROSS_CORRELATION,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Return the gradient of a convolution's input: what ``conv_fprop`` was given as ``x``.

    ``dx[n, c, i] = Σ dy[n, k, o] · w[k, c, t]`` over all filters k of the channel's group, filter
    elements t and positions o with ``o · stride + t · dilation - pre_padding = i`` in each spatial
    dim (t counted from the end in CONVOLUTION mode).  The formula is the transpose of hipDNN's
    forward convolution as a linear map of x.

    Parameters
    ----------
    dy : Tensor
        Gradient of the result, dims (N, K, ...) of the forward result, any dense layout.
    w : Tensor
        Filter, dims (K, C/groups, spatial...), any dense layout.
    dx_dims : sequence of int, optional
        The input's dims (N, C, spatial...); ``set_dim`` on the result does the same.  They decide
        the group count, C / w.dims[1].  Without them one group is assumed, and all strides
        must be 1.
    padding, pre_padding, post_padding, stride, dilation, conv_mode
        Those of the forward convolution; see ``conv_fprop``.
    compute_data_type : DataType or str
        Type to accumulate in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        dx, in the layout of ``dy`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type and for contradicting paddings; at ``validate``
        for broken rules (CONV-…, DGRAD-01).
    """
    node = arguments.label(name, ConvDgrad.NAME)
    op = ConvDgrad(
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
    result = graph.add_node(op, {"dy": dy, "w": w}, compute=compute_data_type, name=name)["dx"]
    return result if dx_dims is None else result.set_dim(dx_dims)
