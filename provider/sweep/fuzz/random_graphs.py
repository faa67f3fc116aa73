# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random valid graphs, the same for the same seed: ops composed as nobody would write them."""

from __future__ import annotations

from random import Random

from ....graph_api.dtypes import DataType
from ....graph_api.graph import Graph
from .maker import FLOATS, Maker
from .random_ops import growths

__all__ = ["STYLES", "random_graph"]

STYLES = ("any", "conv", "product", "rows", "moves", "integers")
"""What most nodes of a graph are."""


def random_graph(seed: int, *, style: str = "", nodes: int = 0) -> Graph:
    """Return a graph that is ready to freeze.

    Parameters
    ----------
    seed : int
        Equal arguments give equal graphs.
    style : str
        One of ``STYLES``; by default one of them, by the seed.
    nodes : int
        About how many; by default 2 to 12.
    """
    rng = Random(f"hipdnn-iree {seed} {style} {nodes}")
    style = style or rng.choice(STYLES)
    io = rng.choices((*FLOATS, DataType.DOUBLE), (3, 4, 3, 0.4))[0]
    wide = DataType.DOUBLE if io is DataType.DOUBLE else DataType.FLOAT
    intermediate = rng.choice([DataType.UNSET, io, io, wide])
    compute = rng.choices((wide, DataType.UNSET, io), (8, 1, 1))[0]
    maker = Maker(rng, (io, intermediate, compute))
    wanted, tries = nodes or rng.randint(2, 12), 0
    table = growths(style)
    while maker.nodes < wanted and tries < 12 * wanted:
        tries += 1
        grow = rng.choices([g for g, _ in table], [w for _, w in table])[0]
        maker.attempt(grow)
    maker.set_types()
    maker.set_outputs()
    graph, _ = maker.replay()
    graph.name = f"random {seed} {style}"
    return graph
