# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table that C and Python share, and what Python functions are to a caller in C.

Every function catches any `Exception` and leaves its text for the host.  What is none, such as a
KeyboardInterrupt, may come at any instruction; C takes it as a failed call, and hands it on to a
host's program that is in Python.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from ctypes import CFUNCTYPE, PYFUNCTYPE, c_char_p, c_int, c_int32, c_uint32, c_void_p
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import Any

from ... import __version__
from ...graph_api.errors import HipdnnIreeError
from ...jit.interrupts import interrupt_in
from ...jit.trust import unsafe_path
from .deployment import DeploymentError, packages
from .log import attach

__all__ = ["HOST_FIELDS", "fill", "guarded"]

HOST_FIELDS: tuple[tuple[str, Any], ...] = (
    ("version", c_uint32),
    ("size", c_uint32),
    ("owner", c_int32),
    ("started", c_int32),
    ("package", c_char_p),
    ("library", c_char_p),
    ("set_error", PYFUNCTYPE(None, c_char_p)),  # holds the GIL: it only copies text
    ("emit", CFUNCTYPE(None, c_int, c_char_p)),
    ("log_level", CFUNCTYPE(c_int)),
    ("exit_early", CFUNCTYPE(None)),
    ("shutdown", c_void_p),
    ("set_level", c_void_p),
)
"""The first fields of every table: ``HOST_FIELDS`` of ``python_host.h``."""

_kept: list[object] = []  # functions, which live as long as the library: until the process ends
_tables: list[type] = []  # of the libraries that have started
_lock = threading.Lock()


def fill(
    table: Any,
    version: int,
    functions: Callable[[], Mapping[str, Callable[..., object]]],
    *,
    install: str,
    log: logging.Logger,
) -> None:
    """Put functions into a table; may be called by several threads at once.

    Parameters
    ----------
    table : Structure
        Whose first fields are `HOST_FIELDS`.
    version : int
        The table's that this package knows.
    functions : callable
        Makes the functions, by the name of their field; called once.
    install : str
        The command that installs the library again, but for the folder.
    log : Logger
        Of the library.

    Raises
    ------
    DeploymentError
        If the library does not go with this package, or what it needs is not there.
    """
    if table.version != version or table.size != ctypes.sizeof(type(table)):
        raise DeploymentError("OTHER_LIBRARY", _versions(table), install)
    with _lock:
        if table.started:
            return
        for problem in packages():
            raise problem
        others = type(table) in _tables
        # Through the first copy, else every line would come twice.
        set_level = _ignore if others else attach(table.emit, table.log_level)
        if table.owner:
            import hashlib  # noqa: F401 - OpenSSL's clean-up must not come before ours

            table.exit_early()
            _watch_extensions(table.exit_early)
        made = {
            **functions(),
            "set_level": _quiet(set_level, log),
            "shutdown": _quiet(_shutdown, log),
        }
        for name, function in made.items():
            setattr(table, name, id(function))
            _kept.append(function)
        _tables.append(type(table))
        table.started = 1
    log.info("hipdnn-iree %s started in Python %s", __version__, sys.version.split()[0])
    for level, found in _problems(table, others, install):
        log.log(level, "%s", found)


def _versions(table: Any) -> str:
    return f"the library is of {table.package.decode()}, the package of {__version__}"


def _problems(table: Any, others: bool, install: str) -> Iterator[tuple[int, DeploymentError]]:
    """Yield what does not keep a library from serving at all, with the level of the log."""
    library = os.fsdecode(table.library)
    if table.package.decode() != __version__:
        yield logging.WARNING, DeploymentError("STALE", _versions(table), install)
    if others:
        yield logging.WARNING, DeploymentError("TWO_COPIES", f"{library} comes second")
    if reason := unsafe_path(library):
        yield logging.WARNING, DeploymentError("UNSAFE_LIBRARY", f"{library}: {reason}")


def _watch_extensions(exit_early: Callable[[], object]) -> None:
    """Tell the library of every extension module, so that it ends before what they load.

    Else a program that exits while a thread is in here would run, say, OpenSSL's clean-up first.
    """
    loader = ExtensionFileLoader
    inherited = loader.exec_module

    def exec_module(self: ExtensionFileLoader, module: ModuleType) -> None:
        try:
            inherited(self, module)
        finally:
            exit_early()

    loader.exec_module = exec_module  # type: ignore[method-assign]


def guarded(
    body: Callable[..., object],
    set_error: Callable[[bytes], None],
    status_of: Callable[[Exception], int],
    known: tuple[type[Exception], ...],
    log: logging.Logger,
) -> Callable[..., int]:
    """Return a function that answers 0 or a status, and never raises an `Exception`.

    Parameters
    ----------
    body : callable
        Does the work.
    set_error : callable
        Takes the text of an error.
    status_of : callable
        Of an error, never 0.
    known : tuple of exception types
        Whose text stands for itself; others are defects, and are logged.
    log : Logger
    """

    def call(*arguments: Any) -> int:
        try:
            body(*arguments)
        except Exception as error:
            if interrupt := interrupt_in(error):
                raise interrupt from None
            try:
                text = str(error)
                if not isinstance(error, (HipdnnIreeError, MemoryError, *known)):  # ours to mend
                    text = f"{type(error).__name__}: {text}"
                    log.error("%s", text, exc_info=error)
                # The library cuts it to its limit, at a character's boundary.
                set_error(text.replace("\0", " ").encode("utf-8", "backslashreplace"))
                return int(status_of(error))
            except Exception:
                set_error(f"{type(error).__name__}, whose text cannot be had".encode())
                return int(status_of(RuntimeError()))
        return 0

    return call


def _quiet(body: Callable[..., object], log: logging.Logger) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        try:
            body(*arguments)
        except Exception as error:
            log.error("%s: %s", type(error).__name__, error)

    return call


def _ignore(_: int) -> None:
    """Set no level: that of the first copy holds."""


def _shutdown() -> None:
    """Do what a Python that ends does, in a program that never ends its Python."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
