# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans of modules that somebody else wrote (`jit.mlir_source`): compiled and run, not verified."""

from __future__ import annotations

from ..jit.mlir_source import MlirSource
from ..jit.options import BuildOptions
from ..jit.pipeline import compile_source
from ..jit.settings_table import Settings
from ..jit.target import Target
from .engines.iree.iree_engine import IreeEngine
from .plan import Plan

__all__ = ["build_module"]


def build_module(source: MlirSource, target: Target, settings: Settings) -> Plan:
    """Return a plan of the IREE engine for a module.

    Its graph has tensors but no nodes: the function's arguments ``arg0`` ... and what it writes or
    returns, ``out0`` ..., with their place in the signature as uid.

    Raises
    ------
    CompileError
        If the compiler fails.
    """
    compiled = compile_source(source, target, BuildOptions.of(settings))
    return IreeEngine(settings).plan(source.frame, target, {}, compiled, settings)
