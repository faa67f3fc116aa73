# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes of MLIR by name, and their failures as something to tell."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from ....jit.compiler.inprocess import Refused

__all__ = ["run"]


def run(module: Any, pipeline: str) -> None:
    """Run passes over a module.

    Raises
    ------
    Refused
        With the diagnostics, if one fails.
    """
    try:
        PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
    except ir.MLIRError as error:
        texts = [f"{d.location}: {d.message}" for d in error.error_diagnostics]
        raise Refused("compile", pipeline, log="\n".join(texts) or str(error)) from None
