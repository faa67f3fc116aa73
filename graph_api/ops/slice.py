# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A regular part of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import arguments
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports, filled
from .fields import Field, Kind, fields, inputs, outputs

Ints = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Slice(Op):
    """y[i] = x[starts + i · strides], up to and without ``limits``, in each dim."""

    starts: Ints
    limits: Ints
    strides: Ints = ()

    NAME: ClassVar[str] = "slice"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("chunk", "narrow", "split")
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    RULES: ClassVar[Mapping[str, str]] = {
        "SLICE-01": "starts, limits and strides have one value per dim of x",
        "SLICE-02": "in each dim 0 <= start < limit <= x's extent, and the stride is at least 1",
    }
    TYPE_NAME: ClassVar[str] = "SliceAttributes"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x"),
        *outputs("y"),
        *fields(Kind.INTS, "starts", "limits"),
        Field(name="strides", kind=Kind.INTS, default=()),
    )

    def computes(self) -> bool:
        return False

    def resolve(self, t: Ports) -> Self:
        return replace(self, strides=filled(self.strides, len(t.dims("x")), 1))

    def check(self, t: Ports) -> Iterator[Problem]:
        x = t.dims("x")
        given = {"starts": self.starts, "limits": self.limits, "strides": self.strides}
        wrong = {port: values for port, values in given.items() if len(values) != len(x)}
        for port, values in wrong.items():
            yield t.problem("SLICE-01", port, list(values), f"{len(x)} values, one per dim of x")
        if wrong:
            return
        for axis, (n, start, limit, stride) in enumerate(zip(x, *given.values(), strict=True)):
            if not 0 <= start < limit <= n or stride < 1:
                yield t.problem(
                    "SLICE-02",
                    "starts",
                    f"start {start}, limit {limit}, stride {stride} in dim {axis}",
                    f"0 <= start < limit <= {n} and a stride of at least 1",
                    "negative positions do not count from the end",
                )

    def settle(self, t: Ports) -> Self:
        # A limit beyond the last element taken has no effect: equal slices get equal limits.
        ends = (
            start + (n - 1) * stride + 1
            for start, n, stride in zip(self.starts, t.dims("y"), self.strides, strict=True)
        )
        strides = tuple(s if n > 1 else 1 for s, n in zip(self.strides, t.dims("y"), strict=True))
        return replace(self, limits=tuple(ends), strides=strides)

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        dims = tuple(
            -(-(limit - start) // stride)
            for start, limit, stride in zip(self.starts, self.limits, self.strides, strict=True)
        )
        return {"y": Inferred(dims=dims, data_type=t["x"].data_type)}

    def follows(self, at: Axis) -> Follows:
        return at.to() if self.starts[at.axis] == 0 else "a part of it is taken"


def slice(  # hipDNN-style name; nothing here needs the builtin
    graph: OpSink,
    x: Tensor,
    *,
    starts: Sequence[int] | int,
    limits: Sequence[int] | int,
    strides: Sequence[int] | int = (),
    name: str = "",
) -> Tensor:
    """Take a regular part of a tensor.

    Parameters
    ----------
    x : Tensor
        Any dims, data type and layout.
    starts, limits : int or sequence of int
        First position in each dim, and the position behind the last; both count from 0.
    strides : int or sequence of int, optional
        Distance of the positions taken; 1 without it, one value counts for all dims.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y with ``y[i, ...] = x[start + i · stride, ...]`` and ``ceil((limit - start) / stride)``
        elements in each dim, in x's data type unless another one is set, then converted; in the
        layout of ``x`` unless strides are set.  Fused into what computes with it.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (SLICE-…).
    """
    node = arguments.label(name, Slice.NAME)
    op = Slice(
        starts=arguments.integers(starts, port="starts", node=node),
        limits=arguments.integers(limits, port="limits", node=node),
        strides=arguments.integers(strides, port="strides", node=node),
    )
    return graph.add_node(op, {"x": x}, name=name)["y"]
