# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code for gfx9 GPUs, checked by emulation: executed on random data, and compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph_api.frozen import FrozenGraph
from ..jit.target import Target
from .emulated import emulated
from .engines.iree.iree_engine import IreeEngine
from .verify import Report, compare, expect, poisoned_outputs, random_inputs

if TYPE_CHECKING:
    from ..jit.pipeline import Compiled
    from ..jit.settings_table import Settings

__all__ = ["check_code"]


def check_code(
    graph: FrozenGraph, target: Target, compiled: Compiled, settings: Settings, seed: int = 0
) -> Report:
    """Execute a graph's code on an emulated GPU and compare each element with the reference.

    Parameters
    ----------
    graph : FrozenGraph
        With dynamic dims it is executed at the sizes of their examples.
    target : Target
        One of gfx9.
    compiled : Compiled
        Its code.
    settings : Settings
        With which it was made.
    seed : int
        Of the random inputs.

    Returns
    -------
    Report
        Outputs are full of NaN before, so that what is never written is wrong.

    Raises
    ------
    DeviceError
        If a kernel does what none may (a race, a missing wait, memory of nobody), has an
        instruction that is not emulated, or loops; or if no GPU can be emulated here.
    """
    here = replace(settings, runtime_device=0)
    with emulated(target.arch):
        plan = IreeEngine(here).plan(graph, target, {}, compiled, here)
        whole: Any = plan.with_sizes({dim.name: dim.example for dim in graph.symbols})
        inputs, outputs = random_inputs(whole.graph, seed), poisoned_outputs(whole.graph)
        whole.bind({**inputs, **outputs}, copy=True)()
        return compare(whole.graph, outputs, expect(whole.graph, inputs, target))
