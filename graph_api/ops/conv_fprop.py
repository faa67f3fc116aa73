# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..enums import ConvMode
from ..errors import Problem
from ..script_line import refused
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Match, Op, OpSink, Port, Ports, check_length, filled
from .fields import Field, Kind, fields, inputs, outputs

Ints = tuple[int, ...]


CONV_FIELDS = (
    *fields(
        Kind.INTS,
        *("pre_padding", "post_padding", "stride", "dilation"),
        section="parameters",
        default=(),
    ),
    Field(
        name="conv_mode",
        kind=Kind.ENUM,
        section="parameters",
        enum=ConvMode,
        default=ConvMode.CROSS_CORRELATION,
    ),
)
"""What the three convolutions share.

hipDNN demands all five; hand-made files leave some out, and then mean no padding, unit strides
and the mode of machine learning (``post_padding`` follows ``pre_padding``).
"""

CONV_RULES = {
    "CONV-01": "the input has rank 3 to 5 (N, C, one to three spatial dims)",
    "CONV-02": "input, filter and result have the same rank",
    "CONV-03": "pre_padding and post_padding have one value per spatial dim, none negative",
    "CONV-04": "stride has one value per spatial dim, each at least 1",
    "CONV-05": "dilation has one value per spatial dim, each at least 1",
    "CONV-06": "the input's channels are a multiple of the filter's (the ratio is the group count)",
    "CONV-07": "the filter's output channels are a multiple of the group count",
    "CONV-08": "the dilated filter fits into the padded input in every spatial dim",
    "CONV-09": "conv_mode is CROSS_CORRELATION or CONVOLUTION",
    "CONV-10": "padding is not given together with pre_padding or post_padding",
    "CONV-11": "the gradient dy has the dims of the forward convolution's result",
}


@dataclass(frozen=True, kw_only=True)
class ConvOp(Op):
    """Parameters of the three convolutions.

    Attributes
    ----------
    pre_padding : tuple of int
        Zeros before each spatial dim; empty means none.
    post_padding : tuple of int
        Zeros after each spatial dim; empty means as many as before.
    stride : tuple of int
        Stride of the windows; empty means 1.
    dilation : tuple of int
        Distance of the filter's elements; empty means 1.
    conv_mode : ConvMode
        CROSS_CORRELATION applies the filter as it is, CONVOLUTION flips its spatial dims.
    """

    pre_padding: Ints = ()
    post_padding: Ints = ()
    stride: Ints = ()
    dilation: Ints = ()
    conv_mode: ConvMode = ConvMode.CROSS_CORRELATION

    RULES: ClassVar[Mapping[str, str]] = CONV_RULES

    def with_spatial_rank(self, rank: int) -> Self:
        """Return the op with one value per spatial dim."""
        pre = filled(self.pre_padding, rank, 0)
        return replace(
            self,
            pre_padding=pre,
            post_padding=filled(self.post_padding, rank, 0) if self.post_padding else pre,
            stride=filled(self.stride, rank, 1),
            dilation=filled(self.dilation, rank, 1),
        )

    def check_parameters(self, t: Ports, rank: int) -> Iterator[Problem]:
        """Yield the problems of the parameters for ``rank`` spatial dims."""
        yield from check_length(t, "CONV-03", "pre_padding", self.pre_padding, rank, 0)
        yield from check_length(t, "CONV-03", "post_padding", self.post_padding, rank, 0)
        yield from check_length(t, "CONV-04", "stride", self.stride, rank, 1)
        yield from check_length(t, "CONV-05", "dilation", self.dilation, rank, 1)
        if self.conv_mode is ConvMode.UNSET:
            wanted = "CROSS_CORRELATION or CONVOLUTION"
            yield t.problem("CONV-09", "conv_mode", "UNSET", wanted)

    def output_extents(self, input_size: Ints, filter_size: Ints) -> Ints:
        """Return the result's spatial extents (hipDNN: floor division, plus one)."""
        return tuple(
            (x + pre + post - d * (k - 1) - 1) // s + 1
            for x, k, pre, post, s, d in zip(
                input_size,
                filter_size,
                self.pre_padding,
                self.post_padding,
                self.stride,
                self.dilation,
                strict=True,
            )
        )

    def check_geometry(
        self, t: Ports, x_port: str, w_port: str, x: Ints, w: Ints
    ) -> Iterator[Problem]:
        """Yield the problems of the input's dims x, the filter's dims w and the parameters."""
        if not 3 <= len(x) <= 5:
            yield t.problem("CONV-01", x_port, f"rank {len(x)}", "rank 3, 4 or 5")
            return
        if len(w) != len(x):
            yield t.problem("CONV-02", w_port, f"rank {len(w)}", f"rank {len(x)}, as {x_port}")
            return
        broken = list(self.check_parameters(t, len(x) - 2))
        yield from broken
        groups, rest = divmod(x[1], w[1])
        if rest:
            yield t.problem(
                "CONV-06",
                w_port,
                f"dims[1] = {w[1]}",
                f"a divisor of {x_port}'s {x[1]} channels",
                "dims are (N, C, spatial...), the filter's (K, C/groups, spatial...), for NHWC "
                "data too: the layout follows from the strides",
            )
        elif w[0] % groups:
            yield t.problem(
                "CONV-07", w_port, f"dims[0] = {w[0]}", f"a multiple of {groups} groups"
            )
        if broken:
            return
        extents = self.output_extents(x[2:], w[2:])
        if any(e < 1 for e in extents):
            yield t.problem(
                "CONV-08",
                w_port,
                f"spatial dims {list(w[2:])}, result would be {list(extents)}",
                f"a filter that fits into {x_port}'s {list(x[2:])} with its padding",
                "pad more, or dilate less",
            )

    def check_gradient(
        self, t: Ports, x_port: str, w_port: str, x: Ints, w: Ints
    ) -> Iterator[Problem]:
        """Yield the problems of a backward convolution, whose dy is the forward one's result."""
        if len(t.dims("dy")) != len(x):
            rank = len(t.dims("dy"))
            yield t.problem("CONV-02", "dy", f"rank {rank}", f"rank {len(x)}, as {x_port}")
            return
        broken = list(self.check_geometry(t, x_port, w_port, x, w))
        yield from broken
        if broken:
            return
        wanted = (x[0], w[0], *self.output_extents(x[2:], w[2:]))
        if t.dims("dy") != wanted:
            yield t.problem(
                "CONV-11",
                "dy",
                f"dims {list(t.dims('dy'))}",
                f"dims {list(wanted)}, as {x_port} {list(x)} and {w_port} {list(w)} give",
            )


