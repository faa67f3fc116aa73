# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where C enters: fills the library's table with functions that answer a status."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ...jit.interrupts import shielded

with shielded():
    from ..native.table import fill as fill_table
    from ..native.table import guarded
    from . import abi
    from .factory import Factories

__all__ = ["fill"]

log = logging.getLogger("hipdnn_iree.onnx")


def fill(address: int) -> None:
    """Put the functions into the table at an address; may be called by several threads at once.

    Raises
    ------
    RuntimeError
        If the library is of a version that does not go with this package.
    """
    table = abi.EpTable.from_address(address)
    fill_table(
        table,
        abi.TABLE_VERSION,
        partial(_functions, table),
        install="hipdnn-iree onnx install",
        log=log,
    )


def _functions(table: abi.EpTable) -> dict[str, Callable[..., object]]:
    factories = Factories(table)
    return {
        name: guarded(
            getattr(factories, name), table.set_error, abi.status_of, (abi.OrtError,), log
        )
        for name in abi.FUNCTIONS
    }
