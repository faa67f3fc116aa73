# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes of MLIR by name, and their failures as something to tell."""

from __future__ import annotations

import re
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from ....jit.compiler.inprocess import Refused
from .describe import is_list

__all__ = ["run"]

_POOL = re.compile(r"torch\.aten\.(max|avg)_pool\dd(_with_indices)?(_backward)?")


def run(module: Any, pipeline: str) -> None:
    """Run passes over a module.

    Raises
    ------
    Refused
        With the diagnostics, if one fails.
    """
    _write_strides(module)
    try:
        PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
    except ir.MLIRError as error:
        texts = [f"{d.location}: {d.message}" for d in error.error_diagnostics]
        raise Refused("compile", pipeline, log="\n".join(texts) or str(error)) from None


def _write_strides(module: Any) -> None:
    """Write out strides of pooling that are left out: they are the size of the windows.

    torch-mlir 20261001's ``canonicalize`` gives such a list of none as many entries as there are
    spatial dims, and reads them from behind it.
    """

    def write(op: Any) -> Any:
        found = _POOL.fullmatch(op.name)
        if found is not None:
            at = 3 if found[3] else 2
            owner = op.operands[at].owner
            if not isinstance(owner, ir.Block) and is_list(owner) and not len(owner.operands):
                op.operands[at] = op.operands[at - 1]
        return ir.WalkResult.ADVANCE

    module.operation.walk(write)
