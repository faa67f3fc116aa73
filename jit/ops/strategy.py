# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a strategy is: one way to express an op in IR, and where it can be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..node_context import NodeContext

__all__ = ["NO_TILES", "Strategies", "Strategy", "always"]

NO_TILES = "--iree-dispatch-creation-data-tiling=false"
"""Operands of the graph's matmuls are not packed into tiles."""


def always(context: NodeContext) -> bool:
    """Fit any node."""
    return True


def _no_costs(context: NodeContext) -> Mapping[str, float]:
    return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Strategy:
    """One way to express an op.

    Attributes
    ----------
    name : str
        As in ``compiler.strategies`` and in the knob ``<op>.strategy``.
    help : str
        What is emitted, in one line.
    fits : callable
        Whether it computes the node of a `NodeContext`, for that target.
    why : str
        What it fits, in words, for error texts.
    flags : tuple of str
        Compiler flags that it needs; they are for the whole graph.
    tried : bool
        Whether autotuning measures it: not those that exist for comparison only.
    by_rule : bool
        Whether a rule may choose it: not one whose errors are larger than the others'.
    portable : bool
        Whether it is of the Torch dialect alone, which torch-mlir converts to others.
    """

    name: str
    help: str
    fits: Callable[[NodeContext], bool] = always
    why: str = "any node"
    flags: tuple[str, ...] = ()
    tried: bool = True
    by_rule: bool = True
    portable: bool = True


class Strategies(NamedTuple):
    """The strategies of one op.

    Attributes
    ----------
    table : tuple of Strategy
    rule : callable
        Returns the name of the strategy that a node gets by default; it fits.
    costs : callable
        Returns an estimate in microseconds, on one core, of the strategies that the rule chooses
        among by cost; empty where it goes by other facts.
    """

    table: tuple[Strategy, ...]
    rule: Callable[[NodeContext], str]
    costs: Callable[[NodeContext], Mapping[str, float]] = _no_costs

    def named(self, name: str) -> Strategy:
        """Return the strategy of a name."""
        return next(one for one in self.table if one.name == name)
