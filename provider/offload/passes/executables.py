# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Step e, the part on MLIR: a region becomes the name of the graph that computes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from .describe import functions, region_ops
from .outline import dissolve, drop_dead_constants, sort

__all__ = ["name_graphs"]


def name_graphs(module: Any, options: Mapping[str, Any]) -> None:
    """Turn regions into ``torch.operator "hipdnn.executable"(..) {graph = NAME}``.

    ``options["names"]`` has a name for each region, in order; one without becomes ops again.
    """
    names = iter(options["names"])
    for function in functions(module):
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            continue
        for region in region_ops(blocks[0]):
            name = next(names)
            if name is None:
                dissolve(region)
                continue
            with ir.InsertionPoint(region), region.location:
                made = ir.Operation.create(
                    "torch.operator",
                    results=[result.type for result in region.results],
                    operands=list(region.operands),
                    attributes={
                        "name": ir.StringAttr.get("hipdnn.executable"),
                        "graph": ir.StringAttr.get(name),
                    },
                    # torch-mlir's op takes any number of regions.
                    regions=0,
                )
            for old, new in zip(region.results, made.results, strict=True):
                old.replace_all_uses_with(new)
            region.erase()
        if blocks:
            sort(blocks[0])
            drop_dead_constants(blocks[0])
