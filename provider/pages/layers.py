# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the boxes of a directed graph are drawn: in layers, edges pointing down.

The method is Sugiyama's (K. Sugiyama, S. Tagawa, M. Toda: "Methods for Visual Understanding of
Hierarchical System Structures", 1981): boxes get layers, long edges a point in each layer that they
pass, layers an order with few crossings, and boxes a place near their neighbours.  The last step
is a least-squares problem for each layer, which pooling of neighbours solves exactly.

Graphviz would do it too, but is a program that few machines have; of the Python packages none is
both small and maintained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Placement", "place"]

GAP_X, GAP_Y = 18.0, 38.0
_POINT = 6.0  # width of an edge that passes a layer
_SWEEPS = 8
_STRAIGHT = 8.0  # how much more a long edge wants to be straight than a short one
_MOST_POINTS = 20_000  # beyond them long edges are drawn straight, through what is in between


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where everything lies, in pixels from the upper left corner.

    Attributes
    ----------
    centres : list of (float, float)
        The upper middle of each box.
    routes : list of list of (float, float, float)
        For each edge the layers that it passes: x, and y from and to.
    width, height : float
    """

    centres: list[tuple[float, float]]
    routes: list[list[tuple[float, float, float]]]
    width: float
    height: float


def place(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Placement:
    """Return places for boxes of these widths and heights.

    Parameters
    ----------
    sizes : sequence of (float, float)
        Of each box.
    edges : sequence of (int, int)
        From box to box; there may be several between two, cycles, and edges of a box to itself.
    """
    if not sizes:
        return Placement(centres=[], routes=[[] for _ in edges], width=0.0, height=0.0)
    forward = _acyclic(len(sizes), edges)
    layer_of = _layers(len(sizes), [edge for edge in forward if edge[0] != edge[1]])
    widths = [width for width, _ in sizes]
    layers: list[list[int]] = [[] for _ in range(max(layer_of) + 1)]
    for box, layer in enumerate(layer_of):
        layers[layer].append(box)
    length = sum(max(layer_of[b] - layer_of[a] - 1, 0) for a, b in forward)
    chains, links = _chains(forward, layer_of, layers, widths, short=length > _MOST_POINTS)
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for a, b in links:
        above[b].append(a)
        below[a].append(b)
    _order(layers, above, below)
    centres = _centres(layers, widths, above, below, len(sizes))
    heights = [max((sizes[b][1] for b in layer if b < len(sizes)), default=0.0) for layer in layers]
    tops = [0.0]
    for height in heights[:-1]:
        tops.append(tops[-1] + height + GAP_Y)
    # What is less high than its layer stands at its lower edge, next to what it leads to.
    ends = [top + height for top, height in zip(tops, heights, strict=True)]
    left = min(centres[p] - widths[p] / 2 for p in range(len(widths)))
    right = max(centres[p] + widths[p] / 2 for p in range(len(widths)))
    layer_at = {point: at for at, layer in enumerate(layers) for point in layer}
    routes = []
    for (a, b), (c, d), chain in zip(edges, forward, chains, strict=True):
        route = [(centres[p] - left, tops[layer_at[p]], ends[layer_at[p]]) for p in chain]
        routes.append(route if (a, b) == (c, d) else [(x, y, z) for x, z, y in reversed(route)])
    return Placement(
        centres=[
            (centres[box] - left, ends[layer_of[box]] - sizes[box][1]) for box in range(len(sizes))
        ],
        routes=routes,
        width=right - left,
        height=ends[-1],
    )


def _acyclic(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the edges with those turned round that lead back to where a walk came from."""
    leaving: list[list[int]] = [[] for _ in range(count)]
    for number, (a, _) in enumerate(edges):
        leaving[a].append(number)
    found = list(edges)
    state = [0] * count  # 1: on the way, 2: done
    for start in range(count):
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(leaving[start]))]
        while stack:
            box, rest = stack[-1]
            number = next(rest, -1)
            if number < 0:
                state[box] = 2
                stack.pop()
                continue
            other = edges[number][1]
            if state[other] == 1:
                found[number] = (other, box)
            elif not state[other]:
                state[other] = 1
                stack.append((other, iter(leaving[other])))
    return found


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: below all that lead to it, and near to what it leads to."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    missing = [len(found) for found in before]
    order = [box for box in range(count) if not missing[box]]
    for box in order:  # which grows
        for other in after[box]:
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    layer = [0] * count
    for box in order:
        layer[box] = max((layer[other] + 1 for other in before[box]), default=0)
    # Weights stand beside the node that takes them, and not all in the first layer.
    for box in reversed(order):
        if after[box] and len(after[box]) >= len(before[box]):
            layer[box] = min(layer[other] for other in after[box]) - 1
    return layer


