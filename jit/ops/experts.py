# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The strategies of a mixture of experts' matmuls, and what they cost.

Costs are counted in multiply-adds.  What is moved counts as the multiply-adds that are done
meanwhile, in float32 on two threads of a Zen 5 EPYC with 2 MiB of L2 cache:
``docs/strategies.md`` has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from ...graph_api.errors import Problem
from ..node_context import NodeContext
from .op_info import Dims, problem
from .strategy import Strategies, Strategy

__all__ = ["BLOCKS", "RULES", "block_count", "block_rows", "declines", "strategies", "work"]

RULES: dict[str, str] = {
    "IREE-MOE-01": "where rows are not gathered into blocks, there are at most 512 experts",
}
_MOST_EXPERTS = 512  # each is a matmul of its own in the code

BLOCKS, PLAIN = "blocks", "plain"

_SIZES = (16, 32, 64, 128, 256)
_MATRIX = 100  # gathering a weight for a block and packing it, or adding a part of a gradient
_PACKED = 50  # packing a weight that is read in place
_ROW = 40  # gathering, packing or scattering an element of a row
_CHOSEN = 30  # writing an element of one expert's result, and choosing among those of all
_TABLES = 5e7  # the dispatches that compute tables
# Blocks are chosen where the estimate is that much lower: matmuls gain more from many threads
# than copies do.
_MARGIN = 0.85


def work(rows: str, weight: str) -> Callable[[object, Dims], tuple[int, int]]:
    """Count each row with the matrix of one expert."""
    return lambda op, dims: (2 * dims[rows][1] * prod(dims[weight][1:]), 0)


def block_count(rows: int, groups: int, size: int) -> int:
    """Return how many blocks there are at most, however rows are shared out among groups."""
    begun = min(rows, groups)
    return (rows + begun * (size - 1)) // size


def block_rows(rows: int, groups: int, k: int, n: int) -> int:
    """Return the rows of a block that cost least, with matrices of (k, n)."""
    return min(_SIZES, key=lambda size: _blocks_cost(rows, groups, k, n, size))


def _blocks_cost(rows: int, groups: int, k: int, n: int, size: int) -> float:
    each = k * n * (size + _MATRIX) + _ROW * size * (k + n)
    return _TABLES + block_count(rows, groups, size) * each


def _experts_cost(rows: int, experts: int, k: int, n: int) -> float:
    return experts * (k * n * (rows + _PACKED) + _CHOSEN * rows * n)


def _fits_blocks(context: NodeContext) -> bool:
    # On gfx9 it has more dispatches for less arithmetic (docs/design/0002-gfx9-forms.md).
    return context.target.is_cpu and not context.dynamic


def _pays(context: NodeContext, rows: int, weight: str) -> bool:
    """Whether blocks cost clearly less."""
    experts, k, n = context.dims(weight)
    groups = context.dims("first_token_offset")[0]
    size = block_rows(rows, groups, k, n)
    blocks = _blocks_cost(rows, groups, k, n, size)
    return blocks < _MARGIN * _experts_cost(rows, experts, k, n)


def _fits_plain(context: NodeContext, weight: str) -> bool:
    return context.dims(weight)[0] <= _MOST_EXPERTS


def declines(weight: str) -> Callable[[NodeContext], Iterator[Problem]]:
    """Return the rule that no strategy fits."""

    def find(context: NodeContext) -> Iterator[Problem]:
        if not (_fits_blocks(context) or _fits_plain(context, weight)):
            got, wanted = f"{context.dims(weight)[0]} experts", f"at most {_MOST_EXPERTS}"
            yield problem(context.node, "IREE-MOE-01", weight, got, wanted)

    return find


def strategies(rows: str, weight: str, plain: str, blocks: str) -> Strategies:
    """Return the strategies of an op, with what they emit in words.

    ``rows`` and ``weight`` are the ports that say how many rows and which matrices there are.
    """

    def rule(context: NodeContext) -> str:
        if not _fits_blocks(context):
            return PLAIN
        many = not _fits_plain(context, weight)
        return BLOCKS if many or _pays(context, context.dims(rows)[1], weight) else PLAIN

    table = (
        Strategy(
            name=PLAIN,
            help=plain,
            fits=lambda context: _fits_plain(context, weight),
            why=f"at most {_MOST_EXPERTS} experts",
        ),
        Strategy(name=BLOCKS, help=blocks, fits=_fits_blocks, why="fixed dims, on the CPU"),
    )
    return Strategies(table, rule)
