# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The worker's task of the offload pipeline: steps on one module, by name.

`jit.compiler.tasks` calls ``perform``.  A module comes as text and leaves as text, with
locations; what the host decides on goes the same way, as records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import torch

from ....jit.compiler.inprocess import Refused
from ....jit.emit.structured import load_casts
from .bufferize import bufferize, eliminate_empty_tensors
from .describe import describe
from .executables import name_graphs
from .extract import extract
from .finalize import finalize
from .legalize import legalize
from .onnx import convert
from .outline import close_regions, drop_dead, outline
from .program import program
from .running import run
from .sizes import fix_sizes
from .text import generic, readable

__all__ = ["STEPS", "perform"]

Step = Callable[[Any, Mapping[str, Any]], Any]

STEPS: dict[str, Step] = {
    "passes": lambda module, options: run(module, options["pipeline"]),
    "convert-onnx": convert,
    "fix-sizes": fix_sizes,
    "describe": lambda module, options: describe(module),
    "drop-dead": drop_dead,
    "outline": outline,
    "close-regions": close_regions,
    "name-graphs": name_graphs,
    "extract": extract,
    "legalize": legalize,
    "eliminate-empty-tensors": eliminate_empty_tensors,
    "bufferize": bufferize,
    "finalize": finalize,
    "program": lambda module, options: program(module),
    "verify": lambda module, options: _verify(module),
    "show": lambda module, options: shown(module, **options),
}
"""Step -> function of the module and its options; what it returns goes to the host."""


def perform(source: bytes, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """Return what the steps found, in order, and the module after them."""
    with ir.Context() as context, ir.Location.unknown():
        torch.register_dialect(context)
        context.allow_unregistered_dialects = True
        load_casts(context)
        try:
            module = ir.Module.parse(generic(source.decode("utf-8", "surrogateescape")))
        except (ir.MLIRError, UnicodeError) as error:
            return {"problems": _unreadable(error), "found": []}, b""
        found = []
        for name, asked in options["steps"]:
            try:
                found.append(STEPS[name](module, asked))
            except ir.MLIRError as error:
                texts = [f"{d.location}: {d.message}" for d in error.error_diagnostics]
                raise Refused("compile", name, log="\n".join(texts) or str(error)) from None
        text = str(module.operation.get_asm(enable_debug_info=True))
        return {"problems": [], "found": found}, text.encode()


def _verify(module: Any) -> None:
    module.operation.verify()


def shown(module: Any, *, local: bool = False, elements: int | None = None) -> str:
    """Return the module as people read it; elements of large constants may be left out."""
    return readable(
        str(
            module.operation.get_asm(
                enable_debug_info=False, large_elements_limit=elements, use_local_scope=local
            )
        )
    )


def _unreadable(error: Exception) -> list[dict[str, Any]]:
    diagnostics = getattr(error, "error_diagnostics", [])
    found = []
    for one in diagnostics:
        where = re.search(r":(\d+):(\d+)", str(one.location))
        place = [int(where[1]), int(where[2])] if where else [0, 0]
        found.append({"line": place[0], "column": place[1], "message": str(one.message)})
    return found or [{"line": 0, "column": 0, "message": " ".join(str(error).split())}]
