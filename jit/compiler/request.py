# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is asked of the compiler and what comes back.

Locations
---------
The compiler's text is name-free, since it is hashed for the cache.  The lowering gives every op
that it makes for node number ``k`` of the canonical graph the location ``loc("n<k>")``
(``ir.Location.name("n3")``; no file, line or column inside, and no user name, which may hold
anything), and prints the module with debug information.  ``CompileRequest.nodes`` maps these
labels back to the graph's own: ``{"n3": "conv1"}``.

IREE then words a diagnostic as ``loc("n3"): text``, or ``loc(fused["n3", "n4"]): text`` after
fusion, of which the first is taken.  A text that does not parse is reported by line and column
(``module.mlir:5:8``); the node is then read from the ``loc("n3")``, or the alias ``loc(#loc3)``,
at the end of that line, which is why one op should stand on one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CompileRequest", "CompileResult"]


@dataclass(frozen=True, kw_only=True)
class CompileRequest:
    """One module to compile.

    Attributes
    ----------
    source : bytes
        MLIR text whose entry function is ``main``.
    flags : tuple of str
        Flags of iree-compile in order, as `flags.target_flags` gives them.
    nodes : mapping of str to str
        Location label in the text (``"n3"``) to label of the graph node, for error messages.
    label : str
        What messages and reproducer folders call the module.
    dump_dir : Path or None
        Where the compiler leaves the intermediate files of each dispatch (configured IR, LLVM
        IR, assembly, object); the folder is made when needed.  The module then carries names
        of these files: it works the same, but its bytes differ.
    want_statistics : bool
        Whether to count dispatches, fills and copies; it does not change the code.
    dynamic : bool
        Whether the size of the scratch memory may depend on run-time values.
    """

    source: bytes
    flags: tuple[str, ...]
    nodes: Mapping[str, str] = field(default_factory=dict, hash=False)
    label: str = "graph"
    dump_dir: Path | None = None
    want_statistics: bool = False
    dynamic: bool = False


@dataclass(frozen=True, kw_only=True)
class CompileResult:
    """Compiled code.

    Attributes
    ----------
    vmfb : bytes
        IREE VM module.
    workspace_bytes : int or None
        Bytes of scratch memory that ``main`` takes as its last argument; None when they depend
        on run-time values.
    statistics : dict or None
        IREE's scheduling statistics (``stream-aggregate`` ...) when they were asked for.
    seconds : float
        Wall time from request to result, with the start of a worker when one had to be started.
    diagnostics : tuple of str
        Warnings and remarks.
    backend : str
        ``"worker"`` or ``"cli"``: which of the two ways compiled it.
    """

    vmfb: bytes
    workspace_bytes: int | None
    statistics: dict[str, Any] | None
    seconds: float
    diagnostics: tuple[str, ...]
    backend: str
