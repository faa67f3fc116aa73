# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler's choices for each dispatch: pipeline, tiles, workgroup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Config", "parse_config", "read_configs"]

_NAME = re.compile(r"hal\.executable\.export public @(\"?)(?P<name>[^\s\"]+)\1")
_PIPELINE = re.compile(r"pipeline = (?:#\w+\.pipeline<(?P<new>\w+)|(?P<old>\w+))")
_SIZES = re.compile(r"workgroup_size = \[(?P<sizes>[\d, ]+)\]")
_SUBGROUP = re.compile(r"subgroup_size = (?P<size>\d+)")
_LOWERING = re.compile(r"lowering_config = #\w+\.lowering_config<(?:\{)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """What one dispatch is compiled with.

    Attributes
    ----------
    pipeline : str
        IREE's name of the way of code generation, such as ``"TileAndFuse"``; ``""``: unknown.
    workgroup_size : tuple of int
        Threads in x, y, z; empty on a CPU.
    subgroup_size : int or None
        Threads of a wave.
    lowering : mapping of str to str
        Tile sizes and the like, each as the compiler writes it (``"workgroup": "[1, 2, 64]"``),
        of the op that decides; empty where the compiler needs none.
    """

    pipeline: str = ""
    workgroup_size: tuple[int, ...] = ()
    subgroup_size: int | None = None
    lowering: Mapping[str, str] = field(default_factory=dict)


def read_configs(dump_dir: Path) -> dict[str, Config]:
    """Return the choices in a dump folder's ``configured_*.mlir``, by name of the entry point."""
    found: dict[str, Config] = {}
    for path in sorted(dump_dir.rglob("configured_*.mlir")):
        text = path.read_text(encoding="utf-8", errors="replace")
        config = parse_config(text)
        found |= dict.fromkeys((match["name"] for match in _NAME.finditer(text)), config)
    return found


def parse_config(text: str) -> Config:
    """Return the choices that stand in the IR of a configured dispatch."""
    _, found, rest = text.partition("translation_info = #iree_codegen.translation_info<")
    options = _inside(rest, "<", ">") if found else ""
    pipeline = _PIPELINE.search(options)
    sizes, subgroup = _SIZES.search(options), _SUBGROUP.search(options)
    return Config(
        pipeline=(pipeline["new"] or pipeline["old"]) if pipeline else "",
        workgroup_size=tuple(map(int, sizes["sizes"].split(","))) if sizes else (),
        subgroup_size=int(subgroup["size"]) if subgroup else None,
        lowering=_lowering(text),
    )


def _lowering(text: str) -> dict[str, str]:
    """Return the entries of the lowering config with the most tile sizes."""
    best: dict[str, str] = {}
    for match in _LOWERING.finditer(text):
        body = _inside(text[match.end() :], "<", ">").rstrip("}> \n")
        entries = dict(_entries(body))
        best = max(best, entries, key=len)
    return best


def _entries(body: str) -> Iterator[tuple[str, str]]:
    for part in _parts(body):
        key, equals, value = part.partition(" = ")
        if equals:
            yield key.strip(), value.strip()


def _inside(text: str, opening: str, closing: str) -> str:
    """Return the text up to the bracket that closes one opened before it."""
    depth = 1
    for i, c in enumerate(text):
        depth += (c == opening) - (c == closing and text[i - 1 : i] != "-")
        if not depth:
            return text[:i]
    return text


def _parts(body: str) -> Iterator[str]:
    """Split at commas that are in no bracket."""
    depth, start = 0, 0
    for i, c in enumerate(body):
        depth += (c in "[{(<") - (c in "]})>")
        if c == "," and not depth:
            yield body[start:i]
            start = i + 1
    yield body[start:]
