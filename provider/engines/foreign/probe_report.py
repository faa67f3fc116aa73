# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known of a plugin file: made by a probe process, remembered, shown to people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....graph_api.errors import Problem

__all__ = ["Found", "Report", "Trial", "Wanted"]


@dataclass(frozen=True, slots=True)
class Found:
    """An engine of a plugin: its id (signed), and its name, empty where it has none."""

    id: int
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A plugin as it showed itself.

    Attributes
    ----------
    path : str
        The file, links resolved.
    problems : tuple of Problem
        What is wrong; those with ``engine`` in their port concern one engine only.
    usable : bool
        Whether it may be loaded into this process.
    name, version, api_version : str
        As the plugin says; ``"1.0.0"`` for one that does not tell its API.
    era : str
        Wire format that it is taken to read: ``"node"`` or ``"n25"`` (`wire.schema.Era`).
    engines : tuple of Found
        Those that can be used.
    features : tuple of str
        Optional functions that it has, without their prefixes.
    said : tuple of str
        What it logged or printed while it was asked.
    """

    path: str
    problems: tuple[Problem, ...] = ()
    usable: bool = False
    name: str = ""
    version: str = ""
    api_version: str = ""
    era: str = ""
    engines: tuple[Found, ...] = ()
    features: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        engines = [
            {"id": e.id, "id_hex": f"0x{e.id % 2**64:016X}", "name": e.name} for e in self.engines
        ]
        return {
            **{name: getattr(self, name) for name in ("path", "usable", "name", "version")},
            **{name: getattr(self, name) for name in ("api_version", "era")},
            "engines": engines,
            "features": list(self.features),
            "problems": [p.as_dict() for p in self.problems],
            "said": list(self.said),
        }

    @classmethod
    def from_dict(cls, data: object) -> Report:
        """Read the JSON form; raises ValueError when it is damaged."""
        from msgspec import convert  # imported where there is an answer only

        return convert(data, cls)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A question about a graph, for a probe process.

    Attributes
    ----------
    graph, config : bytes
        Operation graph and engine configuration, in the plugin's format.
    engine_id : int
    stage : str
        How far to go: ``"graph"`` (is it applicable, and its details), ``"build"`` (a plan as
        well), ``"run"`` (and one execution on zeros).
    buffers : tuple of (uid, nbytes, scalar)
        For ``"run"``; a scalar is in host memory in any case.
    """

    graph: bytes
    config: bytes
    engine_id: int
    stage: str
    buffers: tuple[tuple[int, int, bool], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The answer to `Wanted`: what went wrong, or nothing; what the plugin logged."""

    problem: Problem | None
    said: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = None if self.problem is None else self.problem.as_dict()
        return {"problem": found, "said": list(self.said)}

    @classmethod
    def from_dict(cls, data: object) -> Trial:
        """Read the JSON form; raises ValueError when it is damaged."""
        from msgspec import convert  # imported where there is an answer only

        return convert(data, cls)