def _chains(
    edges: Sequence[tuple[int, int]],
    layer_of: Sequence[int],
    layers: list[list[int]],
    widths: list[float],
    *,
    short: bool,
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Add a point to each layer that an edge passes.

    Returns
    -------
    chains : list of list of int
        The points of each edge.
    links : list of (int, int)
        From layer to layer.
    """
    chains: list[list[int]] = []
    links: list[tuple[int, int]] = []
    for a, b in edges:
        chain = []
        for layer in range(layer_of[a] + 1, layer_of[b]) if not short else ():
            chain.append(len(widths))
            layers[layer].append(len(widths))
            widths.append(_POINT)
        chains.append(chain)
        path = [a, *chain, b]
        if a != b and not (short and layer_of[b] - layer_of[a] > 1):
            links += pairwise(path)
    return chains, links


def _order(
    layers: list[list[int]], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
) -> None:
    """Sort each layer so that few edges cross: by the middle of the neighbours, down and up."""
    at = [0.0] * len(above)

    def number(layer: Sequence[int]) -> None:
        for place, point in enumerate(layer):
            at[point] = place

    for layer in layers:
        number(layer)
    best, fewest = [list(layer) for layer in layers], _crossings(layers, below, at)
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for layer in layers[-2::-1] if sweep % 2 else layers[1:]:
            layer.sort(key=lambda point: _middle([at[n] for n in neighbours[point]], at[point]))
            number(layer)
        count = _crossings(layers, below, at)
        if count < fewest:
            best, fewest = [list(layer) for layer in layers], count
        if not fewest:
            break
    layers[:] = best


def _middle(places: list[float], otherwise: float) -> float:
    return sum(places) / len(places) if places else otherwise


def _crossings(
    layers: Sequence[Sequence[int]], below: Sequence[Sequence[int]], at: Sequence[float]
) -> int:
    """Return how many edges between neighbouring layers cross, counted in a binary tree."""
    count = 0
    for layer, following in pairwise(layers):
        size = 1
        while size < len(following):
            size *= 2
        tree = [0] * (2 * size)
        for point in layer:
            for place in sorted(int(at[other]) for other in below[point]):
                leaf = place + size
                while leaf > 1:
                    if not leaf % 2:
                        count += tree[leaf + 1]
                    tree[leaf] += 1
                    leaf //= 2
    return count


def _centres(
    layers: Sequence[Sequence[int]],
    widths: Sequence[float],
    above: Sequence[Sequence[int]],
    below: Sequence[Sequence[int]],
    boxes: int,
) -> list[float]:
    """Return the middle of each box and point: near its neighbours, in the layer's order."""
    x = [0.0] * len(widths)
    for layer in layers:
        end = 0.0
        for point in layer:
            x[point] = end + widths[point] / 2
            end += widths[point] + GAP_X
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for layer in layers[-2::-1] if sweep % 2 else layers[1:]:
            wanted, weights = [], []
            for point in layer:
                found = neighbours[point]
                weigh = [_STRAIGHT if min(point, n) >= boxes else 1.0 for n in found]
                total = sum(weigh)
                pulled = sum(w * x[n] for w, n in zip(weigh, found, strict=True))
                wanted.append(pulled / total if total else x[point])
                weights.append(total or 0.1)
            for point, place in zip(
                layer, _apart(wanted, weights, [widths[p] for p in layer]), strict=True
            ):
                x[point] = place
    return x


def _apart(
    wanted: Sequence[float], weights: Sequence[float], widths: Sequence[float]
) -> list[float]:
    """Return the places next to those wanted, by weighted squares, at which nothing overlaps."""
    # With the least distances taken off, places only have to rise: neighbours that do not are
    # pooled in their mean.
    shifts = [0.0]
    for a, b in pairwise(widths):
        shifts.append(shifts[-1] + (a + b) / 2 + GAP_X)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for place, weight, shift in zip(wanted, weights, shifts, strict=True):
        mean, total, members = place - shift, weight, 1
        while pools and pools[-1][0] >= mean:
            other, heavy, more = pools.pop()
            mean = (mean * total + other * heavy) / (total + heavy)
            total, members = total + heavy, members + more
        pools.append((mean, total, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + shift for mean, shift in zip(means, shifts, strict=True)]
