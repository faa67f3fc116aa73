# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the JIT knows of an op without torch-mlir; each op's module has one as ``INFO``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenNode
from ..node_context import Layout, NodeContext
from .strategy import Strategies

__all__ = [
    "Dims",
    "DynamicAxes",
    "Marks",
    "OpInfo",
    "Refusal",
    "Refusals",
    "dynamic_axes",
    "problem",
]

Dims = Mapping[str, tuple[int, ...]]
Marks = Mapping[str, tuple[str, ...]]
DynamicAxes = Callable[["NodeContext", Marks], Iterable[tuple[str, int]]]
Refusal = tuple[str, str, str]
Refusals = Callable[[NodeContext, Marks], Iterable[Refusal]]


def problem(
    node: FrozenNode, rule: str, port: str, got: object, wanted: str, hint: str = ""
) -> Problem:
    """Return why a port (or a parameter) of a node is not served."""
    return Problem(rule=rule, node=node.label, port=port, got=str(got), wanted=wanted, hint=hint)


def dynamic_axes(marks: Marks, *ports: str) -> Iterator[tuple[str, int]]:
    """Yield each dynamic dim of some ports."""
    for port in ports:
        for axis, name in enumerate(marks.get(port, ())):
            if name:
                yield port, axis


def _none(context: NodeContext) -> Iterator[Any]:
    return iter(())


def _unknown(context: NodeContext) -> None:
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class OpInfo:
    """Facts and rules about one op.

    Attributes
    ----------
    work : callable
        (op, dims of its ports) -> (operations of matmuls and convolutions, other operations).
    matrix_rate : float
        Operations of matmuls or convolutions a microsecond on one core of a CPU.
    reads_part : bool
        Whether only as much of the input is read as is written.
    fuses : bool
        Whether the op becomes part of its neighbours' kernels.
    adds_up : bool
        Whether the code takes sums over several dims, and so has `code_plan.NodePlan.dim_by_dim`.
    cpu_efficiency : float
        How much of the arithmetic rate of other ops it reaches on CPUs, fitted by hand to
        docs/reference/benchmarks.md.
    strategies : Strategies or None
        None where the op has one strategy only.
    declines : callable
        Yields why a node is not served.
    dynamic : callable or None
        Yields port and axis of each dynamic dim of a node that one code for all sizes cannot
        have; None: the op has no such code.
    dynamic_gfx9 : callable or None
        Yields what else is not served with dynamic dims on gfx9: port, what it has, what is
        served there.  None: nothing is.
    flags : callable
        Yields the compiler flags that a node needs whatever its strategy is.
    avoids : callable
        Yields the defects that the lowering avoids, as seen in the op's geometry.
    layout : callable
        How the result is laid out where the op passes on an operand, or None; the operands'
        layouts are known.
    """

    work: Callable[[Any, Dims], tuple[int, int]]
    matrix_rate: float = 200e3
    reads_part: bool = False
    fuses: bool = False
    adds_up: bool = False
    cpu_efficiency: float = 1.0
    strategies: Strategies | None = None
    declines: Callable[[NodeContext], Iterable[Problem]] = _none
    dynamic: DynamicAxes | None = None
    dynamic_gfx9: Refusals | None = None
    flags: Callable[[NodeContext], Iterable[str]] = _none
    avoids: Callable[[NodeContext], Iterable[str]] = _none
    layout: Callable[[NodeContext], Layout | None] = _unknown
