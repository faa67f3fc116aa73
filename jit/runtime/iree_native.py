"""IREE's native module, without the Python package around it, which a cached start need not import.

``import iree.runtime`` takes 20 ms more: helpers for arrays, tables of NumPy dtypes, ml_dtypes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..bindings import load
from ..settings import foreign

__all__ = ["iree"]

_FLAGS = "IREE_PY_RUNTIME_FLAGS"


@cache
def iree() -> Any:
    """Return the module that ``iree.runtime`` takes its classes from."""
    if not foreign(_FLAGS)[_FLAGS]:  # the package reads it when it is imported
        try:
            libraries = load("iree._runtime.libs")  # the variant that IREE_PY_RUNTIME chooses
            return load(f"{libraries.__name__}._runtime")
        except ImportError:  # of another version of IREE, with other folders
            pass
    return load("iree.runtime")._binding
