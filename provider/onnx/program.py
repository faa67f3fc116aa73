# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A group of nodes as a program: the offload pipeline, on the group's ops as MLIR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..offload.finished import Program, planned
from ..offload.pipeline import PIPELINE, Module, Options
from ..offload.sizes import Family, family
from ..plan import Plan
from .expand import expanded
from .model import Model
from .torch_text import arguments, text

__all__ = ["made", "made_for_sizes"]


def made(model: Model, options: Options) -> tuple[Program, dict[str, Plan]]:
    """Return a group as a program, and the plans of its graphs.

    Parameters
    ----------
    model : Model
        The group's nodes alone, all extents known.
    options : Options
        Of the offload pipeline.

    Raises
    ------
    HipdnnIreeError
        If an op is neither served by an engine nor compiled by IREE.
    """
    module, program = _read(model, options)
    return planned(program), {name: module.graphs[name].plan for name in program.graphs}


def made_for_sizes(model: Model, options: Options, buckets: Sequence[int] = ()) -> Family | None:
    """Return a group whose extents may be names as programs for all sizes; None without such.

    Parameters
    ----------
    model, options
        As of `made`.
    buckets : sequence of int
        Sizes that others are rounded up to.
    """
    ahead = replace(options, compiles=False, holds_weights=False)

    def program(sizes: Mapping[str, int]) -> Program:
        return _read(model.at(sizes), ahead)[1]

    found = family(program, tuple(filter(None, model.symbols())))
    return found and found.prepared(options.build, buckets)


def _read(model: Model, options: Options) -> tuple[Module, Program]:
    taken = arguments(model)
    weights = range(len(model.inputs), len(taken))
    module = Module(text(expanded(model)).encode(), options, name="the group", weights=weights)
    module.run(*PIPELINE)
    return module, module.program("main", (taken, model.outputs))
