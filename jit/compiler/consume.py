# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Outputs that are written part by part: their memory is given to the compiler (W-120).

Such an output has the attribute ``iree.abi.consume``.  IREE's conversion of Torch's functions
ignores it, so that after that conversion it is put where it belongs: to the import of the argument.
Without it the code is right as well, but copies the whole output.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["consume", "consuming", "is_asked"]

_ALIAS, _IMPORT = "hal.tensor.alias", "hal.tensor.import"
_STORED = re.compile(rb" to (%\w+) : !hal\.buffer_view\b")
_IMPORTED = re.compile(
    rb"(= hal\.tensor\.import (?:wait\(%\w+\) => )?)(%\w+)(?= : !hal\.buffer_view )"
)


def is_asked(source: bytes) -> bool:
    """Whether a module has such an output."""
    return b"{iree.abi.consume}" in source


def consume(session: Any, invocation: Any) -> None:
    """Mark such outputs in a converted module."""
    context = session.context  # Python's from now on, which frees it after the module
    module = invocation.export_module()
    with context:
        for function in module.regions[0].blocks[0].operations:
            _consume(function.operation)
    invocation.import_module(module)


def _consume(function: Any) -> None:
    """Mark the imports of arguments that results are stored to."""
    from iree.compiler import ir

    ops = [op.operation for block in _blocks(function) for op in block.operations]
    stored = {op.operands[1] for op in ops if op.name == _ALIAS}
    for op in ops:
        if op.name == _IMPORT and op.operands[0] in stored:
            op.attributes["consume"] = ir.UnitAttr.get()


def _blocks(function: Any) -> list[Any]:
    return [block for region in function.regions for block in region.blocks]


def consuming(text: bytes) -> bytes:
    """Return the text of a converted module with the same marks, for the command line tool."""
    stored = set(_STORED.findall(text))

    def marked(found: re.Match[bytes]) -> bytes:
        before, argument = found.groups()
        return before + (b"consume " if argument in stored else b"") + argument

    return _IMPORTED.sub(marked, text)
