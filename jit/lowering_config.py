# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""IREE's attributes that say how an op is tiled on CPUs, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["DOUBLE_TILING", "compilation_info", "lowering_config"]

DOUBLE_TILING = "DoubleTilingExpert"
"""IREE's pipeline of passes for loops with tiles of workgroups and of vectors."""

Levels = Mapping[str, Sequence[int]]
"""Tile sizes of each loop, by level."""


def lowering_config(levels: Levels) -> str:
    """Return the tiles of an op that is not its kernel's root."""
    tiles = ", ".join(f"{name} = {[*sizes]}" for name, sizes in levels.items())
    return f"#iree_cpu.lowering_config<{tiles}>"


def compilation_info(levels: Levels, pipeline: str = DOUBLE_TILING) -> str:
    """Return those of the root, and how its kernel is compiled: loops are peeled for vectors."""
    return (
        f"#iree_codegen.compilation_info<lowering_config = {lowering_config(levels)}, "
        "translation_info = #iree_codegen.translation_info<"
        f"pipeline = #iree_cpu.pipeline<{pipeline}>, {{enable_loop_peeling}}>>"
    )
