# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-135: results of convolutions are materialised before they are joined along their width."""

from __future__ import annotations

import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit.code_plan import plan_code
from joined_results import WAYS, joined


@pytest.mark.parametrize("by", WAYS)
def test_ways_to_be_joined(by: str) -> None:
    for axis in (2, 3):
        g = Graph(io_data_type="float")
        joined(g, axis=axis, by=by)
        *_, last = plan_code(g.freeze(), Target.parse("gfx942")).nodes
        assert ("W-135" in last.workarounds) is (axis == 3)


def test_numbers_on_gfx9() -> None:
    """Emulated (random graph 95146): rows and columns were mixed up."""
    g = Graph(io_data_type="float")
    for by in ("resample_fwd", "conv_fprop"):
        joined(g, axis=3, by=by)
    check_emulated(g)
