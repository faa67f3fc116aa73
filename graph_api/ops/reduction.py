# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions over some dims, which stay with extent 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..enums import ReductionMode
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Match, Op, OpSink, Port, Ports
from .fields import Field, Kind


@dataclass(frozen=True, kw_only=True)
class Reduction(Op):
    """y = mode over the dims in which y has extent 1.

    Attributes
    ----------
    mode : ReductionMode
        What is computed.
    axes : tuple of int or None
        Dims to reduce.  hipDNN knows only y's dims; ``settle`` makes axes of them.
    is_deterministic : bool
        Demand the same bits from run to run; all our code gives them.
    """

    mode: ReductionMode
    axes: tuple[int, ...] | None = None
    is_deterministic: bool = False

    NAME: ClassVar[str] = "reduction"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("amax", "amin", "mean", "prod", "sum")
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    RULES: ClassVar[Mapping[str, str]] = {
        "REDUCE-01": "the mode is set",
        "REDUCE-02": "the dims to reduce are known, from y's dims or from axes",
        "REDUCE-03": "y has x's rank, and each of its dims is 1 or x's",
        "REDUCE-04": "axes are distinct and between -rank and rank - 1",
        "REDUCE-05": "at least one dim is reduced",
        "REDUCE-06": "AVG and NORM2 have a floating compute type",
    }
    TYPE_NAME: ClassVar[str] = "ReductionAttributes"
    WIRE_CODE: ClassVar[int | None] = 18
    MATCH: ClassVar[Match | None] = Match(priority=20, criteria=(("reduction_mode", "mode"),))
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(name="mode", kind=Kind.ENUM, enum=ReductionMode),
        Field(name="x", spelled="in_tensor_uid"),
        Field(name="y", spelled="out_tensor_uid"),
        Field(name="is_deterministic", kind=Kind.BOOL, default=False),
    )

    def reduced(self, t: Ports) -> tuple[int, ...]:
        """Return the dims that are reduced."""
        if self.axes is not None:
            return tuple(sorted(a % len(t.dims("x")) for a in self.axes))
        y = t.given("y")
        assert y is not None
        # A dim of extent 1 in both counts as reduced: that changes nothing but the layout of y.
        return tuple(i for i, n in enumerate(y) if n == 1)

    def settle(self, t: Ports) -> Self:
        # y's dims determine the axes, so graphs that give either of them are the same graph.
        return replace(self, axes=tuple(i for i, n in enumerate(t.dims("y")) if n == 1))

    def check(self, t: Ports) -> Iterator[Problem]:
        x, y = t.dims("x"), t.given("y") if self.axes is None else None
        if self.mode is ReductionMode.NOT_SET:
            yield t.problem("REDUCE-01", "mode", "NOT_SET", "one of the reduction modes")
        if self.mode in (ReductionMode.AVG, ReductionMode.NORM2) and not t.compute.is_float:
            yield t.problem(
                "REDUCE-06",
                "compute_data_type",
                t.compute.json,
                f"a floating type for {self.mode.name}",
                'pass compute_data_type="float"',
            )
        if self.axes is not None:
            if len({a % len(x) for a in self.axes if -len(x) <= a < len(x)}) != len(self.axes):
                yield t.problem(
                    "REDUCE-04", "axes", list(self.axes), f"distinct dims of rank {len(x)}"
                )
                return
        elif y is None:
            yield t.problem(
                "REDUCE-02", "y", "no dims", "y's dims, 1 where reduced", "or pass axes=[...]"
            )
            return
        elif len(y) != len(x) or any(n not in (1, m) for m, n in zip(x, y, strict=True)):
            yield t.problem(
                "REDUCE-03", "y", f"dims {list(y)}", f"x's dims {list(x)} with 1 where reduced"
            )
            return
        elif y == x and self.axes is None and 1 not in x:
            yield t.problem("REDUCE-05", "y", f"dims {list(y)}", "1 in at least one dim")
            return
        if self.axes == ():
            yield t.problem("REDUCE-05", "axes", "none", "at least one dim")

    def at(
        self, before: Mapping[str, tuple[int, ...]], after: Mapping[str, tuple[int, ...]]
    ) -> tuple[Self, Mapping[str, tuple[int, ...]]]:
        if self.axes is not None:
            return self, {}
        pairs = zip(before["y"], after["x"], before["x"], strict=True)
        return self, {"y": tuple(1 if y == 1 != old else x for y, x, old in pairs)}

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        reduced = self.reduced(t)
        return {
            "y": Inferred(dims=tuple(1 if i in reduced else d for i, d in enumerate(t.dims("x"))))
        }

    def follows(self, at: Axis) -> Follows:
        axes = [axis % at.rank for axis in self.axes or range(at.rank)]
        return f"{self.mode.name} over it" if at.axis in axes else at.to()


def reduction(
    graph: OpSink,
    x: Tensor,
    mode: ReductionMode | str,
    *,
    axes: Sequence[int] | int | None = None,
    is_deterministic: bool = False,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Reduce some dims of a tensor to extent 1.

    Parameters
    ----------
    x : Tensor
        Any rank and dense layout.
    mode : ReductionMode or str
        ADD Σx, MUL Πx, MIN, MAX, AMAX max|x|, AVG Σx/n, NORM1 Σ|x|, NORM2 √Σx²,
        MUL_NO_ZEROS Π of the elements that are not zero (1 when there are none).
    axes : int or sequence of int, optional
        Dims to reduce.  Without it, set y's dims: those are reduced where y has extent 1.
    is_deterministic : bool
        Demand the same bits from run to run.
    compute_data_type : DataType or str
        Type to accumulate in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y, x's rank, extent 1 where reduced, in the layout of ``x`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (REDUCE-…).
    """
    node = arguments.label(name, Reduction.NAME)
    op = Reduction(
        mode=arguments.mode(ReductionMode, mode, port="mode", node=node),
        axes=None if axes is None else arguments.integers(axes, port="axes", node=node),
        is_deterministic=arguments.flag(is_deterministic, port="is_deterministic", node=node),
    )
    return graph.add_node(op, {"x": x}, compute=compute_data_type, name=name)["y"]
