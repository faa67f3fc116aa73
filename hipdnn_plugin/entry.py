"""Where C enters: fills the library's table with callbacks that cannot fail silently.

ctypes prints an exception of a callback and returns garbage, so every callback here catches
whatever comes, leaves its text for the host and answers a status.
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

_kept: list[object] = []  # callbacks, which live as long as the library: until the process ends
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
        for name, kinds in ENTRY_POINTS.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)
            body = getattr(plugin, _method(name))
            _put(table, name, kind(_guarded(body, table.set_error)))
        _put(table, "set_level", ctypes.CFUNCTYPE(None, ctypes.c_int)(_quiet(set_level)))
        _put(table, "shutdown", ctypes.CFUNCTYPE(None)(_quiet(_shutdown)))
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


def _put(table: abi.ShimTable, name: str, callback: Any) -> None:
    setattr(table, name, callback)
    _kept.append(callback)


def _method(name: str) -> str:
    """``GetEngineDetails`` -> ``get_engine_details``."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _guarded(body: Callable[..., None], set_error: Callable[[bytes], None]) -> Callable[..., int]:
    def call(*arguments: Any) -> int:
        try:
            body(*arguments)
        except BaseException as error:  # also SystemExit and KeyboardInterrupt
            try:
                return _tell(error, set_error)
            except BaseException:
                set_error(f"{type(error).__name__}, whose text cannot be had".encode())
                return int(Status.INTERNAL_ERROR)
        return 0

    return call


def _tell(error: BaseException, set_error: Callable[[bytes], None]) -> int:
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
        except BaseException as error:
            log.error("%s: %s", type(error).__name__, error)

    return call


def _shutdown() -> None:
    """Do what a Python that ends does, in a program that never ends its Python."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
