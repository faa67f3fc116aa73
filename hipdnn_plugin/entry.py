# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where C enters: fills the library's table with functions that answer a status."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ..jit.interrupts import shielded

with shielded():
    from ..graph_api.errors import SettingError
    from ..jit.settings import settings
    from ..provider.native.deployment import DeploymentError, limits
    from ..provider.native.table import fill as fill_table
    from ..provider.native.table import guarded
    from ..provider.plugin_abi import ENTRY_POINTS
    from . import abi
    from .plugin import Plugin

__all__ = ["fill"]

log = logging.getLogger("hipdnn_iree.plugin")


def fill(address: int) -> None:
    """Put the functions into the table at an address; may be called by several threads at once.

    Raises
    ------
    DeploymentError
        If the library does not go with this package, or what it needs is not there.
    """
    table = abi.ShimTable.from_address(address)
    fill_table(
        table,
        abi.TABLE_VERSION,
        partial(_functions, table),
        install="hipdnn-iree plugin install",
        log=log,
    )
    for problem in _limits():
        log.error("%s", problem)


def _limits() -> list[DeploymentError]:
    try:
        return list(limits(settings()))
    except SettingError as error:
        return [DeploymentError("SETTING", error)]


def _functions(table: abi.ShimTable) -> dict[str, Callable[..., object]]:
    plugin = Plugin()
    return {
        name: guarded(
            getattr(plugin, _method(name)),
            table.set_error,
            abi.status_of,
            (abi.PluginError,),
            log,
        )
        for name in ENTRY_POINTS
    }


def _method(name: str) -> str:
    """``GetEngineDetails`` -> ``get_engine_details``."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
