# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What lowering a resize must know of its positions, found without looking at each of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import product
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.enums import ResampleMode, ResizeCoordinates
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.graph_api.ops.resample_bwd import ResampleBwd
from hipdnn_iree.jit import support
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.lowering.resample.resize_lines import Line, lines
from hipdnn_iree.jit.target import Target

Ends = Callable[[], AbstractContextManager[None]]
MODES = (ResampleMode.NEAREST, ResampleMode.BILINEAR)


def line(mode: ResampleMode, coordinates: ResizeCoordinates, n: int, out: int) -> Line:
    op = ResampleBwd(resample_mode=mode, coordinates=coordinates, dx_dims=(1, 1, n))
    (found,) = lines(op, (1, 1, n), (1, 1, out), (0, 1, 2))
    return found


def looked_at(a: Line) -> tuple[int, bool, int]:
    """Return ``first``, ``whole`` and ``users`` by looking at every element."""
    at: Any = np.arange(a.out) * a.step + a.start
    at = at // a.unit * a.unit if a.nearest else at.clip(0, a.top)
    taken = at // a.unit
    if a.out > a.n:
        whole = a.out % a.n == 0 and (taken == np.arange(a.out) // (a.out // a.n)).all()
    else:
        whole = a.n % a.out == 0 and (np.diff(taken) == a.n // a.out).all()
    here = np.arange(a.n) * a.unit
    first = np.searchsorted(at, here - a.unit, side="right")
    behind = np.searchsorted(at, here + a.unit, side="left")
    return int(taken[0]), bool(whole), int((behind - first).max())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("coordinates", ResizeCoordinates)
def test_what_is_known_of_positions(mode: ResampleMode, coordinates: ResizeCoordinates) -> None:
    sizes = [*product(range(1, 25), range(1, 25)), (1000, 999), (999, 1000), (7, 1000), (1000, 7)]
    for n, out in sizes:
        if n == out:
            continue
        a = line(mode, coordinates, n, out)
        first, whole, users = looked_at(a)
        assert a.users == users, (n, out)
        if a.nearest:
            assert (a.first, a.whole) == (first, whole), (n, out)


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n", "out"), [(4, 3 * 10**8), (3, 2**40), (2**40, 7), (10**8 + 1, 10**9)])
def test_lowering_takes_no_table_of_a_dim(
    n: int, out: int, mode: ResampleMode, target: str, ends: Ends
) -> None:
    """It took 42 s and 4.7 GB for 300 million elements, and all memory for 2^40."""
    there, back = Graph(io_data_type="float"), Graph(io_data_type="float")
    x, dy = there.tensor(dims=(1, 1, n)), back.tensor(dims=(1, 1, out))
    there.resample_fwd(x, size=(out,), resample_mode=mode).y.set_output()
    back.resample_bwd(dy, dx_dims=(1, 1, n), resample_mode=mode).set_output()
    with ends():
        for g in (there, back):
            assert len(lower_graph(g.freeze(), Target.parse(target))) < 300_000


def test_positions_beyond_64_bits_are_declined() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(1, 1, 2**40))
    g.resample_fwd(x, size=(2**19 + 1,), resample_mode="bilinear").y.set_output()
    (found,) = support.problems(g.freeze(), Target.parse("cpu"))
    assert (found.rule, found.port) == ("IREE-RESIZE-01", "y")
    assert found.got == f"dim 2 resized from {2**40} to {2**19 + 1}"
