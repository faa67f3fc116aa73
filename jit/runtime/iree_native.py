# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""IREE's native module, without the Python package around it, which a cached start need not import.

``import iree.runtime`` takes 20 ms more: helpers for arrays, tables of NumPy dtypes, ml_dtypes.
The native module itself imports NumPy, which takes 80 ms, for seven types that only those helpers
use; it is given stand-ins for them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from ..bindings import load
from ..settings import foreign

__all__ = ["iree"]

_FLAGS = "IREE_PY_RUNTIME_FLAGS"
_NUMPY = "numpy"
_TYPES = ("float32", "float64", "bool_", "int8", "int16", "int32", "int64")


@cache
def iree() -> Any:
    """Return the module that ``iree.runtime`` takes its classes from."""
    if not foreign(_FLAGS)[_FLAGS]:  # the package reads it when it is imported
        try:
            libraries = load("iree._runtime.libs")  # the variant that IREE_PY_RUNTIME chooses
            with _numpy_later():
                return load(f"{libraries.__name__}._runtime")
        except ImportError:  # of another version of IREE, with other folders
            pass
    return load("iree.runtime")._binding


class _Type:
    """A type of NumPy's by its name: ``numpy.dtype`` takes it for that."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def dtype(self) -> Any:
        """The dtype."""
        numpy = import_module(_NUMPY)
        return numpy.dtype(getattr(numpy, self._name))

    def __eq__(self, other: object) -> bool:
        return bool(self.dtype == other)

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return repr(self.dtype)


class _Later(ModuleType):
    """NumPy, which is imported when something other than the types is asked for.

    Whoever imports NumPy meanwhile, or has kept this, gets all that NumPy has.
    """

    def __init__(self) -> None:
        super().__init__(_NUMPY)
        self._thread, self._lock = threading.get_ident(), threading.Lock()

    def leave(self) -> None:
        """Make way for NumPy."""
        with self._lock:
            self._thread = 0
            if sys.modules.get(_NUMPY) is self:
                del sys.modules[_NUMPY]

    def __getattr__(self, name: str) -> Any:
        if name in _TYPES and threading.get_ident() == self._thread:
            return _Type(name)
        self.leave()
        return getattr(import_module(_NUMPY), name)


@contextmanager
def _numpy_later() -> Iterator[None]:
    """Put off the import of NumPy by what is imported in the block."""
    later = _Later()
    if sys.modules.setdefault(_NUMPY, later) is not later:
        yield
        return
    try:
        yield
    finally:
        later.leave()
