"""Where C enters: fills the library's table with functions that answer a status.

Every one catches any `Exception` and leaves its text for the host.  What is none, such as a
KeyboardInterrupt, may come at any instruction; C takes it as a failed call, and hands it on to a
host's program that is in Python.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import Any

from .. import __version__
from ..graph_api.errors import HipdnnIreeError
from ..provider.plugin_abi import ENTRY_POINTS, Status
from . import abi
from .log import attach
from .plugin import Plugin

__all__ = ["fill"]

log = logging.getLogger("hipdnn_iree.plugin")

_kept: list[object] = []  # functions, which live as long as the library: until the process ends
_lock = threading.Lock()


def fill(address: int) -> None:
    """Put the functions into the table at an address; may be called by several threads at once.

    Raises
    ------
    RuntimeError
        If the library is of a version that does not go with this package.
    """
    table = abi.ShimTable.from_address(address)
    if table.version != abi.TABLE_VERSION or table.size != ctypes.sizeof(abi.ShimTable):
        raise RuntimeError(
            f"the plugin library is of hipdnn-iree {table.package.decode()} and does not go with "
            f"the installed {__version__}; run 'hipdnn-iree plugin install' again"
        )
    with _lock:
        if table.started:
            return
        set_level = attach(table.emit, table.log_level)
        if table.owner:
            import hashlib  # noqa: F401 - OpenSSL's clean-up must not come before ours

            # Python is ours alone: imports make many objects that stay (8 % of the first result).
            gc.set_threshold(50_000, 20, 20)
            table.exit_early()
            _watch_extensions(table.exit_early)
        plugin = Plugin()
        functions: dict[str, Callable[..., object]] = {
            name: _guarded(getattr(plugin, _method(name)), table.set_error) for name in ENTRY_POINTS
        }
        functions["set_level"], functions["shutdown"] = _quiet(set_level), _quiet(_shutdown)
        for name, function in functions.items():
            setattr(table, name, id(function))
            _kept.append(function)
        table.started = 1
    log.info("hipdnn-iree %s started in Python %s", __version__, sys.version.split()[0])


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


def _method(name: str) -> str:
    """``GetEngineDetails`` -> ``get_engine_details``."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _guarded(body: Callable[..., None], set_error: Callable[[bytes], None]) -> Callable[..., int]:
    def call(*arguments: Any) -> int:
        try:
            body(*arguments)
        except Exception as error:
            try:
                return _tell(error, set_error)
            except Exception:
                set_error(f"{type(error).__name__}, whose text cannot be had".encode())
                return int(Status.INTERNAL_ERROR)
        return 0

    return call


def _tell(error: Exception, set_error: Callable[[bytes], None]) -> int:
    """Leave the text of an error with the host and return its status."""
    status = abi.status_of(error)
    text = str(error)
    if not isinstance(error, HipdnnIreeError | abi.PluginError | MemoryError):  # ours to mend
        text = f"{type(error).__name__}: {text}"
        log.error("%s", text, exc_info=error)
    # The library cuts it to hipDNN's limit, at a character's boundary.
    set_error(text.replace("\0", " ").encode("utf-8", "backslashreplace"))
    return int(status)


def _quiet(body: Callable[..., object]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        try:
            body(*arguments)
        except Exception as error:
            log.error("%s: %s", type(error).__name__, error)

    return call


def _shutdown() -> None:
    """Do what a Python that ends does, in a program that never ends its Python."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
