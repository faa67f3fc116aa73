"""Plans of modules that somebody else wrote (`jit.mlir_source`): compiled and run, not verified."""

from __future__ import annotations

from ..jit.mlir_source import MlirSource
from ..jit.options import BuildOptions
from ..jit.pipeline import compile_source
from ..jit.target import Target
from .engine import Plan
from .engines.iree.iree_engine import IreeEngine

__all__ = ["build_module"]


def build_module(source: MlirSource, target: Target, options: BuildOptions) -> Plan:
    """Return a plan of the IREE engine for a module.

    Its graph has tensors but no nodes: the function's arguments ``arg0`` ... and what it writes or
    returns, ``out0`` ..., with their place in the signature as uid.

    Raises
    ------
    CompileError
        If the compiler fails.
    """
    return IreeEngine().plan(source.frame, target, {}, compile_source(source, target, options))