@dataclass(frozen=True, kw_only=True)
class ConvFprop(ConvOp):
    """y = conv(x, w); group count = x.dims[1] / w.dims[1]."""

    NAME: ClassVar[str] = "conv_fprop"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("conv", "conv1d", "conv2d", "conv3d", "convolution")
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"), Port("w"))
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    TYPE_NAME: ClassVar[str] = "ConvolutionFwdAttributes"
    WIRE_CODE: ClassVar[int | None] = 5
    MATCH: ClassVar[Match | None] = Match(priority=70)
    COSTS: ClassVar[bool] = True
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x", "w"),
        *outputs("y"),
        *CONV_FIELDS,
    )

    def resolve(self, t: Ports) -> Self:
        return self.with_spatial_rank(max(len(t.dims("x")) - 2, 0))

    def check(self, t: Ports) -> Iterator[Problem]:
        yield from self.check_geometry(t, "x", "w", t.dims("x"), t.dims("w"))

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        x, w = t.dims("x"), t.dims("w")
        return {"y": Inferred(dims=(x[0], w[0], *self.output_extents(x[2:], w[2:])))}

    def follows(self, at: Axis) -> Follows:
        x, w = at.dims["x"], at.dims["w"]
        if at.port == "x":
            if at.axis == 0:
                return at.to()
            if at.axis == 1:
                return "channels, which are summed over"
            i = at.axis - 2
            window = (w[at.axis], self.stride[i], self.pre_padding[i], self.post_padding[i])
            return at.to() if window == (1, 1, 0, 0) else "a window of several positions"
        if at.axis == 0 and x[1] == w[1]:
            return at.to(1)
        return "the channels that a filter reads depend on the number of filters, or are summed"


def conv_arguments(node: str, **given: Sequence[int] | int) -> dict[str, Ints]:
    """Return a convolution's integer parameters, ``padding`` as pre_padding and post_padding.

    Raises
    ------
    GraphError
        For values that are no integers, and for contradicting paddings (CONV-10).
    """
    found = {p: arguments.integers(v, port=p, node=node) for p, v in given.items()}
    if both := found.pop("padding", ()):
        for side in ("pre_padding", "post_padding"):
            if found[side]:
                raise refused(
                    "two parameters contradict each other",
                    rule="CONV-10",
                    node=node,
                    port=side,
                    got=f"{list(found[side])} beside padding {list(both)}",
                    wanted="either padding, or pre_padding and post_padding",
                )
            found[side] = both
    return found


def conv_fprop(
    graph: OpSink,
    x: Tensor,
    w: Tensor,
    *,
    padding: Sequence[int] | int = (),
    pre_padding: Sequence[int] | int = (),
    post_padding: Sequence[int] | int = (),
    stride: Sequence[int] | int = (),
    dilation: Sequence[int] | int = (),
    conv_mode: ConvMode | str = ConvMode.CROSS_CORRELATION,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Convolve an input (activation) with a filter.

    Parameters
    ----------
    x : Tensor
        Input, dims (N, C, spatial...), one to three spatial dims, any dense layout.
    w : Tensor
        Filter, dims (K, C/groups, spatial...), any dense layout.
    padding : int or sequence of int
        Zeros on both sides of each spatial dim; one value counts for all of them.
    pre_padding, post_padding : int or sequence of int
        Zeros before and after, where they differ; not together with ``padding``.
    stride, dilation : int or sequence of int
        Stride of the windows, and distance of the filter's elements.
    conv_mode : ConvMode or str
        CROSS_CORRELATION (default) or CONVOLUTION, which flips the filter's spatial dims.
    compute_data_type : DataType or str
        Type to accumulate in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y, dims (N, K, ...) with ``(in + pre + post - dilation * (size - 1) - 1) // stride + 1``
        in each spatial dim, in the layout of ``x`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type and for contradicting paddings; at ``validate``
        for broken rules (CONV-…).
    """
    node = arguments.label(name, ConvFprop.NAME)
    op = ConvFprop(
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
    return graph.add_node(op, {"x": x, "w": w}, compute=compute_data_type, name=name)["y"]
